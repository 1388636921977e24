"""Matrix product: y = activation(a @ b + bias).

a: (…, M, K)   b: (K, N)   bias: (N,)   y: (…, M, N), float16, bfloat16 or float32. float32 is multiplied as tensor
float 32, which keeps 10 bits of each factor's mantissa. Sums are in float32 and rounded once. Both operands may have
any strides: pass the weight of a linear layer, (N, K), as `weight.t()`.
"""

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from lab.kernels.activations import activation_reference, checked_activation
from lab.kernels.checks import check_tensor
from lab.kernels.gemm import Product, by_product
from lab.kernels.gemm_rule import gemm_choices, gemm_rule, settle_product
from lab.kernels.launch import Configuration, Launches, as_rows, nothing
from lab.kernels.traffic import Traffic
from lab.kernels.tuned import Tuning


def matmul(
    a: Tensor,
    b: Tensor,
    bias: Tensor | None = None,
    activation: str = "none",
    *,
    configuration: Configuration | None = None,
) -> Tensor:
    """activation(a @ b + bias), in one kernel launch, or in two if few tiles make it split K over programs.

    On a Hopper GPU operands that TMA cannot read are copied first, unless the product is small: one more
    launch, and as much memory as the copied operands. It reads rows, or in 16-bit dtypes columns, of adjacent elements
    that begin at multiples of 16 bytes.

    a: (..., M, K) of at least two dimensions, and b: (K, N), both with any strides; float16, bfloat16 or float32, one
    dtype. bias: (N,), contiguous, of that dtype. activation: "none", "relu", "silu", "gelu-erf" or "gelu-tanh".
    configuration: how to launch, one of `gemm_choices`; if None, by rule: `lab tune` cannot tune it yet.
    Returns a new contiguous tensor (..., M, N). No rows or columns give an empty result; K = 0 counts as a product of
    zeros. Equal calls give equal bits. float32 is multiplied as tensor float 32.
    Raises TypeError or ValueError naming the argument, what it was and what is accepted, and
    NotImplementedError where a gradient would be needed.
    """
    if bias is None:
        multiply = _LAUNCHES(a, b, options=(activation, configuration))
    else:
        multiply = _BIASED(a, b, bias, options=(activation, configuration))
    y = torch.empty((*a.shape[:-1], b.shape[1]), dtype=a.dtype, device=a.device)
    multiply(as_rows(a), b, None, y, bias, None, None)
    return y


def _prepare(a: Tensor, b: Tensor, activation: str, configuration: Configuration | None) -> Callable[..., Any]:
    return _settled(a, b, None, activation, configuration)


def _settle_biased(
    a: Tensor, b: Tensor, bias: Tensor, activation: str, configuration: Configuration | None
) -> Callable[..., Any]:
    return _settled(a, b, bias, activation, configuration)


def _settled(
    a: Tensor, b: Tensor, bias: Tensor | None, activation: str, configuration: Configuration | None
) -> Callable[..., Any]:
    check_factors("matmul", a, b)
    if bias is not None:
        check_columns("matmul", "bias", bias, b)
    function = checked_activation("matmul", activation)
    if math.prod(a.shape[:-1]) * b.shape[1] == 0:
        return nothing
    rows = as_rows(a)
    rows = rows if rows.dim() == 2 else rows.view(-1, a.shape[-1])
    product = Product(rows, b, a.dtype, activation=function, bias=bias is not None)
    return settle_product(product, configuration or MATMUL_TUNING.choose(product.shape, a))


def check_factors(op: str, a: Tensor, b: Tensor, names: tuple[str, str] = ("a", "b")) -> None:
    """Raise unless `a` is (..., M, K) and `b` is (K, N), of one dtype on one device."""
    first, second = names
    check_tensor(op, first, a)
    check_tensor(op, second, b)
    if a.dim() < 2:
        raise ValueError(f"{op}: {first} has shape {tuple(a.shape)}; accepted is (..., M, K), two dimensions or more")
    if b.dim() != 2 or b.shape[0] != a.shape[-1]:
        raise ValueError(
            f"{op}: {second} has shape {tuple(b.shape)}; accepted is ({a.shape[-1]}, N), for the K of {first}"
        )
    for what in ("dtype", "device"):
        if getattr(a, what) != getattr(b, what):
            raise ValueError(
                f"{op}: {second} has {what} {getattr(b, what)}; accepted is that of {first}, {getattr(a, what)}"
            )


def check_columns(op: str, name: str, vector: Tensor, b: Tensor) -> None:
    """Raise unless `vector` is a contiguous (N,) for the columns of `b`, of its dtype and device."""
    check_tensor(op, name, vector)
    if vector.shape != (b.shape[1],):
        raise ValueError(f"{op}: {name} has shape {tuple(vector.shape)}; accepted is ({b.shape[1]},), the N of b")
    if not vector.is_contiguous():
        raise ValueError(f"{op}: {name} has stride {vector.stride(0)}; accepted is 1 (contiguous)")
    for what in ("dtype", "device"):
        if getattr(vector, what) != getattr(b, what):
            raise ValueError(f"{op}: {name} has {what} {getattr(vector, what)}; accepted is that of b")


_LAUNCHES = Launches(_prepare)
_BIASED = Launches(_settle_biased)


def matmul_choices(shape: tuple[int, ...], itemsize: int) -> Iterator[Configuration]:
    """The configurations that a search may try for (M, N, K)."""
    return gemm_choices(shape, itemsize)


MATMUL_TUNING = Tuning("matmul", __name__, gemm_rule, matmul_choices, by_product, form="MxNxK")


def matmul_reference(a: Tensor, b: Tensor, bias: Tensor | None = None, activation: str = "none") -> Tensor:
    """The float64 result, on the device of `a`."""
    y = a.double() @ b.double()
    return activation_reference(activation, y if bias is None else y + bias.double())


def matmul_magnitudes(a: Tensor, b: Tensor) -> Tensor:
    """Σ|a·b| of each sum, in float64: what its rounding errors are measured by."""
    return a.abs().double() @ b.abs().double()


def matmul_inputs(shape: tuple[int, ...], dtype: torch.dtype, device: str, seed: int) -> tuple[Tensor, Tensor]:
    """(a, b) of normal data for shape (M, N, K); b is the transpose of an (N, K) weight, as in a linear layer."""
    M, N, K = shape
    generator = torch.Generator(device).manual_seed(seed)
    a = torch.randn((M, K), dtype=dtype, device=device, generator=generator)
    return a, torch.randn((N, K), dtype=dtype, device=device, generator=generator).t()


def matmul_traffic(shape: tuple[int, ...], itemsize: int) -> Traffic:
    """Least work for (M, N, K): read a and b once, write y once; 2 · M · N · K operations."""
    M, N, K = shape
    return Traffic(
        read_bytes=(M * K + K * N) * itemsize, written_bytes=M * N * itemsize, flops=2 * M * N * K
    )  # fmt: skip
