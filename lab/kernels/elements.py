"""How element-wise operators divide their elements among programs: one rule for all of them.

A contiguous tensor is one run of memory. Others are taken as planes (P, M, N). This covers every tensor that has at
most three axes after adjacent ones are merged: rows of a wider buffer, a transposed matrix, heads of an attention
tensor.
"""

from collections.abc import Callable, Iterator
from typing import Any

import triton
import triton.language as tl
from torch import Tensor

from lab.kernels.checks import check_sign
from lab.kernels.launch import Configuration, Launch
from lab.kernels.tuned import Tuning

MOST_AXES = 3


def run_rule(shape: tuple[int, ...], itemsize: int) -> Configuration:
    """BLOCK, the elements of one program, and its warps, for contiguous tensors.

    One load of 16 bytes a thread: on an H100 as fast as more loads, and faster if the tensor is small.
    """
    return Configuration.of(BLOCK=2048 // itemsize, num_warps=4)


def planes_rule(adjacent: bool) -> Configuration:
    """ROWS, COLUMNS and warps for strided tensors: a square with whole cache lines on both sides unless `adjacent`."""
    return Configuration.of(BLOCK=1024, num_warps=4) if adjacent else Configuration.of(BLOCK=4096, num_warps=8)


def elements_choices(itemsize: int) -> Iterator[Configuration]:
    """The configurations that a search may try: programs of 1 to 16 KiB, one to eight loads of 16 bytes a thread."""
    for block_bytes in (1024, 2048, 4096, 8192, 16_384):
        for num_warps in (1, 2, 4, 8, 16, 32):
            if 1 <= block_bytes // (16 * 32 * num_warps) <= 8:
                yield Configuration.of(BLOCK=block_bytes // itemsize, num_warps=num_warps)


def elements_launch(
    tuning: Tuning, run: Any, planes: Any, tensors: dict[str, Tensor], chosen: Configuration | None
) -> Callable[..., None]:
    """The launch for tensors of one shape: of the kernel `run` if all are contiguous, else of `planes`.

    The last parameters of `run` are elements and BLOCK; those of `planes` are M, N, three strides of each tensor,
    ROWS and COLUMNS. ValueError if more than three axes remain after merging.
    """
    first = next(iter(tensors.values()))
    if all(tensor.is_contiguous() for tensor in tensors.values()):
        chosen = chosen or tuning.choose(first.shape, first)
        return Launch(
            run, triton.cdiv(first.numel(), chosen["BLOCK"]), first.get_device(), first.numel(),
            early=True, num_warps=chosen.num_warps, num_stages=chosen.num_stages, BLOCK=chosen["BLOCK"],
        )  # fmt: skip
    (P, M, N), strides = _planes(tuning.operator, tensors)
    adjacent = all(column_stride == 1 for _, _, column_stride in strides)
    chosen = chosen or planes_rule(adjacent)
    # With adjacent columns a tile is as wide as possible; else square, so that loads can go along the rows.
    block = chosen["BLOCK"]
    columns = min(block, triton.next_power_of_2(N)) if adjacent else 1 << block.bit_length() // 2
    rows = block // columns
    launch = Launch(
        planes, P * triton.cdiv(M, rows) * triton.cdiv(N, columns), first.get_device(),
        M, N, *[stride for of_tensor in strides for stride in of_tensor],
        early=True, num_warps=chosen.num_warps, num_stages=chosen.num_stages, ROWS=rows, COLUMNS=columns,
    )  # fmt: skip
    names = [*tensors]

    def signed(*arguments: Any) -> None:
        """Check for negative views at each call: real and imaginary parts have equal strides, negated or not."""
        for name, tensor in zip(names, arguments, strict=False):
            check_sign(tuning.operator, name, tensor)
        launch(*arguments)

    return signed


def _planes(op: str, tensors: dict[str, Tensor]) -> tuple[list[int], list[list[int]]]:
    """(the three sizes, the three strides of each tensor), in elements."""
    axes = merged_axes(*tensors.values())
    if len(axes) > MOST_AXES:
        layouts = " and ".join(
            f"{name} has shape {tuple(tensor.shape)} and strides {tensor.stride()}" for name, tensor in tensors.items()
        )
        raise ValueError(
            f"{op}: {layouts}, which is {len(axes)} axes that do not lie behind one another in memory; "
            f"accepted are at most {MOST_AXES}: call .contiguous() first"
        )
    axes = [(1, *(0 for _ in tensors))] * (MOST_AXES - len(axes)) + axes
    sizes, *strides = ([*column] for column in zip(*axes, strict=True))
    return sizes, strides


def merged_axes(*tensors: Tensor) -> list[tuple[int, ...]]:
    """(size, stride in each tensor) of the axes, with axes merged that are adjacent in the memory of every tensor."""
    axes: list[tuple[int, ...]] = []
    for size, *strides in zip(tensors[0].shape, *(tensor.stride() for tensor in tensors), strict=True):
        if size == 1:
            continue
        if axes and all(outer == size * inner for outer, inner in zip(axes[-1][1:], strides, strict=True)):
            axes[-1] = (axes[-1][0] * size, *strides)
        else:
            axes.append((size, *strides))
    return axes


@triton.jit
def tile_of_planes(M, N, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """(plane, rows, columns, mask) of this program's tile of ROWS × COLUMNS elements."""
    row_tiles, column_tiles = tl.cdiv(M, ROWS), tl.cdiv(N, COLUMNS)
    tile = tl.program_id(0).to(tl.int64)
    plane = tile // (row_tiles * column_tiles)
    rows = tile // column_tiles % row_tiles * ROWS + tl.arange(0, ROWS)[:, None]
    columns = tile % column_tiles * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    return plane, rows, columns, (rows < M) & (columns < N)
