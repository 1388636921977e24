"""A result is right only if it is a plain tensor of the right form, near the truth, and nothing else was touched."""

import dataclasses
import math
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from factory import DOUBLING
from torch import Tensor

from experiments.matmul_tiling import GEMM
from lab.definition.experiment import EDGES, Output
from lab.evidence.record import Correctness
from lab.worker.correctness import Check, check_output, check_profile, verdict
from lab.worker.edges import edge_inputs

SEEDS = (1, 2, 3)


def checked(function: Callable[..., Any], dtype: torch.dtype = torch.float32, tolerance: float = 1) -> Correctness:
    operator = dataclasses.replace(DOUBLING, tolerance=tolerance)
    inputs = [operator.inputs((8, 16), dtype, "cpu", seed) for seed in SEEDS]
    return check_profile(operator, function, inputs, SEEDS)


def test_a_right_result_passes_with_its_error_and_seeds() -> None:
    correctness = checked(lambda x: x * 2)
    assert correctness == Correctness(
        passed=True, seeds=SEEDS, worst_absolute_error=0.0, worst_tolerance_share=0.0, message=""
    )


def test_a_wrong_result_fails_and_says_by_how_much() -> None:
    correctness = checked(lambda x: x * 3)
    assert not correctness.passed
    assert "times the tolerance; at [" in correctness.message
    assert correctness.worst_tolerance_share > 1000
    assert correctness.worst_absolute_error > 1


def test_one_wrong_element_is_enough_and_is_told() -> None:
    def function(x: Tensor) -> Tensor:
        y = x * 2
        y[7, 15] = 1.5
        return y

    (x,) = DOUBLING.inputs((8, 16), torch.float32, "cpu", SEEDS[0])
    told = checked(function).message.partition("; ")[2]
    assert told == f"at [7, 15] it is 1.5, and {2 * float(x[7, 15]):.9g} is right"


def test_a_wrong_result_of_float64_is_told_as_it_was() -> None:
    """It is compared in float64, and must not be overwritten by that."""
    wrong = checked(lambda x: 2 * x + 1, torch.float64)
    assert not wrong.passed
    given, right = map(float, re.findall(r"it is (.+), and (.+) is right", wrong.message)[0])
    assert given == pytest.approx(right + 1)


def test_one_wrong_seed_is_enough() -> None:
    answers = iter([2, 2, 3])
    assert not checked(lambda x: x * next(answers)).passed


@pytest.mark.parametrize(("epsilons", "right"), [(2, True), (3, False)])
def test_the_tolerance_is_in_epsilons_of_the_results_dtype(epsilons: int, right: bool) -> None:
    """The truth is 1 and the scale 1, so one epsilon of tolerance allows an error of two epsilons."""
    x = torch.full((4,), 0.5)
    y = torch.ones(4) + epsilons * torch.finfo(torch.float32).eps
    check = check_output(DOUBLING, y, (x,))
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

    correctness = checked(function)
    assert not correctness.passed
    assert correctness.message == "the result has NaN or infinity where the truth is finite, or the reverse"


def test_a_result_of_another_dtype_fails() -> None:
    correctness = checked(lambda x: (x * 2).half())
    assert correctness.message == ("the result is (8, 16) torch.float16 on cpu; expected (8, 16) torch.float32 on cpu")


def test_a_result_of_another_shape_fails() -> None:
    assert checked(lambda x: (x * 2)[:, :8]).message.startswith("the result is (8, 8) torch.float32")


def test_a_result_on_another_device_fails() -> None:
    x = torch.ones(4)
    assert "on meta; expected" in check_output(DOUBLING, (x * 2).to("meta"), (x,)).problem


class LazyTensor(Tensor):
    """A tensor that could put off its work until it is looked at."""


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (lambda x: (x * 2).as_subclass(LazyTensor), "LazyTensor"),
        (lambda x: torch.nn.Parameter(x * 2), "Parameter"),
        (lambda x: None, "NoneType"),
        (lambda x: (x * 2).numpy(), "ndarray"),
    ],
    ids=["subclass", "parameter", "nothing", "numpy"],
)
def test_what_is_no_plain_tensor_fails(function: Callable[..., Any], name: str) -> None:
    correctness = checked(function)
    assert not correctness.passed
    assert correctness.message == f"the result is a {name}, not a plain tensor"


