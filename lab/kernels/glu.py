"""Gated linear units, element by element: y = act(gate) · up.

gate, up, y: (…, N), float16, bfloat16 or float32; all arithmetic in float32, rounded once. SwiGLU takes
act(g) = g · σ(g). GeGLU takes the Gaussian error linear unit in one of two forms, which differ by up to 5e-4:
`geglu_erf` has g · Φ(g), `geglu_tanh` the approximation g · σ(2 √(2/π) (g + 0.044715 g³)), where
½ (1 + tanh z) = σ(2 z). Definitions: Shazeer, "GLU Variants Improve Transformer", 2020; Hendrycks and Gimpel,
"Gaussian Error Linear Units", 2016.
"""

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from lab.kernels.activations import gelu_erf, gelu_tanh, silu, silu_exact
from lab.kernels.checks import GradientNeeded, check_adjacent, check_alike, check_tensor
from lab.kernels.early import wait_for_previous
from lab.kernels.glu_backward import geglu_erf_backward, geglu_tanh_backward, swiglu_backward
from lab.kernels.launch import Configuration, Launch, Launches, as_rows, nothing, result_like
from lab.kernels.library import Trainable, adjacent, registered, row_result, traced
from lab.kernels.traffic import Traffic
from lab.kernels.tuned import Tuning, by_elements

LOAD_BYTES = 16  # the widest load of a thread
LARGE_BYTES = 2**19  # of gate


