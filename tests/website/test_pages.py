"""What a page says of an experiment, before it is rendered."""

import dataclasses
import re
from types import SimpleNamespace as View

from factory import FAST, LARGE, PLAIN, SMALL, plan_of, profile, records_of, small_experiment
from page_parts import figures, texts_of

from lab.evidence.record import Cell, Record
from lab.verdict.judge_run import judge_run
from lab.website.data.judged import judged_run
from lab.website.figure import Figure
from lab.website.pages.experiment import experiment_page
from lab.website.pages.standing import Rival, against_best
from lab.website.table import plain

TIMES = {(SMALL.name, "plain"): 60e-6, (SMALL.name, "fast"): 40e-6, (LARGE.name, "plain"): 60e-6}


def page_of(scope: str = "device_cold", sweeps: int = 5, of_small: int = 5) -> View:
    """The page of the small experiment with its claim in a scope; so many of the sweeps measured the small case."""
    experiment = small_experiment()
    claim = dataclasses.replace(experiment.claims[0], scope=scope, cases=(SMALL,))
    experiment = dataclasses.replace(experiment, claims=(claim,), headlines=(claim,))
    plan = plan_of(experiments=[experiment], include=["large-sweep"], sweeps=sweeps)

    def kept(record: Record) -> bool:
        return not (isinstance(record, Cell) and record.case == SMALL.name and record.sweep >= of_small)

    run = judge_run(plan, [record for record in records_of(plan, TIMES, noise=0.001) if kept(record)])
    return experiment_page(judged_run(run)[0], [])


def test_a_claims_rows_show_the_ratio_of_its_own_scope() -> None:
    """An eager call takes 20 µs more here."""
    for scope, expected in (("device_cold", 60 / 40), ("eager", 80 / 60)):
        claim = page_of(scope).claims[0]
        (row,) = claim.rows
        ratio, interval = (figures(cell)[0] for cell in row.cells[1:3])
        assert abs(ratio.value / expected - 1) < 0.01
        assert [each.source.rpartition("/")[2] for each in (ratio, interval)] == ["ratio", "low"]
        assert all(each.source.startswith(f"/claims/{claim.name}/cases/{SMALL.name}/") for each in (ratio, interval))


def test_the_sweeps_that_the_page_names_were_measured() -> None:
    def samples(page: View) -> str:
        return plain(dict(page.facts)["Samples"])

    assert samples(page_of()) == "5 sweeps × 6 rounds × up to 12 samples"
    assert samples(page_of(sweeps=7)) == "5 to 7 sweeps × 6 rounds × up to 12 samples"
    assert samples(page_of(sweeps=1)) == "1 sweep × 6 rounds × up to 12 samples"


def crowd(times: dict[str, float], **how: object) -> View:
    """The small case, timed with as many implementations."""
    profiles = (PLAIN, FAST, *(profile(name) for name in times if name not in ("plain", "fast")))
    plan = plan_of(experiments=[small_experiment(profiles=profiles)], include=())
    seconds = {(SMALL.name, name): value for name, value in times.items()}
    run = judge_run(plan, records_of(plan, seconds, noise=0.0005, **how))  # type: ignore[arg-type]
    return experiment_page(judged_run(run)[0], [])


def test_the_contest_draws_serious_rivals_and_says_in_a_line_who_is_none() -> None:
    page = crowd({"plain": 400e-6, "fast": 40e-6, "third": 50e-6})
    assert page.contest is not None
    (panel,) = page.contest.panels
    assert plain(panel.best) == "fast: 40.0 µs"
    assert "third" in panel.drawn
    assert "1.25×" in panel.drawn
    assert "plain" not in panel.drawn
    assert plain(page.contest.weak) == "Not drawn: plain, 10.0× the time of the fastest."


def test_what_nothing_tells_apart_is_a_tie_in_picture_and_table() -> None:
    page = crowd({"plain": 60e-6, "fast": 40e-6, "third": 40.1e-6})
    assert page.contest is not None
    (panel,) = page.contest.panels
    assert plain(panel.best) == "fast and third: 40.0 µs"
    assert panel.drawn.count('class="first"') == 2
    assert [cell.split(" ")[1] for cell in texts_of(page.every_cell, panel.label)] == ["1.50×", "tie", "tie"]


