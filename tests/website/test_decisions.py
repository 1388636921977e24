"""Decision records: parsed strictly, tied to claims, and aged by what the evidence says now."""

import dataclasses
import datetime
import re
import subprocess
from functools import cache
from pathlib import Path
from types import SimpleNamespace as View

import pytest
from counting import PLAIN_MOVES_TWICE, counted_run, once
from factory import plan_of, records_of

from lab.errors import DefinitionError
from lab.evidence.source import ROOT
from lab.verdict.judge_run import judge_run
from lab.verdict.results import RunResult
from lab.website.data.judged import Judged
from lab.website.data.published import experiment_data
from lab.website.decision_figures import DecisionReferences
from lab.website.decision_records import check_records, cited, load_decisions
from lab.website.decisions import Decision, Freshness, SupportStanding, freshness, refuse_unacknowledged, standings
from lab.website.figure import Figure
from lab.website.outputs import SiteContext
from lab.website.pages.decisions import came_out, decision_rows, support_view
from lab.website.pages.experiment import decision_link, decision_state
from lab.website.pages.labels import case_label
from lab.website.table import Link, plain
from lab.website.wording.references import TRAVELLING

CLAIM = "large-triton-rmsnorm-beats-torch-fused"
RECORD = """---
title: Use the fused kernel
status: accepted
date: 2026-01-02
review_by: 2026-06-30
rests_on:
  - claim: normalization-fusion/{claim}
    expects: supported
---
Because it is faster.
"""
TODAY = datetime.date(2026, 3, 1)
FAST = {"torch-fused": 30e-6, "triton-fused-rmsnorm": 22e-6}
SLOW = {"torch-fused": 30e-6, "triton-fused-rmsnorm": 31e-6}


def write(folder: Path, text: str = RECORD, claim: str = CLAIM) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "0001-use-fused.md").write_text(text.replace("{claim}", claim))
    return folder


def judged(run: RunResult, digest: str) -> Judged:
    (result,) = run.experiments
    return Judged(plan=result.plan, data=experiment_data(result, run, digest))


def evidence_of(seconds: dict[str, float], digest: str = "now") -> Judged:
    return judged(measured(tuple(seconds.items())), digest)


@cache
def measured(seconds: tuple[tuple[str, float], ...]) -> RunResult:
    plan = plan_of()
    return judge_run(plan, records_of(plan, dict(seconds)))


def record(tmp_path: Path, text: str = RECORD) -> Decision:
    (decision,) = load_decisions(write(tmp_path / "decisions", text))
    return decision


def standing(
    tmp_path: Path, seconds: dict[str, float], text: str = RECORD, today: datetime.date = TODAY
) -> tuple[SupportStanding, ...]:
    return standings(record(tmp_path, text), [evidence_of(seconds)], [], today)


def gate(tmp_path: Path, seconds: dict[str, float], text: str = RECORD) -> None:
    now = evidence_of(seconds)
    decision = record(tmp_path, text)
    refuse_unacknowledged(decision, standings(decision, [now], [], TODAY), [now])


def test_a_decision_whose_claim_is_supported_is_fresh(tmp_path):
    assert freshness(standing(tmp_path, FAST)) is Freshness.FRESH


def test_a_run_without_a_gpu_challenges_no_decision_that_was_made_with_one(tmp_path):
    plan = plan_of("on-a-cpu", device="cpu", sweeps=3)
    on_a_cpu = judged(judge_run(plan, records_of(plan, {"torch-fused": 1e-3})), "cpu")
    (support,) = standings(record(tmp_path), [on_a_cpu], [], TODAY)
    assert (support.freshness, support.why, support.now.status) == (Freshness.FRESH, "", "no-evidence")
    (late,) = standings(record(tmp_path), [on_a_cpu], [], datetime.date(2027, 1, 1))
    assert late.freshness is Freshness.EXPIRED


