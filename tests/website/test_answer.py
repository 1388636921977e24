"""The answer: short, with verdict, effect, interval and scope, and clear of what each part speaks."""

import dataclasses
from collections.abc import Mapping
from types import MappingProxyType

from factory import DOUBLING, FAST, FAST_BEATS_PLAIN, LARGE, PLAIN, SMALL, plan_of, records_of, small_experiment

from lab.definition.experiment import Case, Claim, Profile
from lab.definition.search import is_search
from lab.verdict.judge_run import judge_run
from lab.website.data.judged import Judged, judged_run, not_measured
from lab.website.data.judged_cache import judged
from lab.website.data.promoted import load_evidence
from lab.website.figure import DataView, Figure, Sentence
from lab.website.pages.answer import answer, glances
from lab.website.pages.boundary import boundary_line
from lab.website.pages.experiment import experiment_page
from lab.website.table import plain

TIMES = {
    (SMALL.name, "plain"): 60e-6, (SMALL.name, "fast"): 40e-6,
    (LARGE.name, "plain"): 60e-6, (LARGE.name, "fast"): 59.9e-6,
}  # fmt: skip
LONGEST = 70  # words, of which the place and an interval take many
OTHER = dataclasses.replace(SMALL, operator=dataclasses.replace(DOUBLING, name="halving"))
BOTH = {"doubling": lambda: lambda x: x * 2, "halving": lambda: lambda x: x / 2}


def item_of(
    *claims: Claim,
    profiles: tuple[Profile, ...] = (PLAIN, FAST),
    further: tuple[Case, ...] = (),
    more: Mapping[tuple[str, str], float] = MappingProxyType({}),
    **how: object,
) -> Judged:
    """`further` cases are in no claim; `more` times are by case and profile."""
    asked = claims or (FAST_BEATS_PLAIN,)
    cases = tuple(dict.fromkeys((SMALL, LARGE, *(case for claim in asked for case in claim.cases), *further)))
    experiment = small_experiment(claims=asked, headlines=asked, cases=cases, profiles=profiles)
    plan = plan_of(experiments=[experiment], include=("large-sweep",))
    times = TIMES | {(OTHER.name, "plain"): 60e-6, (OTHER.name, "fast"): 20e-6, **more}
    return judged_run(judge_run(plan, records_of(plan, times, noise=0.001, **how)))[0]  # type: ignore[arg-type]


def words_of(sentence: Sentence) -> str:
    return "".join(part if isinstance(part, str) else part.text for part in sentence)


def answer_of(item: Judged) -> str:
    return words_of(answer(item, DataView(item.data)))


def test_it_says_by_how_much_with_what_verdict_and_where() -> None:
    text = answer_of(item_of())
    verdict = "mixed; holds at 1 of 2, a tie at 1"
    assert text.startswith(f"Fast ran 1.00× to 1.50× as fast as plain ({verdict}). ")
    assert text.endswith("Measured on one NVIDIA H100 80GB HBM3, in cold-cache GPU time.")


def test_where_a_case_was_not_measured_it_counts_the_others() -> None:
    text = answer_of(item_of(outcomes={(LARGE.name, "fast"): ("failed", "out of memory")}))
    assert "1.5" in text
    assert " as fast as plain (holds at 1 of 2). Measured on " in text


