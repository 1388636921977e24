"""What a claim asks for, in words."""

import dataclasses

import pytest
from factory import FAST_BEATS_PLAIN

from lab.definition.catalogue import load_experiments
from lab.definition.claim_words import claim_sentence, in_graph, requirement, requirement_over
from lab.definition.experiment import Claim


def claim(text: str = "Fast is faster than plain.", **changes: object) -> Claim:
    return dataclasses.replace(FAST_BEATS_PLAIN, text=text, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("threshold", "words"),
    [(1.02, "faster by 2 % or more"), (1.2, "faster by 20 % or more"), (0.98, "at most 2 % slower"),
     (1.5, "at least 1.5 times as fast"), (3, "at least 3 times as fast"), (1, "at least as fast"),
     (1 / 7.47, "the other is at most 7.47 times as fast")],
)  # fmt: skip
def test_a_threshold_is_reported_in_words(threshold: float, words: str) -> None:
    assert requirement(claim(threshold=threshold)) == words


def test_what_a_claim_about_bytes_asks_for() -> None:
    assert requirement(claim(threshold=1.6, measure="traffic")) == "the other moves at least 1.6 times its bytes"
    least = claim(threshold=1 / 1.1, measure="traffic", baseline=None)
    assert requirement(least) == "at most 1.1 times the bytes that must be moved"


def test_a_sentence_without_its_threshold_is_given_it() -> None:
    assert claim_sentence(claim()) == "Fast is faster than plain, by 2 % or more."
    assert claim_sentence(claim("Fast keeps up.", threshold=0.98)) == "Fast keeps up, at most 2 % slower."


@pytest.mark.parametrize(
    ("text", "threshold"),
    [("Fast is at least 2 % faster than plain.", 1.02), ("Fast is at most 2 % behind plain.", 0.98),
     ("Fast is at least 0.98 times as fast as plain.", 0.98), ("Fast is at least 3 times as fast.", 3),
     ("Fast is at least twice as fast.", 2)],
)  # fmt: skip
def test_a_sentence_that_tells_its_threshold_stays_as_it_is(text: str, threshold: float) -> None:
    assert claim_sentence(claim(text, threshold=threshold)) == text


def test_another_scope_than_the_headlines_is_reported_once() -> None:
    assert claim_sentence(claim(scope="eager")).endswith("by 2 % or more, as an eager caller waits.")
    replayed = in_graph(claim("Fast is at least 2 % faster than plain."))
    assert (replayed.name, replayed.scope) == ("fast-beats-plain-in-graph", "graph")
    assert claim_sentence(replayed) == "Fast is at least 2 % faster than plain, in a CUDA graph."


@pytest.mark.parametrize("experiment", load_experiments(), ids=lambda experiment: experiment.name)
def test_each_claim_of_the_lab_tells_its_threshold_by_itself(experiment) -> None:
    if not experiment.self_test:
        assert [c.name for c in experiment.claims if claim_sentence(c) != c.text] == []


@pytest.mark.parametrize("experiment", load_experiments(), ids=lambda experiment: experiment.name)
def test_each_headline_in_gpu_time_is_asked_in_a_graph_too(experiment) -> None:
    """But of a search, which is asked in the scope that it names."""
    if "graph" not in experiment.scopes or experiment.self_test or experiment.name == "configuration-search":
        return
    replayed = [c for c in experiment.claims if c.scope == "graph"]
    for headline in experiment.headlines:
        pair = (headline.subject, headline.baseline, headline.cases)
        same = [c for c in replayed if (c.subject, c.baseline, c.cases) == pair]
        assert [c.threshold for c in same] == [headline.threshold], headline.name


@pytest.mark.parametrize(
    ("threshold", "words"),
    [(1.02, "faster than Liger by 2 % or more"), (0.98, "at most 2 % slower than Liger"),
     (3, "at least 3 times as fast as Liger"), (1 / 7.47, "Liger is at most 7.47 times as fast")],
)  # fmt: skip
def test_a_threshold_is_reported_with_its_rival(threshold: float, words: str) -> None:
    assert requirement_over(claim(threshold=threshold), "Liger") == words
