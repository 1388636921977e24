"""Which cases form one line chart over a dimension, in which scope, and what is said of where a gain ends."""

import dataclasses
from collections.abc import Sequence
from types import SimpleNamespace as View

import pytest
from factory import DOUBLING, FAST, PLAIN, plan_of, profile, records_of, small_experiment

from lab.definition.experiment import Case, Claim, Operator, Profile
from lab.kernels.traffic import Traffic
from lab.verdict.judge_run import judge_run
from lab.website.data.judged import judged_run
from lab.website.pages.experiment import experiment_page, said
from lab.website.table import plain

FEW = dataclasses.replace(DOUBLING, name="doubling-few")
SIZES = ((1, FEW), (4, DOUBLING), (16, FEW), (64, DOUBLING), (256, DOUBLING))  # rows, and what computes them
BOTH = ("doubling", "doubling-few")


def able(each: Profile, *operators: str) -> Profile:
    return dataclasses.replace(each, implementations=dict.fromkeys(operators, lambda: lambda x: x * 2))


def contest(
    sizes: Sequence[tuple[int, Operator]] = SIZES,
    profiles: Sequence[Profile] = (able(PLAIN, *BOTH), able(FAST, "doubling"), able(profile("third"), "doubling-few")),
    gains: Sequence[float] = (1.3, 1.2, 1.1, 1.0075, 1.005),
    scope: str = "device_cold",
    noise: float = 0.0005,
) -> View:
    """The contest of the rows, at each of which one implementation is so many times as fast as `plain`."""
    cases = [Case(operator=each, shape=(rows, 4096), dtype="float32") for rows, each in sizes]
    plain_one, *others = profiles
    of_plain = plain_one.implementations.keys()
    claims = tuple(
        Claim(name=f"{each.name}-wins", text="It wins.", subject=each, baseline=plain_one, cases=at, scope=scope)
        for each in others
        if (at := tuple(case for case in cases if {case.operator.name} <= each.implementations.keys() & of_plain))
    )
    experiment = small_experiment(cases=tuple(cases), profiles=tuple(profiles), claims=claims, headlines=claims[:1])
    plan = plan_of(experiments=[experiment], include=())
    times = {(case.name, plain_one.name): 40e-6 for case in cases}
    times |= {(c.name, each.name): 40e-6 / gain for c, gain in zip(cases, gains, strict=True) for each in others}
    page = experiment_page(judged_run(judge_run(plan, records_of(plan, times, noise=noise)))[0], [])
    assert page.contest is not None
    return View(said=[text for where, text in said(page) if where == "contest"], **vars(page.contest))


def test_variants_of_an_operator_that_do_the_same_work_form_one_chart() -> None:
    shown = contest()
    (drawn,) = shown.crossovers
    assert drawn.title == "doubling n×4096 fp32"
    for rows, each in SIZES:
        assert f"{each.name} {rows}×4096 fp32" in drawn.chart
    for name in ("plain", "fast", "third"):
        assert f">{name}</text>" in drawn.chart
    assert 'class="band"' in drawn.chart
    assert shown.panels == (), "no case is drawn twice"


def more_bytes(shape: tuple[int, ...], itemsize: int) -> Traffic:
    work = DOUBLING.traffic(shape, itemsize)
    return dataclasses.replace(work, read_bytes=work.read_bytes * (2 if shape[0] == 16 else 1))


def more_work(shape: tuple[int, ...], itemsize: int) -> Traffic:
    return dataclasses.replace(DOUBLING.traffic(shape, itemsize), flops=7)


@pytest.mark.parametrize(
    ("few", "names"),
    [
        (dataclasses.replace(DOUBLING, name="halving"), ("doubling", "halving")),
        (dataclasses.replace(FEW, traffic=more_bytes), BOTH),
        (dataclasses.replace(FEW, traffic=more_work), BOTH),
    ],
)
def test_operators_that_are_no_variants_or_do_other_work_share_no_chart(few: Operator, names: tuple[str, str]) -> None:
    sizes = [(rows, few if each is FEW else each) for rows, each in SIZES]
    assert contest(sizes, (able(PLAIN, *names), able(FAST, *names))).crossovers == ()


def test_cases_that_share_no_implementation_share_no_chart() -> None:
    profiles = (able(PLAIN, "doubling"), able(FAST, "doubling"), able(profile("third"), "doubling-few"))
    assert contest(profiles=profiles).crossovers == ()


def test_where_two_variants_have_one_size_each_stands_by_itself() -> None:
    sizes = [*((rows, DOUBLING) for rows in (1, 4, 16, 64)), (64, FEW)]
    shown = contest(sizes, (able(PLAIN, *BOTH), able(FAST, *BOTH)))
    (drawn,) = shown.crossovers
    assert "doubling-few" not in drawn.chart
    assert [panel.case for panel in shown.panels] == ["doubling-few-64x4096-float32"]


def test_a_page_says_from_which_size_on_a_gain_is_below_two_per_cent() -> None:
    ((gain,),) = (each.gains for each in contest().crossovers)
    assert plain(gain).startswith("From n = 64 to 256 the fastest's gain over plain measures below 2 %: 1.0")
    assert plain(gain).endswith(" at n = 64. From n = 1 to 16 it is 1.10× to 1.30×.")
    assert plain(gain) in contest().said, "it is held against what the run measured"
    assert next(part.source for part in gain if hasattr(part, "source")) == "/cases/doubling-64x4096-float32/shape/0"


def test_a_gain_that_begins_at_a_size_is_told_the_other_way_round() -> None:
    ((gain,),) = (each.gains for each in contest(gains=(1.005, 1.0075, 1.1, 1.2, 1.3)).crossovers)
    assert plain(gain).startswith("From n = 1 to 4 the fastest's gain over plain measures below 2 %: 1.0")
    assert plain(gain).endswith(" at n = 4. From n = 16 to 256 it is 1.10× to 1.30×.")


@pytest.mark.parametrize("gains", [(1.3, 1.005, 1.1, 1.005, 1.005), (1.3, 1.3, 1.2, 1.2, 1.1)])
def test_nothing_is_said_where_no_one_size_parts_the_gains(gains: tuple[float, ...]) -> None:
    assert contest(gains=gains).crossovers[0].gains == ()


def test_nothing_is_said_of_a_gain_over_the_fastest_itself() -> None:
    assert contest(gains=(1.3, 1.2, 1.1, 0.9, 0.8)).crossovers[0].gains == ()


def test_nothing_is_said_where_the_intervals_are_wide() -> None:
    assert contest(noise=0.2).crossovers[0].gains == ()


def test_lines_are_of_the_scope_that_most_claims_compare_in_and_have_their_times_below() -> None:
    (cold,), (graph,) = (contest(scope=scope).crossovers for scope in ("device_cold", "graph"))
    assert cold.table is None, "those of every cell are these times"
    assert graph.title == "doubling n×4096 fp32, in CUDA graphs"
    cells = [[plain(cell) for cell in row.cells] for row in graph.table.rows]
    assert [row[0] for row in cells] == [f"{rows}×4096 fp32" for rows, _ in SIZES]
    assert cells[0][1].startswith("38."), "of 40 µs, 0.95 times as long in a graph"
    sources = [part.source for row in graph.table.rows for part in row.cells[1] if hasattr(part, "source")]
    assert all("/scopes/graph/" in each or "/contest/" in each or "/places/" in each for each in sources)
