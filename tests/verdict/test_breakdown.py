"""What kernels should save in a whole model, from made-up times, and what it saved."""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

import pytest
from factory import DOUBLING, FAST_BEATS_PLAIN, plan_of, profile, records_of, small_experiment

from experiments import breakdowns, qwen
from experiments.breakdowns import BREAKDOWNS
from experiments.qwen_prefill import PARTS
from lab.definition.breakdown import Breakdown, BreakdownRow
from lab.definition.catalogue import choose_experiments, load_breakdowns
from lab.definition.experiment import Case
from lab.evidence.record import Watch
from lab.verdict.breakdown import BreakdownResult, break_down
from lab.verdict.judge_run import judge_run

MODEL, NORM, GATE = (Case(operator=DOUBLING, shape=(64, size), dtype="float32") for size in (4096, 128, 256))
NORMS = BreakdownRow(title="norms", case=NORM.name, calls=10, profile="norms", alone="norms", added=True)
GATES = BreakdownRow(title="gates", case=GATE.name, calls=5, profile="gates", added=True)
BREAKDOWN = Breakdown(
    experiment="models", case=MODEL.name, baseline="stock", together="all", rows=(NORMS, GATES)
)  # fmt: skip
TIMES = {
    (MODEL.name, "stock"): 10e-3, (MODEL.name, "norms"): 9.5e-3, (MODEL.name, "all"): 9.4e-3,
    (NORM.name, "stock"): 90e-6, (NORM.name, "norms"): 40e-6,
    (GATE.name, "stock"): 60e-6, (GATE.name, "gates"): 40e-6,
}  # fmt: skip


def broken_down(
    times: Mapping[tuple[str, str], float] = TIMES,
    sweeps: int = 5,
    breakdown: Breakdown = BREAKDOWN,
    hertz: Mapping[str, float | None] = MappingProxyType({}),
) -> BreakdownResult | None:
    """hertz: the GPU's clock while a case was timed, where it is not the usual one."""
    stock, norms, gates, together = map(profile, ("stock", "norms", "gates", "all"))
    claim = replace(FAST_BEATS_PLAIN, subject=together, baseline=stock, cases=(MODEL,))
    experiment = small_experiment(
        name="models", cases=(MODEL, NORM, GATE), profiles=(stock, norms, gates, together), claims=(claim,),
        headlines=(claim,), scopes=("device_cold",),
    )  # fmt: skip
    plan = plan_of(experiments=[experiment], include=(), sweeps=sweeps)
    records = [
        replace(record, rounds=tuple(replace(seen, spin_hertz=hertz[record.case]) for seen in record.rounds))
        if isinstance(record, Watch) and record.case in hertz
        else record
        for record in records_of(plan, times, noise=0.0005)
    ]
    (result,) = judge_run(plan, records).experiments
    return break_down(result, breakdown)


def test_calls_times_what_a_call_saves_is_predicted_and_summed() -> None:
    result = broken_down()
    assert result is not None
    norms, gates = result.rows
    assert result.seconds == pytest.approx(10e-3, rel=0.01)
    assert norms.predicted.seconds == pytest.approx(500e-6, rel=0.02)
    assert gates.predicted.seconds == pytest.approx(100e-6, rel=0.05)
    assert result.predicted.seconds == pytest.approx(norms.predicted.seconds + gates.predicted.seconds)
    assert norms.measured is not None
    assert norms.measured.seconds == pytest.approx(500e-6, rel=0.1)
    assert gates.measured is None
    assert result.measured.seconds == pytest.approx(600e-6, rel=0.1)
    assert result.gap.seconds == result.measured.seconds - result.predicted.seconds
    assert result.gap.high_seconds - result.gap.seconds > result.measured.high_seconds - result.measured.seconds
    assert result.gap.seconds - result.gap.low_seconds > result.measured.seconds - result.measured.low_seconds


