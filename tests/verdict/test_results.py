"""Plan + journal → each cell summed up, each pair compared, each claim judged."""

import dataclasses
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from factory import (
    FAST_BEATS_PLAIN,
    LARGE,
    SMALL,
    machine,
    measured_run,
    plan_of,
    records_of,
    small_experiment,
    write_run,
)

from lab.definition.plan import Plan
from lab.definition.planning import make_protocol
from lab.errors import RunError
from lab.evidence import journal
from lab.evidence.record import Cell, Control, Counters, Record, RunFinish, RunStart, SweepStart, Timing
from lab.evidence.source import ROOT
from lab.verdict.cells import ALL_VOID
from lab.verdict.judge import Status
from lab.verdict.judge_run import judge_run, load_run, unmeasured
from lab.verdict.ranking import rank
from lab.verdict.results import CellResult, RunResult

TIMES = {(SMALL.name, "plain"): 60e-6, (SMALL.name, "fast"): 40e-6}
Change = Callable[[Cell], Cell]


def small_plan(**how: Any) -> Plan:
    return plan_of(experiments=[small_experiment()], **({"include": ()} | how))


def judged(change: Change = lambda cell: cell, times: Any = TIMES, **how: Any) -> RunResult:
    """A run of the small experiment, with each of its cells changed."""
    plan = small_plan()
    records = records_of(plan, times, **how)
    return judge_run(plan, [change(record) if isinstance(record, Cell) else record for record in records])


def cell_of(run: RunResult, profile: str = "fast", case: str = SMALL.name) -> CellResult:
    return run.experiments[0].cells[case, profile]


def verdict_of(run: RunResult) -> Any:
    return run.experiments[0].claims[0].verdicts[SMALL.name]


def in_sweep(sweep: int, profile: str = "fast", **changes: Any) -> Change:
    """Change one profile's cell of one sweep."""
    return lambda cell: dataclasses.replace(cell, **changes) if (cell.sweep, cell.profile) == (sweep, profile) else cell


def failed(outcome: str, reason: str) -> dict[str, Any]:
    return {"outcome": outcome, "reason": reason, "timings": ()}


def test_a_run_of_one_sweep_says_that_it_has_one() -> None:
    plan = small_plan(sweeps=1)
    (claim,) = judge_run(plan, records_of(plan, TIMES)).experiments[0].claims
    assert claim.verdicts[SMALL.name].reason == "1 sweep has samples of both sides; 3 are needed"


def test_a_run_directory_is_read_and_judged(tmp_path: Path) -> None:
    run = load_run(measured_run(tmp_path, {"torch-fused": 30e-6, "triton-fused-rmsnorm": 20e-6}))
    case = "rmsnorm-4096x4096-float16"
    assert run.machine.gpu == "NVIDIA H100 80GB HBM3"
    assert run.finished_utc
    assert run.damages == ()
    cell = run.experiments[0].cells[case, "torch-fused"]
    assert cell.latency is not None
    assert cell.latency.p50_seconds == pytest.approx(30e-6, rel=0.01)
    assert cell.latency.samples == 5 * 6 * make_protocol(5, "cuda").block
    speedup = run.experiments[0].compare(case, "triton-fused-rmsnorm", "torch-fused")
    assert speedup is not None
    assert speedup.ratio == pytest.approx(1.5, rel=0.01)
    assert run.experiments[0].claims[0].status == Status.SUPPORTED


def test_a_pair_of_profiles_compares_the_same_from_either_side(tmp_path: Path) -> None:
    experiment = load_run(measured_run(tmp_path, {"torch-fused": 30e-6, "triton-fused-rmsnorm": 20e-6})).experiments[0]
    case, first, second = "rmsnorm-4096x4096-float16", "torch-fused", "triton-fused-rmsnorm"
    one, other = experiment.compare(case, first, second), experiment.compare(case, second, first)
    assert one is not None
    assert other is not None
    assert other.ratio == pytest.approx(1.5, rel=0.01)
    assert (other.low, other.high) == pytest.approx((1 / one.high, 1 / one.low))
    assert other.sweep_ratios == pytest.approx([1 / ratio for ratio in one.sweep_ratios])
    assert (other.widths, other.half_width) == (one.widths, pytest.approx(one.half_width))


