"""Root-mean-square normalisation of rows, quantised to eight bits with a scale of its own for each row.

    y = x / sqrt(mean(x²) + eps) · w      scale = max(max |y| / L, 2^-126)      q = y / scale, rounded to the nearest

x: (…, N), w: (N,), float16, bfloat16 or float32. q: the shape of x, float8_e4m3fn (L = 448) or float8_e5m2
(L = 57,344). scale: (…, 1), float32. All arithmetic is in float32: y is never rounded on its way, as it is where a norm
writes it out for another kernel to quantise. A NaN or an infinity makes its row NaN, and no other.
"""

from collections.abc import Callable, Iterator
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from lab.kernels.checks import check_rows, check_vector, checked_eps
from lab.kernels.float8 import LARGEST, magnitude_bits, scale_of, to_float8
from lab.kernels.fp8 import check_float8, quantize_fp8_reference
from lab.kernels.launch import CACHED_BYTES, Configuration, Launch, Launches, as_rows, nothing
from lab.kernels.rmsnorm import rmsnorm_inputs, rmsnorm_reference
from lab.kernels.rows import MAXIMUM_COLUMNS, row_choices, row_rule
from lab.kernels.traffic import Traffic
from lab.kernels.tuned import Tuning


@triton.jit
def _rmsnorm_fp8_kernel(
    x_ptr, w_ptr, q_ptr, scale_ptr, eps, M, x_stride,
    N: tl.constexpr, LARGEST: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr, MASKED: tl.constexpr,
    PAST_CACHE: tl.constexpr,
):  # fmt: skip
    """ROWS rows a program, each held in registers: x crosses memory once."""
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    columns = tl.arange(0, BLOCK)[None, :]
    mask = (rows < M) & (columns < N) if MASKED else None
    weight_mask = columns < N if MASKED else None
    zero = 0.0 if MASKED else None
    x = tl.load(x_ptr + rows * x_stride + columns, mask=mask, other=zero, eviction_policy="evict_first")
    w = tl.load(w_ptr + columns, mask=weight_mask, other=zero)
    x = x.to(tl.float32)
    rstd = tl.rsqrt(tl.sum(x * x, axis=1, keep_dims=True) / N + eps)
    y = x * rstd * w.to(tl.float32)
    scale = scale_of(tl.max(magnitude_bits(y), axis=1, keep_dims=True), LARGEST)
    tl.store(scale_ptr + rows, scale, mask=rows < M if MASKED else None)
    q = to_float8(y * tl.div_rn(1.0, scale), q_ptr.dtype.element_ty)
    # As in quantize_fp8: a thread takes as many neighbours as it loads at once.
    place = tl.max_contiguous(q_ptr + rows * N + columns, [1, 128 // x_ptr.dtype.element_ty.primitive_bitwidth])
    tl.store(place, q, mask=mask, cache_modifier=".cs" if PAST_CACHE else "")


@triton.jit
def _rmsnorm_fp8_wide_kernel(
    x_ptr, w_ptr, q_ptr, scale_ptr, eps, M, x_stride,
    N: tl.constexpr, LARGEST: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr, MASKED: tl.constexpr,
    PAST_CACHE: tl.constexpr,
):  # fmt: skip
    """One row a program, too wide for registers: read twice, the second time from L2.

    The largest |x · w| is known before the norm is; the norm scales it as it does every other.
    """
    row = tl.program_id(0).to(tl.int64)
    x_ptr += row * x_stride
    q_ptr += row * N
    lanes = tl.arange(0, BLOCK)
    squares = tl.zeros((BLOCK,), tl.float32)
    largest = tl.zeros((BLOCK,), tl.int32)
    for start in range(0, N, BLOCK):
        columns = start + lanes
        mask = columns < N if MASKED else None
        zero = 0.0 if MASKED else None
        x = tl.load(x_ptr + columns, mask=mask, other=zero, eviction_policy="evict_last").to(tl.float32)
        w = tl.load(w_ptr + columns, mask=mask, other=zero).to(tl.float32)
        squares += x * x
        largest = tl.maximum(largest, magnitude_bits(x * w))
    rstd = tl.rsqrt(tl.sum(squares, axis=0) / N + eps)
    weighted = tl.max(largest, axis=0).to(tl.float32, bitcast=True)
    scale = scale_of(magnitude_bits(weighted * rstd), LARGEST)
    tl.store(scale_ptr + row, scale)
    reciprocal = tl.div_rn(1.0, scale)
    for start in range(0, N, BLOCK):
        columns = start + lanes
        mask = columns < N if MASKED else None
        x = tl.load(x_ptr + columns, mask=mask, eviction_policy="evict_first").to(tl.float32)
        w = tl.load(w_ptr + columns, mask=mask).to(tl.float32)
        q = to_float8(x * w * rstd * reciprocal, q_ptr.dtype.element_ty)
        place = tl.max_contiguous(q_ptr + columns, 128 // x_ptr.dtype.element_ty.primitive_bitwidth)
        tl.store(place, q, mask=mask, cache_modifier=".cs" if PAST_CACHE else "")


def rmsnorm_fp8(
    x: Tensor,
    weight: Tensor,
    eps: float = 1e-6,
    dtype: torch.dtype = torch.float8_e4m3fn,
    *,
    configuration: Configuration | None = None,
) -> tuple[Tensor, Tensor]:
    """(q, scale) with RMSNorm(x) ≈ q · scale, in one kernel launch.

    x: (..., N), any distance between rows, N from 1 to 262,144. weight: (N,), contiguous, of any accepted dtype.
    dtype: torch.float8_e4m3fn or torch.float8_e5m2. configuration: how to launch, one of `rmsnorm_fp8_choices`; by
    default the best that is known here.
    Returns new contiguous tensors: q of the shape of x, and scale, float32, (..., 1). Zero rows give empty results.
    Raises TypeError or ValueError naming the argument, what it was and what is accepted, and
    NotImplementedError where a gradient would be needed.
    """
    launch = _LAUNCHES(x, weight, options=(dtype, configuration))
    q = torch.empty(x.shape, dtype=dtype, device=x.device)
    scale = torch.empty((*x.shape[:-1], 1), dtype=torch.float32, device=x.device)
    launch(as_rows(x), weight, q, scale, checked_eps("rmsnorm_fp8", eps))
    return q, scale


def _settle(x: Tensor, weight: Tensor, dtype: torch.dtype, configuration: Configuration | None) -> Callable[..., Any]:
    check_rows("rmsnorm_fp8", x, MAXIMUM_COLUMNS)
    check_vector("rmsnorm_fp8", "weight", weight, x)
    check_float8("rmsnorm_fp8", dtype)
    if x.numel() == 0:
        return nothing
    rows = x.reshape(-1, x.shape[-1])
    M, N = rows.shape
    chosen = configuration or RMSNORM_FP8_TUNING.choose((M, N), x)
    count, block = chosen["ROWS"], chosen["BLOCK"]
    return Launch(
        _rmsnorm_fp8_kernel if block >= N else _rmsnorm_fp8_wide_kernel, triton.cdiv(M, count), x.get_device(),
        M, rows.stride(0),
        num_warps=chosen.num_warps, num_stages=chosen.num_stages,
        N=N, LARGEST=LARGEST[dtype], ROWS=count, BLOCK=block, MASKED=N % block != 0 or M % count != 0,
        PAST_CACHE=M * N * (x.itemsize + 1) > CACHED_BYTES,
    )  # fmt: skip


_LAUNCHES = Launches(_settle)


def rmsnorm_fp8_choices(shape: tuple[int, ...], itemsize: int) -> Iterator[Configuration]:
    """What a search may try for (M, N)."""
    return row_choices(shape, itemsize)


RMSNORM_FP8_TUNING = Tuning("rmsnorm-fp8", __name__, row_rule, rmsnorm_fp8_choices)


def rmsnorm_fp8_reference(
    x: Tensor, weight: Tensor, eps: float = 1e-6, dtype: torch.dtype = torch.float8_e4m3fn
) -> tuple[Tensor, Tensor]:
    """(y / scale, scale) in float64, on the device of `x`: what q is before it is rounded, and its scale."""
    return quantize_fp8_reference(rmsnorm_reference(x, weight, eps), "row", dtype)


def rmsnorm_fp8_inputs(shape: tuple[int, ...], dtype: torch.dtype, device: str, seed: int) -> tuple[Tensor, ...]:
    """(x, weight) of normal data for shape (M, N)."""
    return rmsnorm_inputs(shape, dtype, device, seed)


def rmsnorm_fp8_traffic(shape: tuple[int, ...], itemsize: int) -> Traffic:
    """Least work for (M, N): read x and w once, write a byte for each element and four for each row's scale.

    Square, add, two products for the norm, and magnitude, comparison, product and conversion: eight operations each.
    """
    M, N = shape
    return Traffic(read_bytes=(M * N + N) * itemsize, written_bytes=M * N + 4 * M, flops=8 * M * N)