def test_a_decision_whose_claim_is_refuted_is_challenged_and_must_be_acknowledged(tmp_path):
    assert freshness(standing(tmp_path / "here", SLOW)) is Freshness.CHALLENGED
    with pytest.raises(DefinitionError, match=f"{CLAIM} is refuted, not supported"):
        gate(tmp_path, SLOW)


def test_a_challenge_shows_what_was_measured(tmp_path):
    decision, now = record(tmp_path), on_gpu(evidence_of(SLOW, "bbbb"), OLD_GPU, "2026-01-03T00:00:00Z")
    supports = standings(decision, [now], [now], TODAY)
    (row,) = decision_rows(SiteContext(label="", current=[now], published=[now], decisions=[(decision, supports)]))
    assert re.search(r"Now “slower”, expected “holds”: 0\.969× \[0\.\d+, 0\.\d+\] at \S+ \w+\.$", plain(row.why[0]))
    pointed = [part.source for part in row.why[0] if isinstance(part, Figure)]
    assert all(each.startswith("site:experiments/normalization-fusion/data.json#/claims/") for each in pointed)


SENTENCE = "acknowledged: being reconsidered\n---\nBecause"


@pytest.mark.parametrize(
    ("claim", "seconds", "known"),
    [
        pytest.param(CLAIM, SLOW, "refuted", id="challenged"),
        pytest.param(CLAIM, SLOW, "[inconclusive, refuted]", id="one of two"),
        pytest.param("no-such-claim", FAST, "orphaned", id="orphaned"),
    ],
)
def test_what_is_acknowledged_may_be_published(tmp_path, claim, seconds, known):
    text = RECORD.replace("---\nBecause", SENTENCE).replace("{claim}", claim)
    gate(tmp_path, seconds, text.replace("expects: supported", f"expects: supported\n    acknowledged: {known}"))


@pytest.mark.parametrize("known", ["", "\n    acknowledged: inconclusive"], ids=["a sentence alone", "another verdict"])
def test_what_was_acknowledged_does_not_cover_what_comes_later(tmp_path, known):
    text = RECORD.replace("---\nBecause", SENTENCE).replace("expects: supported", f"expects: supported{known}")
    with pytest.raises(DefinitionError, match=f"{CLAIM} is refuted, .*`acknowledged: refuted` beside the claim"):
        gate(tmp_path, SLOW, text)


def test_a_decision_past_its_review_date_is_expired(tmp_path):
    assert freshness(standing(tmp_path, FAST, today=datetime.date(2026, 7, 1))) is Freshness.EXPIRED


@pytest.mark.parametrize(
    ("wanted", "state"),
    [
        pytest.param("'<99'", Freshness.FRESH, id="within"),
        pytest.param("'<2.0'", Freshness.EXPIRED, id="beyond"),
    ],
)
def test_a_decision_expires_where_the_evidence_leaves_its_range_of_software(tmp_path, wanted, state):
    text = RECORD.replace("rests_on:", f"software: {{torch: {wanted}}}\nrests_on:")
    (support,) = standing(tmp_path, FAST, text)
    assert support.freshness is state
    assert ("torch of the evidence is" in support.why) == (state is Freshness.EXPIRED)


def test_software_that_the_evidence_does_not_name_is_outside_of_any_range(tmp_path):
    decision = record(tmp_path, RECORD.replace("rests_on:", "software: {quack-kernels: '>=0'}\nrests_on:"))
    known = evidence_of(FAST)
    (support,) = standings(decision, [known], [], TODAY)
    assert support.freshness is Freshness.EXPIRED
    assert "quack-kernels of the evidence is not on record" in support.why


def test_a_decision_drifts_when_the_value_moved_and_the_verdict_holds(tmp_path):
    text = RECORD.replace("expects: supported", "expects: supported\n    evidence: abc123")
    now = evidence_of(FAST)
    then = evidence_of({"torch-fused": 30e-6, "triton-fused-rmsnorm": 18e-6}, "abc123def")
    (support,) = standings(record(tmp_path, text), [now], [then, now], TODAY)
    assert support.freshness is Freshness.DRIFTED
    assert support.then is not None
    assert support.then.judged is then