def test_an_unfinished_run_is_read_too(tmp_path: Path) -> None:
    assert load_run(measured_run(tmp_path, {"torch-fused": 30e-6}, finished=False)).finished_utc == ""


def test_a_damaged_line_is_reported_and_the_rest_is_used(tmp_path: Path) -> None:
    directory = measured_run(tmp_path, {"torch-fused": 30e-6})
    path = directory / journal.NAME
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join([*lines[:5], "gossip\n", *lines[5:]]))
    run = load_run(directory)
    assert [damage.line_number for damage in run.damages] == [6]
    assert run.experiments[0].cells["rmsnorm-4096x4096-float16", "torch-fused"].outcome == "measured"


def test_a_journal_without_a_sweep_cannot_be_judged(tmp_path: Path) -> None:
    plan = small_plan()
    start = [record for record in records_of(plan, {}) if isinstance(record, RunStart)]
    with pytest.raises(RunError, match="its journal holds no sweep yet; measure it first"):
        load_run(write_run(tmp_path / "run", plan, start))


def test_a_plan_that_is_not_the_journals_own_is_refused() -> None:
    records = records_of(small_plan(), TIMES)
    with pytest.raises(RunError, match=r"plan\.json is not the plan that the journal was begun with"):
        judge_run(small_plan(sweeps=4), records)


# One outcome for all sweeps


def test_a_cell_that_was_measured_in_every_sweep_is_measured() -> None:
    cell = cell_of(judged())
    assert (cell.outcome, cell.reason) == ("measured", "")
    assert len(cell.cells) == 5
    assert len(cell.correctness) == 5


def test_one_wrong_sweep_makes_the_cell_wrong_and_gives_it_no_time() -> None:
    cell = cell_of(judged(in_sweep(3, **failed("wrong", "the error is 9 times the tolerance"))))
    assert (cell.outcome, cell.reason) == ("wrong", "the error is 9 times the tolerance")
    assert cell.latency is None


def test_one_failed_sweep_leaves_the_others_measured_and_is_reported() -> None:
    run = judged(in_sweep(3, **failed("failed", "out of memory")))
    cell = cell_of(run)
    assert (cell.outcome, cell.reason) == ("measured", "1 of 5 sweeps failed: out of memory")
    assert cell.latency is not None
    assert cell.latency.samples == 4 * 6 * make_protocol(5, "cuda").block
    assert len(verdict_of(run).speedup.sweep_ratios) == 4
    assert (verdict_of(run).status, verdict_of(run).mark) == (Status.SUPPORTED, "provisional")


@pytest.mark.parametrize("outcome", ["failed", "skipped"])
def test_a_cell_that_no_sweep_measured_says_why(outcome: str) -> None:
    run = judged(outcomes={"fast": (outcome, "for a reason")})
    assert (cell_of(run).outcome, cell_of(run).reason) == (outcome, "for a reason")
    assert verdict_of(run).status == Status.NO_EVIDENCE
    assert verdict_of(run).reason == f"subject {outcome}: for a reason"


def test_a_wrong_subject_is_rejected() -> None:
    assert verdict_of(judged(outcomes={"fast": ("wrong", "far off")})).status == Status.REJECTED


def test_a_cell_without_a_record_is_unfinished() -> None:
    plan = small_plan()
    records = [r for r in records_of(plan, TIMES) if not (isinstance(r, Cell) and r.profile == "fast")]
    cell = cell_of(judge_run(plan, records))
    assert (cell.outcome, cell.reason) == ("unfinished", "the run was interrupted before this cell")