def test_a_changed_input_fails_although_the_result_is_right() -> None:
    correctness = checked(lambda x: x.mul_(2).clone())
    assert not correctness.passed
    assert correctness.message == "an input was changed by the call"


def test_a_changed_input_is_put_right_for_the_profiles_that_come_next() -> None:
    inputs = [DOUBLING.inputs((8, 16), torch.float32, "cpu", seed) for seed in SEEDS]
    assert not check_profile(DOUBLING, lambda x: x.mul_(2), inputs, SEEDS).passed
    assert check_profile(DOUBLING, lambda x: x * 2, inputs, SEEDS).passed


def test_an_input_is_put_right_even_where_the_call_raises() -> None:
    def function(x: Tensor) -> Tensor:
        x.zero_()
        raise RuntimeError

    inputs = [DOUBLING.inputs((8, 16), torch.float32, "cpu", seed) for seed in SEEDS]
    with pytest.raises(RuntimeError):
        check_profile(DOUBLING, function, inputs, SEEDS)
    assert check_profile(DOUBLING, lambda x: x * 2, inputs, SEEDS).passed


def test_the_worst_of_all_checks_is_recorded() -> None:
    x = torch.full((4,), 0.5)
    checks = [check_output(DOUBLING, torch.ones(4) + error, (x,)) for error in (0.0, 0.5, 0.25)]
    correctness = verdict(checks, SEEDS)
    assert correctness.worst_absolute_error == 0.5
    assert correctness.worst_tolerance_share == max(check.tolerance_share for check in checks)


def test_inputs_and_result_are_left_as_they_were() -> None:
    x, y = torch.full((4,), 0.5), torch.full((4,), 3.0)
    check_output(DOUBLING, y, (x,))
    assert torch.equal(x, torch.full((4,), 0.5))
    assert torch.equal(y, torch.full((4,), 3.0))


# Memory


def test_an_output_that_is_not_written_cannot_look_right() -> None:
    """Without poison the memory would still hold the right result of the call before."""
    assert not checked(lambda x: torch.empty_like(x)).passed


def test_an_output_that_shares_memory_with_an_input_or_an_earlier_one_fails() -> None:
    assert "an input" in checked(lambda x: x).message
    memory = torch.empty(8, 16)
    assert checked(lambda x: memory.copy_(x * 2)).message == "the result shares memory with an earlier result"


def test_an_earlier_output_must_keep_its_values() -> None:
    outputs: list[Tensor] = []

    def spoil(x: Tensor) -> Tensor:
        for earlier in outputs:
            earlier.zero_()
        outputs.append(x * 2)
        return outputs[-1]

    assert checked(spoil).message == "a later call changed an earlier output"


def test_a_profile_that_works_in_place_may_and_its_inputs_are_put_back() -> None:
    inputs = [DOUBLING.inputs((8, 16), torch.float32, "cpu", seed) for seed in SEEDS]
    before = [x.clone() for (x,) in inputs]
    assert check_profile(DOUBLING, lambda x: x.mul_(2), inputs, SEEDS, in_place=True).passed
    assert all(torch.equal(x, was) for (x,), was in zip(inputs, before, strict=True))


