"""Each change of a verdict, and what else changed with it."""

import dataclasses
import itertools
from typing import Any

from factory import FAST_BEATS_PLAIN, LARGE, SMALL, machine, plan_of, records_of, small_experiment

from lab.evidence.record import RunFinish
from lab.verdict.judge_run import judge_run
from lab.website.data.judged import Judged, judged_run
from lab.website.data.verdict_log import CARD, ONLY_DATA, OTHER_CASES, VerdictChange, changes

FASTER = {"plain": 200e-6, "fast": 100e-6}
SLOWER = {"plain": 100e-6, "fast": 200e-6}
NUMBERS = itertools.count()
LARGE_TOO = ("large-sweep",)


def run(
    times: dict[Any, float], *, experiment: Any = None, cut_short: str = "", include: Any = (), **how: Any
) -> Judged:
    name = f"run-{next(NUMBERS)}"
    plan = plan_of(
        name, experiments=[experiment or small_experiment()], include=include, device=how.pop("device", "cuda")
    )
    *records, _ = records_of(plan, times, **how)
    end = RunFinish(finished_utc="2026-01-02T03:30:00Z", cut_short=cut_short)
    (item,) = judged_run(judge_run(plan, [*records, end]), digest=name)
    return item


def only(*history: Judged) -> VerdictChange:
    """The one change after the first verdict."""
    (change,) = [each for each in changes(history) if each.was]
    return change


def test_the_first_verdict_is_a_change_from_nothing():
    (change,) = changes([run(FASTER)])
    assert (change.was, change.now, change.claim, change.before) == ("", "supported", "fast-beats-plain", "")
    assert change.attribution == "the first run on this GPU"


def test_the_same_verdict_again_is_no_change():
    assert len(changes([run(FASTER), run(FASTER), run(FASTER)])) == 1


def test_a_change_that_nothing_on_record_explains_is_left_to_the_data():
    older, newer = run(FASTER), run(SLOWER)
    change = only(older, newer)
    assert (change.was, change.now, change.before, change.digest) == (
        "supported", "refuted", older.digest, newer.digest,
    )  # fmt: skip
    assert change.causes == ()
    assert change.attribution == ONLY_DATA


def test_each_thing_that_changed_may_be_the_cause():
    where = machine(gpu_id="fedcba987654", torch="2.12.0")
    change = only(run(FASTER), run(SLOWER, on=where, source="e" * 64, commit="f" * 40))
    assert CARD in change.causes
    assert "torch 2.11.0 → 2.12.0" in change.causes
    assert "the lab's source (no commit → fffffff)" in change.causes
    assert change.attribution == "; ".join(change.causes)


def test_a_commit_that_nobody_has_is_not_compared_with_git(monkeypatch):
    monkeypatch.setattr("lab.website.data.verdict_log.lost_commits", lambda: {"b" * 40: "its branch is gone"})
    older, newer = run(FASTER, commit="a" * 40), run(SLOWER, source="e" * 64, commit="b" * 40)
    told = "aaaaaaa → bbbbbbb; bbbbbbb is not in the repository's history"
    assert only(older, newer).causes == (f"the lab's source ({told})",)


def test_what_one_of_the_runs_does_not_know_is_no_cause():
    assert only(run(FASTER, on=machine(libraries={})), run(SLOWER)).causes == ()


def test_a_variable_that_was_set_is_reported():
    where = machine(environment={"TRITON_ALWAYS_COMPILE": "1"})
    assert only(run(FASTER), run(SLOWER, on=where)).causes == ("TRITON_ALWAYS_COMPILE not set → 1",)


def test_another_threshold_is_reported():
    stricter = dataclasses.replace(FAST_BEATS_PLAIN, threshold=3.0)
    change = only(
        run(FASTER), run(FASTER, experiment=small_experiment(claims=(stricter,), headlines=(stricter,)))
    )  # fmt: skip
    assert (change.was, change.now) == ("supported", "refuted")
    assert change.causes == ("the claim's threshold 1.02 → 3.0",)


def test_other_cases_are_the_certain_cause_where_the_old_ones_came_out_as_before():
    times = {(SMALL.name, name): seconds for name, seconds in FASTER.items()}
    times |= {(LARGE.name, n): seconds for n, seconds in SLOWER.items()}
    change = only(run(times), run(times, include=LARGE_TOO))
    assert change.causes == (OTHER_CASES,)
    assert change.attribution == OTHER_CASES