def test_intervals_hold_what_they_are_of_and_that_of_the_sum_is_wider_than_each() -> None:
    result = broken_down()
    assert result is not None
    for saved in (result.predicted, result.measured, *(row.predicted for row in result.rows)):
        assert saved.low_seconds < saved.seconds < saved.high_seconds
    widths = [row.predicted.high_seconds - row.predicted.low_seconds for row in result.rows]
    whole = result.predicted.high_seconds - result.predicted.low_seconds
    assert max(widths) < whole < sum(widths)


def test_a_prediction_that_came_true_agrees_and_one_that_did_not_leaves_a_gap() -> None:
    true, false = broken_down(), broken_down(TIMES | {(MODEL.name, "all"): 8.0e-3})
    assert true is not None
    assert false is not None
    assert true.agrees
    assert not false.agrees
    assert false.gap.seconds == pytest.approx(1.4e-3, rel=0.05)


def test_a_kernel_that_loses_is_predicted_to_cost_time() -> None:
    result = broken_down(TIMES | {(GATE.name, "gates"): 80e-6})
    assert result is not None
    assert result.rows[1].predicted.seconds == pytest.approx(-100e-6, rel=0.05)


def test_a_lower_clock_of_the_model_may_save_more_by_as_much() -> None:
    usual = broken_down()
    slower = broken_down(hertz={MODEL.name: 1.4e9, NORM.name: 2.1e9, GATE.name: 1.4e9})
    assert usual is not None
    assert slower is not None
    assert usual.clock_seconds == 0
    assert slower.clock_hertz == 1.4e9
    assert slower.clock_seconds == pytest.approx(0.5 * slower.rows[0].predicted.seconds)


@pytest.mark.parametrize("untold", [MODEL.name, GATE.name])
def test_nothing_is_said_of_a_clock_that_nobody_told(untold: str) -> None:
    result = broken_down(hertz={untold: None})
    assert result is not None
    assert result.clock_seconds is None


def test_parts_that_are_all_of_a_model_tell_on_which_side_the_gap_is() -> None:
    apart = broken_down()
    result = broken_down(
        TIMES | {(MODEL.name, "stock"): 1.1e-3, (MODEL.name, "all"): 0.45e-3}, breakdown=replace(BREAKDOWN, whole=True)
    )
    assert apart is not None
    assert apart.excess_before_seconds is None
    assert apart.excess_after_seconds is None
    assert result is not None
    assert result.excess_before_seconds == pytest.approx(100e-6, rel=0.1)  # 10 norms, 5 gates: 1.2 ms alone
    assert result.excess_after_seconds == pytest.approx(150e-6, rel=0.1)  # 0.6 ms alone
    assert result.excess_after_seconds - result.excess_before_seconds == pytest.approx(result.gap.seconds)


@pytest.mark.parametrize("left_out", [(MODEL.name, "all"), (MODEL.name, "stock"), (GATE.name, "gates")])
def test_without_the_model_or_a_part_of_the_sum_there_is_none(left_out: tuple[str, str]) -> None:
    assert broken_down({place: seconds for place, seconds in TIMES.items() if place != left_out}) is None


def test_one_sweep_compares_nothing() -> None:
    assert broken_down(sweeps=1) is None


@pytest.mark.parametrize("breakdown", BREAKDOWNS, ids=lambda each: each.experiment)
def test_every_name_of_the_labs_own_is_one_of_its_experiment(breakdown: Breakdown) -> None:
    (experiment,) = choose_experiments([breakdown.experiment])
    cases = {case.name: case.operator.name for case in experiment.cases}
    computes = {each.name: set(each.implementations) for each in experiment.profiles}
    assert load_breakdowns()[breakdown.experiment] == breakdown
    assert cases[breakdown.case] in computes[breakdown.together] & computes[breakdown.baseline]
    for row in breakdown.rows:
        assert cases[row.case] in computes[row.profile] & computes[breakdown.baseline]
        assert not row.alone or cases[breakdown.case] in computes[row.alone]


def test_a_prompt_calls_each_part_as_often_as_the_model_does() -> None:
    assert qwen.SIZES["num_hidden_layers"] == breakdowns.LAYERS
    assert {row.case.removesuffix("-1x2048-bfloat16"): row.calls for row in breakdowns.PROMPT.rows} == {
        part.name: part.calls for part in PARTS
    }