def test_a_decision_on_a_claim_that_nothing_makes_is_orphaned_and_told_which_there_are(tmp_path):
    text = RECORD.replace("{claim}", "no-such-claim")
    assert freshness(standing(tmp_path / "here", FAST, text)) is Freshness.ORPHANED
    with pytest.raises(DefinitionError, match=rf"no-such-claim is an unknown claim.*normalization-fusion/{CLAIM}"):
        gate(tmp_path, FAST, text)


def test_each_claim_that_flips_challenges_exactly_the_decisions_that_rest_on_it(tmp_path):
    """Every claim of the evidence in turn, under records that rest on one, on two, or on none of those that flip."""
    now = evidence_of(FAST)
    names = list(now.data["claims"])
    expects = {name: now.data["claims"][name]["status"] for name in names}
    rests = {f"{number:04}-x": (name, names[number - 1]) for number, name in enumerate(names)}
    for slug, claims in rests.items():
        (tmp_path / "all").mkdir(exist_ok=True)
        lines = "".join(
            f"  - {{claim: normalization-fusion/{claim}, expects: {expects[claim]}}}\n"
            for claim in dict.fromkeys(claims)
        )
        (tmp_path / "all" / f"{slug}.md").write_text(RECORD.split("  - claim")[0] + lines + "---\nSo be it.\n")
    records = load_decisions(tmp_path / "all")
    assert {freshness(standings(each, [now], [], TODAY)) for each in records} == {Freshness.FRESH}
    for flipped in names:
        other = "refuted" if expects[flipped] != "refuted" else "supported"
        claims = {**now.data["claims"], flipped: {**now.data["claims"][flipped], "status": other}}
        mutant = Judged(plan=now.plan, data={**now.data, "claims": claims})
        by_slug = {each.slug: standings(each, [mutant], [now], TODAY) for each in records}
        challenged = {slug for slug, each in by_slug.items() if freshness(each) is Freshness.CHALLENGED}
        assert challenged == {slug for slug, claims_of in rests.items() if flipped in claims_of}
        assert {freshness(by_slug[slug]) for slug in by_slug.keys() - challenged} == {Freshness.FRESH}
        for each in records:
            if each.slug in challenged:
                with pytest.raises(DefinitionError, match=f"{flipped} is {other}"):
                    refuse_unacknowledged(each, by_slug[each.slug], [mutant])


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        pytest.param("status: accepted", "status: maybe", "status is 'maybe'", id="unknown status"),
        pytest.param("title: Use the fused kernel", "titel: x", "unknown field 'titel'", id="misspelt field"),
        pytest.param("date: 2026-01-02", "date: soon", "field 'date' is 'soon'", id="no date"),
        pytest.param("expects: supported", "expects: yes-please", "expects is 'yes-please'", id="unknown verdict"),
        pytest.param("    expects: supported\n", "", "must have claim and expects", id="no expectation"),
        pytest.param("---\ntitle", "title", "front matter", id="no front matter"),
        pytest.param("status: accepted", "status: [", "not valid YAML", id="broken YAML"),
        pytest.param("rests_on:", "deciders: [1]\nrests_on:", "must be a list of names", id="a decider without name"),
        pytest.param("rests_on:", "software: {jax: '<1'}\nrests_on:", "software is 'jax'", id="unknown software"),
        pytest.param("rests_on:", "software: {torch: new}\nrests_on:", "a range of versions", id="no range"),
    ],
)
def test_a_record_that_does_not_fit_is_refused_by_name(tmp_path, old, new, says):
    folder = write(tmp_path / "decisions", RECORD.replace(old, new, 1))
    with pytest.raises(DefinitionError, match=r"0001-use-fused") as refusal:
        load_decisions(folder)
    assert says in str(refusal.value)