def test_where_the_claim_leaves_cases_out_it_says_what_was_measured_there() -> None:
    more = dataclasses.replace(SMALL, shape=(64, 256))
    most = dataclasses.replace(SMALL, shape=(64, 512))
    claim = dataclasses.replace(FAST_BEATS_PLAIN, cases=(SMALL, more))
    times = {(more.name, "plain"): 60e-6, (more.name, "fast"): 30e-6}
    assert " as fast as plain at both cases claimed (another: 1.00×). " in answer_of(item_of(claim, more=times))
    times |= {(most.name, "plain"): 60e-6, (most.name, "fast"): 50e-6}
    several = answer_of(item_of(claim, further=(most,), more=times))
    assert " as fast as plain at both cases claimed (others: 1.00× to 1.20×). " in several
    narrower = dataclasses.replace(claim, name="narrower", cases=(SMALL,))
    assert answer_of(item_of(claim, narrower, further=(most,), more=times)).count("other") == 1
    both = tuple(dataclasses.replace(each, implementations=BOTH) for each in (PLAIN, FAST))
    other = dataclasses.replace(claim, name="other", cases=(OTHER,), baseline=both[0], subject=both[1])
    named = dataclasses.replace(claim, baseline=both[0], subject=both[1])
    apart = dataclasses.replace(OTHER, shape=(64, 256))
    times |= {(apart.name, "plain"): 60e-6, (apart.name, "fast"): 10e-6}
    of_each = answer_of(item_of(named, other, profiles=both, further=(apart,), more=times))
    assert " as fast as plain at both cases claimed (another: 1.00×); for halving, 3.00× as fast" in of_each
    inside = dataclasses.replace(claim, cases=(SMALL, more, LARGE), threshold=0.9)
    assert " at all 3 cases claimed. " in answer_of(item_of(inside, further=(most,), more=times))
    replayed = dataclasses.replace(claim, scope="graph")
    assert " as fast as plain at both cases. " in answer_of(item_of(replayed, more=times))


def test_every_figure_of_it_has_a_source() -> None:
    item = item_of()
    figures = [part for part in answer(item, DataView(item.data)) if isinstance(part, Figure)]
    for figure in figures:
        node = item.data
        for name in figure.source.split("/")[1:]:
            node = node[name]
        assert node == figure.value
    assert len(figures) == 5


def test_one_case_is_reported_once() -> None:
    """With its shape, and with what the same two reach at the cases that the claim leaves out."""
    claim = dataclasses.replace(FAST_BEATS_PLAIN, cases=(SMALL,))
    text = answer_of(item_of(claim))
    assert text.startswith("Fast ran 1.50× as fast as plain (doubling 64×128 fp32; another case: 1.00×). Measured on")
    more = dataclasses.replace(SMALL, shape=(64, 256))
    times = {(more.name, "plain"): 60e-6, (more.name, "fast"): 30e-6}
    several = answer_of(item_of(claim, further=(more,), more=times))
    assert " as fast as plain (doubling 64×128 fp32; other cases: 1.00× to 2.00×). " in several
    replayed = answer_of(item_of(dataclasses.replace(claim, scope="graph")))
    assert " as fast as plain (doubling 64×128 fp32). " in replayed, "in graphs these two are not compared elsewhere"


def test_the_operator_is_named_where_profiles_are_called_alike() -> None:
    both = tuple(dataclasses.replace(each, implementations=BOTH) for each in (PLAIN, FAST))
    one = dataclasses.replace(FAST_BEATS_PLAIN, cases=(SMALL,), baseline=both[0], subject=both[1])
    two = dataclasses.replace(one, name="halving-too", cases=(OTHER,))
    item = item_of(one, two, profiles=both)
    assert "For doubling, fast ran 1.5" in answer_of(item)
    assert "; for halving, 3.00× as fast as plain (" in answer_of(item)
    assert [glance.operator for glance in glances(item, DataView(item.data))] == ["doubling", "halving"]
    alone = item_of(one, profiles=both)
    assert [glance.operator for glance in glances(alone, DataView(alone.data))] == [""]


def test_a_subject_is_not_named_twice_running() -> None:
    third = dataclasses.replace(PLAIN, name="third", title="third")
    more = dataclasses.replace(FAST_BEATS_PLAIN, name="fast-beats-third", baseline=third)
    text = answer_of(item_of(FAST_BEATS_PLAIN, more, profiles=(PLAIN, FAST, third)))
    assert text.lower().count("fast ran") == 1
    item = item_of(FAST_BEATS_PLAIN, more, profiles=(PLAIN, FAST, third))
    assert [glance.claimed for glance in glances(item, DataView(item.data))] == [
        f"faster than {name} by 2 % or more" for name in ("plain", "third")
    ]