def test_a_profile_may_work_in_place_on_several_inputs_and_all_are_put_back() -> None:
    def both(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return x.mul_(2), y.mul_(2)

    operator = dataclasses.replace(
        DOUBLING,
        inputs=lambda *sizes: DOUBLING.inputs(*sizes) * 2,
        reference=lambda x, y: (x.double() * 2, y.double() * 2),
    )
    inputs = [(x, x.clone()) for x, _ in (operator.inputs((8, 16), torch.float32, "cpu", seed) for seed in SEEDS)]
    before = [x.clone() for x, _ in inputs]
    assert check_profile(operator, both, inputs, SEEDS, in_place=True).passed
    assert all(torch.equal(x, was) and torch.equal(y, was) for (x, y), was in zip(inputs, before, strict=True))


# Edges, and the standard implementation


def edged(function: Callable[..., Any], **changes: Any) -> Correctness:
    operator = dataclasses.replace(DOUBLING, edges=EDGES, **changes)
    inputs = [operator.inputs((8, 16), torch.float32, "cpu", seed) for seed in SEEDS]
    edges = edge_inputs(operator, (8, 16), torch.float32, "cpu")
    return check_profile(operator, function, inputs, SEEDS, edges=edges)


def test_every_edge_is_asked_and_passed_by_what_is_right() -> None:
    correctness = edged(lambda x: x * 2)
    assert correctness.passed
    assert [edge.name for edge in correctness.edges] == list(EDGES)
    assert {edge.outcome for edge in correctness.edges} == {"passed"}


@pytest.mark.parametrize(
    ("function", "edge"),
    [
        (lambda x: (x * 2).nan_to_num(), "nan"),
        (lambda x: x * 2 if x.isfinite().all() else torch.full_like(x, float("nan")), "nan"),
        (lambda x: x * 2 if x.is_contiguous() else x * 3, "strided"),
        (lambda x: x * 2 if x.shape[-1] % 2 == 0 else x * 3, "odd-sizes"),
        (lambda x: (x * 2).clamp(-100, 100), "large-mean"),
        (lambda x: x * 2 + 1e-3 * (x.abs().max() == 0), "zeros"),
    ],
)
def test_an_edge_that_comes_out_wrong_fails_the_gate(function: Callable[..., Any], edge: str) -> None:
    correctness = edged(function)
    assert not correctness.passed
    assert correctness.message.startswith(f"edge input {edge}: ")


def test_code_made_for_one_shape_is_not_asked_for_another() -> None:
    operator = dataclasses.replace(DOUBLING, edges=EDGES)
    asked = [name for name, _ in edge_inputs(operator, (8, 16), torch.float32, "cpu", own_form=True)]
    assert asked == [name for name in EDGES if name not in ("odd-sizes", "strided")]
    for _, arguments in edge_inputs(operator, (8, 16), torch.float32, "cpu", own_form=True):
        assert (arguments[0].shape, arguments[0].stride()) == ((8, 16), (16, 1))


def test_an_edge_that_is_refused_is_reported_and_fails_nothing() -> None:
    def refuse(x: Tensor) -> Tensor:
        if not x.is_contiguous():
            raise ValueError("x must be contiguous")
        return x * 2

    correctness = edged(refuse)
    assert correctness.passed
    (refused,) = [edge for edge in correctness.edges if edge.outcome == "refused"]
    assert (refused.name, refused.message) == ("strided", "ValueError: x must be contiguous")


def test_a_library_may_refuse_with_an_exception_of_its_own() -> None:
    class LibraryError(Exception):
        pass

    def refuse(x: Tensor) -> Tensor:
        if not x.is_contiguous():
            raise LibraryError("rows must be aligned")
        return x * 2

    (refused,) = [edge for edge in edged(refuse).edges if edge.outcome == "refused"]
    assert (refused.name, refused.message) == ("strided", "LibraryError: rows must be aligned")


def test_a_refusal_may_speak_of_cuda() -> None:
    def refuse(x: Tensor) -> Tensor:
        if not x.is_contiguous():
            raise ValueError("x must be a contiguous CUDA tensor")
        return x * 2

    assert [edge.name for edge in edged(refuse).edges if edge.outcome == "refused"] == ["strided"]


@pytest.mark.parametrize(
    "fault",
    [
        torch.AcceleratorError("an illegal memory access"),
        RuntimeError("CUDA error: an illegal memory access"),
        torch.OutOfMemoryError("CUDA out of memory, for an illegal memory access"),
    ],
)
def test_a_fault_of_the_gpu_is_no_refusal(fault: Exception) -> None:
    def fail(x: Tensor) -> Tensor:
        if not x.is_contiguous():
            raise fault
        return x * 2

    with pytest.raises(type(fault), match="illegal memory access"):
        edged(fail)


@pytest.mark.parametrize(("error", "right"), [(1.9e-4, True), (2.2e-4, False)])
def test_a_result_may_err_twice_as_much_as_the_standard_implementation(error: float, right: bool) -> None:
    operator = dataclasses.replace(DOUBLING, standard=lambda x: x * 2 + 1e-4)
    check = check_output(operator, torch.ones(4) + error, (torch.full((4,), 0.5),))
    assert verdict([check], SEEDS).passed is right
    assert check.standard_share > 1


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_a_standard_that_is_wrong_itself_excuses_nothing(dtype: torch.dtype) -> None:
    operator = dataclasses.replace(DOUBLING, standard=lambda x: x * 1.5)
    x = torch.linspace(0.5, 2, 64, dtype=dtype)
    assert check_output(operator, x * 2, (x,)).allowed_share <= 1  # the standard is not looked at
    assert "is off by 25 % of the result, so the standard or the reference is wrong" in (
        check_output(operator, x * 1.5, (x,)).problem
    )


def test_at_edges_where_a_result_cancels_a_standard_may_be_off_by_more() -> None:
    cancelling = dataclasses.replace(
        DOUBLING, edges=("large-mean",), reference=lambda x: x.double() - x.double().mean(), scale=1e-3
    )
    operator = dataclasses.replace(cancelling, standard=lambda x: (x + 1e4) - (x.mean() + 1e4))
    x = torch.linspace(0, 1e-3, 64)
    assert check_output(operator, operator.standard(x), (x,)).problem
    assert not check_output(operator, operator.standard(x), (x,), edge=True).problem


def test_the_worst_check_is_the_one_that_used_up_most_of_what_it_may() -> None:
    excused, tight = Check(0.0, 8.0, "", standard_share=8.0), Check(0.0, 0.9, "")
    record = verdict([excused, tight], SEEDS)
    assert (record.passed, record.worst_tolerance_share) == (True, 0.9)


def test_several_results_are_compared_one_by_one() -> None:
    operator = dataclasses.replace(DOUBLING, reference=lambda x: (2 * x.double(), 3 * x.double()))
    x = torch.full((4,), 0.5)
    assert not check_output(operator, (x * 2, x * 3), (x,)).problem
    other = check_output(operator, (x * 2, x * 4), (x,))
    assert other.tolerance_share > 1
    assert other.worst == "; at result 2 of 2, [0] it is 2, and 1.5 is right"
    assert check_output(operator, x * 2, (x,)).problem == "1 results; expected 2"


# Results of another dtype than the inputs


def float8_inputs(shape: tuple[int, ...], dtype: torch.dtype, device: str, seed: int) -> tuple[Tensor]:
    generator = torch.Generator(device).manual_seed(seed)
    return (torch.randn(shape, device=device, generator=generator).to(dtype),)


WIDENING = dataclasses.replace(DOUBLING, inputs=float8_inputs, output_dtype="bfloat16", edges=EDGES)


def widened(function: Callable[..., Any]) -> Correctness:
    asked = (8, 16), torch.float8_e4m3fn, "cpu"
    inputs = [WIDENING.inputs(*asked, seed) for seed in SEEDS]
    return check_profile(WIDENING, function, inputs, SEEDS, edges=edge_inputs(WIDENING, *asked))


def test_float8_may_give_bfloat16_where_the_operator_says_so() -> None:
    correctness = widened(lambda x: x.bfloat16() * 2)
    assert correctness.passed, correctness.message
    assert [edge.name for edge in correctness.edges] == list(EDGES)
    assert {edge.outcome for edge in correctness.edges} == {"passed"}


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float16], ids=str)
def test_no_other_dtype_will_do_then(dtype: torch.dtype) -> None:
    message = widened(lambda x: (x.float() * 2).to(dtype)).message
    assert message == f"the result is (8, 16) {dtype} on cpu; expected (8, 16) torch.bfloat16 on cpu"