@pytest.mark.parametrize("blank", ["acknowledged:", "acknowledged: false", 'acknowledged: ""'])
def test_a_blank_acknowledgement_opens_no_gate(tmp_path, blank):
    folder = write(tmp_path / "decisions", RECORD.replace("---\nBecause", f"{blank}\n---\nBecause"))
    with pytest.raises(DefinitionError, match="field 'acknowledged'"):
        load_decisions(folder)


def test_a_superseded_decision_may_be_challenged(tmp_path):
    gate(tmp_path, SLOW, RECORD.replace("status: accepted", "status: superseded"))


def test_an_experiment_says_nothing_of_how_fresh_a_closed_decision_is(tmp_path):
    now = evidence_of(SLOW)
    links = []
    for status in ("accepted", "superseded"):
        decision = record(tmp_path / status, RECORD.replace("status: accepted", f"status: {status}"))
        links.append(decision_link(decision, standings(decision, [now], [], TODAY)))
    assert [(link.status, link.freshness) for link in links] == [("accepted", "challenged"), ("superseded", "")]


@pytest.mark.parametrize(
    ("links", "told"),
    [
        ([], "none rests on it"),
        ([("superseded", "")], "none in force (1 superseded)"),
        ([("accepted", "fresh"), ("accepted", "fresh")], "2 evidence holds"),
        ([("rejected", ""), ("accepted", "expired")], "1 review due, 1 rejected"),
    ],
)
def test_an_experiment_counts_the_decisions_that_it_lists(links, told):
    assert decision_state([View(status=status, freshness=state) for status, state in links]) == told


def test_nor_do_lists_of_decisions(tmp_path):
    decision = record(tmp_path, RECORD.replace("status: accepted", "status: superseded"))
    supports = standings(decision, [evidence_of(SLOW)], [], TODAY)
    (row,) = decision_rows(SiteContext(label="", current=(), published=(), decisions=[(decision, supports)]))
    assert (row.status, row.freshness, row.why, row.acknowledged, row.attention) == ("superseded", "", (), "", False)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        pytest.param("superseded", "0002-use-another", "", id="a record that is marked so"),
        pytest.param("accepted", "0002-use-another", "set it to 'superseded'", id="one that is still in force"),
        pytest.param("superseded", "0000-before", "not an earlier record", id="a later one"),
    ],
)
def test_a_record_supersedes_an_earlier_one_that_says_so(tmp_path, old, new, says):
    folder = write(tmp_path / "decisions", RECORD.replace("status: accepted", f"status: {old}"))
    later = RECORD.replace("rests_on:", "supersedes: 0001-use-fused\nrests_on:").replace("{claim}", CLAIM)
    (folder / f"{new}.md").write_text(later)
    records = load_decisions(folder)
    if not says:
        check_records(records, [])
        return
    with pytest.raises(DefinitionError, match=says):
        check_records(records, [])


def test_a_record_that_supersedes_none_there_is_is_refused(tmp_path):
    decision = record(tmp_path, RECORD.replace("rests_on:", "supersedes: 0000-none\nrests_on:"))
    with pytest.raises(DefinitionError, match=r"'0000-none', which is no record; there are \['0001-use-fused'\]"):
        check_records([decision], [])


def test_a_decision_that_rests_on_nothing_is_refused(tmp_path):
    head = RECORD.split("rests_on:")[0]
    with pytest.raises(DefinitionError, match="rests_on is empty"):
        load_decisions(write(tmp_path / "decisions", head + "rests_on: []\n---\nx\n"))


def test_a_pin_to_evidence_that_is_not_published_is_refused(tmp_path):
    text = RECORD.replace("expects: supported", "expects: supported\n    evidence: abc123")
    records = load_decisions(write(tmp_path / "decisions", text))
    with pytest.raises(DefinitionError, match="'abc123', which is not published"):
        check_records(records, ["def456"])


