"""What a profile replaced is noticed and put back."""

import ast
import builtins
import gc
import os
import statistics
import sys
import time
import types
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from lab.worker import correctness, guarded_names
from lab.worker.bindings import REBOUND_BY_COMPILING
from lab.worker.guard import Guard, used


def test_a_replaced_function_is_named_and_put_back() -> None:
    module = types.ModuleType("clockwork")
    module.tick = original = lambda: 1  # type: ignore[attr-defined]
    guard = Guard([(module, "tick")])
    assert guard.broken() == ""
    module.tick = lambda: 2  # type: ignore[attr-defined]
    assert guard.broken() == "replaced clockwork.tick"
    assert module.tick is original
    assert guard.broken() == ""


def test_the_variables_are_put_back_and_nobody_is_charged_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch.compile sets them for its own sake, and the next profile's kernels would be built in another way."""
    monkeypatch.setenv("LAB_KEPT", "as it was")
    guard = Guard([])
    monkeypatch.setenv("LAB_KEPT", "changed")
    monkeypatch.setenv("TRITON_PTXAS_PATH", "/another/ptxas")
    assert guard.broken() == ""
    assert os.environ["LAB_KEPT"] == "as it was"
    assert "TRITON_PTXAS_PATH" not in os.environ


def test_methods_of_a_class_are_watched_and_built_in_ones_are_not_taken_for_replaced() -> None:
    class Stopwatch:
        def read(self) -> int:
            return 1

    guard = Guard([(Stopwatch, "read"), (list, "append"), (Stopwatch, "__new__"), (Stopwatch, "no_such_thing")])
    assert guard.broken() == ""
    Stopwatch.read = lambda self: 0  # type: ignore[method-assign]
    assert guard.broken() == "replaced Stopwatch.read"
    assert Stopwatch().read() == 1


def room(source: str, name: str = "judges") -> types.ModuleType:
    module = types.ModuleType(name)
    exec(source, module.__dict__)  # its functions and classes say that they are of this room
    return module


JUDGES = """
from statistics import median

LIMIT = 3

def error(x, scale=1):
    return abs(x) * scale

class Judge:
    def right(self, x):
        return error(x) < LIMIT

    @staticmethod
    def fair():
        return True

    @property
    def strict(self):
        return True
"""


@pytest.mark.parametrize(
    ("spoil", "names"),
    [
        (lambda m: setattr(m, "error", lambda x: 0), "judges.error"),
        (lambda m: setattr(m, "LIMIT", 1e9), "judges.LIMIT"),
        (lambda m: setattr(m, "abs", lambda x: 0), "judges.abs"),
        (lambda m: delattr(m, "error"), "judges.error"),
        (lambda m: setattr(m.Judge, "right", lambda self, x: True), "Judge.right"),
        (lambda m: setattr(m.Judge, "fair", lambda: False), "Judge.fair"),
        (lambda m: setattr(m.Judge, "strict", False), "Judge.strict"),
        (lambda m: setattr(m.Judge, "__getattribute__", lambda self, name: None), "Judge.__getattribute__"),
        (lambda m: setattr(m.error, "__code__", (lambda x, scale=1: 0).__code__), "the code of error"),
        (lambda m: setattr(m.error, "__defaults__", (0,)), "the code of error"),
        (lambda m: setattr(m.Judge.right, "__code__", (lambda self, x: 1).__code__), "the code of Judge.right"),
        (lambda m: setattr(m.Judge.strict.fget, "__code__", (lambda self: 0).__code__), "the code of Judge.strict"),
        (lambda m: setattr(m.Judge.fair, "__code__", (lambda: 0).__code__), "the code of Judge.fair"),
    ],
)
def test_whatever_is_replaced_in_a_room_is_named_and_put_back(
    spoil: Callable[[types.ModuleType], None], names: str
) -> None:
    judges = room(JUDGES)
    guard = Guard([], [judges])
    assert guard.broken() == ""
    spoil(judges)
    assert guard.broken() == f"replaced {names}"
    assert guard.broken() == ""
    assert judges.Judge().right(2)
    assert not judges.Judge().right(4)
    assert judges.Judge.fair()
    assert judges.Judge().strict


def test_what_the_code_of_a_room_uses_of_others_is_found() -> None:
    used_names = set(used([room(JUDGES)], [builtins, statistics, time]))
    assert (builtins, "abs") in used_names
    assert (time, "perf_counter") not in used_names
    assert (statistics, "median") not in used_names, "nothing in the room's own code"


def test_the_labs_own_rooms_are_watched_with_all_that_they_use() -> None:
    """What is called as torch.something must be held, and is no name that importing parts of torch points elsewhere."""
    sources = [ast.parse(Path(room.__file__).read_text()) for room in guarded_names.ROOMS]
    calls = [node.func for tree in sources for node in ast.walk(tree) if isinstance(node, ast.Call)]
    names = {name.removeprefix("torch.") for call in calls if (name := ast.unparse(call)).startswith("torch.")}
    assert torch in guarded_names.LIBRARIES
    assert not {("torch", name) for name in names} & REBOUND_BY_COMPILING
    named = set(used(guarded_names.ROOMS, guarded_names.USED_OF))
    assert {(time, "perf_counter"), (statistics, "median"), (builtins, "max"), (torch.Tensor, "double")} <= named


def test_loading_what_compiles_replaces_nothing() -> None:
    guard = guarded_names.make_guard()
    assert guard.broken() == ""
    torch.compile(lambda x: x + 1, backend="eager")(torch.ones(2))
    assert guard.broken() == ""


def test_the_insides_of_the_judges_are_watched() -> None:
    original, code = correctness._difference, correctness._kind.__code__
    guard = guarded_names.make_guard()
    correctness._difference = lambda *_: (0.0, 0.0, False)
    correctness._kind.__code__ = (lambda tensor: tensor).__code__
    torch.Tensor.double = lambda self: self  # type: ignore[method-assign, assignment]
    names = guard.broken().removeprefix("replaced ").split(", ")
    assert set(names) == {"lab.worker.correctness._difference", "Tensor.double", "the code of _kind"}
    assert correctness._difference is original
    assert correctness._kind.__code__ is code
    assert torch.ones(1).double().dtype == torch.float64


def test_what_a_library_installs_when_it_is_imported_is_removed_and_is_no_tampering() -> None:
    guard = Guard([], libraries=[sys])
    callback, hook = lambda phase, info: None, lambda *about: None
    gc.callbacks.append(callback)
    sys.excepthook = hook
    assert guard.broken_by_loading() == ""
    assert callback not in gc.callbacks
    assert sys.excepthook is not hook
    assert [line for line in guard.left() if "garbage collector" in line or "exception hook" in line]
    gc.callbacks.append(callback)
    assert "garbage collector" in guard.broken()