def test_a_ratio_that_the_medians_contradict_has_theirs_in_brackets() -> None:
    ratio, medians = Figure("1.34×", 1.34, "/a"), Figure("1.14×", 1.14, "/b")
    rival = Rival(ratio=ratio, interval=None, medians=medians, value=1.34, low=0.9, high=1.8, word="unproven")
    assert plain(against_best(rival)) == "1.34× ? (1.14×)"
    assert plain(against_best(dataclasses.replace(rival, word="slower", medians=None))) == "1.34×"
    assert plain(against_best(dataclasses.replace(rival, word="tie"))) == "tie"
    assert plain(against_best(dataclasses.replace(rival, value=0.996))) == "level ? (1.14×)", "and not 0.996× the best"


def test_a_rival_far_behind_is_reported_at_the_edge_of_a_zoomed_axis() -> None:
    page = crowd({"plain": 79e-6, "fast": 40e-6, "third": 41e-6, "fourth": 42e-6, "fifth": 43e-6})
    assert page.contest is not None
    assert "› 1.9" in page.contest.panels[0].drawn


def test_a_cell_that_failed_keeps_its_outcome_in_the_table() -> None:
    page = crowd({"plain": 60e-6, "fast": 40e-6, "third": 50e-6}, outcomes={"third": ("failed", "it broke")})
    assert texts_of(page.every_cell, "doubling")[2] == "failed"


def sized(count: int) -> View:
    """As many cases that differ by their number of rows alone."""
    cases = tuple(dataclasses.replace(SMALL, shape=(4**place, 4096)) for place in range(1, count + 1))
    claim = dataclasses.replace(small_experiment().claims[0], cases=cases)
    experiment = small_experiment(cases=cases, claims=(claim,), headlines=(claim,))
    plan = plan_of(experiments=[experiment], include=())
    times = {(case.name, "plain"): 40e-6 for case in cases}
    times |= {(case.name, "fast"): (30 + 5 * place) * 1e-6 for place, case in enumerate(cases)}
    return experiment_page(judged_run(judge_run(plan, records_of(plan, times, noise=0.0005)))[0], [])


def test_cases_that_differ_along_one_dimension_show_where_the_winner_changes() -> None:
    contest = sized(5).contest
    assert contest is not None
    (drawn,) = contest.crossovers
    assert drawn.title == "doubling n×4096 fp32"
    for size in (4, 16, 64, 256, 1024):
        assert f"doubling {size}×4096 fp32" in drawn.chart
    assert contest.panels == (), "no case is drawn twice"


def test_few_sizes_are_no_family() -> None:
    contest = sized(3).contest
    assert contest is not None
    assert contest.crossovers == ()
    assert len(contest.panels) == 3


def with_memory(fast: int, metrics: tuple[str, ...] = ()) -> View:
    experiment = small_experiment(metrics={"Memory": metrics} if metrics else {"Latency": ("p50",)})
    plan = plan_of(experiments=[experiment], include=())
    records = [
        dataclasses.replace(record, peak_memory_bytes=fast if record.profile == "fast" else 10_000_000)
        if isinstance(record, Cell)
        else record
        for record in records_of(plan, TIMES, noise=0.001)
    ]
    return experiment_page(judged_run(judge_run(plan, records))[0], [])


def test_where_memory_is_part_of_the_question_it_stands_beside_what_the_author_expects() -> None:
    assert "memory" not in {fold.id for fold in with_memory(20_000_000).folds}
    page = with_memory(20_000_000, ("peak memory of one call",))
    (fold,) = (fold for fold in page.folds if fold.id == "memory")
    assert texts_of(fold.tables[0], "fast") == ["20.0", FAST.signal]
    ((_, drawn),) = fold.panels
    half, whole = (float(width) for width in re.findall(r'class="mark"[^>]* width="([\d.]+)"', drawn))
    assert whole == 2 * half
