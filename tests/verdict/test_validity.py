"""The lab's own error rates, counted on runs that never happened and whose truth is known."""

import dataclasses

import pytest
from counting import counted_run, once
from factory import machine, plan_of, records_of

from lab.definition.catalogue import choose_experiments
from lab.evidence.record import Reading
from lab.profiler.readings import DIRTY_FLUSH, DO_BENCH, NVBENCH
from lab.verdict.judge_run import judge_run
from lab.verdict.results import RunResult
from lab.verdict.validity import Agreement, Study, can_fail, sessions, study

PLAIN = {"plain": 30e-6, "plain-again": 30e-6, "triton": 20e-6, "triton-again": 20e-6}
EXTRA = {"extra-1": 30.3e-6, "extra-2": 30.6e-6, "extra-5": 31.5e-6}


def validity_run(sweeps: int = 10, seed: int = 1, **seconds: float) -> RunResult:
    experiments = choose_experiments(["measurement-validity"])
    plan = plan_of("validity", sweeps=sweeps, include=["full-validity"], experiments=experiments)
    times = {
        (case.name, profile): value * max(1.0, case.read_bytes / 50e6, case.flops / 1e10)  # no faster than physics
        for case in plan.experiments[0].included_cases
        for profile, value in (PLAIN | EXTRA | seconds).items()
    }
    records = records_of(plan, times, noise=0.003, seed=seed)
    return judge_run(plan, records)


@pytest.fixture(scope="module")
def lab_study() -> Study:
    return study([validity_run()])


def test_a_long_run_is_cut_into_sessions_of_five_sweeps(lab_study: Study) -> None:
    assert lab_study.sessions == 2
    parts = list(sessions(validity_run(sweeps=12)))
    assert [len(part.sweeps) for part in parts] == [5, 5]
    assert {start.sweep for start in parts[1].sweeps} == {5, 6, 7, 8, 9}


def test_a_function_compared_with_itself_is_counted_and_not_supported(lab_study: Study) -> None:
    cases = len(lab_study.by_case)
    assert cases >= 8
    assert lab_study.same.comparisons >= 2 * cases
    assert lab_study.same.supported == 0
    assert lab_study.same.excluding_one <= 0.2 * lab_study.same.comparisons


def test_a_lab_that_errs_would_be_found_out() -> None:
    erring = study([validity_run(**{"plain-again": 27e-6})])
    assert erring.same.supported > 0
    assert erring.same.excluding_one > 0.4 * erring.same.comparisons


def test_known_extra_work_is_found_and_its_ratio_covered(lab_study: Study) -> None:
    five = next(power for power in lab_study.power if power.claim == "extra-5")
    assert five.trials == five.right == five.excluding_one
    assert five.covering >= 0.8 * five.trials
    assert five.withheld == 0
    missed = study([validity_run(**{"extra-5": 30e-6})])
    assert next(power for power in missed.power if power.claim == "extra-5").right == 0


def test_a_test_that_no_verdict_can_fail_is_not_counted(lab_study: Study) -> None:
    """At 2 % the ratio lies on the threshold: any verdict is right, and a count of right ones would say nothing."""
    two = next(power for power in lab_study.power if power.claim == "extra-2")
    assert (two.right, two.trials > 0) == (None, True)
    assert not can_fail(("supported", "refuted", "inconclusive", "rerun-noise"))
    assert not can_fail(())
    assert can_fail(("refuted", "inconclusive", "rerun-noise"))


def test_cells_that_the_first_run_did_not_measure_are_counted_too() -> None:
    few, more = norms(1), norms(2)
    (experiment,) = few.experiments
    kept = {key: cell for key, cell in experiment.cells.items() if key[1] == "torch-fused"}
    few = dataclasses.replace(few, experiments=(dataclasses.replace(experiment, cells=kept),))
    (repeat,) = study([few, more, norms(3)]).repeats
    (whole,) = study([more, norms(3)]).repeats
    assert repeat.cells == whole.cells > 0


def norms(seed: int, scale: float = 1.0, gpu_id: str = "a") -> RunResult:
    plan = plan_of("norms")
    on = machine("cuda", gpu_id=gpu_id)
    records = records_of(plan, {"torch-fused": 40e-6 * scale, "triton-fused-rmsnorm": 30e-6}, seed=seed, on=on)
    return judge_run(plan, records)