@triton.jit
def _glu_kernel(
    gate_ptr, up_ptr, y_ptr, N, gate_stride, up_stride,
    ACTIVATION: tl.constexpr, BLOCK: tl.constexpr, ONE_RUN: tl.constexpr,
):  # fmt: skip
    """BLOCK columns of one row a program. Only the last program of a row masks its loads: a mask makes them narrower.

    ONE_RUN: all rows follow each other in memory and are taken as one row of N columns.
    """
    wait_for_previous()
    row, tile = 0, tl.program_id(0)
    if not ONE_RUN:
        tiles = tl.cdiv(N, BLOCK)
        row, tile = (tile // tiles).to(tl.int64), tile % tiles
        gate_ptr += row * gate_stride
        up_ptr += row * up_stride
        y_ptr += row * N
    start = tile.to(tl.int64) * BLOCK
    offsets = start + tl.arange(0, BLOCK)
    if N - start >= BLOCK:
        gate = tl.load(gate_ptr + offsets)
        up = tl.load(up_ptr + offsets)
        y = ACTIVATION(gate.to(tl.float32)) * up.to(tl.float32)
        tl.store(y_ptr + offsets, y.to(y_ptr.dtype.element_ty))
    else:
        inside = offsets < N
        gate = tl.load(gate_ptr + offsets, mask=inside)
        up = tl.load(up_ptr + offsets, mask=inside)
        y = ACTIVATION(gate.to(tl.float32)) * up.to(tl.float32)
        tl.store(y_ptr + offsets, y.to(y_ptr.dtype.element_ty), mask=inside)


def swiglu(gate: Tensor, up: Tensor, *, configuration: Configuration | None = None) -> Tensor:
    """SiLU(gate) · up, in one kernel launch.

    gate, up: (..., N) of one shape and dtype, adjacent columns, any distance between rows.
    configuration: how to launch, one of `glu_choices`; by default as tuned here, else by rule.
    Returns a new contiguous tensor of their shape and dtype; no elements give an empty result.
    Raises TypeError or ValueError naming the argument, what it was and what is accepted. Gradients
    of both are those of `swiglu_backward`; NotImplementedError if one is needed and a configuration given.
    """
    if configuration is None and traced(gate):
        y: Tensor = _registered_swiglu(gate, up)
        return y
    try:
        return _glu(_SWIGLU, gate, up, configuration)
    except GradientNeeded:
        y = _TRAINABLE_SWIGLU(configuration, gate, up)
        return y


def geglu_erf(gate: Tensor, up: Tensor, *, configuration: Configuration | None = None) -> Tensor:
    """GELU(gate) · up with the error function itself; otherwise as `swiglu`."""
    if configuration is None and traced(gate):
        y: Tensor = _registered_geglu_erf(gate, up)
        return y
    try:
        return _glu(_GEGLU_ERF, gate, up, configuration)
    except GradientNeeded:
        y = _TRAINABLE_GEGLU_ERF(configuration, gate, up)
        return y


def geglu_tanh(gate: Tensor, up: Tensor, *, configuration: Configuration | None = None) -> Tensor:
    """GELU(gate) · up with the tanh approximation; otherwise as `swiglu`."""
    if configuration is None and traced(gate):
        y: Tensor = _registered_geglu_tanh(gate, up)
        return y
    try:
        return _glu(_GEGLU_TANH, gate, up, configuration)
    except GradientNeeded:
        y = _TRAINABLE_GEGLU_TANH(configuration, gate, up)
        return y


def halves(packed: Tensor) -> tuple[Tensor, Tensor]:
    """(gate, up) of a packed tensor (..., 2N), gate first, as views: `swiglu(*halves(packed))` copies nothing.

    TypeError if it is not a tensor, ValueError if the last dimension is odd.
    """
    if not isinstance(packed, Tensor):
        raise TypeError(f"halves: packed is a {type(packed).__name__}; accepted is a torch.Tensor")
    if packed.dim() < 1 or packed.shape[-1] % 2:
        raise ValueError(f"halves: packed has shape {tuple(packed.shape)}; accepted is (..., 2N)")
    N = packed.shape[-1] // 2
    return packed[..., :N], packed[..., N:]


def _empty_as_gate(gate: Tensor, up: Tensor) -> Tensor:
    return row_result(gate)


@registered("swiglu", _empty_as_gate)
def _registered_swiglu(gate: Tensor, up: Tensor) -> Tensor:
    return _glu(_SWIGLU, gate, up)


@registered("geglu_erf", _empty_as_gate)
def _registered_geglu_erf(gate: Tensor, up: Tensor) -> Tensor:
    return _glu(_GEGLU_ERF, gate, up)


@registered("geglu_tanh", _empty_as_gate)
def _registered_geglu_tanh(gate: Tensor, up: Tensor) -> Tensor:
    return _glu(_GEGLU_TANH, gate, up)


def _save(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
    ctx.save_for_backward(*inputs)


def _trainable(launches: Launches, operator: Any, gradients: Callable[..., tuple[Tensor, Tensor]]) -> Trainable:
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor, Tensor]:
        return gradients(adjacent(dy), *ctx.saved_tensors)

    return Trainable(operator, partial(_glu, launches), _save, backward)


def _glu(launches: Launches, gate: Tensor, up: Tensor, configuration: Configuration | None = None) -> Tensor:
    launch = launches(gate, up, options=(configuration,))
    y = result_like(gate)
    launch(as_rows(gate), as_rows(up), y)
    return y


def _prepare(
    tuning: Tuning, activation: triton.JITFunction, gate: Tensor, up: Tensor, configuration: Configuration | None
) -> Callable[..., Any]:
    op = tuning.operator.replace("-", "_")
    for name, tensor in (("gate", gate), ("up", up)):
        check_tensor(op, name, tensor)
        check_adjacent(op, name, tensor)
    check_alike(op, "up", up, "gate", gate)
    if gate.numel() == 0:
        return nothing
    one_run = gate.is_contiguous() and up.is_contiguous()
    shape = (1, gate.numel()) if one_run else (-1, gate.shape[-1])
    gate, up = gate.reshape(shape), up.reshape(shape)
    M, N = gate.shape
    # Rows apart are launched as one of them alone would be: its end would leave lanes of a wide program without work.
    chosen = configuration or tuning.choose((1, N), gate)
    if activation is silu and gate.dtype == torch.float32:
        activation = silu_exact
    return Launch(
        _glu_kernel, M * triton.cdiv(N, chosen["BLOCK"]), gate.get_device(), N, gate.stride(0), up.stride(0),
        early=True, num_warps=chosen.num_warps, num_stages=chosen.num_stages,
        ACTIVATION=activation, BLOCK=chosen["BLOCK"], ONE_RUN=one_run,
    )  # fmt: skip


def glu_rule(shape: tuple[int, ...], itemsize: int) -> Configuration:
    """BLOCK and warps for any shape: a thread loads 16 bytes of gate and 16 of up.

    From 512 KiB on a program has eight warps, which is up to 3 % faster than four on an H100 (2.4 and 3.3 million
    elements of float32, 5 and 7 million of bfloat16). Float32 of 2 to 4 MiB is held by the multiprocessors at once;
    there two loads a thread are up to 4 % faster.
    """
    size_bytes = math.prod(shape) * itemsize
    if size_bytes < LARGE_BYTES:
        return Configuration.of(BLOCK=_block(4, 1, itemsize), num_warps=4)
    loads = 2 if itemsize == 4 and 4 * LARGE_BYTES < size_bytes <= 8 * LARGE_BYTES else 1
    return Configuration.of(BLOCK=_block(8, loads, itemsize), num_warps=8)


def glu_choices(shape: tuple[int, ...], itemsize: int) -> Iterator[Configuration]:
    """The configurations that a search may try: few to many threads a program, one to four loads of gate and of up."""
    for num_warps in (2, 4, 8, 16):
        for loads in (1, 2, 4):
            yield Configuration.of(BLOCK=_block(num_warps, loads, itemsize), num_warps=num_warps)


def _block(num_warps: int, loads: int, itemsize: int) -> int:
    return num_warps * 32 * loads * LOAD_BYTES // itemsize


SWIGLU_TUNING = Tuning("swiglu", __name__, glu_rule, glu_choices, by_elements, form="")
GEGLU_ERF_TUNING = Tuning("geglu-erf", __name__, glu_rule, glu_choices, by_elements, form="")
GEGLU_TANH_TUNING = Tuning("geglu-tanh", __name__, glu_rule, glu_choices, by_elements, form="")

_SWIGLU = Launches(partial(_prepare, SWIGLU_TUNING, silu))
_GEGLU_ERF = Launches(partial(_prepare, GEGLU_ERF_TUNING, gelu_erf))
_GEGLU_TANH = Launches(partial(_prepare, GEGLU_TANH_TUNING, gelu_tanh))

_TRAINABLE_SWIGLU = _trainable(_SWIGLU, _registered_swiglu, swiglu_backward)
_TRAINABLE_GEGLU_ERF = _trainable(_GEGLU_ERF, _registered_geglu_erf, geglu_erf_backward)
_TRAINABLE_GEGLU_TANH = _trainable(_GEGLU_TANH, _registered_geglu_tanh, geglu_tanh_backward)


def swiglu_reference(gate: Tensor, up: Tensor) -> Tensor:
    """The float64 result, on the device of `gate`."""
    return torch.nn.functional.silu(gate.double()) * up.double()


def geglu_erf_reference(gate: Tensor, up: Tensor) -> Tensor:
    """The float64 result, on the device of `gate`."""
    return torch.nn.functional.gelu(gate.double()) * up.double()


def geglu_tanh_reference(gate: Tensor, up: Tensor) -> Tensor:
    """The float64 result of the approximation, on the device of `gate`."""
    return torch.nn.functional.gelu(gate.double(), approximate="tanh") * up.double()


def glu_inputs(shape: tuple[int, ...], dtype: torch.dtype, device: str, seed: int) -> tuple[Tensor, Tensor]:
    """(gate, up) of normal data."""
    generator = torch.Generator(device).manual_seed(seed)
    gate = torch.randn(shape, dtype=dtype, device=device, generator=generator)
    return gate, torch.randn(shape, dtype=dtype, device=device, generator=generator)


def glu_traffic(shape: tuple[int, ...], itemsize: int) -> Traffic:
    """Least work: read gate and up once, write y once; activation and product count as five operations."""
    size_bytes = math.prod(shape) * itemsize
    return Traffic(read_bytes=2 * size_bytes, written_bytes=size_bytes, flops=5 * math.prod(shape))
