"""What a page says of an experiment, before it is rendered."""

import dataclasses

from factory import FAST, LARGE, PLAIN, SMALL, plan_of, profile, records_of, small_experiment

from lab.evidence.record import Cell, Record
from lab.verdict.results import judge_run
from lab.website.data.judged import judged_run
from lab.website.pages.experiment import experiment_page
from lab.website.pages.views import ExperimentPage

TIMES = {(SMALL.name, "plain"): 60e-6, (SMALL.name, "fast"): 40e-6, (LARGE.name, "plain"): 60e-6}


def page_of(scope: str = "device_cold", sweeps: int = 5, of_small: int = 5) -> ExperimentPage:
    """The page of the small experiment with its claim in a scope; so many of the sweeps measured the small case."""
    experiment = small_experiment()
    claim = dataclasses.replace(experiment.claims[0], scope=scope, cases=(SMALL,))
    experiment = dataclasses.replace(experiment, claims=(claim,), headlines=(claim,))
    plan = plan_of(experiments=[experiment], include=["large-sweep"], sweeps=sweeps)

    def kept(record: Record) -> bool:
        return not (isinstance(record, Cell) and record.case == SMALL.name and record.sweep >= of_small)

    run = judge_run(plan, [record for record in records_of(plan, TIMES, noise=0.001) if kept(record)])
    return experiment_page(judged_run(run)[0], [])


def test_a_claims_table_shows_the_times_of_its_own_scope() -> None:
    """An eager call takes 20 µs more here."""
    for scope, subject, baseline in (("device_cold", 40, 60), ("eager", 60, 80)):
        page = page_of(scope)
        (row,) = page.claims[0].rows
        assert row.subject_p50 is not None
        assert row.baseline_p50 is not None
        assert abs(float(row.subject_p50.text) - subject) < 1
        assert abs(float(row.baseline_p50.text) - baseline) < 1
        assert row.subject_p50.source == f"/cells/{SMALL.name}/fast/scopes/{scope}/p50_seconds"
        assert row.noise is not None
        assert f"/scopes/{scope}/" in row.noise.source
        assert [part if isinstance(part, str) else part.source for part in page.cards[0].context][2] == (
            row.subject_p50.source
        )


def test_the_sweeps_that_the_page_names_were_measured() -> None:
    def told(page: ExperimentPage) -> str:
        return "".join(part if isinstance(part, str) else part.text for part in page.samples)

    assert told(page_of()) == "5 sweeps × 6 rounds × up to 12 samples"
    assert told(page_of(sweeps=7)) == "5 to 7 sweeps × 6 rounds × up to 12 samples"


def test_a_chart_names_its_rows_where_marks_do_not_tell_profiles_apart() -> None:
    """All but the known rivals have one colour and one marker."""
    chart = page_of().chart
    assert chart is not None
    assert {mark.label for mark in chart.marks} == {""}
    third = profile("third")
    plan = plan_of(experiments=[small_experiment(profiles=(PLAIN, FAST, third))], include=())
    run = judge_run(plan, records_of(plan, {**TIMES, (SMALL.name, "third"): 50e-6}))
    page = experiment_page(judged_run(run)[0], [])
    assert page.chart is not None
    assert [mark.label for mark in page.chart.marks] == ["fast", "third"]
    assert page.chart.series == ()