def test_a_case_that_the_run_left_out_is_not_planned_and_not_judged() -> None:
    run = judged()
    cell = cell_of(run, case=LARGE.name)
    assert (cell.outcome, cell.reason) == ("not-planned", "needs --include-large-sweep")
    assert list(run.experiments[0].claims[0].verdicts) == [SMALL.name]


def test_a_profile_that_does_not_implement_the_operator_is_not_planned(tmp_path: Path) -> None:
    run = load_run(measured_run(tmp_path, {"torch-fused": 30e-6}))
    cell = run.experiments[0].cells["layernorm-4096x4096-float32", "triton-fused-rmsnorm"]
    assert (cell.outcome, cell.reason) == ("not-planned", "does not implement layernorm")


def test_a_cell_whose_samples_are_all_void_failed() -> None:
    def void(cell: Cell) -> Cell:
        return dataclasses.replace(
            cell, timings=(dataclasses.replace(cell.timings[0], rounds=((),) * 6, void=(10,) * 6),)
        )

    cell = cell_of(judged(lambda cell: void(cell) if cell.profile == "fast" else cell))
    assert (cell.outcome, cell.reason) == ("failed", "every sample was void")


def test_a_cell_with_no_valid_cold_sample_is_measured_by_the_callers_clock() -> None:
    """As a whole model that is launched kernel by kernel: its launches fill the GPU's queue."""

    def void(cell: Cell) -> Cell:
        cold, eager = cell.timings
        return dataclasses.replace(cell, timings=(dataclasses.replace(cold, rounds=((),) * 6, void=(10,) * 6), eager))

    in_eager = dataclasses.replace(FAST_BEATS_PLAIN, name="in-eager-calls", scope="eager")
    plan = plan_of(
        experiments=[small_experiment(claims=(FAST_BEATS_PLAIN, in_eager), scopes=("device_cold", "eager"))], include=()
    )  # fmt: skip
    records = [
        void(record) if isinstance(record, Cell) and record.profile == "fast" else record
        for record in records_of(plan, TIMES)
    ]
    (result,) = judge_run(plan, records).experiments
    cell = result.cells[SMALL.name, "fast"]
    assert (cell.outcome, cell.latency, cell.bytes_per_second) == ("measured", None, None)
    assert not cell.launch_bound
    assert cell.latencies.keys() == {"eager"}
    assert cell.unmeasured == {"device_cold": ALL_VOID}
    cold, eager = (claim.verdicts[SMALL.name] for claim in result.claims)
    assert (cold.status, cold.reason) == (Status.NO_EVIDENCE, f"subject failed: {ALL_VOID}")
    assert eager.speedup is not None
    assert list(rank(result, SMALL.name)) == ["plain"]
    assert set(rank(result, SMALL.name, "eager")) == {"plain", "fast"}


def test_void_samples_are_counted_as_a_share_of_all() -> None:
    def half_void(cell: Cell) -> Cell:
        timing = cell.timings[0]
        rounds = tuple(block[:5] for block in timing.rounds)
        return dataclasses.replace(cell, timings=(dataclasses.replace(timing, rounds=rounds, void=(5,) * 6),))

    run = judged(lambda cell: half_void(cell) if cell.profile == "fast" else cell)
    assert cell_of(run).void_share == 0.5
    assert cell_of(run, "plain").void_share == 0.0
    assert verdict_of(run).status == Status.RERUN_NOISE


def test_an_experiment_without_evidence_has_cells_and_claims_all_the_same() -> None:
    result = unmeasured(small_plan().experiments[0])
    assert result.cells[SMALL.name, "fast"].outcome == "unfinished"
    assert result.claims[0].status == Status.NO_EVIDENCE


# Pairing


def test_sides_that_were_timed_by_different_processes_are_not_paired() -> None:
    run = judged(in_sweep(2, process="2-9999"))
    assert len(verdict_of(run).speedup.sweep_ratios) == 4
    assert cell_of(run).outcome == "measured"