@pytest.mark.parametrize(
    ("then", "state"),
    [
        pytest.param(3.0, Freshness.FRESH, id="the same"),
        pytest.param(3.08, Freshness.FRESH, id="as far off as passes are"),
        pytest.param(3.10, Freshness.DRIFTED, id="further off"),
        pytest.param(2.90, Freshness.DRIFTED, id="further off, the other way"),
    ],
)
def test_a_decision_on_traffic_drifts_when_its_bytes_moved_by_more_than_passes_differ(tmp_path, then, state):
    """Plain moves thrice the bytes now."""
    text = RECORD.replace("expects: supported", "expects: supported\n    evidence: abc123")
    name = PLAIN_MOVES_TWICE.name
    now, before = (
        judged(counted_run(plain=once(times, times)), digest) for times, digest in ((3.0, "now"), (then, "abc123"))
    )
    text = text.replace("normalization-fusion/{claim}", f"{now.plan.name}/{name}")
    supports = standings(record(tmp_path, text), [now], [before], TODAY)
    assert freshness(supports) is state


REVIEWED = """reviewed:
  - date: 2026-01-10
    evidence: "aaaa"
    says: Measured again, and it stands.
  - date: 2026-02-10
    evidence: "bbbb"
    says: Measured again on a newer card.
---
Because"""
SLOWER = {"torch-fused": 30e-6, "triton-fused-rmsnorm": 18e-6}


def test_freshness_is_held_against_the_last_review_and_the_first_evidence_stays(tmp_path):
    text = RECORD.replace("expects: supported", "expects: supported\n    evidence: abc123")
    then, now = evidence_of(SLOWER, "abc123def"), evidence_of(FAST, "bbbbbb")
    (support,) = standings(record(tmp_path / "a", text), [now], [then, now], TODAY)
    assert support.freshness is Freshness.DRIFTED
    reviewed = record(tmp_path / "b", text.replace("---\nBecause", REVIEWED))
    (support,) = standings(reviewed, [now], [then, now], TODAY)
    assert support.freshness is Freshness.FRESH
    assert support.then is not None
    assert support.then.judged is then
    assert support.at("bbbb") is not None
    assert [review.says for review in reviewed.reviewed][-1] == "Measured again on a newer card."


@pytest.mark.parametrize(
    ("expected", "measured", "told"),
    [
        (4, 5, "4 of the 5 claims that this run measured came out as expected."),
        (1, 1, "The only claim that this run measured came out as expected."),
        (0, 1, "The only claim that this run measured did not come out as expected."),
        (0, 0, "This run measured none of the claims."),
    ],
)
def test_a_review_counts_only_the_claims_that_its_run_measured(expected, measured, told):
    assert came_out(expected, measured) == told


@pytest.mark.parametrize(
    ("was", "becomes", "message"),
    [
        ("2026-02-10", "2026-01-05", "reviewed is not in order"),
        ("2026-01-10", "2026-01-01", "reviewed is not in order"),
        ('    evidence: "bbbb"\n', "", "each of reviewed must have"),
        ("says: Measured again, and it stands.", "says: ''", "field 'says' is ''"),
    ],
)
def test_a_review_that_is_out_of_order_or_says_nothing_is_refused(tmp_path, was, becomes, message):
    with pytest.raises(DefinitionError, match=message):
        record(tmp_path, RECORD.replace("---\nBecause", REVIEWED.replace(was, becomes)))


def test_a_review_of_evidence_that_is_not_published_is_refused(tmp_path):
    decision = record(tmp_path, RECORD.replace("---\nBecause", REVIEWED))
    check_records([decision], ["aaaa1", "bbbb2"])
    with pytest.raises(DefinitionError, match="is pinned to evidence 'bbbb', which is not published"):
        check_records([decision], ["aaaa1"])


# The same run, before a digest covered the commit that was measured.
RENAMED = {"5d2b8c0abbaf"}


