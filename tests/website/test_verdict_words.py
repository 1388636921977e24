"""Verdicts in words that a reader knows."""

import pytest

from lab.verdict.judge import Status
from lab.website.pages.verdict_words import claim_mark, mark_words, verdict_word


@pytest.mark.parametrize(
    ("status", "mark", "word"),
    [("refuted", "equivalent", "tie"), ("refuted", "equivalent, provisional", "tie"),
     ("refuted", "regressed", "slower"),
     ("refuted", "", "refuted"), ("rerun-noise", "", "too noisy to call"), ("no-evidence", "", "not measured"),
     ("supported", "provisional", "supported"), ("fresh", "", "fresh")],
)  # fmt: skip
def test_each_verdict_has_a_word(status: str, mark: str, word: str) -> None:
    assert verdict_word(status, mark) == word


def test_a_wrong_result_is_called_one_and_another_rejection_is_not() -> None:
    assert verdict_word("rejected", "", "wrong result of the subject: off by a lot") == "wrong result"
    assert verdict_word("rejected", "", "the subject is faster than the memory") == "rejected"


def test_no_word_is_the_name_of_a_rule_that_readers_do_not_know() -> None:
    assert not {"rerun-noise", "no-evidence"} & {verdict_word(status) for status in Status}


def test_a_mark_that_the_word_tells_is_not_told_twice() -> None:
    assert mark_words("equivalent, provisional") == "provisional"
    assert mark_words("one draw, noisy") == "one draw of the compiler, noisy"
    assert mark_words("") == ""


REFUTED_TIE, REFUTED = ("refuted", "equivalent, provisional"), ("refuted", "")


@pytest.mark.parametrize(
    ("cases", "found"),
    [([REFUTED_TIE, REFUTED_TIE], "equivalent"), ([REFUTED_TIE, ("inconclusive", "")], "equivalent"),
     ([REFUTED_TIE, REFUTED], ""), ([REFUTED_TIE, ("supported", "")], ""), ([REFUTED_TIE, ("rerun-noise", "")], ""),
     ([("refuted", "regressed")], "regressed"), ([], "")],
)  # fmt: skip
def test_a_claim_is_a_tie_where_all_that_refutes_it_is_and_nothing_else_is_told(
    cases: list[tuple[str, str]], found: str
) -> None:
    told = {str(number): {"status": status, "mark": mark} for number, (status, mark) in enumerate(cases)}
    assert claim_mark({"status": "refuted", "mark": "", "cases": told}) == found


def test_a_claim_that_rests_on_one_draw_says_so_beside_what_is_so_instead() -> None:
    cases = {"case": {"status": "refuted", "mark": "equivalent, one draw"}}
    mark = claim_mark({"status": "refuted", "mark": "one draw", "cases": cases})
    assert (verdict_word("refuted", mark), mark_words(mark)) == ("tie", "one draw of the compiler")
