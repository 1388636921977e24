"""The launch of the matrix product on a Hopper GPU: what of a product and a configuration the kernel of `gemm_hopper`
takes, and what follows from them: programs, clusters, stages, registers, and TMA descriptors.

Rows that are not aligned to lines of 128 bytes take the cache twice the requests. There the two programs of a cluster,
which have tiles below each other, share the tiles of b: on an H100, 4096 × 3000 × 3000 took 149 µs without and 113 with
(cuBLAS 109). Copying such operands to lines first took 134. With aligned rows clusters gain nothing.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch
import triton
from torch import Tensor
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

from lab.kernels.any_columns import FEWER_COLUMNS
from lab.kernels.changed_ptx import ChangedLaunch, can_change
from lab.kernels.gemm import NO_EPILOGUE, Multiply, Product, combined, shares
from lab.kernels.gemm_hopper import LINE_COLUMNS, _hopper_gemm_kernel
from lab.kernels.launch import Configuration, Launch, multiprocessors
from lab.kernels.multicast import CLUSTER, SHARED_COPIES
from lab.kernels.realign import LINE_BYTES

WITH_MORE, MORE_STEP = (64, 128), 16  # columns of a tile that may have more, and of what they are a multiple
# A program that begins early gets any multiprocessor that is free, and neighbours no longer have tiles that share
# operands: products whose limit is the cache then take up to 1.3 times as long. So only those begin early of which no
# two programs share tiles of b, and those with programs for at most this part of the multiprocessors.
EARLY_SHARE = 0.75
FEWEST_STAGES = 2  # a step's tiles are free when the next step's products have begun
LEAST_COPIED_ROWS = 8  # of a: TMA copies no fewer of a tile
WGMMA_ROWS = 64  # of a product of the matrix unit: in a tile of so many the two groups of warps divide the columns
HIGHEST = 256  # rows of a tile
MOST_REGISTERS = 240  # of a thread that multiplies
# Registers of a thread when a program begins, and when it multiplies, with a tile of so few columns that these suffice.
# A small kernel before the next product then finds room beside the programs of this one, instead of keeping those of
# the next one waiting.
FEW_REGISTERS, FEW_REGISTERS_COLUMNS = (96, 120), 144
SHARED_BYTES = 227 * 1024  # of shared memory that a program may use
BARRIER_BYTES = 1024  # more than the barriers and Triton's warp specialisation use
COPY_ALIGNMENT = 16  # bytes: TMA needs it for the start of a tensor and for the stride of its rows
ELEMENTS = {
    torch.float16: gl.float16, torch.bfloat16: gl.bfloat16, torch.float32: gl.float32,
    torch.float8_e4m3fn: gl.float8e4nv, torch.float8_e5m2: gl.float8e5,
}  # fmt: skip


class Tiles:
    """Makes descriptors of tensors with the layout of `tensor`. Common fields are computed and checked once."""

    __slots__ = ("_settled",)

    def __init__(self, tensor: Tensor, block: list[int]) -> None:
        layout = gl.NVMMASharedLayout.get_default_for(block, ELEMENTS[tensor.dtype])
        strides = [tensor.stride(0) if tensor.shape[0] > 1 else aligned_columns(tensor), 1]
        self._settled = vars(TensorDescriptor(tensor, list(tensor.shape), strides, block, layout))

    def __call__(self, tensor: Tensor) -> TensorDescriptor:
        made = object.__new__(TensorDescriptor)  # without __init__, whose checks have been made once
        vars(made).update(self._settled, base=tensor)
        return made


Maker = Callable[[Tensor], Any]  # of what the kernel is given for a tensor


def itself(tensor: Tensor) -> Tensor:
    return tensor


def none(_: Tensor) -> None:
    return None


def aligned_columns(tensor: Tensor) -> int:
    """The number of columns, rounded up to the alignment that TMA needs."""
    step = COPY_ALIGNMENT // tensor.itemsize
    return -(-tensor.shape[1] // step) * step


def copies_take(matrix: Tensor) -> bool:
    """Whether TMA can read (rows, columns) without a copy: columns adjacent, rows aligned."""
    if matrix.data_ptr() % COPY_ALIGNMENT or (matrix.shape[1] > 1 and matrix.stride(1) != 1):
        return False
    step = matrix.stride(0) * matrix.itemsize
    return matrix.shape[0] == 1 or (0 < step < 2**40 and step % COPY_ALIGNMENT == 0)


def between_lines(matrix: Tensor) -> bool:
    """Whether rows begin at different places in lines of memory. Lines are read whole, and two for what a step needs of
    a row that begins between them."""
    return matrix.stride(0) * matrix.itemsize % LINE_BYTES != 0


def hopper_takes(product: Product) -> bool:
    """Whether `_hopper_gemm_kernel` can compute the product, with the strides and alignment of its operands."""
    a, b = product.a, product.b
    if not (copies_take(a) or copies_take(a.t())) or not (copies_take(b) or copies_take(b.t())):
        return False
    if product.b2 is not None and not copies_take(product.b2.t()):
        return False
    # 16-bit operands may have either axis adjacent; others, and paired ones, must have adjacent k.
    k_adjacent = copies_take(a) and copies_take(b.t())
    return k_adjacent or (a.itemsize == 2 and product.b2 is None)


def hopper_gemm_launch(product: Product, chosen: Configuration) -> Multiply:
    """The launch of `_hopper_gemm_kernel`; `chosen` has BLOCK_M, BLOCK_N, BLOCK_K, GROUP and SPLITS, perhaps MORE_N,
    CLUSTER and TURNS. Its stages are the tiles of each operand in flight."""
    _check(product, chosen)
    work = _work(product, chosen)
    launch = _kernel_launch(product, chosen, work)
    a_tiles, b_tiles, more_tiles = _operand_tiles(product, chosen, work.cluster)
    y_tiles, y_more_tiles = _result_tiles(product, chosen, work)

    def call(a: Tensor, b: Tensor, b2: Any, y: Tensor, bias: Any, row_scale: Any, column_scale: Any) -> None:
        launch(
            a_tiles(a), b_tiles(b), None if b2 is None else b_tiles(b2), more_tiles(b), y_tiles(y), y_more_tiles(y),
            bias, row_scale, column_scale,
        )  # fmt: skip

    return call if work.splits == 1 else combined(product, call, work.splits, work.rows)


def _check(product: Product, chosen: Configuration) -> None:
    """ValueError naming what of `chosen` the kernel cannot have for this product, and what is accepted."""
    check_more_columns(product, chosen)
    _check_changes(product, chosen)
    _check_turns(product, chosen)
    _check_stages(product, chosen)
    _check_cluster(product, chosen)


def check_more_columns(product: Product, chosen: Configuration) -> None:
    """ValueError for columns that the kernel cannot have for this product, whatever the GPU and the Triton."""
    block_n, more_n = chosen["BLOCK_N"], more_columns(chosen)
    if not more_n:
        return
    possible = 0 < more_n < block_n and more_n % MORE_STEP == 0 and block_n in WITH_MORE
    if not possible or product.precise or product.b2 is not None:
        raise ValueError(
            f"configuration: MORE_N is {more_n} and BLOCK_N {block_n}; accepted is a MORE_N of 0, or a multiple of "
            f"{MORE_STEP} below a BLOCK_N of {WITH_MORE[0]} or {WITH_MORE[1]}; only 0 for precise accumulation, for "
            f"scales of blocks and for a gated product"
        )


def _check_changes(product: Product, chosen: Configuration) -> None:
    if not more_columns(chosen) or takes_more_columns(product, chosen):
        return
    where = (
        f"for a right operand with adjacent columns in tiles of {WGMMA_ROWS} rows that are not multiplied in turn"
        if can_change(product.a.get_device())
        else f"on this GPU with Triton {triton.__version__}"
    )
    raise ValueError(f"configuration: MORE_N is {more_columns(chosen)}; accepted is 0 {where}")


def _check_turns(product: Product, chosen: Configuration) -> None:
    if in_turn(chosen) and (product.precise or product.b2 is not None):
        raise ValueError(
            "configuration: TURNS is 1; accepted is 0 for precise accumulation, for scales of blocks and for a gated "
            "product"
        )


def _check_stages(product: Product, chosen: Configuration) -> None:
    stages, _ = _stages(product, chosen)
    if stages < FEWEST_STAGES:
        columns = chosen["BLOCK_N"] + more_columns(chosen)
        raise ValueError(
            f"configuration: {max(stages, 0)} stages of a tile of {chosen['BLOCK_M']} × {columns} fit beside y, of the "
            f"{chosen.num_stages} asked for; accepted is a tile of which {FEWEST_STAGES} fit"
        )


def _check_cluster(product: Product, chosen: Configuration) -> None:
    cluster, block_k = clusters(chosen), chosen["BLOCK_K"]
    if cluster != 1 and (cluster != CLUSTER or block_k * product.a.itemsize != LINE_BYTES):
        raise ValueError(
            f"configuration: CLUSTER is {cluster} and BLOCK_K {block_k}; accepted is a CLUSTER of 1, or of {CLUSTER} "
            f"with a BLOCK_K of {LINE_BYTES} bytes"
        )


class Work(NamedTuple):
    """How the tiles of y, or of the partial sums of it, are given to programs."""

    depth: int  # of K in a partial sum
    splits: int  # partial sums
    rows: int  # of y, or of each partial sum in memory: whole tiles, so that none is written into the next sum
    cluster: int  # programs that share tiles of b
    programs: int
    early: bool  # they may begin before the kernel before them has finished


def _work(product: Product, chosen: Configuration) -> Work:
    M, N, K = product.shape
    processors = multiprocessors(product.a.get_device())
    depth, splits = shares(K, chosen)
    cluster = _cluster(product, chosen)
    columns = _columns_of_b(product, chosen) + more_columns(chosen)
    tiles_m, tiles_n = triton.cdiv(M, chosen["BLOCK_M"]), triton.cdiv(N, columns)
    high = triton.cdiv(tiles_m, cluster)
    programs = cluster * min(processors // cluster, high * tiles_n * splits)
    return Work(
        depth=depth, splits=splits, rows=M if splits == 1 else high * cluster * chosen["BLOCK_M"], cluster=cluster,
        programs=programs, early=tiles_m == 1 or programs <= EARLY_SHARE * processors,
    )  # fmt: skip


def _columns_of_b(product: Product, chosen: Configuration) -> int:
    """Those of b in BLOCK_N: of a gated product half of them are of b2."""
    return chosen["BLOCK_N"] // (1 + (product.b2 is not None))


def _cluster(product: Product, chosen: Configuration) -> int:
    """The programs that share each tile of b: those chosen, if there are tiles below each other, and rows of operands
    begin between lines."""
    a_across, b_across = _across(product)
    between = between_lines(product.a.t() if a_across else product.a) or between_lines(product.b.t())
    shared = product.shape[0] > chosen["BLOCK_M"] and between and not b_across and product.b2 is None
    return clusters(chosen) if shared and can_change(product.a.get_device()) else 1


def _kernel_launch(product: Product, chosen: Configuration, work: Work) -> Launch:
    changes = (SHARED_COPIES,) * (work.cluster > 1) + (FEWER_COLUMNS,) * (more_columns(chosen) > 0)
    make = partial(ChangedLaunch, changes=changes) if changes else Launch
    a_across, b_across = _across(product)
    stages, halved = _stages(product, chosen)
    at_first, multiplying = _registers(product, chosen)
    return make(
        _hopper_gemm_kernel, work.programs, product.a.get_device(),
        *product.shape, work.splits, work.depth, product.row_scale_stride, product.column_scale_stride,
        num_warps=4, registers=at_first, early=work.early,
        A_ACROSS=a_across, B_ACROSS=b_across, PAIRED=product.b2 is not None,
        **(product.epilogue if work.splits == 1 else NO_EPILOGUE), PRECISE=product.precise,
        COLUMNS_PER_SCALE=product.columns_per_scale, DIRECT=writes_directly(product, chosen), HALVED=halved,
        BLOCK_M=chosen["BLOCK_M"], BLOCK_N=chosen["BLOCK_N"], MORE_N=more_columns(chosen), BLOCK_K=chosen["BLOCK_K"],
        GROUP=chosen["GROUP"], STAGES=stages, B_AHEAD=product.b_ahead, CLUSTER=work.cluster, TURNS=in_turn(chosen),
        REGISTERS=multiplying,
    )  # fmt: skip


def _registers(product: Product, chosen: Configuration) -> tuple[int, int]:
    """(registers of a thread when a program begins, 0 for as many as Triton gives it; of a thread that multiplies)."""
    columns = chosen["BLOCK_N"] + more_columns(chosen)
    few = divides_columns(chosen) and columns <= FEW_REGISTERS_COLUMNS and not product.precise
    return FEW_REGISTERS if few else (0, MOST_REGISTERS)


def _stages(product: Product, chosen: Configuration) -> tuple[int, bool]:
    """(stages, at most those chosen; whether BLOCK_N of y are written in two halves)."""
    stages, halved = hopper_stages(
        chosen, product.a.itemsize, _written_dtype(product, chosen).itemsize, paired=product.b2 is not None,
        b_across=_across(product)[1],
    )  # fmt: skip
    # Else an activation needs more registers than there are.
    large = more_columns(chosen) > 0 and (in_turn(chosen) or chosen["BLOCK_M"] == HIGHEST)
    return stages, halved or (product.activation is not None and large)


def _operand_tiles(product: Product, chosen: Configuration, cluster: int) -> tuple[Maker, Maker, Maker]:
    """What makes the descriptors of a, of b or b2, and of b for the columns of MORE_N; in a cluster of one program's
    part."""
    a, b = product.a, product.b.t()
    a_across, b_across = _across(product)
    block_m, block_k = chosen["BLOCK_M"], chosen["BLOCK_K"]
    rows = block_m if a_across else max(LEAST_COPIED_ROWS, min(block_m, triton.next_power_of_2(product.shape[0])))
    a_tiles = Tiles(*_turned(a, [rows, block_k], a_across))
    depth = block_k if b_across else min(block_k, LINE_BYTES // b.itemsize)
    b_tiles = Tiles(*_turned(b, [_columns_of_b(product, chosen) // cluster, depth], b_across))
    if not more_columns(chosen):
        return a_tiles, b_tiles, none
    columns = LINE_COLUMNS.value if b_across else _piece(chosen) // cluster
    return a_tiles, b_tiles, Tiles(*_turned(b, [columns, depth], b_across))


def _result_tiles(product: Product, chosen: Configuration, work: Work) -> tuple[Maker, Maker]:
    """What makes the descriptors of y, and of y for the columns of MORE_N, or keeps y where it is written directly."""
    more = more_columns(chosen) > 0
    if writes_directly(product, chosen):
        return itself, itself if more else none
    _, halved = _stages(product, chosen)
    groups = 1 + divides_columns(chosen)  # of warps, that write columns of the same tile
    rows = chosen["BLOCK_M"] if divides_columns(chosen) or in_turn(chosen) else chosen["BLOCK_M"] // 2
    columns = chosen["BLOCK_N"] // groups // (1 + (product.b2 is not None or halved))
    y_like = torch.empty(
        (work.rows * work.splits, product.shape[1]), dtype=_written_dtype(product, chosen), device=product.a.device
    )
    return Tiles(y_like, [rows, columns]), Tiles(y_like, [rows, _piece(chosen) // groups]) if more else none


def _piece(chosen: Configuration) -> int:
    """The columns of MORE_N that are copied at once: the largest power of two that divides them."""
    return more_columns(chosen) & -more_columns(chosen)


def more_columns(chosen: Configuration) -> int:
    """The columns that a tile has besides BLOCK_N."""
    return dict(chosen.constants).get("MORE_N", 0)


def divides_columns(chosen: Configuration) -> bool:
    """Whether the two groups of warps divide the columns of a tile."""
    return chosen["BLOCK_M"] == WGMMA_ROWS and not in_turn(chosen)


def takes_more_columns(product: Product, chosen: Configuration) -> bool:
    """Whether a tile may have a number of columns that is no power of two: where PTX may be changed, unless the two
    groups of warps would divide a line of adjacent columns."""
    divided = divides_columns(chosen) and not copies_take(product.b.t())
    return can_change(product.a.get_device()) and not divided


def writes_directly(product: Product, chosen: Configuration) -> bool:
    """Whether y is written from registers, because TMA cannot write its rows."""
    return product.shape[1] * _written_dtype(product, chosen).itemsize % COPY_ALIGNMENT != 0


def _written_dtype(product: Product, chosen: Configuration) -> torch.dtype:
    """Of y, or of its partial sums."""
    _, splits = shares(product.shape[2], chosen)
    return product.y_dtype if splits == 1 else torch.float32


def clusters(chosen: Configuration) -> int:
    """The programs that share each tile of b."""
    return dict(chosen.constants).get("CLUSTER", 1)


def in_turn(chosen: Configuration) -> bool:
    """Whether the two groups of warps multiply whole tiles in turn."""
    return bool(dict(chosen.constants).get("TURNS", 0))


def hopper_stages(
    chosen: Configuration, itemsize: int, y_itemsize: int, *, paired: bool, b_across: bool = False
) -> tuple[int, bool]:
    """(stages that fit into shared memory, at most those chosen; whether BLOCK_N of y go through it in two halves)."""
    rows, columns = chosen["BLOCK_M"], chosen["BLOCK_N"] + more_columns(chosen)
    more_copied = LINE_COLUMNS.value * -(-more_columns(chosen) // LINE_COLUMNS.value)  # whole lines
    copied = chosen["BLOCK_N"] + more_copied if b_across else columns
    stage_bytes = (rows + copied) * chosen["BLOCK_K"] * itemsize
    buffers = 1 + in_turn(chosen)
    y_bytes = buffers * rows * columns * y_itemsize // (1 + paired)
    room = SHARED_BYTES - BARRIER_BYTES
    halved = not paired and chosen.num_stages * stage_bytes + y_bytes > room
    y_bytes -= halved * buffers * rows * chosen["BLOCK_N"] // 2 * y_itemsize
    return min(chosen.num_stages, (room - y_bytes) // stage_bytes), halved


def _across(product: Product) -> tuple[bool, bool]:
    """Whether another axis than K is adjacent, as TMA reads them: in (a, b)."""
    return not copies_take(product.a), not copies_take(product.b.t())


def _turned(matrix: Tensor, block: list[int], across: bool) -> tuple[Tensor, list[int]]:
    return (matrix.t(), block[::-1]) if across else (matrix, block)
