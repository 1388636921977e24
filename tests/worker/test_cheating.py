"""The cheats and the honest oddities, through the real supervisor and worker, on this machine."""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import pytest
from factory import plan_of

from experiments.cheats import table
from lab import Claim
from lab.definition.catalogue import choose_experiments
from lab.definition.plan import Protocol
from lab.supervisor.run import run
from lab.verdict.judge import Status
from lab.verdict.results import RunResult, load_run

# A cheat that is found in any sweep is rejected; some are found by chance, and seldom missed twice.
QUICK = {
    device: Protocol(sweeps=2, rounds=4, fewest_rounds=4, block=12, warmup_seconds=0.01, cell_seconds=seconds)
    for device, seconds in {"cpu": 0.5, "cuda": 0.16}.items()
}
(EXPERIMENT,) = choose_experiments(["cheating-kernels"])
CHEATS = [claim for claim in EXPERIMENT.claims if claim.expected == ("rejected",)]
IN_VAIN = [claim for claim in EXPERIMENT.claims if claim.subject in table.IN_VAIN]
HONEST = [claim for claim in EXPERIMENT.claims if claim not in CHEATS and claim not in IN_VAIN]


def on_each_device(claims: Sequence[Claim]) -> Any:
    """Each claim on the devices that its subject can run on; on a GPU where there is one."""
    cases = [
        pytest.param(device, claim, id=f"{claim.name}-{device}", marks=[pytest.mark.gpu] if device == "cuda" else [])
        for device in ("cpu", "cuda")
        for claim in claims
        if device in claim.subject.devices
    ]
    return pytest.mark.parametrize(("result", "claim"), cases, indirect=["result"])


on_the_cpu = pytest.mark.parametrize("result", ["cpu"], indirect=True)


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], RunResult]:
    """The experiment on a device, run once however the tests are ordered."""

    @cache
    def measure(device: str) -> RunResult:
        directory = tmp_path_factory.mktemp("cheating") / "run"
        plan = plan_of("cheats", device=device, include=(), experiments=[EXPERIMENT], protocol=QUICK[device])
        run(plan, directory, lambda text: None)
        return load_run(directory)

    return measure


@pytest.fixture
def result(measured: Callable[[str], RunResult], request: pytest.FixtureRequest) -> RunResult:
    return measured(request.param)


def test_the_corpus_is_large_enough() -> None:
    assert len(CHEATS) >= 63
    assert len(HONEST) >= 25


@on_each_device(CHEATS)
def test_no_cheat_is_believed(result: RunResult, claim: Claim) -> None:
    (found,) = [each for each in result.experiments[0].claims if each.claim.name == claim.name]
    assert found.status == Status.REJECTED, found.verdicts


@on_each_device(HONEST)
def test_no_honest_oddity_is_refused(result: RunResult, claim: Claim) -> None:
    for case in ("rmsnorm-1024x2048-float32", "extreme-rmsnorm-1x64-float32"):
        cell = result.experiments[0].cells[case, claim.subject.name]
        assert cell.outcome == "measured", cell.reason


@on_each_device(IN_VAIN)
def test_what_honest_code_leaves_too_is_told_and_gains_nothing(result: RunResult, claim: Claim) -> None:
    (found,) = [each for each in result.experiments[0].claims if each.claim.name == claim.name]
    assert found.status != Status.SUPPORTED
    cell = result.experiments[0].cells["rmsnorm-1024x2048-float32", claim.subject.name]
    assert all(sweep.left_behind for sweep in cell.cells)


@on_the_cpu
@pytest.mark.parametrize("case", ["rmsnorm-1024x2048-float32", "row-norms-1024x2048-float32"])
def test_the_rival_of_the_cheats_is_measured(result: RunResult, case: str) -> None:
    cell = result.experiments[0].cells[case, "torch-fused"]
    assert cell.outcome == "measured", cell.reason


@on_the_cpu
@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("patched-insides", "replaced lab.worker.correctness._error"),
        ("self-healing-counter", "replaced time.perf_counter"),
        ("patched-when-loaded", "replaced time.perf_counter when it was loaded"),
        ("lazy-by-mode", "left a torch mode active"),
        ("working-ahead", "its result carries a weak reference"),
        ("peeking", "a timed output was wrong: the result has NaN"),
        ("cached-even", "the error is"),
        ("patched-send", "replaced __main__.send when it was loaded"),
        ("patched-random-source", "os.urandom"),
        ("own-samples", "looked at its callers' frames"),
        ("rivals-samples", "looked at its callers' frames"),
        ("samples-by-search", "searched the process's objects"),
        ("finished-by-profile-hook", "left a profile hook"),
        ("finished-by-signal", "changed when the clock stopped"),
        ("slowed-lookup-later", "replaced torch.nn.functional.rms_norm"),
        ("constant-inputs", "replaced torch.randn"),
        ("working-thread", "worked while another profile was timed"),
        ("working-child", "worked while another profile was timed"),
        ("sampled-stretch", "one element was changed since the call before"),
        ("assumed-norm", "inputs of which"),
    ],
)
def test_each_is_found_by_what_it_does(result: RunResult, name: str, reason: str) -> None:
    (cell,) = [cell for (_, profile), cell in result.experiments[0].cells.items() if profile == name and cell.cells]
    assert reason in cell.reason
