"""Verdicts as lines of text."""

import dataclasses

from counting import PLAIN_MOVES_TWICE, counted_run
from factory import FAST, FAST_BEATS_PLAIN, LARGE, PLAIN, SMALL, plan_of, records_of, small_experiment

from lab.overview import describe_experiment, describe_verdicts
from lab.verdict.judge import Status
from lab.verdict.judge_run import judge_run


def lines_of(**how: bool) -> list[str]:
    beats = dataclasses.replace(FAST_BEATS_PLAIN, cases=(LARGE,))
    return list(describe_verdicts(counted_run(beats, PLAIN_MOVES_TWICE, **how)))


def test_each_claim_has_a_line_for_each_case_with_its_ratio() -> None:
    (speedup,) = [line for line in lines_of() if line.startswith(f"    {'faster':18} {LARGE.name}") and "[" in line]
    assert abs(float(speedup.split()[2].rstrip("×")) - 2) < 0.01


def test_a_claim_about_traffic_tells_bytes_and_has_no_interval() -> None:
    (line,) = [line for line in lines_of() if "the bytes" in line and LARGE.name in line]
    assert line.split()[:2] == ["holds", LARGE.name]
    assert line.split(maxsplit=2)[2] == "3.00× the bytes, 403 MB against 134 MB  one pass"


def test_without_counters_it_says_why_there_is_nothing() -> None:
    (line,) = [line for line in lines_of(profiling=False) if "not counted" in line]
    word, _, reason = line.partition(LARGE.name)
    assert word.strip() == "not measured"
    assert reason.strip() == "subject not counted: the run was measured without profiling, or ended before it"


def test_a_claim_says_its_threshold_in_words() -> None:
    assert [line for line in lines_of() if line.startswith("  faster ") and ", by 2 % or more." in line]
    assert [line for line in lines_of() if "times its bytes" in line]


def test_a_claim_and_its_cases_are_called_by_the_words_of_the_pages() -> None:
    plan = plan_of(experiments=[small_experiment()], include=())
    times = {(SMALL.name, "fast"): 1e-5, (SMALL.name, "plain"): 2e-5}
    lines = list(describe_verdicts(judge_run(plan, records_of(plan, times))))
    words = [line.split()[0] for line in lines if line.strip()]
    assert words.count("faster") == 2
    assert not set(words) & set(map(str, Status))


def test_claims_about_cases_that_a_run_leaves_out_are_counted_in_one_line() -> None:
    of_large = dataclasses.replace(FAST_BEATS_PLAIN, name="large-beats", cases=(LARGE,))
    plan = plan_of(experiments=[small_experiment(claims=(FAST_BEATS_PLAIN, of_large))], include=())
    lines = list(describe_verdicts(judge_run(plan, records_of(plan, {"fast": 1e-5, "plain": 2e-5}))))
    assert "  1 claim is about cases that are not in this run" in lines


def test_a_name_without_words_has_no_colon() -> None:
    bare = small_experiment(question="", profiles=(dataclasses.replace(PLAIN, technique=""), FAST))
    lines = list(describe_experiment(bare))
    assert (lines[0], "    plain" in lines) == ("doubling", True)
    assert next(describe_experiment(small_experiment())) == "doubling: Is it fast?"