def test_runs_that_repeat_are_reported_from_runs_that_do_not() -> None:
    (steady,) = study([norms(1), norms(2, gpu_id="b"), norms(3)]).repeats
    assert (steady.runs, steady.gpus) == (3, 2)
    assert steady.cells == steady.within > 0
    assert steady.flips == steady.changed == steady.disjoint == ()
    assert steady.sources == 1
    assert steady.comparisons > 0
    (restless,) = study([norms(1), norms(2), norms(3, scale=0.7)]).repeats
    assert restless.within < restless.cells
    assert restless.largest_deviation > 0.2
    assert any(flip.startswith("triton-rmsnorm-beats-torch-fused at") for flip in restless.flips)
    assert set(restless.flips) <= set(restless.changed)
    assert set(restless.flips) <= set(restless.disjoint)


def test_what_failed_stays_in_the_count() -> None:
    """A lab that rejected its own code, or lost the cells, must not look better for it."""
    experiments = choose_experiments(["measurement-validity"])
    plan = plan_of("validity", sweeps=5, experiments=experiments)
    times = dict.fromkeys(PLAIN | EXTRA, 500e-6)
    wrong = {"plain-again": ("wrong", "off"), "extra-5": ("crashed", "died")}
    records = records_of(plan, times, outcomes=wrong)
    lab_study = study([judge_run(plan, records)])
    cases = len(plan.experiments[0].included_cases)
    assert sum(each.comparisons for each in lab_study.by_case.values()) >= cases
    five = next(power for power in lab_study.power if power.claim == "extra-5")
    assert five.trials > 0
    assert five.right == 0


def test_the_test_of_the_lab_is_found_beside_other_experiments() -> None:
    experiments = choose_experiments(["normalization-fusion", "measurement-validity"])
    plan = plan_of("both", sweeps=5, experiments=experiments)
    records = records_of(plan, {**PLAIN, **EXTRA, "torch-fused": 40e-6})
    lab_study = study([judge_run(plan, records)])
    assert lab_study.sessions == 1
    assert lab_study.same.comparisons > 0


def test_runs_under_another_protocol_are_not_pooled() -> None:
    run = norms(1)
    other = dataclasses.replace(
        run, plan=dataclasses.replace(run.plan, protocol=dataclasses.replace(run.plan.protocol, block=7))
    )
    assert study([run, other]).repeats == ()


def test_the_controls_of_ordinary_runs_are_counted() -> None:
    lab_study = study([norms(1), norms(2)])
    assert lab_study.controls.comparisons > 0
    assert lab_study.controls.supported == 0


def test_a_cpu_says_nothing_of_the_instrument_on_a_gpu() -> None:
    plan = plan_of("cpu", device="cpu", sweeps=3)
    records = records_of(plan, {"torch-fused": 1e-3, "torch-baseline": 2e-3})
    assert study([judge_run(plan, records)]).controls.comparisons == 0


def test_instruments_agree_within_two_per_cent_or_half_a_microsecond() -> None:
    def seen(mine: float, other: float) -> bool:
        seconds = {DIRTY_FLUSH: mine, DO_BENCH: other, NVBENCH: other}
        return Agreement(case="c", profile="p", p50_seconds=mine, seconds=seconds).agrees(NVBENCH)

    assert seen(5.4e-6, 5.0e-6)
    assert not seen(5.6e-6, 5.0e-6)
    assert seen(101e-6, 100e-6)
    assert not seen(103e-6, 100e-6)
    seconds = {DIRTY_FLUSH: 100e-6, DO_BENCH: 100e-6, NVBENCH: 100e-6}
    apart = Agreement(case="c", profile="p", p50_seconds=80e-6, seconds=seconds)
    assert apart.agrees(NVBENCH)
    assert not apart.agrees_cold(NVBENCH)


def test_only_cells_that_every_instrument_read_are_compared() -> None:
    run = norms(1)
    case = "rmsnorm-4096x4096-float16"
    readings = [
        Reading(
            experiment="normalization-fusion", case=case, profile=profile, instrument=each, seconds=seconds, reason=""
        )
        for profile, missing in (("torch-fused", None), ("triton-fused-rmsnorm", NVBENCH))
        for each in (DIRTY_FLUSH, DO_BENCH, NVBENCH)
        for seconds in ([None] if each == missing else [45e-6])
    ]
    (agreement,) = study([dataclasses.replace(run, readings=tuple(readings))]).agreements
    assert (agreement.case, agreement.profile) == (case, "torch-fused")


def test_claims_about_traffic_are_not_among_the_times_that_repeat() -> None:
    (repeat,) = study([counted_run(), counted_run(fast=once(3.0, 3.0))]).repeats
    assert repeat.cells > 0
    assert (repeat.comparisons, repeat.changed, repeat.flips) == (0, (), ())
