"""The first half of a gated MLP in one kernel: y = activation(x @ gateᵀ) · (x @ upᵀ).

x: (…, K)   gate, up: (F, K), each a weight of a linear layer   y: (…, F), float16 or bfloat16. Both products are summed
in float32. The result is rounded once, after the activation and the product of the two. The second half, the down
projection, is a separate matrix product over F: it needs whole rows of y, and no program here has one.
Definition: Shazeer, "GLU Variants Improve Transformer", 2020.
"""

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from lab.kernels.activations import activation_reference, checked_activation
from lab.kernels.checks import check_alike
from lab.kernels.gemm import Product, by_product
from lab.kernels.gemm_rule import gated_choices, gated_rule, settle_product
from lab.kernels.launch import Configuration, Launches, as_rows, nothing
from lab.kernels.matmul import check_factors
from lab.kernels.traffic import Traffic
from lab.kernels.tuned import Tuning

GATES = ("silu", "gelu-erf", "gelu-tanh", "relu")


def gated_mlp(
    x: Tensor, gate: Tensor, up: Tensor, activation: str = "silu", *, configuration: Configuration | None = None
) -> Tensor:
    """activation(x @ gate.T) * (x @ up.T), in one kernel launch, or in three if operands are copied first.

    They are copied on a Hopper GPU, unless the product is small, if the rows of x, gate or up do not begin at multiples
    of 16 bytes or their k are not adjacent: both weights, and x if it is so. The copies need as much memory as these.

    x: (..., K), of at least two dimensions; gate, up: (F, K) of one shape, strides and dtype, float16 or bfloat16.
    If they are packed in one tensor (2F, K), gate first, pass `*packed.chunk(2)`, which copies nothing.
    activation: "silu", "gelu-erf", "gelu-tanh" or "relu". configuration: how to launch, one of `gated_choices`; by
    default by rule: `lab tune` cannot tune it yet.
    Returns a new contiguous tensor (..., F); no rows or columns give an empty result. Equal calls give equal bits.
    Raises TypeError or ValueError naming the argument, what it was and what is accepted, and
    NotImplementedError where a gradient would be needed.
    """
    multiply = _LAUNCHES(x, gate, up, options=(activation, configuration))
    y = torch.empty((*x.shape[:-1], gate.shape[0]), dtype=x.dtype, device=x.device)
    multiply(as_rows(x), gate.t(), up.t(), y, None, None, None)
    return y


def _prepare(
    x: Tensor, gate: Tensor, up: Tensor, activation: str, configuration: Configuration | None
) -> Callable[..., Any]:
    if isinstance(gate, Tensor) and gate.dim() != 2:
        raise ValueError(f"gated_mlp: gate has shape {tuple(gate.shape)}; accepted is (F, K)")
    check_factors("gated_mlp", x, gate.t() if isinstance(gate, Tensor) else gate, names=("x", "gate.t()"))
    if x.dtype == torch.float32:
        raise TypeError("gated_mlp: x has dtype torch.float32; accepted are torch.float16, torch.bfloat16")
    check_factors("gated_mlp", x, up.t() if isinstance(up, Tensor) else up, names=("x", "up.t()"))
    check_alike("gated_mlp", "up", up, "gate", gate)
    if gate.stride() != up.stride():
        raise ValueError(f"gated_mlp: up has strides {up.stride()}; accepted are those of gate, {gate.stride()}")
    function = checked_activation("gated_mlp", activation, GATES)
    if math.prod(x.shape[:-1]) * len(gate) == 0:
        return nothing
    rows = as_rows(x)
    rows = rows if rows.dim() == 2 else rows.view(-1, x.shape[-1])
    product = Product(rows, gate.t(), x.dtype, b2=up.t(), activation=function)
    return settle_product(product, configuration or GATED_MLP_TUNING.choose(product.shape, x))


_LAUNCHES = Launches(_prepare)


def gated_mlp_choices(shape: tuple[int, ...], itemsize: int) -> Iterator[Configuration]:
    """The configurations that a search may try for (M, F, K)."""
    return gated_choices(shape, itemsize)


GATED_MLP_TUNING = Tuning("gated-mlp", __name__, gated_rule, gated_mlp_choices, by_product, form="MxFxK")


def gated_mlp_reference(x: Tensor, gate: Tensor, up: Tensor, activation: str = "silu") -> Tensor:
    """The float64 result, on the device of `x`."""
    x = x.double()
    return activation_reference(activation, x @ gate.double().t()) * (x @ up.double().t())


def gated_mlp_inputs(shape: tuple[int, ...], dtype: torch.dtype, device: str, seed: int) -> tuple[Tensor, ...]:
    """(x, gate, up) for shape (M, F, K) of normal data. gate and up are the halves of one packed weight, scaled so that
    the products have unit variance."""
    M, F, K = shape
    generator = torch.Generator(device).manual_seed(seed)
    x = torch.randn((M, K), dtype=dtype, device=device, generator=generator)
    packed = torch.randn((2 * F, K), dtype=dtype, device=device, generator=generator) * K**-0.5
    return x, *packed.chunk(2)


def gated_mlp_traffic(shape: tuple[int, ...], itemsize: int) -> Traffic:
    """Least work for (M, F, K): read x and both weights once, write y once; two matrix products, and five operations
    an element of y for the activation and the product."""
    M, F, K = shape
    return Traffic(
        read_bytes=(M * K + 2 * F * K) * itemsize, written_bytes=M * F * itemsize, flops=4 * M * F * K + 5 * M * F
    )  # fmt: skip
