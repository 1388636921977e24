"""RMSNorm and the linear layer after it: y = (x / √(mean(x²) + eps) · w) @ Wᵀ.

x: (…, K)   w: (K,), the norm's weight   W: (N, K), the layer's   y: (…, N), float16 or bfloat16.

The factor of a row can be applied after the product: y = ((x · w) @ Wᵀ) · rstd(row). So x is not normalised before the
product; each row of sums is multiplied by its factor at the end.

- Few rows, as in decoding: reading W once takes most of the time. Up to 4 rows, and up to 32 with few outputs, the norm
  is computed in the loop of the product: it also sums the squares of x, and multiplies x by w in float32, rounded for
  the matrix units. Every program does that for all rows, so that with more rows a norm before the product is faster:
  with a constant weight the product begins to read it meanwhile. On an H100 in graphs, fused, and norm and product:
  18,944 outputs of 4 rows 48.7 and 49.5 µs, of 16 rows 50.5 and 49.8, of 32 rows 54.1 and 51.1, of 64 rows 60.5 and
  51.2; 3584 outputs of 32 rows 12.7 and 13.4, of 64 rows 16.9 and 13.4.
- Many rows: the operands go from memory directly to the matrix units, so w cannot be multiplied in on the way. If W
  contains w already (`fold_norm_weight`, called once), a small kernel computes the rows' factors from x, and the
  product's epilogue applies them. Otherwise `rmsnorm` normalises x before the product.

Goal missed: 49 µs for 16 rows with 18,944 outputs, in graphs on an H100; it is 49.5 (run h100-linear-2026-11-27).
Reading W at 2.92 TB/s takes 46.5. About 3 µs lie between one product and the next: a block of the product holds nearly
all shared memory, and the next product's blocks begin only when it leaves. Tried without gain on an H100, in graphs and
in one process, where the rule took 49.7:
- Tiles so small that blocks of two products fit beside one another (three stages of 64 elements of K, 72 to 80
  registers a thread): 128 + 16 columns 53.9, 128 columns 53.8, 64 columns with 264 or 396 programs 55.9 and more.
- Shallower steps with as many bytes in flight (six stages of 64 elements): 50.5.
At 16 × 28,672 × 8192 all of them are within 1 % of one another (the rule 165.5), and at 16 × 14,336 × 4096 the rule is
first too (42.7).

Tried, and slower: four warps of the product's kernel normalise x on its way to the matrix units, in place of the norm
before it. On an H100, with 18,944 outputs, 5 rows took 51.1 µs (49.3 in two launches), 16 rows 55.8 (50.1), 32 rows
61.8 (50.8): every program reads x twice, and each step waits for those warps.

Folding rounds w · W instead of x · w; the error is of the same size. The algebra is from "FlashNorm", arXiv 2407.09577.
"""

from collections.abc import Callable, Iterator
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from lab.kernels.checks import check_vector, checked_eps
from lab.kernels.early import let_next_begin, wait_for_previous
from lab.kernels.gemm import Product, by_product, multiplied, shares
from lab.kernels.gemm_rule import FEW_ROWS, gemm_choices, gemm_rule, hopper_few_rows_rule, settle_product
from lab.kernels.gemv import gemv_configuration, gemv_launch, gemv_rule
from lab.kernels.launch import Configuration, Launch, Launches, as_rows, nothing
from lab.kernels.matmul import check_factors
from lab.kernels.rmsnorm import rmsnorm
from lab.kernels.traffic import Traffic
from lab.kernels.tuned import Tuning

FUSED_ROWS = 4  # up to here one kernel does everything, and a second one adds up if K is split
MOST_FUSED_ROWS = 32  # likewise with up to NARROW_OUTPUTS outputs
WIDEST = 65_536  # columns of x that fit into registers of the kernel for the rows' factors
NARROW_OUTPUTS = 8192
JOINED = 1024  # columns of y for which a program adds up the splits


