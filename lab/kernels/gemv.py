"""One row times a weight, y = x @ Wᵀ, with or without RMSNorm of the row. Reading the weight limits it."""

from typing import Any

import triton
import triton.language as tl
from torch import Tensor

from lab.kernels.early import let_next_begin, wait_for_previous
from lab.kernels.launch import Configuration, Launch

ALIGNED = 16  # elements, of which K must be a multiple: else Triton does not know that rows are aligned
MOST_UNROLLED = tl.constexpr(32)  # steps; with more, the loop over them is not unrolled


@triton.jit
def weight_tile(pointer, places, at, inner, K: tl.constexpr, WHOLE: tl.constexpr):
    """A tile of the weight, `at` columns from its first, read once and not kept in the cache."""
    across = None if WHOLE else (at + inner < K)[None, :]
    zero = None if WHOLE else 0.0
    return tl.load(pointer + at + places, mask=across, other=zero, eviction_policy="evict_first")


@triton.jit
def _with_step(
    sums, squares, weight, x_ptr, norm_weight_ptr, at, inner,
    K: tl.constexpr, WHOLE: tl.constexpr, NORM: tl.constexpr, NORM_WEIGHT: tl.constexpr,
):  # fmt: skip
    """(sums, squares) with the elements of x from `at` on."""
    mask = None if WHOLE else at + inner < K
    zero = None if WHOLE else 0.0
    x = tl.load(x_ptr + at + inner, mask=mask, other=zero).to(tl.float32)
    if NORM:
        squares += x * x
    if NORM_WEIGHT:
        x *= tl.load(norm_weight_ptr + at + inner, mask=mask, other=zero).to(tl.float32)
    return sums + weight.to(tl.float32) * x[None, :], squares


@triton.jit
def _gemv_kernel(
    x_ptr, norm_weight_ptr, weight_ptr, y_ptr, bias_ptr, eps, N, weight_stride,
    K: tl.constexpr, NORM: tl.constexpr, NORM_WEIGHT: tl.constexpr, BIAS: tl.constexpr, ACTIVATION: tl.constexpr,
    ROWS: tl.constexpr, BLOCK_K: tl.constexpr, AHEAD: tl.constexpr,
):  # fmt: skip
    """ROWS rows of the weight a program, without the matrix unit. NORM: the same loop sums the squares of x, and the
    norm's factor is applied to the finished sums, which gives the same result. The weights of the first AHEAD steps are
    read before the kernel before this one has finished."""
    let_next_begin()
    WHOLE: tl.constexpr = K % BLOCK_K == 0
    STEPS: tl.constexpr = (K + BLOCK_K - 1) // BLOCK_K
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    inner = tl.arange(0, BLOCK_K)
    places = tl.where(rows < N, rows, 0).to(tl.int64)[:, None] * weight_stride + inner[None, :]
    sums = tl.zeros((ROWS, BLOCK_K), tl.float32)
    squares = tl.zeros((BLOCK_K,), tl.float32)
    first_weights = ()
    for step in tl.static_range(AHEAD):
        tile = weight_tile(weight_ptr, places, step * BLOCK_K, inner, K, WHOLE)
        first_weights = first_weights + (tile,)  # type: ignore[assignment]  # noqa: RUF005
    wait_for_previous(next_began=True)
    for step in tl.static_range(AHEAD):
        sums, squares = _with_step(
            sums, squares, first_weights[step], x_ptr, norm_weight_ptr, step * BLOCK_K, inner,
            K, WHOLE, NORM, NORM_WEIGHT,
        )  # fmt: skip
    if STEPS <= MOST_UNROLLED:
        for step in tl.static_range(AHEAD, STEPS):
            weight = weight_tile(weight_ptr, places, step * BLOCK_K, inner, K, WHOLE)
            sums, squares = _with_step(
                sums, squares, weight, x_ptr, norm_weight_ptr, step * BLOCK_K, inner, K, WHOLE, NORM, NORM_WEIGHT
            )
    else:
        for step in tl.range(AHEAD, STEPS):
            weight = weight_tile(weight_ptr, places, step * BLOCK_K, inner, K, WHOLE)
            sums, squares = _with_step(
                sums, squares, weight, x_ptr, norm_weight_ptr, step * BLOCK_K, inner, K, WHOLE, NORM, NORM_WEIGHT
            )
    y = tl.sum(sums, axis=1)
    if NORM:
        y *= tl.rsqrt(tl.sum(squares, axis=0) / K + eps)
    if BIAS:
        y += tl.load(bias_ptr + rows, mask=rows < N, other=0.0).to(tl.float32)
    if ACTIVATION is not None:
        y = ACTIVATION(y)
    tl.store(y_ptr + rows, y.to(y_ptr.dtype.element_ty), mask=rows < N)


def gemv_configuration(rows: int, depth: int, *, warps: int, ahead: int = 0) -> Configuration:
    """A configuration: rows of the weight a program, the elements of each that it loads at a time, and how many such
    steps it loads before the kernel before it has finished."""
    return Configuration.of(ROWS=rows, BLOCK_K=depth, AHEAD=ahead, num_warps=warps)


def gemv_rule(K: int, *, ahead: int = 0) -> Configuration:
    """Four rows a program, 8 elements of each a thread: on an H100, for two layers, within 1 % of the best of 80. Half
    as many elements where rows are not aligned, so that single ones are loaded: on an H200, for a weight of
    4096 × 12,289, 35 µs in place of 43.

    ahead: 1 if the weight may be constant: reading it early gains 0.7 µs with 3584 rows, 1.4 with 18,944.
    """
    most, each = (512, 128) if K % ALIGNED else (1024, 256)
    depth = min(most, triton.next_power_of_2(K))
    return gemv_configuration(4, depth, warps=max(1, depth // each), ahead=ahead)


def gemv_launch(
    weight: Tensor, chosen: Configuration, *, norm: bool = False, norm_weight: bool = False, bias: bool = False,
    activation: Any = None, constant: bool = False,
) -> Launch:  # fmt: skip
    """The launch on (x, norm_weight, weight, y, bias, eps); weight: (N, K) with adjacent k. constant: no
    kernel that may still be running writes it, and it may be read before the kernel before has finished."""
    N, K = weight.shape
    return Launch(
        _gemv_kernel, triton.cdiv(N, chosen["ROWS"]), weight.get_device(), N, weight.stride(0),
        num_warps=chosen.num_warps, early=True, K=K, NORM=norm, NORM_WEIGHT=norm_weight, BIAS=bias,
        ACTIVATION=activation, ROWS=chosen["ROWS"], BLOCK_K=chosen["BLOCK_K"],
        AHEAD=min(chosen["AHEAD"], triton.cdiv(K, chosen["BLOCK_K"])) if constant else 0,
    )  # fmt: skip
