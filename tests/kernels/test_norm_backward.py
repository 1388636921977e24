"""The gradients of RMSNorm, add-RMSNorm and LayerNorm against float64: sizes, dtypes, strides and launches."""

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from lab.kernels.add_rmsnorm import add_rmsnorm
from lab.kernels.launch import Configuration
from lab.kernels.layernorm import layernorm
from lab.kernels.norm_backward import (
    TUNINGS,
    WIDE_ROW,
    WIDEST_CENTRED_ROW,
    add_rmsnorm_backward,
    add_rmsnorm_backward_inputs,
    add_rmsnorm_backward_reference,
    layernorm_backward,
    layernorm_backward_inputs,
    layernorm_backward_reference,
    norm_backward_choices,
    norm_backward_traffic,
    rmsnorm_backward,
    rmsnorm_backward_inputs,
    rmsnorm_backward_reference,
)
from lab.kernels.rmsnorm import rmsnorm

DTYPES = (torch.float16, torch.bfloat16, torch.float32)
# Of each norm: its backward pass, the truth, inputs, and how many of those both take.
NORMS: dict[str, tuple[Callable[..., Any], Callable[..., Any], Callable[..., Any], int]] = {
    "rmsnorm": (rmsnorm_backward, rmsnorm_backward_reference, rmsnorm_backward_inputs, 3),
    "add_rmsnorm": (add_rmsnorm_backward, add_rmsnorm_backward_reference, add_rmsnorm_backward_inputs, 4),
    "layernorm": (layernorm_backward, layernorm_backward_reference, layernorm_backward_inputs, 3),
}
every_norm = pytest.mark.parametrize("norm", NORMS)


def drawn(norm: str, shape: tuple[int, ...], dtype: torch.dtype, device: str) -> tuple[Tensor, ...]:
    _, _, inputs, count = NORMS[norm]
    taken: tuple[Tensor, ...] = inputs(shape, dtype, device, 7)[:count]
    return taken


def assert_right(norm: str, tensors: tuple[Tensor, ...], **how: Any) -> None:
    backward, reference, *_ = NORMS[norm]
    results, truths = backward(*tensors, **how), reference(*tensors)
    assert len(results) == len(truths)
    for result, truth in zip(results, truths, strict=True):
        assert result.shape == truth.shape
        assert result.dtype == tensors[0].dtype
        assert result.is_contiguous()
        epsilons = 32 if result.dtype == torch.float32 else 1  # rounded once; in float32 the sums round too
        allowed = epsilons * torch.finfo(result.dtype).eps * (truth.abs() + 1)
        assert bool(((result.double() - truth).abs() <= allowed).all())


@every_norm
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(1, 1), (5, 33), (3, 64)], ids=str)
def test_it_is_near_the_truth(norm: str, shape: tuple[int, int], dtype: torch.dtype, device: str) -> None:
    assert_right(norm, drawn(norm, shape, dtype, device))


@every_norm
@pytest.mark.gpu  # the interpreter takes 20 s for each
def test_on_a_gpu_a_row_of_the_largest_vocabulary_is_near_the_truth(norm: str) -> None:
    assert_right(norm, drawn(norm, (1, 262_208), torch.float32, "cuda"))


@every_norm
def test_rows_at_any_distance_and_of_any_number_of_dimensions(norm: str, device: str) -> None:
    *rows, weight = drawn(norm, (6, 40), torch.float32, device)
    spread = tuple(torch.cat((each, each), dim=1)[:, :40] for each in rows)
    assert_right(norm, (*spread, weight))
    assert_right(norm, (*(each.view(2, 3, 40) for each in rows), weight))


@every_norm
def test_no_rows(norm: str, device: str) -> None:
    backward, _, _, _ = NORMS[norm]
    dx, *sums = backward(*drawn(norm, (0, 24), torch.float16, device))
    assert dx.shape == (0, 24)
    assert all(torch.equal(each, torch.zeros(24, dtype=torch.float16, device=device)) for each in sums)