def test_a_run_without_the_claims_cases_is_passed_over():
    claim = dataclasses.replace(FAST_BEATS_PLAIN, cases=(LARGE,))
    large = small_experiment(claims=(claim,), headlines=(claim,))
    without = run(FASTER, experiment=large)
    first, again = (run(FASTER, experiment=large, include=LARGE_TOO) for _ in range(2))
    assert [(each.digest, each.was) for each in changes([without, first, without, again])] == [(first.digest, "")]
    turned = only(first, without, run(SLOWER, experiment=large, include=LARGE_TOO))
    assert (turned.was, turned.now, turned.before) == ("supported", "refuted", first.digest)


def test_a_smaller_run_that_agrees_at_its_cases_changes_nothing_and_neither_does_the_next_full_one():
    times = {(SMALL.name, name): seconds for name, seconds in FASTER.items()}
    times |= {(LARGE.name, n): seconds for n, seconds in SLOWER.items()}
    full, smaller, again = run(times, include=LARGE_TOO), run(times), run(times, include=LARGE_TOO)
    statuses = [item.data["claims"]["fast-beats-plain"]["status"] for item in (full, smaller)]
    assert statuses == ["refuted", "supported"]
    assert len(changes([full, smaller, again])) == 1
    slower = run(times | {(SMALL.name, n): seconds for n, seconds in SLOWER.items()})
    assert [each.now for each in changes([full, smaller, slower])] == ["refuted", "refuted"]
    assert only(full, smaller, slower).before == smaller.digest  # the last run that judged this case


def two(small: dict[str, float], large: dict[str, float], **how: Any) -> Judged:
    """A run of both cases with these times."""
    times = {(SMALL.name, name): seconds for name, seconds in small.items()}
    times |= {(LARGE.name, name): seconds for name, seconds in large.items()}
    return run(times, include=LARGE_TOO, **how)


def unmeasured(item: Judged, case: str) -> Judged:
    """The same where a case has no verdict, as where the profiler did not run."""
    claim = item.data["claims"]["fast-beats-plain"]
    cases = claim["cases"] | {case: claim["cases"][case] | {"status": "no-evidence"}}
    cut = {"fast-beats-plain": claim | {"cases": cases, "status": "no-evidence"}}
    return Judged(plan=item.plan, data={**item.data, "claims": cut})


def only_case(item: Judged, case: str) -> Judged:
    """The same without its other cases."""
    claim = item.data["claims"]["fast-beats-plain"]
    kept = claim | {"cases": {case: claim["cases"][case]}, "status": claim["cases"][case]["status"]}
    return Judged(plan=item.plan, data={**item.data, "claims": {"fast-beats-plain": kept}})


def test_what_was_not_measured_changes_nothing():
    first, again = two(FASTER, FASTER), two(FASTER, FASTER)
    assert len(changes([first, unmeasured(two(FASTER, FASTER), LARGE.name), again])) == 1


def test_a_case_that_turns_is_told_though_another_had_turned_so_before():
    small, large = (only_case(two(*times), name) for times, name in (((FASTER, FASTER), SMALL.name),
                                                                  ((FASTER, SLOWER), LARGE.name)))  # fmt: skip
    _, worse, again = changes([small, large, two(SLOWER, FASTER)])
    assert (worse.was, worse.now, worse.causes) == ("supported", "refuted", (OTHER_CASES,))
    assert (again.was, again.now, again.before) == ("supported", "refuted", small.digest)


def test_a_new_case_that_decides_is_the_cause_though_another_moved():
    level = {"plain": 2.07e-3, "fast": 2e-3}
    (_, turned) = changes([run(level), two(FASTER, SLOWER)])
    assert (turned.was, turned.now, turned.causes) == ("inconclusive", "refuted", (OTHER_CASES,))


def test_a_run_that_was_cut_short_is_reported():
    assert only(run(FASTER), run(SLOWER, cut_short="no time")).causes == ("this run was cut short",)


def test_a_verdict_of_a_cpu_changes_none_of_a_gpu():
    history = [run(FASTER), run({"plain": 1e-2, "fast": 2e-2}, device="cpu"), run(FASTER)]
    assert [(each.digest, each.was) for each in changes(history)] == [(each.digest, "") for each in history[:2]]
