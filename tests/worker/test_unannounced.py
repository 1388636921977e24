"""Inputs whose answer lies where nobody knows: any part of a row may not stand for the whole."""

from dataclasses import replace

import pytest
import torch

from experiments.normalization_fusion import RMSNORM, rmsnorm_fused
from lab.definition.experiment import Operator
from lab.kernels.traffic import Traffic
from lab.worker.correctness import check_profile
from lab.worker.unannounced import KINDS, scaled_to, unannounced_inputs

SHAPE = (16, 8192)


def draws(count: int = 12) -> list[tuple[str, tuple[torch.Tensor, ...]]]:
    found = [unannounced_inputs(RMSNORM, SHAPE, torch.float16, "cpu") for _ in range(count)]
    return [each for each in found if each]


def test_they_are_new_each_time_and_of_two_kinds() -> None:
    found = draws()
    assert {kind for kind, _ in found} <= set(KINDS)
    assert not any(torch.equal(found[0][1][0], arguments[0]) for _, arguments in found[1:])


def test_a_right_function_passes_and_a_mean_of_a_quarter_does_not() -> None:
    def quarter(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        part = x[..., : x.shape[-1] // 4].float()
        return (x * torch.rsqrt(part.pow(2).mean(-1, keepdim=True) + 1e-6) * weight).to(x.dtype)

    for _, arguments in draws(4):
        assert check_profile(RMSNORM, rmsnorm_fused, [arguments], ()).passed
        assert not check_profile(RMSNORM, quarter, [arguments], ()).passed


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.uint8])
def test_operators_without_rows_to_choose_from_are_left_alone(dtype: torch.dtype) -> None:
    from dataclasses import replace

    bytes_only = replace(RMSNORM, inputs=lambda shape, *_: (torch.zeros(shape).to(dtype),))
    assert unannounced_inputs(bytes_only, SHAPE, dtype, "cpu") is None


def test_the_tolerance_of_a_sum_of_products_grows_with_what_is_summed() -> None:
    def product(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return x @ weight

    operator = Operator(
        name="product",
        inputs=lambda shape, dtype, device, seed: (torch.randn(shape, dtype=dtype), torch.randn(shape[1], 8).to(dtype)),
        reference=lambda x, weight: x.double() @ weight.double(),
        traffic=lambda shape, itemsize: Traffic(read_bytes=1, written_bytes=1, flops=1),
        tolerance=1,
    )
    loud = (torch.full((4, 64), 8.0), torch.ones(64, 8))
    assert scaled_to(operator, loud).scale == 8.0
    assert scaled_to(operator, (torch.zeros(4, 64), torch.ones(64, 8))).scale == 1.0
    assert scaled_to(replace(operator, standard=product), loud).scale == 1.0