def test_a_wrong_result_of_float8_and_a_changed_float8_input_fail() -> None:
    def spoil(x: Tensor) -> Tensor:
        y = x.bfloat16() * 2
        x.view(torch.uint8)[3, 3] ^= 0x80
        return y

    assert re.search(r"times the tolerance; at \[\d+, \d+\] it is ", widened(lambda x: x.bfloat16() * 2.1).message)
    assert widened(spoil).message == "an input was changed by the call"


def test_a_result_of_another_dtype_that_is_not_written_cannot_look_right() -> None:
    assert not widened(lambda x: torch.empty_like(x, dtype=torch.bfloat16)).passed


# Results that differ from one another in dtype and in how near they have to be


def quantised(x: Tensor) -> tuple[Tensor, Tensor]:
    scale = x.abs().amax(-1, keepdim=True).float() / 448
    return (x / scale).to(torch.float8_e4m3fn), scale


def quantised_reference(x: Tensor) -> tuple[Tensor, Tensor]:
    scale = x.double().abs().amax(-1, keepdim=True) / 448
    return x.double() / scale, scale


QUANTISING = dataclasses.replace(
    DOUBLING,
    reference=quantised_reference,
    tolerance=None,
    # Rounded to the nearest: half an epsilon, or half of the smallest step below the normal range.
    outputs=(
        Output(dtype="float8_e4m3fn", tolerance=0.501, scale=2**-6),
        Output(dtype="float32", tolerance=2, scale=2**-126),
    ),
    edges=("large-mean", "nan", "inf", "odd-sizes", "strided"),
)


