"""Layer normalisation of rows: y = (x − mean(x)) / sqrt(var(x) + eps) · w + b.

x: (…, N)   w: (N,)   b: (N,)   y: (…, N), float16, bfloat16 or float32; biased variance, all
arithmetic in float32, rounded once. Definition: Ba, Kiros and Hinton, "Layer Normalization", 2016.
"""

from collections.abc import Callable, Iterator
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from lab.kernels.checks import check_rows, check_vector
from lab.kernels.launch import Configuration, Launches, as_rows, nothing, result_like
from lab.kernels.rows import MAXIMUM_COLUMNS, row_choices, row_launch, row_rule
from lab.kernels.traffic import Traffic
from lab.kernels.tuned import Tuning


@triton.jit
def _layernorm_kernel(
    x_ptr, w_ptr, b_ptr, y_ptr, eps, M, x_stride,
    N: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr, MASKED: tl.constexpr, PAST_CACHE: tl.constexpr,
):  # fmt: skip
    """ROWS rows a program, each held in registers: x crosses memory once."""
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    columns = tl.arange(0, BLOCK)[None, :]
    mask = (rows < M) & (columns < N) if MASKED else None
    vector_mask = columns < N if MASKED else None
    zero = 0.0 if MASKED else None
    x = tl.load(x_ptr + rows * x_stride + columns, mask=mask, other=zero, eviction_policy="evict_first")
    w = tl.load(w_ptr + columns, mask=vector_mask, other=zero)
    b = tl.load(b_ptr + columns, mask=vector_mask, other=zero)
    x = x.to(tl.float32)
    centred = x - tl.sum(x, axis=1, keep_dims=True) / N
    if MASKED:
        # Lanes beyond N hold −mean by now; left in, they would be counted as variance.
        centred = tl.where(columns < N, centred, 0.0)
    rstd = tl.rsqrt(tl.sum(centred * centred, axis=1, keep_dims=True) / N + eps)
    y = (centred * rstd * w.to(tl.float32) + b.to(tl.float32)).to(y_ptr.dtype.element_ty)
    tl.store(y_ptr + rows * N + columns, y, mask=mask, cache_modifier=".cs" if PAST_CACHE else "")


@triton.jit
def _layernorm_wide_kernel(
    x_ptr, w_ptr, b_ptr, y_ptr, eps, M, x_stride,
    N: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr, MASKED: tl.constexpr, PAST_CACHE: tl.constexpr,
):  # fmt: skip
    """One row a program, too wide for registers: Welford's recurrence per lane, then merged.

    The recurrence avoids E[x²] − E[x]², which loses every digit where the mean is large.
    """
    row = tl.program_id(0).to(tl.int64)
    x_ptr += row * x_stride
    y_ptr += row * N
    lanes = tl.arange(0, BLOCK)
    count = tl.zeros((BLOCK,), tl.float32)
    mean = tl.zeros((BLOCK,), tl.float32)
    spread = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, N, BLOCK):
        columns = start + lanes
        inside = columns < N
        x = tl.load(x_ptr + columns, mask=inside, other=0.0, eviction_policy="evict_last").to(tl.float32)
        count += inside.to(tl.float32)
        step = tl.where(inside, x - mean, 0.0)
        mean += step / tl.maximum(count, 1.0)
        spread += step * tl.where(inside, x - mean, 0.0)
    row_mean = tl.sum(mean * count, axis=0) / N
    shift = mean - row_mean
    variance = tl.sum(spread + shift * shift * count, axis=0) / N
    rstd = tl.rsqrt(variance + eps)
    for start in range(0, N, BLOCK):
        columns = start + lanes
        inside = columns < N
        x = tl.load(x_ptr + columns, mask=inside, other=0.0, eviction_policy="evict_first").to(tl.float32)
        w = tl.load(w_ptr + columns, mask=inside, other=0.0).to(tl.float32)
        b = tl.load(b_ptr + columns, mask=inside, other=0.0).to(tl.float32)
        y = ((x - row_mean) * rstd * w + b).to(y_ptr.dtype.element_ty)
        tl.store(y_ptr + columns, y, mask=inside, cache_modifier=".cs" if PAST_CACHE else "")


def layernorm(
    x: Tensor, weight: Tensor, bias: Tensor, eps: float = 1e-5, *, configuration: Configuration | None = None
) -> Tensor:
    """LayerNorm of the rows of `x`, in one kernel launch.

    x: (..., N), any distance between rows, N from 1 to 262,144. weight, bias: (N,), contiguous.
    configuration: how to launch, one of `layernorm_choices`; by default the best that is known here.
    Returns a new contiguous tensor of the shape and dtype of `x`. Zero rows give an empty result.
    Raises TypeError or ValueError naming the argument, what it was and what is accepted, and
    NotImplementedError where a gradient would be needed.
    """
    launch = _LAUNCHES(x, weight, bias, options=(configuration,))
    y = result_like(x)
    launch(as_rows(x), weight, bias, y, eps)
    return y


def _settle(x: Tensor, weight: Tensor, bias: Tensor, configuration: Configuration | None) -> Callable[..., Any]:
    check_rows("layernorm", x, MAXIMUM_COLUMNS)
    check_vector("layernorm", "weight", weight, x)
    check_vector("layernorm", "bias", bias, x)
    if x.numel() == 0:
        return nothing
    rows = x.reshape(-1, x.shape[-1])
    chosen = configuration or LAYERNORM_TUNING.choose(rows.shape, x)
    return row_launch(_layernorm_kernel, _layernorm_wide_kernel, rows, chosen)


_LAUNCHES = Launches(_settle)


def layernorm_choices(shape: tuple[int, ...], itemsize: int) -> Iterator[Configuration]:
    """What a search may try for (M, N)."""
    return row_choices(shape, itemsize)


LAYERNORM_TUNING = Tuning("layernorm", __name__, row_rule, layernorm_choices)


def layernorm_reference(x: Tensor, weight: Tensor, bias: Tensor, eps: float = 1e-5) -> Tensor:
    """The float64 truth, on the device of `x`. Same shapes as `layernorm`; returns float64."""
    x, weight, bias = x.double(), weight.double(), bias.double()
    centred = x - x.mean(-1, keepdim=True)
    return centred * torch.rsqrt(centred.square().mean(-1, keepdim=True) + eps) * weight + bias


def layernorm_inputs(shape: tuple[int, ...], dtype: torch.dtype, device: str, seed: int) -> tuple[Tensor, ...]:
    """(x, weight, bias) of normal data for shape (M, N)."""
    M, N = shape
    generator = torch.Generator(device).manual_seed(seed)
    x = torch.randn((M, N), dtype=dtype, device=device, generator=generator)
    weight = 1 + 0.5 * torch.randn((N,), dtype=dtype, device=device, generator=generator)
    bias = 0.5 * torch.randn((N,), dtype=dtype, device=device, generator=generator)
    return x, weight, bias


def layernorm_traffic(shape: tuple[int, ...], itemsize: int) -> Traffic:
    """Least work for (M, N): read x, w and b once, write y once; seven operations an element."""
    M, N = shape
    return Traffic(read_bytes=(M * N + 2 * N) * itemsize, written_bytes=M * N * itemsize, flops=7 * M * N)