def test_a_cell_of_a_process_that_began_no_sweep_is_reported_and_not_used() -> None:
    run = judged(lambda cell: dataclasses.replace(cell, process="0-1"))
    assert {damage.reason for damage in run.damages} == {"process '0-1' began no sweep in this journal"}
    assert verdict_of(run).status == Status.NO_EVIDENCE


def test_a_repeated_cell_is_not_one_more_sweep() -> None:
    plan = plan_of(sweeps=1)
    records = records_of(plan, {"torch-fused": 30e-6, "triton-fused-rmsnorm": 20e-6})
    cells = [record for record in records if isinstance(record, Cell)]
    run = judge_run(plan, [*records[:-1], *cells, *cells, records[-1]])
    assert len(run.damages) == 2 * len(cells)
    assert run.damages[0].line_number == len(records)
    assert {claim.status for claim in run.experiments[0].claims} == {Status.NO_EVIDENCE}


def test_a_cell_of_a_sweep_that_was_not_planned_is_reported_and_not_used() -> None:
    run = judged(lambda cell: dataclasses.replace(cell, sweep=cell.sweep + 9))
    assert {damage.reason for damage in run.damages} == {f"sweep {n} is not in the plan" for n in range(9, 14)}


def test_another_scope_is_never_compared() -> None:
    def warm(timing: Timing) -> Timing:
        return dataclasses.replace(timing, scope="device_warm")

    run = judged(
        lambda cell: (
            dataclasses.replace(cell, timings=tuple(map(warm, cell.timings))) if cell.profile == "fast" else cell
        )
    )
    assert run.experiments[0].compare(SMALL.name, "fast", "plain") is None


def test_the_claim_says_how_many_times_as_fast_the_subject_is() -> None:
    assert verdict_of(judged()).speedup.ratio == pytest.approx(1.5, rel=0.01)


# What the hardware allows


def large(seconds: float, on: Any = None, **how: Any) -> RunResult:
    plan = small_plan(include=("large-sweep",), **how)
    times = {(LARGE.name, "plain"): 60e-6, (LARGE.name, "fast"): seconds, **TIMES}
    return judge_run(plan, records_of(plan, times, noise=0.0005, on=on))


def test_bandwidth_is_the_least_traffic_over_the_time() -> None:
    assert cell_of(large(40e-6), case=LARGE.name).bytes_per_second == pytest.approx(2 * 2**26 / 40e-6, rel=0.01)


@pytest.mark.parametrize(("seconds", "near"), [(5.9e-6, True), (6.1e-6, False)])
def test_no_bandwidth_is_claimed_below_three_times_the_launch_floor(seconds: float, near: bool) -> None:
    """The floor is 2 µs here."""
    cell = cell_of(judged(times={**TIMES, (SMALL.name, "fast"): seconds}, noise=0.0005))
    assert cell.launch_bound is near
    assert (cell.bytes_per_second is None) is near


@pytest.mark.parametrize(("seconds", "bound"), [(46e-6, True), (48e-6, False)])
def test_a_cell_whose_eager_call_takes_half_as_long_again_as_its_graph_is_host_bound(
    seconds: float, bound: bool
) -> None:
    """An eager call takes 20 µs more here, and a graph's share 5 % less."""
    cell = cell_of(judged(times={**TIMES, (SMALL.name, "fast"): seconds}, noise=0.0005))
    assert cell.host_bound is bound


@pytest.mark.parametrize(("enqueue_seconds", "bound"), [(39e-6, False), (41e-6, True)])
def test_without_an_eager_time_a_cell_is_host_bound_where_the_host_takes_longer_than_the_gpu(
    enqueue_seconds: float, bound: bool
) -> None:
    def without_eager(cell: Cell) -> Cell:
        kept = (each for each in cell.timings if each.scope != "eager")
        timings = tuple(dataclasses.replace(each, enqueue_seconds=enqueue_seconds) for each in kept)
        return dataclasses.replace(cell, timings=timings)

    assert cell_of(judged(without_eager, noise=0.0005)).host_bound is bound