@every_norm
def test_launches_of_every_kind_give_the_same(norm: str, device: str) -> None:
    tensors = drawn(norm, (5, 24), torch.float32, device)
    for rows, block, share in ((1, 32, 1), (2, 8, 2), (4, 16, 1)):
        chosen = Configuration.of(ROWS=rows, BLOCK=block, SHARE=share, num_warps=1)
        assert_right(norm, tensors, configuration=chosen)
    assert_right(norm, tensors, configuration=Configuration.of(ROWS=2, COLUMNS=16, SHARE=2, num_warps=1))


@every_norm
@pytest.mark.parametrize("itemsize", [2, 4])
@pytest.mark.parametrize(
    "columns", [1, 33, 64, 512, 768, 1024, 2048, 3072, 4096, 5120, 7168, 8192, 8193, 12_288, 14_336, 16_384, 65_536]
)
def test_the_rule_is_a_choice_whose_threads_have_few_numbers(norm: str, columns: int, itemsize: int) -> None:
    rule = TUNINGS[f"{norm}_backward"].rule((4096, columns), itemsize)
    assert rule in list(norm_backward_choices((4096, columns), itemsize))
    if "COLUMNS" in dict(rule.constants):
        assert columns > WIDEST_CENTRED_ROW
        assert rule["COLUMNS"] % (32 * rule.num_warps) == 0
    else:
        pieces = -(-columns // rule["BLOCK"])
        most = 40 if columns <= WIDE_ROW else 64
        assert rule["ROWS"] * pieces * rule["BLOCK"] <= most * 32 * rule.num_warps
        assert rule["SHARE"] * rule.num_warps <= 32


@pytest.mark.parametrize(("added", "biased", "tensors"), [(False, False, 3), (True, False, 4), (False, True, 3)])
def test_the_least_traffic_is_each_tensor_once(added: bool, biased: bool, tensors: int) -> None:
    traffic = norm_backward_traffic((1024, 512), 2, added=added, biased=biased)
    assert traffic.read_bytes + traffic.written_bytes == (tensors * 1024 + 2 + biased) * 512 * 2


def test_what_it_refuses(device: str) -> None:
    dy, x, weight = drawn("rmsnorm", (4, 8), torch.float32, device)
    with pytest.raises(TypeError, match="rmsnorm_backward: dy is a list"):
        rmsnorm_backward([1.0], x, weight)  # type: ignore[arg-type]
    with pytest.raises(
        ValueError, match=re.escape("rmsnorm_backward: dy has shape (3, 8); accepted is that of x, (4, 8)")
    ):
        rmsnorm_backward(dy[:3], x, weight)
    with pytest.raises(ValueError, match="layernorm_backward: dy has stride 4 in its last dimension"):
        layernorm_backward(torch.ones(8, 4, device=device).t(), x, weight)
    with pytest.raises(ValueError, match="add_rmsnorm_backward: ds has dtype"):
        add_rmsnorm_backward(dy, dy.half(), x, weight)
    with pytest.raises(ValueError, match="rmsnorm_backward: eps is -1"):
        rmsnorm_backward(dy, x, weight, -1)
    with pytest.raises(NotImplementedError, match="rmsnorm_backward: x requires grad, and this kernel has no backward"):
        rmsnorm_backward(dy, x.clone().requires_grad_(), weight)


def losses(norm: str) -> Callable[..., Tensor]:
    """A number that depends on every result of a norm, in a way of its own."""
    if norm == "add_rmsnorm":
        return lambda x, w: (lambda y, s: (y * y.detach() + 2 * s * w.detach()).sum())(*add_rmsnorm(x, x * 2, w))
    if norm == "layernorm":
        return lambda x, w: (lambda y: (y * y.detach()).sum())(layernorm(x, w, w))
    return lambda x, w: (lambda y: (y * y.detach()).sum())(rmsnorm(x, w))


def of_pytorch(norm: str) -> Callable[..., Tensor]:
    functional = torch.nn.functional
    if norm == "add_rmsnorm":
        return lambda x, w: (lambda y, s: (y * y.detach() + 2 * s * w.detach()).sum())(
            functional.rms_norm(3 * x, w.shape, w, 1e-6), 3 * x
        )
    if norm == "layernorm":
        return lambda x, w: (lambda y: (y * y.detach()).sum())(functional.layer_norm(x, w.shape, w, w))
    return lambda x, w: (lambda y: (y * y.detach()).sum())(functional.rms_norm(x, w.shape, w, 1e-6))


@every_norm
def test_autograd_finds_the_gradients(norm: str, device: str) -> None:
    leaves = tuple(each.requires_grad_() for each in drawn("rmsnorm", (5, 24), torch.float32, device)[1:])
    mine = torch.autograd.grad(losses(norm)(*leaves), leaves)
    theirs = torch.autograd.grad(of_pytorch(norm)(*leaves), leaves)
    for one, other in zip(mine, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)


def test_a_gradient_that_is_one_element_for_all(device: str) -> None:
    _, x, weight = (each.requires_grad_() for each in drawn("rmsnorm", (5, 24), torch.float32, device))
    (dw,) = torch.autograd.grad(rmsnorm(x, weight).sum(), weight)
    torch.testing.assert_close(dw, torch.nn.functional.rms_norm(x, (24,), None, 1e-6).sum(0))


@pytest.mark.parametrize("norm", ["rmsnorm", "layernorm"])
def test_without_an_epsilon_rows_that_are_not_there_add_nothing(norm: str, device: str) -> None:
    """A program has eight rows here, and the tensor three."""
    tensors = drawn(norm, (3, 64), torch.float32, device)
    backward, reference, *_ = NORMS[norm]
    eight = next(each for each in norm_backward_choices((3, 64), 4) if each["ROWS"] == 8)
    results = backward(*tensors, 0.0, configuration=eight)
    for result, truth in zip(results, reference(*tensors, 0.0), strict=True):
        torch.testing.assert_close(result.double(), truth, rtol=1e-4, atol=1e-4)


def test_the_gradient_of_the_sum_of_no_rows(device: str) -> None:
    """Its elements are one element for all, which nothing can make adjacent."""
    x = torch.zeros(0, 8, device=device, requires_grad=True)
    weight = torch.ones(8, device=device, requires_grad=True)
    rmsnorm(x, weight).sum().backward()
    assert x.grad is not None
    assert weight.grad is not None
    assert x.grad.shape == (0, 8)
    assert weight.grad.tolist() == [0.0] * 8


def test_no_gradient_of_a_gradient(device: str) -> None:
    _, x, weight = (each.requires_grad_() for each in drawn("rmsnorm", (5, 24), torch.float32, device))
    y = rmsnorm(x, weight)
    with pytest.raises(NotImplementedError, match="requires grad, and this kernel has no backward"):
        torch.autograd.grad(y.sum(), x, create_graph=True)


def test_with_a_configuration_no_gradient(device: str) -> None:
    _, x, weight = drawn("rmsnorm", (4, 8), torch.float32, device)
    chosen = Configuration.of(ROWS=1, BLOCK=8, num_warps=1)
    with pytest.raises(NotImplementedError, match="with a configuration the kernel has no backward"):
        rmsnorm(x.requires_grad_(), weight, configuration=chosen)


@pytest.mark.gpu
@every_norm
@pytest.mark.parametrize("shape", [(8192, 4096), (3001, 5120), (513, 8192), (300, 16_384), (9, 524_288)], ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_many_rows_on_a_gpu_give_the_same_bits_again(norm: str, shape: tuple[int, int], dtype: torch.dtype) -> None:
    backward, reference, _, _ = NORMS[norm]
    tensors = drawn(norm, shape, dtype, "cuda")
    results = backward(*tensors)
    for result, truth, again in zip(results, reference(*tensors), backward(*tensors), strict=True):
        assert torch.equal(result, again)
        epsilons = 32 if dtype == torch.float32 else 1
        scale = truth.abs() + truth.square().mean().sqrt()
        assert bool(((result.double() - truth).abs() <= epsilons * torch.finfo(dtype).eps * scale).all())
