"""Gradients of gated linear units, element by element: dgate = dy · up · act′(gate), dup = dy · act(gate).

dy, gate, up, dgate, dup: (…, N), float16, bfloat16 or float32; all arithmetic in float32, rounded once. The activations
are those of `glu.py`, computed again from gate, so that the forward pass saves nothing but its inputs.
"""

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from lab.kernels.activations import gelu_erf_slope, gelu_tanh_slope, silu_slope, silu_slope_exact
from lab.kernels.checks import check_adjacent, check_alike, check_tensor
from lab.kernels.early import wait_for_previous
from lab.kernels.launch import Configuration, Launch, Launches, as_rows, nothing, result_like
from lab.kernels.library import registered, row_result, traced
from lab.kernels.traffic import Traffic
from lab.kernels.tuned import Tuning, by_elements

LOAD_BYTES = 16  # the widest load of a thread


@triton.jit
def _glu_backward_kernel(
    dy_ptr, gate_ptr, up_ptr, dgate_ptr, dup_ptr, N, dy_stride, gate_stride, up_stride,
    SLOPE: tl.constexpr, BLOCK: tl.constexpr, ONE_RUN: tl.constexpr,
):  # fmt: skip
    """BLOCK columns of one row a program. Only the last program of a row masks its loads: a mask makes them narrower.

    SLOPE: gives (act, act′). ONE_RUN: all rows follow each other in memory and are taken as one row of N columns.
    """
    wait_for_previous()
    row, tile = 0, tl.program_id(0)
    if not ONE_RUN:
        tiles = tl.cdiv(N, BLOCK)
        row, tile = (tile // tiles).to(tl.int64), tile % tiles
        dy_ptr += row * dy_stride
        gate_ptr += row * gate_stride
        up_ptr += row * up_stride
        dgate_ptr += row * N
        dup_ptr += row * N
    start = tile.to(tl.int64) * BLOCK
    offsets = start + tl.arange(0, BLOCK)
    if N - start >= BLOCK:
        _write_gradients(dy_ptr, gate_ptr, up_ptr, dgate_ptr, dup_ptr, offsets, None, SLOPE)
    else:
        _write_gradients(dy_ptr, gate_ptr, up_ptr, dgate_ptr, dup_ptr, offsets, offsets < N, SLOPE)


@triton.jit
def _write_gradients(dy_ptr, gate_ptr, up_ptr, dgate_ptr, dup_ptr, offsets, inside, SLOPE: tl.constexpr):
    gate = tl.load(gate_ptr + offsets, mask=inside).to(tl.float32)
    up = tl.load(up_ptr + offsets, mask=inside).to(tl.float32)
    dy = tl.load(dy_ptr + offsets, mask=inside).to(tl.float32)
    activated, slope = SLOPE(gate)
    tl.store(dgate_ptr + offsets, (dy * up * slope).to(dgate_ptr.dtype.element_ty), mask=inside)
    tl.store(dup_ptr + offsets, (dy * activated).to(dup_ptr.dtype.element_ty), mask=inside)


def swiglu_backward(
    dy: Tensor, gate: Tensor, up: Tensor, *, configuration: Configuration | None = None
) -> tuple[Tensor, Tensor]:
    """(dgate, dup): the gradients of both inputs of `swiglu(gate, up)`, for the gradient dy of its result, in one
    kernel launch.

    dy, gate, up: (..., N) of one shape and dtype, adjacent columns, any distance between rows. configuration: how to
    launch, one of `glu_backward_choices`; if None, by rule: `lab tune` cannot tune it yet. Returns new contiguous
    tensors of their shape and dtype; no elements give empty results. Raises TypeError or ValueError naming the
    argument, what it was and what is accepted, and NotImplementedError where a gradient would be needed.
    """
    if configuration is None and traced(gate):
        both: tuple[Tensor, Tensor] = _registered_swiglu(dy, gate, up)
        return both
    return _gradients(_SWIGLU, dy, gate, up, configuration)


def geglu_erf_backward(
    dy: Tensor, gate: Tensor, up: Tensor, *, configuration: Configuration | None = None
) -> tuple[Tensor, Tensor]:
    """(dgate, dup) of `geglu_erf(gate, up)`; otherwise as `swiglu_backward`."""
    if configuration is None and traced(gate):
        both: tuple[Tensor, Tensor] = _registered_geglu_erf(dy, gate, up)
        return both
    return _gradients(_GEGLU_ERF, dy, gate, up, configuration)


def geglu_tanh_backward(
    dy: Tensor, gate: Tensor, up: Tensor, *, configuration: Configuration | None = None
) -> tuple[Tensor, Tensor]:
    """(dgate, dup) of `geglu_tanh(gate, up)`; otherwise as `swiglu_backward`."""
    if configuration is None and traced(gate):
        both: tuple[Tensor, Tensor] = _registered_geglu_tanh(dy, gate, up)
        return both
    return _gradients(_GEGLU_TANH, dy, gate, up, configuration)


def _empty(dy: Tensor, gate: Tensor, up: Tensor) -> tuple[Tensor, Tensor]:
    return row_result(gate), row_result(gate)


@registered("swiglu_backward", _empty)
def _registered_swiglu(dy: Tensor, gate: Tensor, up: Tensor) -> tuple[Tensor, Tensor]:
    return _gradients(_SWIGLU, dy, gate, up)


@registered("geglu_erf_backward", _empty)
def _registered_geglu_erf(dy: Tensor, gate: Tensor, up: Tensor) -> tuple[Tensor, Tensor]:
    return _gradients(_GEGLU_ERF, dy, gate, up)


@registered("geglu_tanh_backward", _empty)
def _registered_geglu_tanh(dy: Tensor, gate: Tensor, up: Tensor) -> tuple[Tensor, Tensor]:
    return _gradients(_GEGLU_TANH, dy, gate, up)


def _gradients(
    launches: Launches, dy: Tensor, gate: Tensor, up: Tensor, configuration: Configuration | None = None
) -> tuple[Tensor, Tensor]:
    launch = launches(dy, gate, up, options=(configuration,))
    dgate, dup = result_like(gate), result_like(gate)
    launch(as_rows(dy), as_rows(gate), as_rows(up), dgate, dup)
    return dgate, dup


def _prepare(
    tuning: Tuning, slope: triton.JITFunction, dy: Tensor, gate: Tensor, up: Tensor,
    configuration: Configuration | None,
) -> Callable[..., Any]:  # fmt: skip
    op = tuning.operator.replace("-", "_")
    for name, tensor in (("dy", dy), ("gate", gate), ("up", up)):
        check_tensor(op, name, tensor)
        check_adjacent(op, name, tensor)
    check_alike(op, "up", up, "gate", gate)
    check_alike(op, "dy", dy, "gate", gate)
    if gate.numel() == 0:
        return nothing
    one_run = all(tensor.is_contiguous() for tensor in (dy, gate, up))
    shape = (1, gate.numel()) if one_run else (-1, gate.shape[-1])
    dy, gate, up = (tensor.reshape(shape) for tensor in (dy, gate, up))
    M, N = gate.shape
    chosen = configuration or tuning.choose((M, N), gate)
    if slope is silu_slope and gate.dtype == torch.float32:
        slope = silu_slope_exact
    return Launch(
        _glu_backward_kernel, M * triton.cdiv(N, chosen["BLOCK"]), gate.get_device(),
        N, dy.stride(0), gate.stride(0), up.stride(0),
        early=True, num_warps=chosen.num_warps, num_stages=chosen.num_stages,
        SLOPE=slope, BLOCK=chosen["BLOCK"], ONE_RUN=one_run,
    )  # fmt: skip


def glu_backward_rule(shape: tuple[int, ...], itemsize: int) -> Configuration:
    """BLOCK and warps for any shape: a thread loads 16 bytes of each input."""
    return Configuration.of(BLOCK=_block(4, 1, itemsize), num_warps=4)


def glu_backward_choices(shape: tuple[int, ...], itemsize: int) -> Iterator[Configuration]:
    """The configurations that a search may try: few to many threads a program, one or two loads of each input."""
    for num_warps in (2, 4, 8, 16):
        for loads in (1, 2):
            yield Configuration.of(BLOCK=_block(num_warps, loads, itemsize), num_warps=num_warps)


def _block(num_warps: int, loads: int, itemsize: int) -> int:
    return num_warps * 32 * loads * LOAD_BYTES // itemsize


SWIGLU_BACKWARD_TUNING, GEGLU_ERF_BACKWARD_TUNING, GEGLU_TANH_BACKWARD_TUNING = (
    Tuning(f"{unit}-backward", __name__, glu_backward_rule, glu_backward_choices, by_elements, form="")
    for unit in ("swiglu", "geglu-erf", "geglu-tanh")
)

_SWIGLU = Launches(partial(_prepare, SWIGLU_BACKWARD_TUNING, silu_slope))
_GEGLU_ERF = Launches(partial(_prepare, GEGLU_ERF_BACKWARD_TUNING, gelu_erf_slope))
_GEGLU_TANH = Launches(partial(_prepare, GEGLU_TANH_BACKWARD_TUNING, gelu_tanh_slope))


def swiglu_backward_reference(dy: Tensor, gate: Tensor, up: Tensor) -> tuple[Tensor, Tensor]:
    """(dgate, dup) in float64, on the device of `gate`, by autograd."""
    return _by_autograd(torch.nn.functional.silu, dy, gate, up)


def geglu_erf_backward_reference(dy: Tensor, gate: Tensor, up: Tensor) -> tuple[Tensor, Tensor]:
    """(dgate, dup) in float64, on the device of `gate`, by autograd."""
    return _by_autograd(torch.nn.functional.gelu, dy, gate, up)


def geglu_tanh_backward_reference(dy: Tensor, gate: Tensor, up: Tensor) -> tuple[Tensor, Tensor]:
    """(dgate, dup) of the approximation, in float64, on the device of `gate`, by autograd."""
    return _by_autograd(partial(torch.nn.functional.gelu, approximate="tanh"), dy, gate, up)


def _by_autograd(activation: Callable[[Tensor], Tensor], dy: Tensor, gate: Tensor, up: Tensor) -> tuple[Tensor, Tensor]:
    with torch.enable_grad():
        leaves = tuple(tensor.detach().double().requires_grad_() for tensor in (gate, up))
        dgate, dup = torch.autograd.grad(activation(leaves[0]) * leaves[1], leaves, dy.double())
    return dgate, dup


def glu_backward_inputs(
    shape: tuple[int, ...], dtype: torch.dtype, device: str, seed: int
) -> tuple[Tensor, Tensor, Tensor]:
    """(dy, gate, up) of normal data."""
    generator = torch.Generator(device).manual_seed(seed)
    dy, gate, up = (torch.randn(shape, dtype=dtype, device=device, generator=generator) for _ in range(3))
    return dy, gate, up


def glu_backward_traffic(shape: tuple[int, ...], itemsize: int) -> Traffic:
    """Least work: read dy, gate and up once, write both gradients once; activation, its slope and the products count as
    ten operations."""
    size_bytes = math.prod(shape) * itemsize
    return Traffic(read_bytes=3 * size_bytes, written_bytes=2 * size_bytes, flops=10 * math.prod(shape))