def test_a_glance_holds_verdict_effect_interval_and_baseline() -> None:
    item = item_of()
    (glance,) = glances(item, DataView(item.data))
    assert (glance.status, glance.claimed) == ("refuted", "faster than plain by 2 % or more")
    assert [end.source.split("/")[-2] for end in glance.ratios if end != " to "] == [LARGE.name, SMALL.name]
    verdicts = item.data["claims"][glance.claim]["cases"].values()
    lowest, _, highest = glance.interval
    assert (lowest.value, highest.value) == (
        min(each["low"] for each in verdicts),
        max(each["high"] for each in verdicts),
    )


def test_a_glance_at_other_calls_than_the_answer_names_them() -> None:
    replayed = dataclasses.replace(FAST_BEATS_PLAIN, name="fast-beats-plain-in-graph", scope="graph", cases=(SMALL,))
    item = item_of(FAST_BEATS_PLAIN, replayed)
    cold, graph = glances(item, DataView(item.data))
    assert cold.claimed == "faster than plain by 2 % or more, in cold-cache GPU time"
    assert "".join(part if isinstance(part, str) else "#" for part in cold.ratios) == "# to #"
    assert graph.claimed == "faster than plain by 2 % or more, in CUDA graphs"
    assert len(graph.ratios) == len(graph.interval) == 1


def test_the_boundary_in_one_line_names_machine_types_and_versions() -> None:
    line = boundary_line(item_of())
    assert line == "Measured on NVIDIA H100 80GB HBM3, 2 cases in fp32, torch 2.11.0; on nothing else."


def test_the_boundary_counts_only_cases_at_which_something_was_measured() -> None:
    wrong = dict.fromkeys(
        ((LARGE.name, "fast"), (LARGE.name, "plain")), ("wrong", "the error is 3 times the tolerance")
    )
    assert "one case in fp32" in boundary_line(item_of(outcomes=wrong))
    failed = dict.fromkeys(("fast", "plain"), ("failed", "out of memory"))
    assert boundary_line(item_of(outcomes=failed)) == "Nothing could be measured on NVIDIA H100 80GB HBM3."


def test_without_evidence_there_is_no_answer_and_no_glance() -> None:
    item = not_measured(plan_of(experiments=[small_experiment()]).experiments[0])
    assert answer_of(item) == "No run of this experiment has been published yet."
    assert glances(item, DataView(item.data)) == ()
    assert boundary_line(item) == "Nothing is measured yet."


def test_no_answer_of_the_labs_own_evidence_is_long() -> None:
    for evidence in load_evidence():
        for item in judged(evidence):
            if not is_search(item.plan):
                assert len(answer_of(item).split()) <= LONGEST, item.plan.name


def known_of(*subjects: Profile, sweeps: int = 5) -> Judged:
    """A test of the lab itself: of each of these profiles it is known that it is faster than `plain`."""
    claims = tuple(
        dataclasses.replace(
            FAST_BEATS_PLAIN, name=f"{each.name}-beats", subject=each, cases=(SMALL,), expected=("supported",)
        )
        for each in subjects
    )
    experiment = small_experiment(
        claims=claims, headlines=claims[:1], cases=(SMALL,), profiles=(PLAIN, *subjects), self_test=True
    )
    plan = plan_of(experiments=[experiment], include=(), sweeps=sweeps)
    return judged_run(judge_run(plan, records_of(plan, TIMES, noise=0.001)))[0]


def test_claims_that_this_run_could_not_judge_are_no_failures_of_the_test() -> None:
    on_cpu = dataclasses.replace(FAST, name="on-cpu", title="on a CPU", devices=("cpu",))
    whole, part = answer_of(known_of(FAST)), answer_of(known_of(FAST, on_cpu))
    assert whole.startswith("1 of the 1 claims whose right verdict is known beforehand came out so. Measured on")
    assert part.startswith(
        "1 of the 1 claims whose right verdict is known beforehand and that were measured came out so; 1 more needs a "
        "CPU. Measured on"
    )


def test_a_page_says_that_its_run_has_too_few_sweeps_for_speed_ups() -> None:
    told = {
        sweeps: plain(dict(experiment_page(known_of(FAST, sweeps=sweeps), []).facts)["Claims"]) for sweeps in (1, 3)
    }
    assert told[1] == "not measured 1 a speed-up needs 3 sweeps; this run has 1"
    assert told[3] == "holds 1"
