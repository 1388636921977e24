"""The gradients of gated units against float64: sizes, dtypes, strides and extreme gates."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from lab.kernels.glu import geglu_erf, geglu_tanh, swiglu
from lab.kernels.glu_backward import (
    geglu_erf_backward,
    geglu_erf_backward_reference,
    geglu_tanh_backward,
    geglu_tanh_backward_reference,
    glu_backward_choices,
    glu_backward_inputs,
    glu_backward_rule,
    glu_backward_traffic,
    swiglu_backward,
    swiglu_backward_reference,
)

DTYPES = (torch.float16, torch.bfloat16, torch.float32)
UNITS: dict[str, tuple[Callable[..., Any], Callable[..., Any], Callable[..., Any]]] = {
    "swiglu": (swiglu, swiglu_backward, swiglu_backward_reference),
    "geglu_erf": (geglu_erf, geglu_erf_backward, geglu_erf_backward_reference),
    "geglu_tanh": (geglu_tanh, geglu_tanh_backward, geglu_tanh_backward_reference),
}
every_unit = pytest.mark.parametrize("unit", UNITS)


def assert_right(unit: str, *tensors: Tensor) -> None:
    _, backward, reference = UNITS[unit]
    for result, truth in zip(backward(*tensors), reference(*tensors), strict=True):
        assert (result.shape, result.dtype) == (truth.shape, tensors[0].dtype)
        # Rounded once. In float32 the terms of a slope, of size 1, may cancel.
        epsilons, scale = (16, 1.0) if result.dtype == torch.float32 else (1, 2**-6)
        allowed = epsilons * torch.finfo(result.dtype).eps * (truth.abs() + scale)
        assert bool(((result.double() - truth).abs() <= allowed).all())


@every_unit
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(1, 1), (5, 33), (2, 3, 1100)], ids=str)
def test_it_is_near_the_truth(unit: str, shape: tuple[int, ...], dtype: torch.dtype, device: str) -> None:
    assert_right(unit, *glu_backward_inputs(shape, dtype, device, 3))


@every_unit
def test_rows_at_any_distance_and_none(unit: str, device: str) -> None:
    dy, gate, up = glu_backward_inputs((4, 80), torch.float32, device, 4)
    assert_right(unit, dy[:, :40], gate[:, 40:], up[:, 1:41])
    assert all(each.shape == (0, 80) for each in UNITS[unit][1](dy[:0], gate[:0], up[:0]))


def test_the_slope_of_swiglu_in_float32_is_exact_at_any_gate(device: str) -> None:
    gate = torch.linspace(-87, -2, 4096, dtype=torch.float32, device=device)  # above −1.3 its terms cancel
    tensors = torch.ones_like(gate), gate, torch.ones_like(gate)
    for result, truth in zip(swiglu_backward(*tensors), swiglu_backward_reference(*tensors), strict=True):
        assert ((result.double() - truth) / truth).abs().max() < 8 * torch.finfo(torch.float32).eps


@every_unit
def test_gates_far_from_zero_give_finite_slopes(unit: str, device: str) -> None:
    gate = torch.tensor([-1e30, -1e4, -100.0, 0.0, 100.0, 1e4, 1e30], device=device)
    dgate, dup = UNITS[unit][1](torch.ones_like(gate), gate, torch.ones_like(gate))
    torch.testing.assert_close(dgate, torch.tensor([0.0, 0, 0, 0.5, 1, 1, 1], device=device))
    torch.testing.assert_close(dup, gate.clamp(min=0))


@every_unit
def test_autograd_finds_the_gradients(unit: str, device: str) -> None:
    forward, _, reference = UNITS[unit]
    dy, gate, up = glu_backward_inputs((3, 24), torch.float32, device, 5)
    leaves = gate.requires_grad_(), up.requires_grad_()
    for mine, truth in zip(torch.autograd.grad(forward(*leaves), leaves, dy), reference(dy, gate, up), strict=True):
        torch.testing.assert_close(mine, truth.float())


def test_the_rule_is_a_choice_and_the_least_traffic_five_tensors() -> None:
    for itemsize in (2, 4):
        assert glu_backward_rule((64, 32), itemsize) in list(glu_backward_choices((64, 32), itemsize))
    traffic = glu_backward_traffic((64, 32), 2)
    assert traffic.read_bytes + traffic.written_bytes == 5 * 64 * 32 * 2


@pytest.mark.gpu
@every_unit
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_many_elements_on_a_gpu(unit: str, dtype: torch.dtype) -> None:
    assert_right(unit, *glu_backward_inputs((4096, 14_336), dtype, "cuda", 6))