def quantised_by(function: Callable[..., Any]) -> Correctness:
    asked = (8, 16), torch.float32, "cpu"
    inputs = [QUANTISING.inputs(*asked, seed) for seed in SEEDS]
    return check_profile(QUANTISING, function, inputs, SEEDS, edges=edge_inputs(QUANTISING, *asked))


def test_each_result_is_held_to_its_own_dtype_and_tolerance() -> None:
    correctness = quantised_by(quantised)
    assert correctness.passed, correctness.message
    assert {edge.outcome for edge in correctness.edges} == {"passed"}
    assert 0.5 < correctness.worst_tolerance_share <= 1


def spoiling(position: int, change: Callable[[Tensor], Tensor]) -> Callable[..., Any]:
    def function(x: Tensor) -> tuple[Tensor, ...]:
        results = list(quantised(x))
        results[position] = change(results[position])
        return tuple(results)

    return function


def stepped(q: Tensor) -> Tensor:
    """One element, by one step of the grid."""
    q.view(torch.uint8)[3, 3] ^= 1
    return q


@pytest.mark.parametrize(
    ("position", "change"),
    [
        (0, lambda q: q.float().to(torch.float8_e5m2)),
        (0, lambda q: torch.where(torch.arange(16) == 3, math.nan, q.float()).to(q.dtype)),
        (0, lambda q: (q.float() * 1.07).clamp(-448, 448).to(q.dtype)),
        (0, torch.empty_like),
        (1, lambda scale: scale * (1 + 2**-20)),
        (1, lambda scale: scale[:, 0]),
        (1, lambda scale: scale.double()),
        (1, torch.empty_like),
    ],
)
def test_a_result_that_is_wrong_fails_whichever_it_is(position: int, change: Callable[[Tensor], Tensor]) -> None:
    assert not quantised_by(spoiling(position, change)).passed


def test_one_step_of_a_coarse_grid_is_an_error() -> None:
    x = torch.linspace(0.51, 448, 16).repeat(8, 1)
    assert quantised_by(quantised).passed
    assert check_output(QUANTISING, spoiling(0, stepped)(x), (x,)).tolerance_share > 1


