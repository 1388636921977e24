"""Decision records: parsed strictly, tied to claims, and aged by what the evidence says now."""

import datetime
from pathlib import Path

import pytest
from counting import PLAIN_MOVES_TWICE, counted_run, once
from factory import measured_run

from lab.errors import DefinitionError
from lab.verdict.results import ClaimResult, load_run
from lab.website.decisions import Freshness, check_claims, freshness, load_decisions, refuse_unacknowledged, standings

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
    folder.mkdir(exist_ok=True)
    (folder / "0001-use-fused.md").write_text(text.replace("{claim}", claim))
    return folder


def claims_of(parent: Path, seconds: dict[str, float]) -> dict[str, ClaimResult]:
    run = load_run(measured_run(parent, seconds))
    return {claim.claim.name: claim for claim in run.experiments[0].claims}


def state(tmp_path: Path, seconds: dict[str, float], today: datetime.date = TODAY) -> Freshness:
    (decision,) = load_decisions(write(tmp_path / "decisions"))
    claims = claims_of(tmp_path, seconds)
    return freshness(standings(decision, lambda experiment, claim, digest: claims.get(claim), today))


def test_a_decision_whose_claim_is_supported_is_fresh(tmp_path):
    assert state(tmp_path, FAST) is Freshness.FRESH


def test_a_decision_whose_claim_is_refuted_is_challenged_and_must_be_acknowledged(tmp_path):
    (decision,) = load_decisions(write(tmp_path / "decisions"))
    claims = claims_of(tmp_path, SLOW)
    found = standings(decision, lambda experiment, claim, digest: claims[claim], TODAY)
    assert freshness(found) is Freshness.CHALLENGED
    with pytest.raises(DefinitionError, match=f"{CLAIM} is refuted, not supported"):
        refuse_unacknowledged(decision, found)


def test_an_acknowledged_challenge_may_be_published(tmp_path):
    text = RECORD.replace("---\nBecause", "acknowledged: being reconsidered\n---\nBecause")
    (decision,) = load_decisions(write(tmp_path / "decisions", text))
    claims = claims_of(tmp_path, SLOW)
    refuse_unacknowledged(decision, standings(decision, lambda e, claim, d: claims[claim], TODAY))


def test_a_decision_past_its_review_date_is_expired(tmp_path):
    assert state(tmp_path, FAST, datetime.date(2026, 7, 1)) is Freshness.EXPIRED


def test_a_decision_drifts_when_the_value_moved_and_the_verdict_holds(tmp_path):
    text = RECORD.replace("expects: supported", "expects: supported\n    evidence: abc123")
    (decision,) = load_decisions(write(tmp_path / "decisions", text))
    now = claims_of(tmp_path / "now", FAST)
    then = claims_of(tmp_path / "then", {"torch-fused": 30e-6, "triton-fused-rmsnorm": 18e-6})
    found = standings(decision, lambda e, claim, digest: (then if digest else now)[claim], TODAY)
    assert freshness(found) is Freshness.DRIFTED


def test_a_decision_on_an_unknown_claim_is_an_error_that_lists_the_known_ones(tmp_path):
    records = load_decisions(write(tmp_path / "decisions", claim="no-such-claim"))
    with pytest.raises(DefinitionError, match=r"unknown claim normalization-fusion/no-such-claim.*one/a-claim"):
        check_claims(records, {"one": ["a-claim"]})


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        pytest.param("status: accepted", "status: maybe", "status is 'maybe'", id="unknown status"),
        pytest.param("title: Use the fused kernel", "titel: x", "unknown field 'titel'", id="misspelt field"),
        pytest.param("date: 2026-01-02", "date: soon", "field 'date' is 'soon'", id="no date"),
        pytest.param("expects: supported", "expects: yes-please", "expects is 'yes-please'", id="unknown verdict"),
        pytest.param("    expects: supported\n", "", "claim, expects", id="no expectation"),
        pytest.param("---\ntitle", "title", "front matter", id="no front matter"),
        pytest.param("status: accepted", "status: [", "not valid YAML", id="broken YAML"),
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
    text = RECORD.replace("status: accepted", "status: superseded")
    (decision,) = load_decisions(write(tmp_path / "decisions", text))
    claims = claims_of(tmp_path, SLOW)
    refuse_unacknowledged(decision, standings(decision, lambda e, claim, d: claims[claim], TODAY))


def test_a_decision_that_rests_on_nothing_is_refused(tmp_path):
    head = RECORD.split("rests_on:")[0]
    with pytest.raises(DefinitionError, match="rests_on is empty"):
        load_decisions(write(tmp_path / "decisions", head + "rests_on: []\n---\nx\n"))


def test_a_pin_to_evidence_that_is_not_published_is_refused(tmp_path):
    text = RECORD.replace("expects: supported", "expects: supported\n    evidence: abc123")
    records = load_decisions(write(tmp_path / "decisions", text))
    with pytest.raises(DefinitionError, match="'abc123', which is not published"):
        check_claims(records, {"normalization-fusion": [CLAIM]}, ["def456"])


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
    (decision,) = load_decisions(write(tmp_path / "decisions", text))
    now, before = (
        {claim.claim.name: claim for claim in counted_run(plain=once(times, times)).experiments[0].claims}
        for times in (3.0, then)
    )
    name = PLAIN_MOVES_TWICE.name
    found = standings(decision, lambda e, c, digest: (before if digest else now)[name], TODAY)
    assert freshness(found) is state
