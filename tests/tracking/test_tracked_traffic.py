"""What those who browse runs see of claims about traffic."""

from counting import FAST_MOVES_THE_LEAST, PLAIN_MOVES_TWICE, counted_run
from factory import LARGE

from lab.definition.claim_words import claim_sentence
from lab.tracking.measures import headlines
from lab.tracking.report import answers, describe_cell, describe_run, write_report
from lab.verdict.ranking import rank

RUN = counted_run()
(EXPERIMENT,) = RUN.experiments
CASE = next(case for case in EXPERIMENT.plan.cases if case.name == LARGE.name)
LEAST, TWICE = (claim_sentence(claim) for claim in (FAST_MOVES_THE_LEAST, PLAIN_MOVES_TWICE))


def test_the_mean_of_a_claim_stands_under_what_it_measures() -> None:
    means = {measure.key: measure.value for measure in headlines(RUN, EXPERIMENT)}
    assert means[f"traffic_geomean/{PLAIN_MOVES_TWICE.name}"] == 3.0
    assert means[f"traffic_geomean/{FAST_MOVES_THE_LEAST.name}"] == 1.0
    assert not [key for key in means if key.startswith("speedup_geomean")]
    assert means["claims/supported"] == 2


def test_the_answers_speak_of_bytes() -> None:
    assert list(answers(EXPERIMENT)) == [
        f"**supported** – {LEAST} 1.00× the bytes in the geometric mean (1 of 1 shapes judged).",
        f"**supported** – {TWICE} 3.00× the bytes in the geometric mean (1 of 1 shapes judged).",
    ]


def test_the_report_names_the_least_as_the_rival() -> None:
    headline = "1.00× the bytes, 134 MB against 134 MB vs the least | supported (one pass) |"
    assert headline in write_report(RUN, EXPERIMENT)
    assert headline in describe_run(RUN, EXPERIMENT)


def test_a_cell_tells_the_claims_about_it() -> None:
    def description(profile: str) -> str:
        cell = EXPERIMENT.cells[LARGE.name, profile]
        return describe_cell(RUN, EXPERIMENT, CASE, cell, rank(EXPERIMENT, LARGE.name)[profile])

    twice = f"| {TWICE} | 3.00× the bytes, 403 MB against 134 MB | supported (one pass) | – |"
    assert twice in description("fast")
    assert twice in description("plain")
    assert LEAST in description("fast")
    assert LEAST not in description("plain")


def test_what_was_not_counted_has_no_mean() -> None:
    (experiment,) = (run := counted_run(profiling=False)).experiments
    assert not [measure for measure in headlines(run, experiment) if "geomean" in measure.key]
    assert next(answers(experiment)) == f"**no-evidence** – {LEAST}"