def test_a_time_shorter_than_the_memory_can_deliver_the_inputs_and_take_the_results_is_rejected() -> None:
    """64 MiB, and 64 less the 50 of the cache, take 24.4 µs at 3.35 TB/s."""
    run = large(23.6e-6)
    cell = cell_of(run, case=LARGE.name)
    assert cell.impossible["device_cold"]
    assert "device_cold" not in cell.cache_resident
    assert not cell_of(large(24.7e-6), case=LARGE.name).impossible["device_cold"]
    assert run.experiments[0].claims[0].verdicts[LARGE.name].status == Status.REJECTED
    assert run.experiments[0].claims[0].status == Status.REJECTED


@pytest.mark.parametrize(("seconds", "scopes"), [(38e-6, {"device_cold", "device_warm"}), (45e-6, set())])
def test_a_time_that_the_cache_has_shortened_shows_the_working_set(seconds: float, scopes: set[str]) -> None:
    """128 MiB at 3.35 TB/s take 40.0 µs; a warm call takes 0.9 times as long as a cold one here."""
    cell = cell_of(large(seconds), case=LARGE.name)
    assert not any(cell.impossible.values())
    assert {scope: cell.cache_resident.get(scope) for scope in scopes} == dict.fromkeys(scopes, 2 * 2**26)
    assert "eager" not in cell.cache_resident
    assert ("device_cold" in cell.cache_resident) is ("device_cold" in scopes)


def test_physics_is_asked_in_the_claims_own_scope() -> None:
    """64 MiB in 1.9 ns a call of a graph of twelve, whatever the other scopes say."""

    def rushed(record: Record) -> Record:
        if not isinstance(record, Cell) or record.profile != "fast":
            return record
        graph = next(timing for timing in record.timings if timing.scope == "graph")
        rounds = tuple(tuple(1.9e-9 for _ in block) for block in graph.rounds)
        quick = dataclasses.replace(graph, rounds=rounds, calls_per_sample=12)
        return dataclasses.replace(record, timings=tuple(quick if t is graph else t for t in record.timings))

    for scope, status in (("graph", Status.REJECTED), ("device_cold", Status.SUPPORTED)):
        experiment = small_experiment()
        claim = dataclasses.replace(experiment.claims[0], scope=scope, cases=(LARGE,))
        experiment = dataclasses.replace(experiment, claims=(claim,), headlines=(claim,))
        plan = plan_of(experiments=[experiment], include=["large-sweep"])
        times = {(LARGE.name, "plain"): 60e-6, (LARGE.name, "fast"): 40e-6, **TIMES}
        run = judge_run(plan, [rushed(record) for record in records_of(plan, times, noise=0.0005)])
        assert run.experiments[0].claims[0].status == status


@pytest.mark.parametrize("name", ["norms-2026-11-21-a", "validity-2026-11-21-a"])
def test_what_was_published_from_an_h100_is_possible(name: str) -> None:
    run = load_run(ROOT / "experiments" / "evidence" / name)
    cells = [cell for experiment in run.experiments for cell in experiment.cells.values() if cell.latencies]
    assert len(cells) > 20
    assert not [(cell.case, cell.profile) for cell in cells if any(cell.impossible.values())]
    assert run.ceilings is None, "it was measured before a run took its ceilings along"


UNHEARD_OF = machine(peak_bytes_per_second=0.0, gpu="NVIDIA Unheard-of")


@pytest.mark.parametrize("on", [None, UNHEARD_OF, machine("cpu")], ids=["in time", "?", "cpu"])
def test_nothing_beats_physics_in_time_or_where_the_peak_is_unknown(on: Any) -> None:
    cell = cell_of(large(25e-6 if on is None else 1.7e-6, on), case=LARGE.name)
    assert not cell.impossible["device_cold"]


