"""Launches of matrix products, for operators that fuse a product with steps before or after it.

    y = activation(row_scale · (a @ b) · column_scale + bias)        a: (M, K), b: (K, N), y: (M, N)
    y = activation(a @ b) · (a @ b2)                                  paired

There are two kernels. On a Hopper GPU, if TMA can read the operands, the one of `gemm_hopper` runs. On
other GPUs, and for operands that are too small or have unsuitable strides, the one here runs, which loads by pointers.
If there are fewer tiles than multiprocessors, K is split: each program writes its partial sum in float32 to memory, and
a second kernel adds these in a fixed order, so that the result is the same at every call.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from lab.kernels.checks import interpreting
from lab.kernels.early import wait_for_previous
from lab.kernels.launch import Configuration, Launch, capability, stages_that_fit

COMBINED = (128, 1024)  # fewest and most elements of y for which a program adds up the partial sums
# Products that the matrix unit may add up in `_gemm_kernel`. It cuts each sum off and does not round it, so that errors
# grow with their number: with one large element, 1 × 5003 × 32,769 in float16 was wrong by 4.75 times the tolerance
# (run h100-zoo-products-2026-11-26-b). Longer sums are added up in float32 after each step. The kernel for Hopper does
# so only if asked to: it would need smaller tiles.
LONGEST_SUM = 16_384
_INTERPRETED = tl.constexpr(interpreting())


@triton.jit
def _place(tile, tiles_m, tiles_n, GROUP: tl.constexpr):
    """(row, column) of a tile: GROUP rows of tiles at a time, so that programs that run together read the same data."""
    in_group = GROUP * tiles_n
    first = tile // in_group * GROUP
    height = tl.minimum(tiles_m - first, GROUP)
    within = tile % in_group
    return first + within % height, within // height


@triton.jit
def multiplied(a, b, sums):
    """sums + a @ b. In Triton's interpreter in float32, because it multiplies the bits of bfloat16 and float8."""
    if _INTERPRETED:
        return tl.dot(a.to(tl.float32), b.to(tl.float32), sums)
    return tl.dot(a, b, sums)


