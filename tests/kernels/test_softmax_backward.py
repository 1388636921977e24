"""The gradient of softmax against float64: sizes, dtypes, strides and launches."""

import pytest
import torch

from lab.kernels.launch import Configuration
from lab.kernels.softmax import softmax
from lab.kernels.softmax_backward import (
    softmax_backward,
    softmax_backward_choices,
    softmax_backward_inputs,
    softmax_backward_reference,
    softmax_backward_rule,
    softmax_backward_traffic,
)

DTYPES = (torch.float16, torch.bfloat16, torch.float32)


def assert_right(dy: torch.Tensor, y: torch.Tensor, configuration: Configuration | None = None) -> None:
    dx, truth = softmax_backward(dy, y, configuration=configuration), softmax_backward_reference(dy, y)
    assert (dx.shape, dx.dtype) == (y.shape, y.dtype)
    assert dx.is_contiguous()
    y, dy = y.double(), dy.double()
    arithmetic = 16 * torch.finfo(torch.float32).eps * y * (dy.abs() + (dy * y).abs().sum(-1, keepdim=True))
    rounding = torch.finfo(dx.dtype).eps * truth.abs().clamp(min=torch.finfo(dx.dtype).tiny)
    assert bool(((dx.double() - truth).abs() <= arithmetic + rounding).all())


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(1, 1), (5, 33), (2, 3, 64), (3, 1000)], ids=str)
def test_it_is_near_the_truth(shape: tuple[int, ...], dtype: torch.dtype, device: str) -> None:
    assert_right(*softmax_backward_inputs(shape, dtype, device, 3))


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32], ids=str)
@pytest.mark.parametrize("columns", [262_208, 524_287, 524_288])
def test_the_widest_rows_are_near_the_truth(columns: int, dtype: torch.dtype, device: str) -> None:
    assert_right(*softmax_backward_inputs((1, columns), dtype, device, 6))


def test_rows_at_any_distance_none_and_in_tiles(device: str) -> None:
    dy, y = softmax_backward_inputs((4, 80), torch.float32, device, 4)
    assert_right(dy[:, :40], y[:, 40:])
    assert_right(dy, y, Configuration.of(HELD=1, BLOCK=32, num_warps=1))
    assert softmax_backward(dy[:0], y[:0]).shape == (0, 80)


@pytest.mark.parametrize("columns", [48, 4096, 8192, 8193, 65_536])
@pytest.mark.parametrize("itemsize", [2, 4])
def test_the_rule_is_a_choice(columns: int, itemsize: int) -> None:
    shape = (64, columns)
    assert softmax_backward_rule(shape, itemsize) in list(softmax_backward_choices(shape, itemsize))


def test_the_least_traffic_is_two_reads_and_one_write() -> None:
    traffic = softmax_backward_traffic((64, 32), 2)
    assert (traffic.read_bytes, traffic.written_bytes) == (2 * 64 * 32 * 2, 64 * 32 * 2)


def test_autograd_finds_the_gradient_and_refuses_a_second_one(device: str) -> None:
    dy, x = softmax_backward_inputs((2, 3, 24), torch.float32, device, 5)
    leaf = x.requires_grad_()
    (dx,) = torch.autograd.grad(softmax(leaf), leaf, dy)
    (truth,) = torch.autograd.grad(torch.softmax(leaf, -1), leaf, dy)
    torch.testing.assert_close(dx, truth)
    with pytest.raises(NotImplementedError, match="softmax_backward: y requires grad"):
        torch.autograd.grad(softmax(leaf).square().sum(), leaf, create_graph=True)


def test_what_it_refuses(device: str) -> None:
    dy, y = softmax_backward_inputs((4, 8), torch.float32, device, 6)
    with pytest.raises(ValueError, match=r"softmax_backward: dy has shape \(3, 8\)"):
        softmax_backward(dy[:3], y)
    with pytest.raises(ValueError, match="softmax_backward: dy has stride 4 in its last dimension"):
        softmax_backward(torch.ones(8, 4, device=device).t(), y)


@pytest.mark.gpu
@pytest.mark.parametrize("shape", [(8192, 4096), (300, 16_384), (100, 50_257)], ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_many_rows_on_a_gpu(shape: tuple[int, int], dtype: torch.dtype) -> None:
    assert_right(*softmax_backward_inputs(shape, dtype, "cuda", 7))
