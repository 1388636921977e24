"""Verdicts in words that a reader knows."""

import re

import pytest

from lab.evidence.source import ROOT
from lab.verdict import plain_words
from lab.verdict.judge import Status
from lab.website.verdict_words import case_word, claim_mark, claim_word, look, mark_words, status_counts, verdict_word


@pytest.mark.parametrize(
    ("status", "mark", "word"),
    [("refuted", "equivalent", "tie"), ("refuted", "equivalent, provisional", "tie"),
     ("refuted", "regressed", "slower"),
     ("refuted", "", "does not hold"), ("rerun-noise", "", "too noisy to call"), ("no-evidence", "", "not measured"),
     ("supported", "provisional", "holds"), ("fresh", "", "evidence holds"), ("else", "", "else")],
)  # fmt: skip
def test_each_verdict_has_a_word(status: str, mark: str, word: str) -> None:
    assert verdict_word(status, mark) == word


def test_a_wrong_result_is_called_one_and_another_rejection_is_not() -> None:
    assert verdict_word("rejected", "", "wrong result of the subject: off by a lot") == "wrong result"
    assert verdict_word("rejected", "", "the subject is faster than the memory") == "not credible"


def test_a_count_of_rejected_claims_says_why_they_were() -> None:
    counted = status_counts([{"supported": 3, "rival's result wrong": 2}, {"supported": 1}])
    assert [(each.status, each.word, each.claims) for each in counted] == [
        ("supported", "holds", 4), ("rejected", "rival's result wrong", 2),
    ]  # fmt: skip
    (both,) = status_counts([{"wrong result": 1, "not credible": 2}])
    assert (both.status, both.word, both.claims) == ("rejected", "not credible or wrong result", 3)


def test_a_count_of_claims_that_do_not_hold_says_how_many_are_mixed() -> None:
    counted = status_counts([{"refuted": 2, "mixed": 3}, {"mixed": 1, "supported": 1}])
    assert [f"{each.word} {each.claims}{each.also}" for each in counted] == ["holds 1", "does not hold 6 (4 mixed)"]


def test_no_word_is_the_name_of_a_rule_that_readers_do_not_know() -> None:
    assert not set(map(str, Status)) & {verdict_word(status) for status in Status}


def test_a_mark_that_the_word_tells_is_not_told_twice() -> None:
    assert mark_words("equivalent, provisional") == "provisional"
    assert mark_words("one draw, noisy") == "one draw of the compiler, noisy"
    assert mark_words("") == ""


def case(status: str, low: float, high: float, mark: str = "") -> dict[str, object]:
    return {"status": status, "mark": mark, "reason": "", "low": low, "high": high}


def claim(
    status: str, *cases: dict[str, object], measure: str = "speedup", threshold: float = 1.05
) -> dict[str, object]:
    by_name = {str(n): each for n, each in enumerate(cases)}
    return {"status": status, "mark": "", "measure": measure, "threshold": threshold, "cases": by_name}


FASTER, TIED, OPEN = case("supported", 1.1, 1.2), case("supported", 0.99, 1.01), case("inconclusive", 0.95, 1.1)
TIED_OUT, SLOWER = case("refuted", 0.99, 1.01, "equivalent"), case("refuted", 0.8, 0.9, "regressed")


def test_a_case_is_called_by_where_its_interval_lies_and_bytes_by_their_status() -> None:
    words = [case_word(each) for each in (FASTER, TIED, OPEN, SLOWER, case("inconclusive", 0.95, 0.99))]
    assert words == ["faster", "tie", "undecided", "slower", "slower, size unclear"]
    assert case_word(case("inconclusive", 0.99, 1.01)) == "undecided"
    assert case_word(FASTER, "traffic") == "holds"


@pytest.mark.parametrize(
    ("status", "cases", "word"),
    [("supported", (FASTER, FASTER), "faster"), ("supported", (FASTER, TIED), "holds"),
     ("refuted", (TIED_OUT, OPEN), "does not hold"), ("refuted", (TIED_OUT, FASTER), "mixed"),
     ("refuted", (TIED_OUT, SLOWER), "does not hold"), ("inconclusive", (FASTER, OPEN), "undecided"),
     ("no-evidence", (), "not measured")],
)  # fmt: skip
def test_a_claim_is_called_as_its_cases_are_where_these_agree(
    status: str, cases: tuple[dict[str, object], ...], word: str
) -> None:
    assert claim_word(claim(status, *cases)) == word


def test_a_claim_that_fails_is_not_called_a_tie_where_that_reads_as_if_it_held() -> None:
    behind = case("refuted", 0.987, 0.998, "equivalent")
    assert claim_word(claim("refuted", behind, TIED, threshold=1)) == "mixed"
    assert claim_word(claim("refuted", behind, behind, threshold=1)) == "does not hold"
    assert claim_word(claim("refuted", behind, behind)) == "tie", "and not a twentieth faster"
    assert claim_word(claim("supported", TIED, TIED, threshold=0.95)) == "tie"


def test_a_claim_is_marked_by_what_weakens_its_cases() -> None:
    marked = [case("supported", 1.1, 1.2, mark) | {"ratio": 1.15} for mark in ("noisy, provisional", "provisional")]
    assert claim_mark(claim("supported", *marked)) == "partly noisy, provisional"
    assert claim_mark(claim("supported", *marked[:1]) | {"mark": "one draw"}) == "one draw, noisy, provisional"
    assert claim_mark(claim("rerun-noise", *marked)) == "provisional", "its word says that it is noisy"
    unmeasured = {"status": "no-evidence", "mark": "", "reason": ""}
    assert claim_mark(claim("no-evidence", unmeasured)) == ""
    assert claim_mark(claim("no-evidence", unmeasured, *marked)) == "partly noisy, provisional"


def test_a_verdict_is_coloured_by_what_it_says() -> None:
    assert [look("tie", "supported"), look("slower", "supported"), look("faster", "supported")] == [
        "supported", "refuted", "supported",
    ]  # fmt: skip


def test_the_policy_page_explains_no_word_that_is_never_printed() -> None:
    template = (ROOT / "site_templates" / "policy.html").read_text(encoding="utf-8")
    explained = " ".join(template.partition('id="words"')[2].partition("<h3")[0].split())
    every = (plain_words.STATUS_WORDS, plain_words.ABOVE_PARITY, plain_words.ACROSS_PARITY, plain_words.BELOW_PARITY)
    printed = {plain_words.MIXED, *(word for words in every for word in words.values())}
    quoted = {word.lower() for word in re.findall("“([^”]*)”", explained)}
    assert len(quoted) > 5
    assert quoted <= printed
