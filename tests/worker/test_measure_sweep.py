"""The records of one sweep in this process: each profile is blamed for what it did itself, and no other is."""

import dataclasses
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import pytest
import torch
from factory import DOUBLING, triton_kernel
from sweeps import blamed, swept
from torch import Tensor
from torch.overrides import TorchFunctionMode

from lab.worker import profile_checks, sweep_case
from lab.worker.compiled import Compilation
from lab.worker.cpu import CpuClock
from lab.worker.deferred import modes_active

Function = Callable[[Tensor], Tensor]
FIRST_CALLS = 8  # the checks are over by then, and warming up is not


def after(calls: int, then: Callable[[], None]) -> Callable[[], Function]:
    """Loads a right function that does something in one of its calls."""

    def load() -> Function:
        made = 0

        def function(x: Tensor) -> Tensor:
            nonlocal made
            made += 1
            if made == calls:
                then()
            return x * 2

        return function

    return load


def replace_counter() -> None:
    time.perf_counter = time.process_time


def test_a_replacement_made_while_loading_is_charged_to_the_profile_that_was_loaded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    original = time.perf_counter

    def load() -> Function:
        replace_counter()
        return lambda x: x * 2

    cells = swept(monkeypatch, {"patches": load})
    assert blamed(cells) == {"patches": "replaced time.perf_counter when it was loaded"}
    assert cells["patches"].outcome == "wrong"
    assert time.perf_counter is original


def test_a_loader_that_replaces_something_and_fails_is_charged_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    def load() -> Function:
        replace_counter()
        raise ImportError("no such kernel")

    assert blamed(swept(monkeypatch, {"patches": load})) == {"patches": "replaced time.perf_counter when it was loaded"}


def test_tampering_with_the_device_is_put_right_also_beside_a_replacement(monkeypatch: pytest.MonkeyPatch) -> None:
    left: list[str] = []

    class Device(CpuClock):
        def tampering(self) -> str:
            return left.pop() if left else ""

    def both() -> None:
        replace_counter()
        left.append("set the cache aside")

    honest = {f"honest-{number}": lambda: lambda x: x * 2 for number in range(4)}
    cells = swept(monkeypatch, {"patches": after(FIRST_CALLS, both), **honest}, clock=Device)
    assert blamed(cells) == {"patches": "replaced time.perf_counter; set the cache aside"}


def test_a_replacement_made_while_warming_up_is_charged_to_the_profile_that_was_warmed_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    honest = {f"honest-{number}": lambda: lambda x: x * 2 for number in range(4)}
    cells = swept(monkeypatch, {"patches": after(FIRST_CALLS, replace_counter), **honest})
    assert blamed(cells) == {"patches": "replaced time.perf_counter"}


class ComputingMode(TorchFunctionMode):
    """Computes a result when a judge looks at it."""

    # With the result itself: were it gone, another tensor could take its address, and be computed in its stead.
    owed: ClassVar[dict[int, tuple[Tensor, Tensor]]] = {}

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        with torch._C.DisableTorchFunction():
            if args and isinstance(args[0], Tensor) and (due := ComputingMode.owed.pop(args[0].data_ptr(), None)):
                args[0].copy_(due[0] * 2)
            return function(*args, **(kwargs or {}))


def test_a_mode_is_charged_to_the_profile_that_entered_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def load() -> Function:
        ComputingMode().__enter__()
        return lambda x: x * 2

    def load_later() -> Function:
        def function(x: Tensor) -> Tensor:
            if not modes_active():
                ComputingMode().__enter__()
            with torch._C.DisableTorchFunction():
                y = torch.empty_like(x)
                ComputingMode.owed[y.data_ptr()] = x, y
            return y

        return function

    cells = swept(monkeypatch, {"enters-when-loaded": load, "enters": load_later})
    assert blamed(cells) == {
        "enters-when-loaded": "left a torch mode active when it was loaded",
        "enters": "left a torch mode active",
    }


class CpuAsGpu(CpuClock):
    """The CPU's clock under the GPU's name."""

    device = "cuda"

    def peak_memory_bytes(self, run: Callable[[], Any]) -> int:
        return int(run().nbytes)


ON_CPU = dataclasses.replace(DOUBLING, inputs=lambda shape, dtype, device, seed: (torch.ones(shape) * (seed % 97),))


def falling_back(launched: set[str], calls: int) -> Callable[[], Function]:
    """Loads a profile that stops launching its kernel after some calls."""

    def load() -> Function:
        made = 0

        def function(x: Tensor) -> Tensor:
            nonlocal made
            made += 1
            if made <= calls:
                launched.add("own")
            return x * 2

        return function

    return load


def test_a_profile_that_falls_back_once_the_checks_are_over_is_charged(monkeypatch: pytest.MonkeyPatch) -> None:
    launched: set[str] = set()

    @contextmanager
    def seen() -> Iterator[set[str]]:
        launched.clear()
        yield launched

    for module in (profile_checks, sweep_case):
        monkeypatch.setattr(module, "seen", seen)
    profiles = {
        "at-first": falling_back(launched, 0),
        "late": falling_back(launched, 20),
        "never": falling_back(launched, 9999),
    }
    kernels = {"doubling": "own"}
    cells = swept(monkeypatch, profiles, clock=CpuAsGpu, operator=ON_CPU, kernels=kernels)
    assert blamed(cells) == {
        "at-first": "fell back: its kernel own was not launched",
        "late": "fell back: its kernel own was not launched after it was timed",
    }