@triton.jit
def _skinny_kernel(
    x_ptr, w_ptr, weight_ptr, y_ptr, eps, M, N, K, x_stride, weight_stride, depth,
    NORM_WEIGHT: tl.constexpr, WIDE: tl.constexpr, WHOLE_K: tl.constexpr, TURNED: tl.constexpr, SPLITS: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """All rows of x times BLOCK_N rows of the weight a program, and the sums of the squares of x in the same loop. With
    SPLITS a program takes a part of K and writes its sums in float32 to y as (SPLITS, M, N).

    WIDE: x · w is multiplied as tensor float 32, because float16 might overflow. TURNED: the product is transposed: the
    rows of the weight fill the matrix units, and those of x need not.
    """
    wait_for_previous()
    tile, split = tl.program_id(0) // SPLITS, tl.program_id(0) % SPLITS
    rows = tl.arange(0, BLOCK_M)
    columns = tile * BLOCK_N + tl.arange(0, BLOCK_N)
    start = split * depth
    end = tl.minimum(start + depth, K)
    inner = start + tl.arange(0, BLOCK_K)
    x_ptrs = x_ptr + (rows % M).to(tl.int64)[:, None] * x_stride + inner[None, :]
    weight_ptrs = weight_ptr + tl.where(columns < N, columns, 0).to(tl.int64)[:, None] * weight_stride + inner[None, :]
    w_ptrs = w_ptr + inner if NORM_WEIGHT else inner
    sums = tl.zeros((BLOCK_N, BLOCK_M) if TURNED else (BLOCK_M, BLOCK_N), tl.float32)
    squares = tl.zeros((BLOCK_M,), tl.float32)
    for k in range(start, end, BLOCK_K):
        mask = None if WHOLE_K else k + tl.arange(0, BLOCK_K) < end
        across = None if WHOLE_K else (k + tl.arange(0, BLOCK_K) < end)[None, :]
        zero = None if WHOLE_K else 0.0
        x = tl.load(x_ptrs, mask=across, other=zero)
        weight = tl.load(weight_ptrs, mask=across, other=zero, eviction_policy="evict_first")
        exact = x.to(tl.float32)
        squares += tl.sum(exact * exact, axis=1)
        if NORM_WEIGHT:
            exact *= tl.load(w_ptrs, mask=mask, other=zero).to(tl.float32)[None, :]
            x = exact if WIDE else exact.to(weight.dtype)
        elif WIDE:
            x = exact
        if WIDE:
            weight = weight.to(tl.float32)
        sums = multiplied(weight, x.T, sums) if TURNED else multiplied(x, weight.T, sums)
        x_ptrs += BLOCK_K
        weight_ptrs += BLOCK_K
        w_ptrs += BLOCK_K
    if TURNED:
        sums = sums.T
    inside = (rows < M)[:, None] & (columns < N)[None, :]
    place = rows.to(tl.int64)[:, None] * N + columns[None, :]
    if SPLITS == 1:
        sums *= tl.rsqrt(squares / K + eps)[:, None]
    else:
        place += split.to(tl.int64) * M * N
    tl.store(y_ptr + place, sums.to(y_ptr.dtype.element_ty), mask=inside)


@triton.jit
def _join_kernel(
    x_ptr, shares_ptr, y_ptr, eps, M, N, K, x_stride,
    SPLITS: tl.constexpr, BLOCK_K: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """BLOCK_N columns of one row a program: computes the row's factor from x and adds SPLITS parts in their order.
    x exists before the parts do."""
    row = (tl.program_id(0) % M).to(tl.int64)
    columns = tl.program_id(0) // M * BLOCK_N + tl.arange(0, BLOCK_N)
    inner = tl.arange(0, BLOCK_K)
    x = tl.load(x_ptr + row * x_stride + inner, mask=inner < K, other=0.0).to(tl.float32)
    rstd = tl.rsqrt(tl.sum(x * x, axis=0) / K + eps)
    wait_for_previous()
    sums = tl.zeros((BLOCK_N,), tl.float32)
    for split in tl.static_range(SPLITS):
        sums += tl.load(shares_ptr + (split * M + row) * N + columns, mask=columns < N, other=0.0)
    tl.store(y_ptr + row * N + columns, (sums * rstd).to(y_ptr.dtype.element_ty), mask=columns < N)


@triton.jit
def _rstd_kernel(x_ptr, rstd_ptr, eps, K, x_stride, BLOCK_K: tl.constexpr):
    """1 / √(mean(x²) + eps) of one row a program."""
    wait_for_previous()
    row = tl.program_id(0).to(tl.int64)
    inner = tl.arange(0, BLOCK_K)
    x = tl.load(x_ptr + row * x_stride + inner, mask=inner < K, other=0.0).to(tl.float32)
    tl.store(rstd_ptr + row, tl.rsqrt(tl.sum(x * x, axis=0) / K + eps))


@triton.jit
def _norm_kernel(x_ptr, w_ptr, y_ptr, eps, K, x_stride, BLOCK_K: tl.constexpr):
    """RMSNorm of one row a program. The product after it begins at once, to read a weight that is constant."""
    let_next_begin()
    wait_for_previous(next_began=True)
    row = tl.program_id(0).to(tl.int64)
    inner = tl.arange(0, BLOCK_K)
    x = tl.load(x_ptr + row * x_stride + inner, mask=inner < K, other=0.0).to(tl.float32)
    w = tl.load(w_ptr + inner, mask=inner < K, other=0.0).to(tl.float32)
    y = x * tl.rsqrt(tl.sum(x * x, axis=0) / K + eps) * w
    tl.store(y_ptr + row * K + inner, y.to(y_ptr.dtype.element_ty), mask=inner < K)


def rmsnorm_linear(
    x: Tensor,
    norm_weight: Tensor | None,
    weight: Tensor,
    eps: float = 1e-6,
    *,
    constant_weight: bool = False,
    configuration: Configuration | None = None,
) -> Tensor:
    """The linear layer of `weight` on RMSNorm of the rows of `x`.

    x: (..., K), at least two dimensions, adjacent columns. norm_weight: (K,), contiguous, or None if `weight` contains
    it, by `fold_norm_weight`. weight: (N, K), adjacent columns; all float16 or all bfloat16.
    One row takes one kernel launch. Up to 4 rows, and up to 32 with few outputs, take one or, if K is split, two. More
    take two or three: one for the rows' factors, or for the norm if the weight is not folded, and the product. On a
    Hopper GPU the product of more than 64 rows may copy its operands first, as `matmul` does: one more launch, and as
    much memory as the copied operands.
    constant_weight: neither a kernel that may still be running nor the one just before writes `weight`, as none writes
    that of a model. On Hopper it may then be read before the kernel before has finished, for one row, or by a product
    after the norm, or after the rows' factors, that needs no copy of `weight`. Else it changes nothing.
    configuration: how to launch, one of `rmsnorm_linear_choices`; if None, by rule: `lab tune` cannot tune it
    yet.
    Returns a new contiguous tensor (..., N); no rows or columns give an empty result. Equal calls give equal bits.
    Raises TypeError or ValueError naming the argument, what it was and what is accepted, and
    NotImplementedError where a gradient would be needed.
    """
    if norm_weight is None:
        call = _FOLDED(x, weight, options=(constant_weight, configuration))
    else:
        call = _LAUNCHES(x, weight, norm_weight, options=(constant_weight, configuration))
    y = torch.empty((*x.shape[:-1], weight.shape[0]), dtype=x.dtype, device=x.device)
    call(as_rows(x), norm_weight, weight, y, checked_eps("rmsnorm_linear", eps))
    return y


def fold_norm_weight(norm_weight: Tensor, weight: Tensor) -> Tensor:
    """weight · norm_weight, (N, K) times (K,), in float32, rounded once: a new tensor. Raises as `rmsnorm_linear`.

    Call it once for a model, not at every call.
    """
    check_factors("fold_norm_weight", norm_weight[None], weight.t(), names=("norm_weight[None]", "weight.t()"))
    return (weight.float() * norm_weight.float()).to(weight.dtype)


def _settle_folded(
    x: Tensor, weight: Tensor, constant: bool, configuration: Configuration | None
) -> Callable[..., Any]:
    return _prepare(x, weight, None, constant, configuration)


def _prepare(
    x: Tensor, weight: Tensor, norm_weight: Tensor | None, constant: bool, configuration: Configuration | None
) -> Callable[..., Any]:
    _check(x, weight, norm_weight)
    rows = as_rows(x)
    rows = rows if rows.dim() == 2 else rows.view(-1, x.shape[-1])
    M, K = rows.shape
    N = len(weight)
    if M * N == 0:
        return nothing
    chosen = configuration or RMSNORM_LINEAR_TUNING.choose((M, N, K), x)
    if "HOPPER" in dict(chosen.constants):
        return _many_rows(rows, weight, norm_weight, constant, chosen)
    return _few_rows(rows, weight, norm_weight, constant, chosen)


def _check(x: Tensor, weight: Tensor, norm_weight: Tensor | None) -> None:
    op = "rmsnorm_linear"
    if isinstance(weight, Tensor) and weight.dim() != 2:
        raise ValueError(f"{op}: weight has shape {tuple(weight.shape)}; accepted is (N, K)")
    check_factors(op, x, weight.t() if isinstance(weight, Tensor) else weight, names=("x", "weight.t()"))
    if x.dtype == torch.float32:
        raise TypeError(f"{op}: x has dtype torch.float32; accepted are torch.float16, torch.bfloat16")
    K = x.shape[-1]
    if not 1 <= K <= WIDEST:
        raise ValueError(f"{op}: x has {K} columns; accepted are 1 to {WIDEST}")
    for name, tensor in (("x", x), ("weight", weight)):
        if K > 1 and tensor.stride(-1) != 1:
            raise ValueError(f"{op}: {name} has stride {tensor.stride(-1)} in its last dimension; accepted is 1")
    if norm_weight is not None:
        check_vector(op, "norm_weight", norm_weight, x)
        if norm_weight.dtype != x.dtype:
            raise ValueError(f"{op}: norm_weight has dtype {norm_weight.dtype}; accepted is that of x, {x.dtype}")


def _few_rows(
    x: Tensor, weight: Tensor, norm_weight: Tensor | None, constant: bool, chosen: Configuration
) -> Callable[..., Any]:
    """The launch on (rows of x, norm_weight, weight, y, eps) for the rows of one kernel; it reads the weight once."""
    M, K = x.shape
    N = len(weight)
    normed = norm_weight is not None
    device = x.get_device()
    if "ROWS" in dict(chosen.constants):
        if M != 1:
            raise ValueError(f"rmsnorm_linear: configuration is {chosen}, for one row; x has {M}")
        launch = gemv_launch(weight, chosen, norm=True, norm_weight=normed, constant=constant)

        def one(x: Tensor, norm_weight: Any, weight: Tensor, y: Tensor, eps: float) -> None:
            launch(x, norm_weight, weight, y, None, eps)

        return one
    if chosen["BLOCK_M"] < M:
        raise ValueError(f"rmsnorm_linear: configuration is {chosen}, for {chosen['BLOCK_M']} rows; x has {M}")
    depth, splits = shares(K, chosen)
    launch = Launch(
        _skinny_kernel, triton.cdiv(N, chosen["BLOCK_N"]) * splits, device, M, N, K, x.stride(0), weight.stride(0),
        depth, num_warps=chosen.num_warps, num_stages=chosen.num_stages, early=True,
        NORM_WEIGHT=normed, WIDE=x.dtype == torch.float16, WHOLE_K=K % chosen["BLOCK_K"] == 0,
        TURNED=bool(chosen["TURNED"]), SPLITS=splits,
        BLOCK_M=chosen["BLOCK_M"], BLOCK_N=chosen["BLOCK_N"], BLOCK_K=chosen["BLOCK_K"],
    )  # fmt: skip
    if splits == 1:
        return launch
    join = Launch(
        _join_kernel, M * triton.cdiv(N, JOINED), device, M, N, K, x.stride(0), num_warps=4, early=True,
        SPLITS=splits, BLOCK_K=triton.next_power_of_2(K), BLOCK_N=JOINED,
    )  # fmt: skip

    def both(x: Tensor, norm_weight: Any, weight: Tensor, y: Tensor, eps: float) -> None:
        parts = torch.empty((splits * M, N), dtype=torch.float32, device=x.device)
        launch(x, norm_weight, weight, parts, eps)
        join(x, parts, y, eps)

    return both


def _many_rows(
    x: Tensor, weight: Tensor, norm_weight: Tensor | None, constant: bool, chosen: Configuration
) -> Callable[..., Any]:
    """The launches on (rows of x, norm_weight, weight, y, eps) for more rows: factors or norm, then product."""
    M, K = x.shape
    if norm_weight is not None:
        product = Product(torch.empty_like(x), weight.t(), x.dtype, b_ahead=constant)
        multiply = settle_product(product, chosen)

        norm = _few_norms(x) if M <= FEW_ROWS else rmsnorm

        def normed(x: Tensor, norm_weight: Tensor, weight: Tensor, y: Tensor, eps: float) -> None:
            multiply(norm(x, norm_weight, eps), weight.t(), None, y, None, None, None)

        return normed
    product = Product(x, weight.t(), x.dtype, row_scale=True, row_scale_stride=1, b_ahead=constant)
    multiply = settle_product(product, chosen)
    factors = Launch(
        _rstd_kernel, M, x.get_device(), K, x.stride(0), num_warps=max(1, min(16, triton.next_power_of_2(K) // 1024)),
        early=True, BLOCK_K=triton.next_power_of_2(K),
    )  # fmt: skip

    def folded(x: Tensor, _: Any, weight: Tensor, y: Tensor, eps: float) -> None:
        rstd = torch.empty((M,), dtype=torch.float32, device=x.device)
        factors(x, rstd, eps)
        multiply(x, weight.t(), None, y, None, rstd, None)

    return folded


def _few_norms(x: Tensor) -> Callable[[Tensor, Tensor, float], Tensor]:
    """RMSNorm of few rows like those of `x`, (M, K), before a product."""
    M, K = x.shape
    block = triton.next_power_of_2(K)
    launch = Launch(
        _norm_kernel, M, x.get_device(), K, x.stride(0), num_warps=max(1, min(16, block // 512)), early=True,
        BLOCK_K=block,
    )  # fmt: skip

    def norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
        y = torch.empty_like(x, memory_format=torch.contiguous_format)
        launch(x, weight, y, eps)
        return y

    return norm


_LAUNCHES = Launches(_prepare)
_FOLDED = Launches(_settle_folded)


def rmsnorm_linear_rule(shape: tuple[int, ...], itemsize: int) -> Configuration:
    """For (M, N, K); N is the number of the layer's outputs."""
    M, N, K = shape
    if M == 1:
        return gemv_rule(K, ahead=1)
    narrow = N <= NARROW_OUTPUTS
    if M > MOST_FUSED_ROWS or (M > FUSED_ROWS and not narrow):
        return hopper_few_rows_rule(shape) if M <= FEW_ROWS else gemm_rule(shape, itemsize)
    splits = min(4 if M > 16 else 2, triton.cdiv(K, 256))
    if M > 16:
        return _skinny(32, 64, rows=MOST_FUSED_ROWS, warps=1, stages=4, splits=splits, turned=True)
    if narrow:
        return _skinny(16, 128, warps=1, stages=4, splits=splits)
    return _skinny(64, 128, warps=2, stages=4, splits=splits)


def _skinny(
    columns: int, depth: int, *, warps: int, stages: int, rows: int = 16, splits: int = 1, turned: bool = False
) -> Configuration:
    return Configuration.of(
        BLOCK_M=rows, BLOCK_N=columns, BLOCK_K=depth, SPLITS=splits, TURNED=int(turned),
        num_warps=warps, num_stages=stages,
    )  # fmt: skip


def rmsnorm_linear_choices(shape: tuple[int, ...], itemsize: int) -> Iterator[Configuration]:
    """The configurations that a search may try for (M, N, K), the rule's choice first."""
    yield from dict.fromkeys((rmsnorm_linear_rule(shape, itemsize), *_choices(shape, itemsize)))


def _choices(shape: tuple[int, ...], itemsize: int) -> Iterator[Configuration]:
    M = shape[0]
    if M > MOST_FUSED_ROWS:
        yield from gemm_choices(shape, itemsize)
    elif M == 1:
        for rows in (1, 2, 4, 8):
            for depth, warps in ((512, 1), (512, 2), (1024, 2), (1024, 4), (2048, 8)):
                yield gemv_configuration(rows, depth, warps=warps, ahead=1)
    else:
        for columns, depth, warps in (
            (16, 128, 2),
            (32, 128, 2),
            (32, 256, 2),
            (64, 64, 4),
            (64, 128, 2),
            (128, 64, 4),
        ):
            for turned in (False, True):
                for splits in (1, 2, 4):
                    if turned is False or columns >= 16 * warps:
                        rows = 16 if M <= 16 else MOST_FUSED_ROWS
                        yield _skinny(columns, depth, rows=rows, warps=warps, stages=4, splits=splits, turned=turned)


RMSNORM_LINEAR_TUNING = Tuning(
    "rmsnorm-linear", __name__, rmsnorm_linear_rule, rmsnorm_linear_choices, by_product, form="MxNxK"
)


def rmsnorm_linear_reference(x: Tensor, norm_weight: Tensor, weight: Tensor, eps: float = 1e-6) -> Tensor:
    """The float64 result of the norm and the layer after it, on the device of `x`."""
    x = x.double()
    normed = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * norm_weight.double()
    return normed @ weight.double().t()


def rmsnorm_linear_inputs(shape: tuple[int, ...], dtype: torch.dtype, device: str, seed: int) -> tuple[Tensor, ...]:
    """(x, norm_weight, weight) for (M, N, K): x of normal data, norm_weight from ½ to 1½, weight of normal data, scaled
    so that y has about unit variance."""
    M, N, K = shape
    generator = torch.Generator(device).manual_seed(seed)
    x = torch.randn((M, K), dtype=dtype, device=device, generator=generator)
    norm_weight = 0.5 + torch.rand((K,), dtype=dtype, device=device, generator=generator)
    return x, norm_weight, torch.randn((N, K), dtype=dtype, device=device, generator=generator) * K**-0.5


def rmsnorm_linear_traffic(shape: tuple[int, ...], itemsize: int) -> Traffic:
    """Least work for (M, N, K): read x and both weights once, write y once; 2 · M · N · K operations for the product
    and four for each element of x."""
    M, N, K = shape
    return Traffic(
        read_bytes=(M * K + K + N * K) * itemsize, written_bytes=M * N * itemsize, flops=2 * M * N * K + 4 * M * K
    )  # fmt: skip