@pytest.mark.parametrize("path", sorted((ROOT / "experiments" / "decisions").glob("*.md")), ids=lambda path: path.stem)
def test_no_record_of_the_lab_lost_evidence_that_it_once_named(path):
    """As far as the history of this checkout goes: what it was decided on, and each review, stay."""
    history = subprocess.run(
        ["git", "log", "-p", "--format=", "--", path], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    named = set(re.findall(r'^\+ +evidence: "([0-9a-f]+)"', history, re.MULTILINE)) - RENAMED
    assert named <= set(re.findall(r'evidence: "([0-9a-f]+)"', path.read_text(encoding="utf-8")))


def test_a_case_that_was_too_noisy_one_time_is_no_drift(tmp_path):
    """The range then and now is that of the cases which could be judged both times."""
    text = RECORD.replace("expects: supported", "expects: supported\n    evidence: abc123")
    now, then = evidence_of(FAST), evidence_of(FAST, "abc123def")
    cases = then.data["claims"][CLAIM]["cases"]
    noisy = next(iter(cases))
    changed = {**cases, noisy: {**cases[noisy], "status": "rerun-noise", "ratio": 9.0, "low": 8.0, "high": 10.0}}
    claims = {**then.data["claims"], CLAIM: {**then.data["claims"][CLAIM], "cases": changed}}
    then = Judged(plan=then.plan, data={**then.data, "claims": claims})
    (support,) = standings(record(tmp_path, text), [now], [then, now], TODAY)
    assert support.freshness is Freshness.FRESH
    view = support_view(support, preview=False)
    assert view.then is not None
    assert view.now is not None
    assert [part.text for part in view.then.span if not isinstance(part, str)] == [
        part.text for part in view.now.span if not isinstance(part, str)
    ]


def on_gpu(item: Judged, gpu: str, finished_utc: str) -> Judged:
    data = {**item.data, "machine": {**item.machine, "gpu": gpu}}
    data["evidence"] = {**item.evidence, "finished_utc": finished_utc}
    return Judged(plan=item.plan, data=data)


OLD_GPU, NEW_GPU = "NVIDIA H100 80GB HBM3", "NVIDIA H200"
PINNED = RECORD.replace("expects: supported", "expects: supported\n    evidence: aaaa")


@pytest.mark.parametrize("times", [FAST, SLOW], ids=["alike", "otherwise"])
def test_another_gpu_model_neither_confirms_nor_challenges_a_decision(tmp_path, times):
    then = on_gpu(evidence_of(FAST, "aaaa"), OLD_GPU, "2026-01-02T00:00:00Z")
    other = on_gpu(evidence_of(times, "bbbb"), NEW_GPU, "2026-01-03T00:00:00Z")
    decision = record(tmp_path, PINNED)
    (support,) = standings(decision, [other], [then, other], TODAY)
    assert (support.freshness, support.now.judged.digest, support.why) == (Freshness.FRESH, "aaaa", "")
    assert support.elsewhere.judged.digest == "bbbb"
    refuse_unacknowledged(decision, [support], [other])
    shown = support_view(support, preview=False)
    assert (shown.now.claim.judged.machine_name, shown.elsewhere.claim.judged.machine_name) == (OLD_GPU, NEW_GPU)
    assert shown.elsewhere.claim.status == ("supported" if times is FAST else "refuted")
    # The experiment's page holds the figures of the other model.
    assert shown.now.span[0].source.startswith("site:runs/aaaa")
    assert not any(isinstance(row.cells[0][0], Link) for row in shown.cases)
    assert support_view(support, preview=True).now.span == ()  # a preview has no pages of other runs


def test_newer_evidence_of_the_same_gpu_model_challenges_though_the_page_shows_another(tmp_path):
    then = on_gpu(evidence_of(FAST, "aaaa"), OLD_GPU, "2026-01-02T00:00:00Z")
    again = on_gpu(evidence_of(SLOW, "cccc"), OLD_GPU, "2026-01-03T00:00:00Z")
    other = on_gpu(evidence_of(FAST, "bbbb"), NEW_GPU, "2026-01-04T00:00:00Z")
    (support,) = standings(record(tmp_path, PINNED), [other], [then, again, other], TODAY)
    assert (support.freshness, support.now.judged.digest) == (Freshness.CHALLENGED, "cccc")


def with_first_case_only(item: Judged, claims: tuple[str, ...]) -> Judged:
    """As a smaller run has it."""
    cut = {name: {**claim, "cases": dict([*claim["cases"].items()][:1]) if name in claims else {}}
           for name, claim in item.data["claims"].items()}  # fmt: skip
    return Judged(plan=item.plan, data={**item.data, "claims": cut})


def test_newer_runs_that_measured_less_are_told_and_others_are_not(tmp_path):
    then = on_gpu(evidence_of(FAST, "aaaa"), OLD_GPU, "2026-01-02T00:00:00Z")
    smaller = with_first_case_only(on_gpu(evidence_of(FAST, "bbbb"), OLD_GPU, "2026-01-03T00:00:00Z"), (CLAIM,))
    other_claims = with_first_case_only(on_gpu(evidence_of(FAST, "cccc"), OLD_GPU, "2026-01-04T00:00:00Z"), ())
    other_gpu = on_gpu(evidence_of(FAST, "dddd"), NEW_GPU, "2026-01-05T00:00:00Z")
    decision, runs = record(tmp_path, PINNED), [then, smaller, other_claims, other_gpu]
    (support,) = standings(decision, [then], runs, TODAY)
    assert [each.judged.digest for each in support.since] == ["bbbb"]
    shown = support_view(support, preview=False)
    name = smaller.evidence["run_id"]
    assert (plain(shown.since), shown.unmeasured_since) == (f"{support.since[0].word} ({name})", False)
    (alone,) = standings(decision, [then], [then, other_claims, other_gpu], TODAY)
    assert (support_view(alone, preview=False).since, support_view(alone, preview=False).unmeasured_since) == ((), True)


def test_what_runs_on_three_boards_say_together_stands_beside_a_claim_where_it_differs(tmp_path):
    now = with_first_case_only(on_gpu(evidence_of(FAST, "aaaa"), OLD_GPU, "2026-01-02T00:00:00Z"), (CLAIM,))
    (case,) = now.data["claims"][CLAIM]["cases"]
    claim = now.plan.claim(CLAIM)
    (support,) = standings(record(tmp_path, PINNED), [now], [now], TODAY)

    def together(status: str, threshold: float = claim.threshold) -> str:
        pool = {"run_count": 3, "boards": 3, "status": status, "ratio": 1.01, "low": 1.005, "high": 1.015}
        pool |= {"threshold": threshold, "scope": claim.scope}
        trust = {"pooled": {now.name: {OLD_GPU: {CLAIM: {case: pool}}}}}
        return plain(support_view(support, preview=False, trust=trust).together)

    assert together("refuted") == "3 runs on 3 boards: does not hold, 1.010× [1.005, 1.015]"
    assert together(support.now.status) == ""
    assert together("refuted", threshold=9.0) == ""  # asked for something else


def test_where_runs_on_three_boards_say_otherwise_at_one_of_several_cases_it_is_named_with_what_they_say(tmp_path):
    now = on_gpu(evidence_of(FAST, "aaaa"), OLD_GPU, "2026-01-02T00:00:00Z")
    first, second, *_ = now.data["claims"][CLAIM]["cases"]
    claim = now.plan.claim(CLAIM)
    (support,) = standings(record(tmp_path, PINNED), [now], [now], TODAY)
    pool = {"run_count": 3, "boards": 3, "status": "refuted", "ratio": 1.01, "low": 1.005, "high": 1.015}
    pool |= {"threshold": claim.threshold, "scope": claim.scope}

    def together(*cases: str) -> str:
        trust = {"pooled": {now.name: {OLD_GPU: {CLAIM: dict.fromkeys(cases, pool)}}}}
        return plain(support_view(support, preview=False, trust=trust).together)

    named = case_label(now.plan.case(second))
    assert together(second) == f"{named}: 3 runs on 3 boards: does not hold, 1.010× [1.005, 1.015]"
    assert together(first, second) == "At some cases runs on three boards say otherwise."


def test_a_review_by_a_run_that_did_not_measure_the_claim_leaves_what_was_seen_before(tmp_path):
    then = on_gpu(evidence_of(FAST, "aaaa"), OLD_GPU, "2026-01-02T00:00:00Z")
    without = with_first_case_only(on_gpu(evidence_of(FAST, "bbbb"), OLD_GPU, "2026-01-03T00:00:00Z"), ())
    reviewed = "reviewed:\n  - date: 2026-01-04\n    evidence: bbbb\n    says: it measured others\nrests_on:"
    (support,) = standings(record(tmp_path, PINNED.replace("rests_on:", reviewed)), [then], [then, without], TODAY)
    assert support.last is not None
    assert support.last.judged.digest == "aaaa"


def test_a_review_on_another_gpu_model_binds_the_decision_to_that_model(tmp_path):
    then = on_gpu(evidence_of(FAST, "aaaa"), OLD_GPU, "2026-01-02T00:00:00Z")
    other = on_gpu(evidence_of(SLOW, "bbbb"), NEW_GPU, "2026-01-03T00:00:00Z")
    reviewed = "reviewed:\n  - date: 2026-01-04\n    evidence: bbbb\n    says: it was measured there too\nrests_on:"
    (support,) = standings(record(tmp_path, PINNED.replace("rests_on:", reviewed)), [other], [then, other], TODAY)
    assert (support.freshness, support.elsewhere, support.now.judged.digest) == (Freshness.CHALLENGED, None, "bbbb")


CITING = PINNED.replace("Because it is faster.", f"It ran {{{{normalization-fusion/claims/{CLAIM}/largest_ratio}}}}.")


def test_a_decision_cites_figures_of_the_gpu_model_that_it_rests_on(tmp_path):
    then = on_gpu(evidence_of(FAST, "aaaa"), OLD_GPU, "2026-01-02T00:00:00Z")
    other = on_gpu(evidence_of(SLOW, "bbbb"), NEW_GPU, "2026-01-03T00:00:00Z")
    decision = record(tmp_path, CITING)
    supports = standings(decision, [other], [then, other], TODAY)
    cites = cited(decision, DecisionReferences(supports, [other], [then, other]))
    (source, value, _) = TRAVELLING.findall(cites.body)[0]
    assert source == f"site:runs/aaaa/normalization-fusion/data.json#/claims/{CLAIM}/largest_ratio"
    assert float(value) > 1, "and not below, as on the other model"
    assert cited(decision, DecisionReferences(supports, [other], (), lenient=True)).body == "It ran –."  # in a preview


def test_a_decision_that_cites_an_experiment_of_another_gpu_model_alone_is_refused(tmp_path):
    then = on_gpu(evidence_of(FAST, "aaaa"), OLD_GPU, "2026-01-02T00:00:00Z")
    other = on_gpu(evidence_of(FAST, "bbbb"), NEW_GPU, "2026-01-03T00:00:00Z")
    elsewhere = Judged(plan=dataclasses.replace(other.plan, name="elsewhere"), data=other.data)
    decision = record(tmp_path, CITING.replace("normalization-fusion/claims", "elsewhere/claims"))
    supports = standings(decision, [then], [then], TODAY)
    says = f"decision 0001-use-fused: .*elsewhere/claims.* would be a figure of {NEW_GPU}, .* evidence of {OLD_GPU};"
    with pytest.raises(DefinitionError, match=says):
        cited(decision, DecisionReferences(supports, [then, elsewhere], [then, elsewhere]))
    same = on_gpu(elsewhere, OLD_GPU, "2026-01-02T00:00:00Z")
    cites = cited(decision, DecisionReferences(supports, [then, elsewhere], [then, same, elsewhere]))
    assert "elsewhere/data.json" in cites.body