def test_a_cell_holds_what_triton_made_of_its_profile(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Compilation(
        seconds=0.5, compile_seconds=0.25, autotune_seconds=2.0, compiled=(triton_kernel("own", registers=38),),
    )  # fmt: skip
    asked: list[bool] = []

    def compilation_of(call: Callable[[], Any], *, again: bool, recompiles: bool) -> Compilation:
        call()
        asked.append(again)
        return made

    monkeypatch.setattr(profile_checks, "compilation_of", compilation_of)
    cell = swept(monkeypatch, {}, clock=CpuAsGpu, operator=ON_CPU)["plain"]
    assert (cell.compiled, cell.prepare_seconds) == (made.compiled, 0.5)
    assert (cell.compile_seconds, cell.autotune_seconds) == (0.25, 2.0)
    assert asked == [True, True], "on a GPU there is a second call to look at"
    assert cell.peak_memory_bytes == 64 * 128 * 4


class GraphsAsGpu(CpuAsGpu):
    """Its pools are those of graphs that profiles say they made."""

    held: ClassVar[dict[tuple[int, int], int]] = {}

    def graph_pools(self) -> dict[tuple[int, int], int]:
        return dict(self.held)


def test_memory_of_a_graph_is_charged_to_the_profile_that_made_it(monkeypatch: pytest.MonkeyPatch) -> None:
    GraphsAsGpu.held = {(0, 1): 500}  # of a case before

    def capturing(size: int) -> Callable[[], Function]:
        def function(x: Tensor) -> Tensor:
            GraphsAsGpu.held[0, size] = size
            return x * 2

        return lambda: function

    profiles = {"large": capturing(7000), "small": capturing(40)}
    cells = swept(monkeypatch, profiles, clock=GraphsAsGpu, operator=ON_CPU)
    held = {name: cell.graph_memory_bytes for name, cell in cells.items()}
    assert held == {"plain": 0, "large": 7000, "small": 40, "fast": 0}
    result_bytes = 64 * 128 * 4
    assert (cells["large"].peak_memory_bytes, cells["large"].memory_bytes) == (result_bytes, result_bytes + 7000)


def test_on_the_cpu_triton_compiles_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    cell = swept(monkeypatch, {})["plain"]
    assert (cell.compiled, cell.compile_seconds, cell.autotune_seconds) == ((), None, None)
    assert cell.prepare_seconds > 0
    assert (cell.peak_memory_bytes, cell.graph_memory_bytes, cell.memory_bytes) == (None, None, None)


def test_inputs_with_gaps_cost_the_case_with_a_reason_that_names_them(monkeypatch: pytest.MonkeyPatch) -> None:
    gaps = dataclasses.replace(DOUBLING, inputs=lambda *asked: (torch.rand(8, 32)[:, :16],))
    cells = swept(monkeypatch, {}, operator=gaps)
    assert {cell.outcome for cell in cells.values()} == {"failed"}
    assert all("the operator's inputs must lie in memory without gaps" in cell.reason for cell in cells.values())


def test_inputs_whose_axes_are_swapped_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    swapped = dataclasses.replace(DOUBLING, inputs=lambda *asked: (torch.rand(16, 32).t(),))
    assert blamed(swept(monkeypatch, {}, operator=swapped)) == {}


def test_memory_that_runs_out_while_timing_costs_the_case_and_not_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    def greedy() -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")

    cells = swept(monkeypatch, {"greedy": after(FIRST_CALLS, greedy)})
    assert {cell.outcome for cell in cells.values()} == {"failed"}
    assert {cell.reason for cell in cells.values()} == {
        "timing: OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
    }


@pytest.mark.parametrize("costly", [False, True])
def test_a_costly_reference_is_not_asked_for_the_control(costly: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[str] = []
    compared: set[str] = set()
    checked, check_output = sweep_case.SweepCase.checked, sweep_case.check_output

    def note_drawn(case: Any, profile: str, scope: str, sample: Any) -> None:
        drawn.append(profile)
        checked(case, profile, scope, sample)

    def note_compared(*arguments: Any) -> Any:
        compared.add(drawn[-1])
        return check_output(*arguments)

    monkeypatch.setattr(sweep_case.SweepCase, "checked", note_drawn)
    monkeypatch.setattr(sweep_case, "check_output", note_compared)
    operator = dataclasses.replace(DOUBLING, costly_reference=costly)
    cells = swept(monkeypatch, {"middle": lambda: lambda x: x * 2}, operator=operator)
    assert blamed(cells) == {}
    controls = {name for name in drawn if name.endswith(sweep_case.AGAIN)}
    assert len(controls) == 1
    assert compared == ({*cells} if costly else {*cells} | controls)