# Who wins


def test_the_fastest_is_the_measured_cell_with_the_smallest_p50() -> None:
    experiment = judged().experiments[0]
    places = rank(experiment, SMALL.name)
    assert [(name, place.rank, place.doubt) for name, place in places.items()] == [("fast", 1, ""), ("plain", 2, "")]
    assert [cell.profile for cell in experiment.measured(SMALL.name)] == ["plain", "fast"]


def test_a_wrong_profile_is_never_the_fastest() -> None:
    experiment = judged(outcomes={"fast": ("wrong", "far off")}).experiments[0]
    assert list(rank(experiment, SMALL.name)) == ["plain"]


def test_nobody_is_fastest_at_a_case_that_nobody_measured() -> None:
    experiment = judged(outcomes={"fast": ("failed", ""), "plain": ("failed", "")}).experiments[0]
    assert rank(experiment, SMALL.name) == {}


def test_counters_stand_with_their_cell() -> None:
    plan = small_plan(profiling=True)
    cell = cell_of(judge_run(plan, records_of(plan, TIMES)))
    assert isinstance(cell.counters, Counters)
    assert cell.counters.kernels[0].dram_percent == 81.5


def test_the_same_records_give_the_same_result_twice() -> None:
    assert judged() == judged()


def test_records_of_every_kind_may_stand_in_any_order() -> None:
    plan = small_plan()
    records: list[Record] = records_of(plan, TIMES)
    heads = [r for r in records if isinstance(r, RunStart | SweepStart | RunFinish)]
    cells = [r for r in records if isinstance(r, Cell)]
    there = verdict_of(judge_run(plan, records)).speedup
    back = verdict_of(judge_run(plan, [*heads, *reversed(cells)])).speedup
    assert math.isclose(there.low, back.low)
    assert math.isclose(there.high, back.high)


def test_places_are_those_of_the_scope_that_is_asked() -> None:
    """Fast on the GPU, and slow to launch."""

    def slow_to_launch(cell: Cell) -> Cell:
        if cell.profile != "fast":
            return cell
        timings = tuple(
            dataclasses.replace(t, rounds=tuple(tuple(3 * s for s in block) for block in t.rounds))
            if t.scope == "eager"
            else t
            for t in cell.timings
        )
        return dataclasses.replace(cell, timings=timings)

    experiment = judged(slow_to_launch).experiments[0]
    assert next(iter(rank(experiment, SMALL.name))) == "fast"
    assert next(iter(rank(experiment, SMALL.name, "eager"))) == "plain"


def test_the_same_evidence_gets_the_same_verdict_whatever_else_its_experiment_has() -> None:
    """Near the threshold, where a correction for many comparisons would decide."""
    near = TIMES | {(SMALL.name, "plain"): 40e-6 * 1.025}
    alone = small_plan()
    records = records_of(alone, near)
    small = next(case for case in alone.experiments[0].cases if case.name == SMALL.name)
    further = tuple(dataclasses.replace(small, name=f"further-{number}") for number in range(40))
    claim = dataclasses.replace(alone.experiments[0].claims[0], cases=(small.name, *(case.name for case in further)))
    experiment = dataclasses.replace(alone.experiments[0], cases=(small, *further), claims=(claim,))
    among = dataclasses.replace(alone, experiments=(experiment,))
    copies = [
        dataclasses.replace(record, case=case.name)
        for record in records
        if isinstance(record, Cell | Control)
        for case in further
    ]
    start, *rest = records
    assert isinstance(start, RunStart)
    run = judge_run(among, [dataclasses.replace(start, plan_digest=among.digest), *rest, *copies])
    verdicts = run.experiments[0].claims[0].verdicts
    assert len(verdicts) == 41
    assert verdict_of(judge_run(alone, records)).status == Status.SUPPORTED
    assert {verdict.status for verdict in verdicts.values()} == {Status.SUPPORTED}