def test_memory_is_poisoned_for_each_result(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the first call in the form of the input, then in those of the results."""
    fill, filled = torch.full_like, []

    def noted(tensor: Tensor, value: float, *, dtype: torch.dtype) -> Tensor:
        filled.append((tuple(tensor.shape), dtype))
        assert math.isnan(value)
        return fill(tensor, value, dtype=dtype)

    monkeypatch.setattr(torch, "full_like", noted)
    inputs = [QUANTISING.inputs((8, 16), torch.float32, "cpu", seed) for seed in SEEDS]
    assert check_profile(QUANTISING, quantised, inputs, SEEDS).passed
    float8, float32 = torch.float8_e4m3fn, torch.float32
    assert filled == [((8, 16), float8), ((8, 16), float32)] + 2 * [((8, 16), float8), ((8, 1), float32)]


def test_the_standards_error_on_one_result_excuses_no_error_on_another() -> None:
    operator = dataclasses.replace(
        DOUBLING,
        reference=lambda x: (2 * x.double(), 3 * x.double()),
        standard=lambda x: (x * 2 + 1e-4, x * 3),
    )
    x = torch.full((4,), 0.5)

    def right(*results: Tensor) -> bool:
        return verdict([check_output(operator, results, (x,))], SEEDS).passed

    assert right(x * 2 + 1e-4, x * 3)
    assert not right(x * 2, x * 3 + 1e-4)
    assert not right(x * 2 + 1e-4, x * 3 + 1e-4)


# Long sums of products

PRODUCT = dataclasses.replace(GEMM, standard=None)
STRICT = dataclasses.replace(PRODUCT, summed_magnitudes=None)
Rounding = Callable[[Tensor], Tensor]


def factors(shape: tuple[int, int, int], dtype: torch.dtype, mean: float = 0.0) -> tuple[Tensor, Tensor]:
    a, b = PRODUCT.inputs(shape, dtype, "cpu", 1)
    return (a.float() + mean).to(dtype), b


def added_in_order(a: Tensor, b: Tensor, rounded: Rounding) -> Tensor:
    """The product as matrix units make it: in one chain, whose sum is rounded after every 16 terms."""
    total = torch.zeros(a.shape[0], b.shape[1], dtype=torch.float64)
    for first in range(0, a.shape[1], 16):
        part = slice(first, first + 16)
        total = rounded(total + a[:, part].double() @ b[part].double())
    return total.to(a.dtype)


def cut_to_24_bits(total: Tensor) -> Tensor:
    return (total.view(torch.int64) >> 29 << 29).view(torch.float64)


def rounded_to(dtype: torch.dtype) -> Rounding:
    return lambda total: total.to(dtype).double()


LONG = (((1, 1024, 32_769), torch.float16, 0.0), ((16, 512, 11_008), torch.bfloat16, 100.0))


@pytest.mark.parametrize(("shape", "dtype", "mean"), LONG)
def test_a_long_sum_that_is_cut_off_at_24_bits_is_right(
    shape: tuple[int, int, int], dtype: torch.dtype, mean: float
) -> None:
    a, b = factors(shape, dtype, mean)
    y = added_in_order(a, b, cut_to_24_bits)
    strict, check = check_output(STRICT, y, (a, b)), check_output(PRODUCT, y, (a, b))
    assert strict.tolerance_share > 2
    assert check.tolerance_share <= 1
    assert check.absolute_error == strict.absolute_error


@pytest.mark.parametrize(("shape", "dtype", "mean"), LONG)
def test_a_long_sum_in_float32_is_right(shape: tuple[int, int, int], dtype: torch.dtype, mean: float) -> None:
    a, b = factors(shape, dtype, mean)
    assert check_output(PRODUCT, added_in_order(a, b, rounded_to(torch.float32)), (a, b)).tolerance_share <= 1


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("shape", [(16, 256, 512), (16, 256, 4096), (1, 512, 32_769)], ids=str)
def test_a_sum_without_its_last_product_is_wrong(shape: tuple[int, int, int], dtype: torch.dtype) -> None:
    a, b = factors(shape, dtype)
    y = (a[:, :-1].double() @ b[:-1].double()).to(dtype)
    assert check_output(PRODUCT, y, (a, b)).tolerance_share > 2


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("shape", [(16, 256, 512), (16, 256, 4096), (1, 512, 32_769)], ids=str)
def test_a_sum_in_sixteen_bits_is_wrong(shape: tuple[int, int, int], dtype: torch.dtype) -> None:
    a, b = factors(shape, dtype)
    assert check_output(PRODUCT, added_in_order(a, b, rounded_to(dtype)), (a, b)).tolerance_share > 2


def test_parts_of_a_sum_that_are_rounded_to_sixteen_bits_are_wrong() -> None:
    a, b = factors((16, 256, 4096), torch.float16)
    y = (a[:, :2048].double() @ b[:2048].double()).half() + (a[:, 2048:].double() @ b[2048:].double()).half()
    assert check_output(PRODUCT, y, (a, b)).tolerance_share > 2


def test_magnitudes_are_summed_only_where_the_tolerance_is_exceeded() -> None:
    def magnitudes(a: Tensor, b: Tensor) -> Tensor:
        raise AssertionError

    a, b = factors((4, 8, 16), torch.float16)
    operator = dataclasses.replace(PRODUCT, summed_magnitudes=magnitudes)
    assert check_output(operator, PRODUCT.reference(a, b).half(), (a, b)).tolerance_share <= 1


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_sum_that_is_no_number_allows_nothing(value: float) -> None:
    operator = dataclasses.replace(DOUBLING, summed_magnitudes=lambda x: torch.full_like(x, value, dtype=torch.float64))
    assert check_output(operator, torch.ones(4) + 1e-4, (torch.full((4,), 0.5),)).tolerance_share > 100


def test_what_a_long_sum_may_cost_comes_on_top_of_the_standards_error() -> None:
    """Else an operator that allows more would refuse what it took before."""
    operator = dataclasses.replace(
        DOUBLING, standard=lambda x: x * 2 + 1e-4, summed_magnitudes=lambda x: torch.full_like(x, 50.0).double()
    )
    for error, right in ((1.9e-4, True), (2.4e-4, True), (2.6e-4, False)):
        check = check_output(operator, torch.ones(4) + error, (torch.full((4,), 0.5),))
        assert verdict([check], SEEDS).passed is right
