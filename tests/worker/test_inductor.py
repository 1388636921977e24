"""What Inductor's launcher tells of itself, by a stand-in for its class: here is no GPU for which it would be used."""

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from lab.worker import inductor
from lab.worker.compiled import compilation_of
from lab.worker.ptx import code_digest

PTX = "//\n.visible .entry kernel()\n{ ret; }\n"


def launcher(block: int, **changes: Any) -> SimpleNamespace:
    config = SimpleNamespace(kwargs={"XBLOCK": block, "R0_BLOCK": 2048}, num_warps=8, num_stages=1)
    facts = {"config": config, "n_regs": 32, "n_spills": 0, "shared": 128, "cache_hash": "KEY"}
    return SimpleNamespace(**(facts | changes))


class Autotuner:
    """As torch's: benches its launchers at its first launch, and keeps the fastest. `times` by XBLOCK."""

    def __init__(self, times: dict[int, float], **changes: Any) -> None:
        self.fn = SimpleNamespace(__name__="kernel")
        self.times = times
        self.launchers = [launcher(block, **changes) for block in times]

    def bench(self, candidate: Any, *arguments: Any) -> float:
        return self.times[candidate.config.kwargs["XBLOCK"]]

    def run(self, *arguments: Any, stream: int) -> None:
        if len(self.launchers) > 1:
            self.launchers = [min(self.launchers, key=lambda each: self.bench(each, *arguments))]


@pytest.fixture
def torch_with(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[type | None], None]:
    """Give torch's room another class, or none; Triton's cache holds the code of one kernel."""
    (tmp_path / "KEY").mkdir()
    (tmp_path / "KEY" / "kernel.ptx").write_text(PTX)
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))

    def put(tuner: type | None) -> None:
        room = ModuleType(inductor.ROOM)
        if tuner is not None:
            room.CachingAutotuner = tuner  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, inductor.ROOM, room)

    return put


def calling(*tuners: Autotuner) -> Callable[[], None]:
    return lambda: [tuner.run("x", stream=0) for tuner in tuners] and None


def test_the_kernel_that_was_chosen_is_on_record_with_its_launch_and_how_many_were_timed(torch_with: Any) -> None:
    torch_with(Autotuner)
    tuner = Autotuner({1: 3e-3, 2: 2e-3, 4: float("inf")})
    compilation = compilation_of(calling(tuner), again=True, recompiles=True)
    (kernel,) = compilation.compiled
    assert (kernel.name, kernel.registers_per_thread, kernel.spills, kernel.shared_bytes) == ("kernel", 32, 0, 128)
    assert (kernel.warps, kernel.stages) == (8, 1)
    assert kernel.configuration == {"XBLOCK": "2", "R0_BLOCK": "2048"}
    assert kernel.generator == "inductor"
    assert kernel.candidates == 2  # the third was refused
    assert kernel.autotune_seconds is not None
    assert compilation.autotune_seconds is not None
    assert compilation.autotune_seconds >= kernel.autotune_seconds > 0
    assert kernel.code_sha256 == code_digest(PTX)
    assert compilation.blind == ""


def test_a_choice_that_was_made_before_has_no_candidates(torch_with: Any) -> None:
    torch_with(Autotuner)
    compilation = compilation_of(calling(Autotuner({2: 1e-3})), again=True, recompiles=True)
    assert (compilation.compiled[0].candidates, compilation.autotune_seconds) == (None, None)


def test_a_kernel_launched_twice_is_one_and_code_that_is_not_kept_has_no_digest(torch_with: Any) -> None:
    torch_with(Autotuner)
    tuner = Autotuner({2: 1e-3}, cache_hash="ELSEWHERE")
    compilation = compilation_of(calling(tuner, tuner), again=True, recompiles=True)
    assert [kernel.code_sha256 for kernel in compilation.compiled] == [""]


def test_torch_is_as_it_was_after_a_call(torch_with: Any) -> None:
    torch_with(Autotuner)
    before = Autotuner.run, Autotuner.bench
    compilation_of(calling(Autotuner({2: 1e-3})), again=True, recompiles=True)
    assert (Autotuner.run, Autotuner.bench) == before


def test_a_torch_without_these_names_is_reported_and_costs_nothing(torch_with: Any) -> None:
    torch_with(None)
    compilation = compilation_of(calling(Autotuner({2: 1e-3})), again=True, recompiles=True)
    assert compilation.compiled == ()
    assert "has no CachingAutotuner" in compilation.blind


def test_a_launcher_that_keeps_less_is_reported(torch_with: Any) -> None:
    torch_with(Autotuner)
    compilation = compilation_of(calling(Autotuner({2: 1e-3}, n_regs=None)), again=True, recompiles=True)
    assert compilation.compiled == ()
    assert "keeps a kernel otherwise: TypeError" in compilation.blind


def test_a_compiled_profile_that_launches_nothing_of_inductors_is_reported(torch_with: Any) -> None:
    torch_with(Autotuner)
    assert (
        compilation_of(lambda: None, again=True, recompiles=True).blind
        == "no kernel was seen to be launched by Inductor"
    )
    assert compilation_of(lambda: None, again=True).blind == ""
    assert compilation_of(lambda: None, again=False, recompiles=True).blind == ""


def test_torchs_own_class_has_the_methods_that_are_relied_upon() -> None:
    from torch._inductor.runtime.triton_heuristics import CachingAutotuner

    assert inductor._tuner(load=True) is CachingAutotuner
