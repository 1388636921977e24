"""An experiment that contradicts itself is refused where it is written, with the legal choices."""

import dataclasses
import math
import re
from typing import Any

import pytest
from factory import DOUBLING, FAST, FAST_BEATS_PLAIN, LARGE, PLAIN, SMALL, profile, small_experiment

from lab import Claim, Output
from lab.errors import DefinitionError


def claim(**changes: Any) -> Claim:
    return dataclasses.replace(FAST_BEATS_PLAIN, **changes)


def assert_refused(message: str, **changes: Any) -> None:
    with pytest.raises(DefinitionError, match=f"^{re.escape(message)}"):
        small_experiment(**changes)


def assert_claim_refused(message: str, **changes: Any) -> None:
    wrong = claim(**changes)
    assert_refused(f"doubling: claim 'fast-beats-plain': {message}", claims=(wrong,), headlines=(wrong,))


def test_a_sound_experiment_is_accepted() -> None:
    assert small_experiment().name == "doubling"


def test_a_case_is_named_after_what_is_computed() -> None:
    assert SMALL.name == "doubling-64x128-float32"


@pytest.mark.parametrize(
    "name", ["", "Doubling", "two words", "a--b", "-a", "a-", "a_b", "a/b", "../a", "ü", "a\n"], ids=repr
)
def test_a_name_that_is_no_plain_slug(name: str) -> None:
    assert_refused(f"experiment: {name!r} is not a plain slug; accepted are lower-case", name=name)


def test_a_profile_whose_name_is_no_plain_slug() -> None:
    assert_refused("doubling: profile: 'Too Fast' is not a plain slug", profiles=(PLAIN, FAST, profile("Too Fast")))


def test_a_claim_whose_name_is_no_plain_slug() -> None:
    wrong = claim(name="fast!")
    assert_refused("doubling: claim: 'fast!' is not a plain slug", claims=(wrong,), headlines=(wrong,))


@pytest.mark.parametrize(
    ("field", "twice", "message"),
    [
        ("cases", (SMALL, LARGE, SMALL), "doubling: case 'doubling-64x128-float32' is defined twice"),
        ("profiles", (PLAIN, FAST, PLAIN), "doubling: profile 'plain' is defined twice"),
        ("claims", (FAST_BEATS_PLAIN, FAST_BEATS_PLAIN), "doubling: claim 'fast-beats-plain' is defined twice"),
    ],
    ids=["case", "profile", "claim"],
)
def test_a_name_that_is_used_twice(field: str, twice: tuple[Any, ...], message: str) -> None:
    assert_refused(message, **{field: twice})


@pytest.mark.parametrize("kind", ["case", "profile", "claim"])
def test_an_experiment_without_any(kind: str) -> None:
    assert_refused(f"doubling: has no {kind}s; at least one is needed", **{f"{kind}s": ()})


def test_a_headline_that_is_no_claim_of_the_experiment() -> None:
    assert_refused(
        "doubling: headline is 'slower'; accepted are ['fast-beats-plain']", headlines=(claim(name="slower"),)
    )


@pytest.mark.parametrize("side", ["subject", "baseline"])
def test_a_claim_about_an_unknown_profile(side: str) -> None:
    assert_claim_refused(f"{side} is 'magic'; accepted are ['plain', 'fast']", **{side: profile("magic")})


def test_a_claim_about_an_unknown_case() -> None:
    other = dataclasses.replace(SMALL, shape=(3,))
    accepted = "['doubling-64x128-float32', 'doubling-4096x4096-float32']"
    assert_claim_refused(f"case is 'doubling-3-float32'; accepted are {accepted}", cases=(other,))


def test_a_claim_about_no_case() -> None:
    assert_claim_refused("has no cases; a claim about nothing cannot be judged", cases=())


def test_a_claim_about_an_unknown_scope() -> None:
    assert_claim_refused(
        "scope is 'wall'; accepted are ['device_cold', 'device_warm', 'graph', 'eager', 'device_dirty']", scope="wall"
    )


@pytest.mark.parametrize("threshold", [0, -1, float("nan")])
def test_a_claim_whose_threshold_is_no_ratio(threshold: float) -> None:
    assert_claim_refused(f"threshold is {threshold}; accepted is a ratio above 0", threshold=threshold)


def test_a_claim_about_a_case_that_a_side_does_not_implement() -> None:
    other = profile("fast", implementations={"tripling": lambda: lambda x: x * 3})
    wrong = claim(subject=other)
    assert_refused(
        "doubling: claim 'fast-beats-plain': operator of fast is 'doubling'; accepted are ['tripling']",
        profiles=(PLAIN, other), claims=(wrong,), headlines=(wrong,),
    )  # fmt: skip


def test_sides_and_thresholds_of_a_claim_that_are_of_another_type() -> None:
    assert_claim_refused("threshold is '1.10'; accepted is a ratio above 0", threshold="1.10")
    assert_claim_refused("subject is 'fast'; accepted is a Profile of the experiment", subject="fast")
    assert_claim_refused("baseline is 'plain'; accepted is a Profile of the experiment", baseline="plain")
    assert_refused("doubling: headline 'fast-beats-plain' is no Claim", headlines=("fast-beats-plain",))


def test_the_headline_scope_is_always_measured() -> None:
    assert_refused("doubling: scopes are ['graph']; 'device_cold' must be among them", scopes=("graph",))


def test_only_graphs_are_replayed_back_to_back() -> None:
    assert_refused(
        "doubling: sustained calls are those of graphs; 'graph' must be among its scopes",
        scopes=("device_cold",), sustained=True,
    )  # fmt: skip


# What results may be


def test_all_results_are_alike_unless_outputs_tell_them_apart() -> None:
    assert DOUBLING.expected(2) == (Output(tolerance=1), Output(tolerance=1))
    outputs = (Output(tolerance=0.5, dtype="float8_e4m3fn"), Output(tolerance=2, scale=4))
    assert dataclasses.replace(DOUBLING, tolerance=None, outputs=outputs).expected(2) == outputs


@pytest.mark.parametrize("changes", [{"tolerance": None}, {"outputs": (Output(tolerance=1),)}], ids=["neither", "both"])
def test_an_operator_without_one_measure_of_its_results(changes: dict[str, Any]) -> None:
    with pytest.raises(DefinitionError, match="operator doubling: give it either a tolerance or outputs"):
        dataclasses.replace(DOUBLING, **changes)


@pytest.mark.parametrize("changes", [{"tolerance": 0}, {"scale": 0.0}, {"tolerance": math.nan}], ids=str)
def test_a_result_that_could_not_be_measured(changes: dict[str, Any]) -> None:
    with pytest.raises(DefinitionError, match=r"output: \w+ is .*; accepted is a number above 0"):
        Output(**({"tolerance": 1} | changes))
