"""What could work later, when nobody times it: modes, and whatever hangs on a result."""

import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from factory import DOUBLING
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from lab.worker.correctness import check_profile
from lab.worker.deferred import deferred, modes_active, remove_modes
from lab.worker.guard import Guard


class Working(tuple[Tensor]):
    def __del__(self) -> None: ...


class FunctionMode(TorchFunctionMode):
    pass


class DispatchMode(TorchDispatchMode):
    pass


@pytest.fixture(autouse=True)
def no_modes() -> Iterator[None]:
    yield
    remove_modes()


def watched(thing: Any) -> Any:
    weakref.finalize(thing, lambda: None)
    return thing


def with_watched_storage(y: Tensor) -> Tensor:
    watched(y.untyped_storage())
    return y


def with_attribute(y: Tensor) -> Tensor:
    y.work = object()  # type: ignore[attr-defined]
    return y


def with_gradient(y: Tensor) -> Tensor:
    y.grad = watched(torch.ones_like(y))
    return y


@pytest.mark.parametrize(
    "hang",
    [
        watched,
        with_watched_storage,
        with_attribute,
        with_gradient,
        lambda y: watched(y)[1:],
        lambda y: (torch.ones(2), watched(y)),
        lambda y: Working((y,)),
        lambda y: y.requires_grad_(),
    ],
    ids=["result", "storage", "attribute", "gradient", "base", "second", "tuple", "requires gradient"],
)
def test_a_result_on_which_work_hangs_is_reported(hang: Callable[[Tensor], Any]) -> None:
    with torch.no_grad():
        assert deferred(hang(torch.ones(4))).startswith("its result carries")


def test_the_checks_before_timing_fail_such_a_result() -> None:
    inputs = [DOUBLING.inputs((8, 4), torch.float32, "cpu", seed) for seed in (1, 2)]
    assert check_profile(DOUBLING, lambda x: watched(x * 2), inputs, (1, 2)).message.startswith("its result carries")


@pytest.mark.parametrize(
    "output",
    [torch.ones(3), torch.ones(3)[1:], (torch.ones(2), torch.arange(2)), None, 3, torch.ones(3).max(0)],
    ids=["tensor", "view", "tuple", "nothing", "number", "named tuple"],
)
def test_plain_results_are_not_suspected(output: Any) -> None:
    assert deferred(output) == ""


@pytest.mark.parametrize("mode", [FunctionMode, DispatchMode])
def test_a_mode_that_is_active_is_reported_and_removed(mode: type[Any]) -> None:
    guard = Guard([])
    mode().__enter__()
    assert deferred(None) == "left a torch mode active, which could compute a result when it is looked at"
    assert guard.broken() == "left a torch mode active"
    assert not modes_active()
    assert guard.broken() == ""


def test_the_marks_of_torch_compile_are_not_suspected() -> None:
    """With dynamic shapes every result carries a set of numbers."""
    marked = torch.ones(3)
    marked._dynamo_weak_dynamic_indices = {0, 1}  # type: ignore[attr-defined]
    assert deferred(marked) == ""
    compiled = torch.compile(lambda x: x * 2, dynamic=True, backend="aot_eager")
    with torch.no_grad():
        assert deferred(compiled(torch.ones(5, 3))) == ""
        assert deferred(compiled(torch.ones(7, 3))) == ""
