"""An experiment across published runs: ratios in line, verdicts that turned, and what else had changed."""

import dataclasses
from typing import Any

from factory import FAST_BEATS_PLAIN, SMALL, machine, plan_of, records_of, small_experiment

from lab.verdict.results import judge_run
from lab.website.data.judged import Judged, judged_run
from lab.website.data.verdict_log import CARD, ONLY_DATA, changes
from lab.website.pages.history import HistorySection, history_section
from lab.website.pages.past import other_models

FASTER = {(SMALL.name, "plain"): 60e-6, (SMALL.name, "fast"): 40e-6}
SLOWER = {(SMALL.name, "plain"): 60e-6, (SMALL.name, "fast"): 70e-6}


def run_of(run_id: str, times: dict[Any, float] = FASTER, threshold: float = 1.02, **how: Any) -> Judged:
    claim = dataclasses.replace(FAST_BEATS_PLAIN, threshold=threshold, cases=(SMALL,))
    experiment = small_experiment(claims=(claim,), headlines=(claim,))
    plan = plan_of(run_id, experiments=[experiment], include=(), sweeps=how.pop("sweeps", 5))
    records = records_of(plan, times, noise=0.001, **how)
    return judged_run(judge_run(plan, records), digest=run_id.encode().hex().ljust(64, "0"))[0]


def section_of(*runs: Judged) -> HistorySection:
    """Of the newest run."""
    found = history_section(runs[-1], runs, "../../")
    assert found is not None
    return found


def test_the_headline_is_followed_from_run_to_run_newest_first() -> None:
    found = section_of(run_of("one"), run_of("two"))
    assert [(each.heading, each.case) for each in found.followed] == [("fast over plain", SMALL.name)]
    assert [(row.number, row.run_id, row.current) for row in found.rows] == [(2, "two", True), (1, "one", False)]
    (claim,) = found.rows[0].claims
    assert claim.ratio is not None
    assert claim.ratio.source == f"/claims/fast-beats-plain/cases/{SMALL.name}/ratio"
    assert found.rows[1].data == f"../../runs/{run_of('one').digest[:12]}/doubling/data.json"
    assert found.rows[1].link == f"../../runs/{run_of('one').digest[:12]}/doubling/index.html"


def test_the_chart_holds_the_ratios_of_the_table_with_their_intervals() -> None:
    found = section_of(run_of("one"), run_of("two", {**FASTER, (SMALL.name, "fast"): 30e-6}), run_of("three"))
    assert found.chart is not None
    (track,) = found.chart.tracks
    assert [tick.text for tick in found.chart.x_ticks] == ["1", "2", "3"]
    assert [mark.x for mark in track.marks] == sorted(mark.x for mark in track.marks)
    assert track.marks[1].y < min(track.marks[0].y, track.marks[2].y)  # twice as fast stands higher
    for mark, row in zip(track.marks, reversed(found.rows), strict=True):
        assert mark.top <= mark.y <= mark.bottom
        assert row.claims[0].ratio is not None
        assert f"{row.run_id}, fast over plain: {row.claims[0].ratio.text} " in mark.title
    assert len(found.chart.y_ticks) > 1


def test_parity_is_drawn_only_where_lines_come_near_it() -> None:
    near = section_of(run_of("one", {**FASTER, (SMALL.name, "fast"): 55e-6}), run_of("two"))
    far = section_of(run_of("one"), run_of("two"))
    assert near.chart is not None
    assert far.chart is not None
    assert near.chart.parity_y is not None
    assert far.chart.parity_y is None


def test_one_run_is_a_table_and_no_chart() -> None:
    found = section_of(run_of("one"))
    assert (found.chart, len(found.rows), found.turns) == (None, 1, ())


def test_runs_on_another_gpu_are_listed_apart() -> None:
    found = section_of(run_of("one", on=machine(gpu="NVIDIA H200")), run_of("two"))
    assert [row.run_id for row in found.rows] == ["two"]
    assert [(run.run_id, run.machine) for run in found.elsewhere] == [("one", "NVIDIA H200")]
    assert found.turns == ()


def test_a_verdict_that_turned_is_logged_with_what_else_had_changed() -> None:
    found = section_of(run_of("one"), run_of("two", SLOWER, on=machine(torch="2.12.0")), run_of("three", SLOWER))
    (turn,) = found.turns
    assert (turn.before, turn.after, turn.run_id) == ("supported", "refuted", "two")
    assert turn.why == "this, or chance: torch 2.11.0 → 2.12.0"
    assert [row.changed for row in found.rows] == [True, True, False]


def test_a_claim_that_was_asked_otherwise_is_said_to_be() -> None:
    (turn,) = section_of(run_of("one"), run_of("two", threshold=2.0)).turns
    assert (turn.after, turn.why) == ("refuted", "this, or chance: the claim's threshold 1.02 → 2.0")


def test_a_verdict_that_turned_by_itself_is_said_to() -> None:
    (turn,) = section_of(run_of("one"), run_of("two", SLOWER)).turns
    assert turn.why == ONLY_DATA


def test_the_log_of_an_experiment_gives_the_causes_that_the_page_of_the_run_gives() -> None:
    """Card, source, versions and options: one list, so that two pages never tell two stories."""
    before = run_of("one", commit="a" * 40, source="a" * 64)
    after = run_of(
        "two", SLOWER, on=machine(gpu_id="fedcba987654", torch="2.12.0"), sweeps=7, commit="b" * 40, source="b" * 64
    )
    (turn,) = section_of(before, after).turns
    (change,) = [found for found in changes([before, after]) if found.was]
    assert turn.why == change.attribution
    for cause in (CARD, "torch 2.11.0 → 2.12.0", "Sweeps asked for 5 → 7", "git diff aaaaaaa bbbbbbb"):
        assert cause in turn.why


def test_turns_stand_newest_first_and_back_again_is_a_turn_too() -> None:
    turns = section_of(run_of("one"), run_of("two", SLOWER), run_of("three")).turns
    assert [(turn.run_id, turn.after) for turn in turns] == [("three", "supported"), ("two", "refuted")]


def test_the_fullest_run_of_each_other_gpu_model_is_named_with_its_verdicts() -> None:
    few = run_of("few", SLOWER, on=machine(gpu="NVIDIA H200"), sweeps=3)
    full = run_of("full", on=machine(gpu="NVIDIA H200"))
    here = run_of("here")
    (other,) = other_models(here, (few, full, here), "../../")
    assert (other.run_id, other.machine) == ("full", "NVIDIA H200")
    assert [(count.status, count.claims) for count in other.counts] == [("supported", 1)]
