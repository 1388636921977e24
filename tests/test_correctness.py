"""A result is right only if it is a plain tensor of the right form, near the truth, and nothing else was touched."""

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
import torch
from factory import DOUBLING
from torch import Tensor

from lab.correctness import check_profile, compare, verdict
from lab.record import Correctness

SEEDS = (1, 2, 3)


def checked(function: Callable[..., Any], dtype: torch.dtype = torch.float32, tolerance: float = 1) -> Correctness:
    operator = dataclasses.replace(DOUBLING, tolerance=tolerance)
    inputs = [operator.inputs((8, 16), dtype, "cpu", seed) for seed in SEEDS]
    return check_profile(operator, function, inputs, [operator.reference(*i) for i in inputs], SEEDS)


def test_a_right_result_passes_with_its_error_and_seeds() -> None:
    found = checked(lambda x: x * 2)
    assert found == Correctness(
        passed=True, seeds=SEEDS, worst_absolute_error=0.0, worst_tolerance_share=0.0, message=""
    )


def test_a_wrong_result_fails_and_says_by_how_much() -> None:
    found = checked(lambda x: x * 3)
    assert not found.passed
    assert found.message.endswith("times the tolerance")
    assert found.worst_tolerance_share > 1000
    assert found.worst_absolute_error > 1


def test_one_wrong_element_is_enough() -> None:
    def function(x: Tensor) -> Tensor:
        y = x * 2
        y[7, 15] += 0.001
        return y

    assert not checked(function).passed


def test_one_wrong_seed_is_enough() -> None:
    answers = iter([2, 2, 3])
    assert not checked(lambda x: x * next(answers)).passed


@pytest.mark.parametrize(("epsilons", "right"), [(2, True), (3, False)])
def test_the_tolerance_is_in_epsilons_of_the_results_dtype(epsilons: int, right: bool) -> None:
    """The truth is 1 and the scale 1, so one epsilon of tolerance allows an error of two epsilons."""
    x = torch.full((4,), 0.5)
    y = torch.ones(4) + epsilons * torch.finfo(torch.float32).eps
    check = compare(DOUBLING, y, DOUBLING.reference(x), (x,))
    assert (check.tolerance_share <= 1) is right


def test_a_coarser_dtype_is_allowed_its_own_rounding() -> None:
    assert checked(lambda x: (x.float() * 2.0005).half(), torch.float16).passed
    assert not checked(lambda x: x * 2.0005, torch.float32).passed


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_one_value_that_is_no_number_fails(value: float) -> None:
    def function(x: Tensor) -> Tensor:
        y = x * 2
        y[3, 3] = value
        return y

    found = checked(function)
    assert not found.passed
    assert found.message == "the result has NaN or infinity where the truth is finite"


def test_a_result_of_another_dtype_fails() -> None:
    found = checked(lambda x: (x * 2).half())
    assert found.message == ("the result is (8, 16) torch.float16 on cpu; expected (8, 16) torch.float32 on cpu")


def test_a_result_of_another_shape_fails() -> None:
    assert checked(lambda x: (x * 2)[:, :8]).message.startswith("the result is (8, 8) torch.float32")


def test_a_result_on_another_device_fails() -> None:
    assert "on meta; expected" in checked(lambda x: (x * 2).to("meta")).message


class Lazy(Tensor):
    """A tensor that could put off its work until it is looked at."""


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (lambda x: (x * 2).as_subclass(Lazy), "Lazy"),
        (lambda x: torch.nn.Parameter(x * 2), "Parameter"),
        (lambda x: (x * 2,), "tuple"),
        (lambda x: None, "NoneType"),
        (lambda x: (x * 2).numpy(), "ndarray"),
    ],
    ids=["subclass", "parameter", "tuple", "nothing", "numpy"],
)
def test_what_is_no_plain_tensor_fails(function: Callable[..., Any], name: str) -> None:
    found = checked(function)
    assert not found.passed
    assert found.message == f"the result is a {name}, not a plain tensor"


def test_a_changed_input_fails_although_the_result_is_right() -> None:
    found = checked(lambda x: x.mul_(2).clone())
    assert not found.passed
    assert found.message == "an input was changed by the call"


def test_a_changed_input_is_put_right_for_the_profiles_that_come_next() -> None:
    inputs = [DOUBLING.inputs((8, 16), torch.float32, "cpu", seed) for seed in SEEDS]
    truths = [DOUBLING.reference(*i) for i in inputs]
    assert not check_profile(DOUBLING, lambda x: x.mul_(2), inputs, truths, SEEDS).passed
    assert check_profile(DOUBLING, lambda x: x * 2, inputs, truths, SEEDS).passed


def test_an_input_is_put_right_even_where_the_call_raises() -> None:
    def function(x: Tensor) -> Tensor:
        x.zero_()
        raise RuntimeError

    inputs = [DOUBLING.inputs((8, 16), torch.float32, "cpu", seed) for seed in SEEDS]
    truths = [DOUBLING.reference(*i) for i in inputs]
    with pytest.raises(RuntimeError):
        check_profile(DOUBLING, function, inputs, truths, SEEDS)
    assert check_profile(DOUBLING, lambda x: x * 2, inputs, truths, SEEDS).passed


def test_the_worst_of_all_checks_is_recorded() -> None:
    x = torch.full((4,), 0.5)
    truth = DOUBLING.reference(x)
    checks = [compare(DOUBLING, torch.ones(4) + error, truth, (x,)) for error in (0.0, 0.5, 0.25)]
    found = verdict(checks, SEEDS)
    assert found.worst_absolute_error == 0.5
    assert found.worst_tolerance_share == max(check.tolerance_share for check in checks)


def test_the_truth_and_the_result_are_left_as_they_were() -> None:
    x = torch.full((4,), 0.5)
    truth, y = DOUBLING.reference(x), torch.full((4,), 3.0)
    compare(DOUBLING, y, truth, (x,))
    assert torch.equal(truth, torch.ones(4, dtype=torch.float64))
    assert torch.equal(y, torch.full((4,), 3.0))
