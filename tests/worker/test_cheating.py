"""The cheats and the honest oddities, through the real supervisor and worker, on this machine."""

import importlib.util
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from factory import plan_of

from experiments.cheating_kernels import CHEATING_KERNELS, PLAIN
from experiments.cheats import table
from lab import Claim, Experiment
from lab.definition.plan import Plan, Protocol
from lab.supervisor.run import run
from lab.verdict.cells import CellResult
from lab.verdict.judge import Status
from lab.verdict.judge_run import load_run
from lab.verdict.results import RunResult

pytestmark = pytest.mark.usefixtures("warm_workers")
SMALL_CHEATS = Path(__file__).parents[1] / "small_cheats"
# Blocks are not to shrink where the machine is busy: most cheats begin only after forty calls.
PROTOCOL = Protocol(sweeps=1, rounds=4, fewest_rounds=4, block=12, warmup_seconds=0.01, cell_seconds=1000.0)
MOST_RUNS = 8  # which calls are checked is random, and a cheat that works now and then may be missed in one sweep
CHEATS = [claim for claim in CHEATING_KERNELS.claims if claim.expected == ("rejected",)]
IN_VAIN = [claim for claim in CHEATING_KERNELS.claims if claim.subject in table.IN_VAIN]
HONEST = [claim for claim in CHEATING_KERNELS.claims if claim not in CHEATS and claim not in IN_VAIN]


@dataclass(frozen=True)
class MeasuredSweeps:
    """A sweep of every profile, then sweeps of those cheats alone that none of the sweeps before has rejected."""

    runs: Sequence[RunResult]

    def status(self, claim: str) -> Status:
        """Of a claim in the last run that measured its subject."""
        *_, last = (each.status for run in self.runs for each in run.experiments[0].claims if each.claim.name == claim)
        return last

    def cells(self, profile: str) -> list[CellResult]:
        """Of a profile in each case, from the last run that measured it."""
        *_, last = (run for run in self.runs if any(profile == name for _, name in run.experiments[0].cells))
        return cells_of(last, profile)


def cells_of(run: RunResult, profile: str) -> list[CellResult]:
    """What was measured of a profile, or tried."""
    return [cell for (_, name), cell in run.experiments[0].cells.items() if name == profile and cell.cells]


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
def measured(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], MeasuredSweeps]:
    """The experiment on a device, measured once however the tests are ordered."""

    @cache
    def measure(device: str) -> MeasuredSweeps:
        folder = tmp_path_factory.mktemp("cheating")
        with pytest.MonkeyPatch.context() as patch:
            experiment = CHEATING_KERNELS
            if device == "cpu":
                experiment = load_small_cheats()
                patch.setenv("LAB_PROJECT", str(SMALL_CHEATS))  # there the workers find it
            runs = [run_once(plan_of_cheats(device, experiment), folder / "0")]
            for number in range(1, MOST_RUNS):
                if not (missed := cheats_not_rejected(MeasuredSweeps(runs))):
                    break
                runs.append(run_once(plan_of_cheats(device, restricted(experiment, missed)), folder / str(number)))
        return MeasuredSweeps(runs)

    return measure


def load_small_cheats() -> Experiment:
    """Under a name of its own: `experiments` is the lab's, in this process."""
    spec = importlib.util.spec_from_file_location("small_cheats", SMALL_CHEATS / "experiments" / "__init__.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.SMALL_CHEATS


def plan_of_cheats(device: str, experiment: Experiment) -> Plan:
    return plan_of("cheats", device=device, include=(), experiments=[experiment], protocol=PROTOCOL)


def run_once(plan: Plan, directory: Path) -> RunResult:
    run(plan, directory, lambda text: None)
    return load_run(directory)


def cheats_not_rejected(measured: MeasuredSweeps) -> list[str]:
    named = {claim.name for claim in CHEATS}
    (last,) = measured.runs[-1].experiments
    device = measured.runs[-1].plan.device
    claims = [each for each in last.claims if each.claim.name in named]
    able = {claim.name for claim in CHEATS if device in claim.subject.devices}
    return [each.claim.name for each in claims if each.claim.name in able and each.status != Status.REJECTED]


def restricted(experiment: Experiment, names: Sequence[str]) -> Experiment:
    """The experiment with these claims alone, and the profiles that they compare."""
    claims = tuple(claim for claim in experiment.claims if claim.name in names)
    cases = {case.name: case for claim in claims for case in claim.cases}
    profiles = (PLAIN, *(claim.subject for claim in claims))
    return replace(experiment, claims=claims, headlines=claims, profiles=profiles, cases=tuple(cases.values()))


@pytest.fixture
def result(measured: Callable[[str], MeasuredSweeps], request: pytest.FixtureRequest) -> MeasuredSweeps:
    return measured(request.param)


def test_the_corpus_is_large_enough() -> None:
    assert len(CHEATS) >= 63
    assert len(HONEST) >= 25


@on_each_device(CHEATS)
def test_no_cheat_is_believed(result: MeasuredSweeps, claim: Claim) -> None:
    assert result.status(claim.name) == Status.REJECTED, [cell.reason for cell in result.cells(claim.subject.name)]


@on_each_device(HONEST)
def test_no_honest_oddity_is_refused(result: MeasuredSweeps, claim: Claim) -> None:
    cells = result.cells(claim.subject.name)
    assert len(cells) == 2
    assert {(cell.outcome, cell.reason) for cell in cells} == {("measured", "")}


@on_each_device(IN_VAIN)
def test_what_honest_code_leaves_too_is_put_back_and_on_record(result: MeasuredSweeps, claim: Claim) -> None:
    (cell,) = result.cells(claim.subject.name)
    assert all(sweep.left_behind for sweep in cell.cells)


@on_the_cpu
def test_the_rival_of_the_cheats_is_measured(result: MeasuredSweeps) -> None:
    cells = cells_of(result.runs[0], PLAIN.name)
    assert len(cells) == 4
    assert {(cell.outcome, cell.reason) for cell in cells} == {("measured", "")}


@on_the_cpu
@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("patched-insides", "replaced lab.worker.correctness._error"),
        ("self-healing-counter", "replaced time.perf_counter"),
        ("patched-when-loaded", "replaced time.perf_counter when it was loaded"),
        ("lazy-by-mode", "left a torch mode active"),
        ("working-ahead", "its result carries a weak reference"),
        ("peeking", "a timed output was wrong"),
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
        # The element that is changed is drawn, and one in 512 is a sample.
        ("sampled-stretch", "(one element was changed since the call before|a timed output was wrong)"),
        ("assumed-norm", "inputs of which"),
    ],
)
def test_each_is_found_by_what_it_does(result: MeasuredSweeps, name: str, reason: str) -> None:
    (cell,) = result.cells(name)
    assert re.search(reason, cell.reason)