@triton.jit
def _gemm_kernel(
    a_ptr, b_ptr, b2_ptr, y_ptr, bias_ptr, row_scale_ptr, column_scale_ptr, M, N, K, depth,
    a_row, a_k, b_k, b_column, row_scale_stride, column_scale_stride,
    PAIRED: tl.constexpr, ACTIVATION: tl.constexpr, BIAS: tl.constexpr, ROW_SCALE: tl.constexpr,
    COLUMN_SCALE: tl.constexpr, PRECISE: tl.constexpr, COLUMNS_PER_SCALE: tl.constexpr, WHOLE_K: tl.constexpr,
    SPLITS: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """One tile of y a program, or with SPLITS a partial sum of a tile, in float32, to y as (SPLITS, M, N).

    The flags are those of `_hopper_gemm_kernel`. WHOLE_K: K and its parts are multiples of BLOCK_K.
    """
    wait_for_previous()
    tiles_m, tiles_n = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    work = tl.program_id(0)
    split = work % SPLITS
    tile_m, tile_n = _place(work // SPLITS, tiles_m, tiles_n, GROUP)
    rows = tile_m * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
    start = split * depth
    end = tl.minimum(start + depth, K)
    inner = start + tl.arange(0, BLOCK_K).to(tl.int64)
    # Rows beyond the last read existing rows instead, each another one: many reads of the same row are slow. Their
    # results are not stored; a mask would slow every load.
    safe_rows = (rows % M).to(tl.int64)
    safe_columns = tl.where(columns < N, columns, 0).to(tl.int64)
    a_ptrs = a_ptr + safe_rows[:, None] * a_row + inner[None, :] * a_k
    b_places = inner[:, None] * b_k + safe_columns[None, :] * b_column
    nothing = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    sums = nothing
    if PAIRED:
        others = nothing
    for k in range(start, end, BLOCK_K):
        a_mask = None if WHOLE_K else (k + tl.arange(0, BLOCK_K))[None, :] < end
        b_mask = None if WHOLE_K else (k + tl.arange(0, BLOCK_K))[:, None] < end
        a = tl.load(a_ptrs, mask=a_mask, other=None if WHOLE_K else 0.0)
        b = tl.load(b_ptr + b_places, mask=b_mask, other=None if WHOLE_K else 0.0)
        if COLUMNS_PER_SCALE > 0:
            row_scale = tl.load(row_scale_ptr + safe_rows * row_scale_stride + k // BLOCK_K)
            column_scale = tl.load(
                column_scale_ptr + safe_columns // COLUMNS_PER_SCALE * column_scale_stride + k // BLOCK_K
            )
            sums += multiplied(a, b, nothing) * row_scale[:, None] * column_scale[None, :]
        elif PRECISE:
            sums += multiplied(a, b, nothing)
        else:
            sums = multiplied(a, b, sums)
        if PAIRED:
            b2 = tl.load(b2_ptr + b_places, mask=b_mask, other=None if WHOLE_K else 0.0)
            if PRECISE:
                others += multiplied(a, b2, nothing)
            else:
                others = multiplied(a, b2, others)
        a_ptrs += BLOCK_K * a_k
        b_places += BLOCK_K * b_k
    inside = (rows < M)[:, None] & (columns < N)[None, :]
    place = rows.to(tl.int64)[:, None] * N + columns[None, :]
    if SPLITS > 1:
        place += split.to(tl.int64) * M * N
    else:
        if ROW_SCALE:
            sums *= tl.load(row_scale_ptr + safe_rows * row_scale_stride)[:, None]
        if COLUMN_SCALE:
            sums *= tl.load(column_scale_ptr + safe_columns * column_scale_stride)[None, :]
        if BIAS:
            sums += tl.load(bias_ptr + safe_columns).to(tl.float32)[None, :]
        if ACTIVATION is not None:
            sums = ACTIVATION(sums)
        if PAIRED:
            sums *= others
    tl.store(y_ptr + place, sums.to(y_ptr.dtype.element_ty), mask=inside)


@triton.jit
def _combine_kernel(
    shares_ptr, y_ptr, bias_ptr, row_scale_ptr, column_scale_ptr, elements, N, apart,
    row_scale_stride, column_scale_stride,
    ACTIVATION: tl.constexpr, BIAS: tl.constexpr, ROW_SCALE: tl.constexpr, COLUMN_SCALE: tl.constexpr,
    SPLITS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """y from SPLITS partial sums, `apart` elements from one to the next, added in their order."""
    wait_for_previous()
    places = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = places < elements
    sums = tl.zeros((BLOCK,), tl.float32)
    for split in tl.static_range(SPLITS):
        sums += tl.load(shares_ptr + split * apart + places, mask=inside, other=0.0)
    if ROW_SCALE:
        sums *= tl.load(row_scale_ptr + places // N * row_scale_stride, mask=inside, other=0.0)
    if COLUMN_SCALE:
        sums *= tl.load(column_scale_ptr + places % N * column_scale_stride, mask=inside, other=0.0)
    if BIAS:
        sums += tl.load(bias_ptr + places % N, mask=inside, other=0.0).to(tl.float32)
    if ACTIVATION is not None:
        sums = ACTIVATION(sums)
    tl.store(y_ptr + places, sums.to(y_ptr.dtype.element_ty), mask=inside)


@dataclass(frozen=True, slots=True)
class Product:
    """A product to launch, determined by the shapes, strides, dtypes and alignment of its tensors.

    a: (M, K). b: (K, N), and b2 with the same strides. columns_per_scale: of scales of blocks, 0 without them.
    precise: float8 is added up in float32 after each 128 of K. b_ahead: no kernel that may still be running
    writes b, and it may be read before the kernel before has finished.
    """

    a: Tensor
    b: Tensor
    y_dtype: torch.dtype
    b2: Tensor | None = None
    activation: Any = None
    bias: bool = False
    row_scale: bool = False
    column_scale: bool = False
    precise: bool = False
    columns_per_scale: int = 0
    row_scale_stride: int = 0
    column_scale_stride: int = 0
    b_ahead: bool = False

    @property
    def shape(self) -> tuple[int, int, int]:
        """(M, N, K)."""
        return self.a.shape[0], self.b.shape[1], self.a.shape[1]

    @property
    def epilogue(self) -> dict[str, Any]:
        return {
            "ACTIVATION": self.activation, "BIAS": self.bias, "ROW_SCALE": self.row_scale,
            "COLUMN_SCALE": self.column_scale,
        }  # fmt: skip


# Called with a, b, b2, y, bias, row_scale, column_scale.
Multiply = Callable[..., None]


def gemm_launch(product: Product, chosen: Configuration) -> Multiply:
    """The launch of `_gemm_kernel`; `chosen` has BLOCK_M, BLOCK_N, BLOCK_K, GROUP and SPLITS."""
    M, N, K = product.shape
    constants = {name: chosen[name] for name in ("BLOCK_M", "BLOCK_N", "BLOCK_K", "GROUP")}
    depth, splits = shares(K, chosen)
    tiles = triton.cdiv(M, constants["BLOCK_M"]) * triton.cdiv(N, constants["BLOCK_N"])
    whole = splits == 1
    step_bytes = (chosen["BLOCK_M"] + chosen["BLOCK_N"] * (1 + (product.b2 is not None))) * chosen["BLOCK_K"]
    stages = stages_that_fit(chosen.num_stages, step_bytes * product.a.itemsize, product.a.get_device())
    launch = Launch(
        _gemm_kernel, tiles * splits, product.a.get_device(), M, N, K, depth, *product.a.stride(), *product.b.stride(),
        product.row_scale_stride, product.column_scale_stride,
        num_warps=chosen.num_warps, num_stages=stages, early=True,
        PAIRED=product.b2 is not None, **(product.epilogue if whole else NO_EPILOGUE),
        PRECISE=product.precise or (depth > LONGEST_SUM and product.a.itemsize > 1),
        COLUMNS_PER_SCALE=product.columns_per_scale, WHOLE_K=K % constants["BLOCK_K"] == 0, SPLITS=splits,
        **constants,
    )  # fmt: skip
    return launch if whole else combined(product, launch, splits, M)


NO_EPILOGUE = {"ACTIVATION": None, "BIAS": False, "ROW_SCALE": False, "COLUMN_SCALE": False}


def shares(K: int, chosen: Configuration) -> tuple[int, int]:
    """(depth, number) of the parts of K: SPLITS of them, or fewer if K has fewer multiples of BLOCK_K."""
    block = chosen["BLOCK_K"]
    depth = max(1, triton.cdiv(triton.cdiv(K, chosen["SPLITS"]), block)) * block
    return depth, max(1, triton.cdiv(K, depth))


def combined(product: Product, launch: Multiply, splits: int, rows: int) -> Multiply:
    """`launch` into partial sums of `rows` rows, then their sum. Each call allocates memory for the partial sums."""
    M, N, _ = product.shape
    block = min(COMBINED[1], max(COMBINED[0], triton.next_power_of_2(M * N // 256)))
    combine = Launch(
        _combine_kernel, triton.cdiv(M * N, block), product.a.get_device(), M * N, N, rows * N,
        product.row_scale_stride, product.column_scale_stride,
        num_warps=block // 256 or 1, early=True, **product.epilogue, SPLITS=splits, BLOCK=block,
    )  # fmt: skip

    def both(a: Tensor, b: Tensor, b2: Any, y: Tensor, bias: Any, row_scale: Any, column_scale: Any) -> None:
        parts = torch.empty((splits * rows, N), dtype=torch.float32, device=a.device)
        launch(a, b, b2, parts, bias, row_scale, column_scale)
        combine(parts, y, bias, row_scale, column_scale)

    return both


@cache
def on_hopper(device: int) -> bool:
    """Whether the GPU with this index (-1 for the CPU) is a Hopper, for which `gemm_hopper` is written."""
    return capability(device)[0] == 9


def gemm_configuration(
    block_m: int, block_n: int, block_k: int, *, stages: int, warps: int = 4, hopper: bool = False, splits: int = 1,
    group: int = 8, more_n: int = 0, cluster: int = 1, turns: bool = False,
) -> Configuration:  # fmt: skip
    """A configuration of a product. hopper: use `gemm_hopper` if GPU and operands allow it, with tiles of `block_n`
    columns, a power of two, and `more_n` more, a multiple of 16 below it; `cluster` programs share those of b. turns:
    its two groups of warps multiply whole tiles in turn."""
    more = {
        name: value
        for name, value, otherwise in (("MORE_N", more_n, 0), ("CLUSTER", cluster, 1), ("TURNS", int(turns), 0))
        if value != otherwise
    }
    return Configuration.of(
        BLOCK_M=block_m, BLOCK_N=block_n, **more, BLOCK_K=block_k, GROUP=group, SPLITS=splits, HOPPER=int(hopper),
        num_warps=warps, num_stages=stages,
    )  # fmt: skip


def by_product(shape: tuple[int, ...]) -> str:
    """The class of (M, N, K): exactly this N and K, and the power of two at or above M."""
    M, N, K = shape
    return f"{N} columns, {K} deep, up to {triton.next_power_of_2(M)} rows"
