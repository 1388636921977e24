"""Chooses the launch of a matrix product: by a rule on its shape, and by what GPU and operands allow.

The rule was fitted to the times of 56 tiles at 46 products on an H100, in CUDA graphs, in bfloat16 and float8: its
choices took 0.4 % longer than the best tile. A wave of tiles takes the time of its area, so what counts is how full the
waves are, and with a step of 16 columns one can nearly always fill them: in trials 2048 × 3584 × 3584 went from 0.99 of
the speed of cuBLAS to 1.07 by tiles of 128 × 224, 640 × 5120 × 13,824 from 1.01 to 1.14 by 128 × 208, and
608 × 11,008 × 2048 from 0.88 to 1.0 by 128 × 144.

`lab zoo matmul` measures products that no experiment lists; the goal is 0.9 of cuBLAS. In trials these were below:
- 784 × 1504 × 3000 (0.68), 512 × 3000 × 3000 (0.85), 1000 × 3000 × 3000 (0.85) and 3000 × 3000 × 3000 (0.88), where a
  row of a tile lies in two lines, and programs share tiles of b only.
- 784 × 4096 × 4096 (0.84) and 1152 × 4096 × 11,008 (0.89), where no tile fills the waves.
- 128 × 128 × 1000 (0.87), which takes 6 µs, and 64 × 4608 × 3584: 0.94 if the weight comes from memory, 0.67 if it is
  in the cache, where splits would be faster (0.96) that are slower from memory (0.85).
- 513, 1025 and 2049 rows of 4096 × 4096 (0.84, 0.86 and 0.80), where a row of tiles has one row of y. cuBLAS seems to
  have tiles of 192 rows.
One row of any length goes without the matrix unit, and other long sums of the kernel that loads by pointers are added
up in float32 (LONGEST_SUM in gemm.py): the matrix unit cuts off each of 2048 sums, and 1 × 5003 × 32,769 in float16 was
wrong by 4.75 times the tolerance, with one large element in the input (run h100-zoo-products-2026-11-26-b).

Tried on an H100, gain too small for the code: computing the transpose of y, whose tiles then have any multiple of 16
rows. 784 × 4096 × 4096 went from 0.83 of cuBLAS to 0.96, 1152 × 4096 × 11,008 from 0.89 to 0.97 and 272 × 3584 × 18,944
from 0.91 to 1.02, but over all numbers of rows the rule expects 2 %, and only multiples of 8 can be written so.
Likewise clusters of 2 × 2 programs that share tiles of a too, for rows between lines: 512 × 3000 × 3000 went from 0.85
to 1.11 and 784 × 1504 × 3000 from 0.67 to 0.78, but 1000 × 3000 × 3000, 3000³ and 640 × 5120 × 1000 by 1 to 3 %, and
others became slower, because only 30 such clusters ran at once: with 31 all took 1.6 times as long. How many run at
once depends on the board. cuBLAS takes 120 tiles of 80 × 128 in clusters of eight for 784 × 1504 × 3000, and tiles of
192 × 192 for 3000³. Descriptors that ask the cache to fetch nothing beyond a request, or 256 bytes instead of 128,
gained nothing or lost.

Tried, and slower:
- Stream-K, which gives every program the same number of steps: on an H200 at 2048³ 34 µs (24.5 by whole tiles), at
  4096 × 5120 × 5120 354 (269). Programs are no longer at the same steps of K, and share less in the cache.
- Two launches, whole waves first and the remaining columns in smaller tiles: 512 × 4608 × 3584 33.0 µs, and 25.7 in
  one launch of tiles of 144 columns.
- Tiles of 128 × 224 and more in turn: they do not fit into registers, and take seven times as long.
On an H100: 4097 × 4095 × 4093, which TMA cannot read, in single calls 303 µs with both operands copied
first, cuBLAS 1001.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import triton
from torch import Tensor

from lab.kernels.gemm import Multiply, Product, gemm_configuration, gemm_launch, on_hopper
from lab.kernels.gemm_hopper_launch import (
    COPY_ALIGNMENT,
    check_more_columns,
    clusters,
    copies_take,
    hopper_gemm_launch,
    hopper_stages,
    hopper_takes,
    in_turn,
    more_columns,
    takes_more_columns,
    writes_directly,
)
from lab.kernels.gemv import ALIGNED, gemv_launch, gemv_rule
from lab.kernels.launch import Configuration
from lab.kernels.multicast import CLUSTER
from lab.kernels.realign import LINE_BYTES, realign

MULTIPROCESSORS = 132  # of an H100 or H200, for which the rule was made
STEP_BYTES = LINE_BYTES  # of K in a step
FEW_ROWS = 64  # up to here reading the weight is the limit
POINTER_COLUMNS = 32  # of y: up to here products are faster by pointers
POINTER_ROWS = 16  # of y: likewise
FEWEST_COLUMNS = 64  # of a tile of the Hopper kernel
SMALL = 128 * 128  # elements of y: up to here only K can be divided
SMALL_ROWS = 512  # of y with up to 64 columns: up to here they are faster by pointers
SHORT_DEPTH = 3072  # of K: up to here small products are faster by pointers, without splits
LEAST_DEPTH = 512  # of K in a part: with less, adding the parts up costs more than it saves


class Tile(NamedTuple):
    """A tile of y of the Hopper kernel. turns: its two groups of warps multiply whole tiles in turn."""

    rows: int
    columns: int
    more_columns: int = 0
    turns: bool = False


# (most stages, seconds of a step of 128 bytes of K with all multiprocessors busy). As many stages as fit are fastest,
# though y then goes through shared memory in two halves, one after the other; only 128 × 256 loses with a fourth: 1 %
# at 4096³ on an H100, and few rows lose 1 µs of 51. Tiles of 64 rows that are not in turn have the times of few rows.
# 128 × 64 has that of a product whose limit is the cache: at 25 products it was slower than 64 × 128.
HOPPER_TILES = {
    Tile(64, 64): (8, 0.196e-6), Tile(64, 64, 16): (8, 0.204e-6), Tile(64, 64, 32): (8, 0.212e-6),
    Tile(64, 64, 48): (7, 0.22e-6), Tile(64, 128): (8, 0.228e-6), Tile(64, 128, 16): (7, 0.25e-6),
    Tile(64, 128, 32, turns=True): (7, 0.22e-6), Tile(64, 128, 48, turns=True): (6, 0.25e-6),
    Tile(64, 128, 64, turns=True): (6, 0.262e-6), Tile(64, 128, 80): (6, 0.281e-6), Tile(64, 128, 96): (5, 0.312e-6),
    Tile(64, 256): (5, 0.342e-6),
    Tile(128, 64): (8, 0.277e-6), Tile(128, 64, turns=True): (8, 0.277e-6), Tile(128, 64, 16): (8, 0.26e-6),
    Tile(128, 64, 32): (7, 0.274e-6), Tile(128, 64, 32, turns=True): (6, 0.29e-6), Tile(128, 64, 48): (6, 0.297e-6),
    Tile(128, 128): (6, 0.329e-6), Tile(128, 128, turns=True): (6, 0.335e-6), Tile(128, 128, 16): (6, 0.37e-6),
    Tile(128, 128, 16, turns=True): (5, 0.369e-6), Tile(128, 128, 32): (5, 0.412e-6),
    Tile(128, 128, 32, turns=True): (4, 0.411e-6), Tile(128, 128, 48): (5, 0.447e-6),
    Tile(128, 128, 48, turns=True): (4, 0.447e-6), Tile(128, 128, 64): (4, 0.49e-6),
    Tile(128, 128, 64, turns=True): (4, 0.487e-6), Tile(128, 128, 80): (4, 0.528e-6),
    Tile(128, 128, 96): (4, 0.567e-6), Tile(128, 128, 112): (3, 0.605e-6), Tile(128, 256): (3, 0.645e-6),
    Tile(256, 64, 32): (4, 0.534e-6), Tile(256, 64, 48): (4, 0.582e-6), Tile(256, 128): (4, 0.66e-6),
    Tile(256, 128, 16): (3, 0.735e-6), Tile(256, 128, 32): (3, 0.802e-6), Tile(256, 128, 48): (3, 0.887e-6),
}  # fmt: skip
LEAST_STAGES = 3  # with less, copies are late
BYTES_PER_SECOND = 2.56e12  # that products read from memory
# Bytes a second that all multiprocessors read from the cache, and that the cache reads from memory for them, if the
# operands fit into it or nearly; and the former if they are larger.
TAKEN_BYTES_PER_SECOND, MISSED_BYTES_PER_SECOND, TAKEN_OF_MORE = 21.5e12, 7.47e12, 12.5e12
MORE_BYTES = 70e6
ALSO = 0.03  # of what is not the limit; it decides between tiles with the same limit
BETWEEN_LINES = 2.5  # times the bytes, by their cost, if rows are not aligned to lines
TILE_SECONDS = 1.2e-6  # to begin a tile, if none is multiplied meanwhile
SCALED_TILE_SECONDS = 2.7e-6  # likewise in float8, which has scales
WRITTEN_SECONDS = 20e-12  # an element of a tile
TOGETHER_SECONDS = 0.8e-6  # more, if two programs must be ready
SPLIT_SECONDS = 1.9e-6  # the second kernel
FEW_ROWS_POINTER_COLUMNS = 2048  # of y: up to here few rows are faster by pointers


def settle_product(product: Product, chosen: Configuration) -> Multiply:
    """The launch of `product` with the chosen configuration, or the nearest one that GPU and operands allow."""
    M, N, K = product.shape
    if "ROWS" in dict(chosen.constants):
        return _by_rows(product, chosen)
    if not chosen["HOPPER"]:
        return gemm_launch(product, chosen)
    if K and on_hopper(product.a.get_device()):
        if hopper_takes(product):
            return hopper_gemm_launch(product, launchable(product, chosen))
        if min(M, N) > FEW_ROWS and K >= LEAST_DEPTH:
            return _realigned(product, chosen)
    return gemm_launch(product, _by_pointers(product))


def launchable(product: Product, chosen: Configuration) -> Configuration:
    """`chosen`, or what is the fastest in its place: without turns if y is written from registers, because the
    assembler would then wait for each product; and a tile of a power of two of columns if it must have one. ValueError
    for columns that the kernel could have nowhere."""
    check_more_columns(product, chosen)
    constants = dict(chosen.constants)
    if in_turn(chosen) and writes_directly(product, chosen):
        chosen = replace(chosen, constants=tuple((constants | {"TURNS": 0}).items()))
    if not more_columns(chosen) or takes_more_columns(product, chosen):
        return chosen
    M, itemsize = product.shape[0], product.a.itemsize
    if M <= FEW_ROWS and itemsize == 2:
        return hopper_few_rows_rule(product.shape, powers_of_two=True)
    powers = [
        choice
        for choice in _hopper_choices(product.shape, itemsize)
        if not more_columns(choice) and not (in_turn(choice) and writes_directly(product, choice))
    ]
    return min(powers, key=lambda choice: _seconds(choice, product.shape, itemsize))


def _by_rows(product: Product, chosen: Configuration) -> Multiply:
    """The launch for one row of x and a weight with adjacent k."""
    weight = product.b.t()
    scaled = product.row_scale or product.column_scale or product.columns_per_scale
    if product.a.shape[0] != 1 or scaled or product.b2 is not None or (weight.shape[1] > 1 and weight.stride(1) != 1):
        return gemm_launch(product, _by_pointers(product))
    if product.a.shape[1] > 1 and product.a.stride(1) != 1:
        return gemm_launch(product, _by_pointers(product))
    launch = gemv_launch(weight, chosen, bias=product.bias, activation=product.activation)

    def call(a: Tensor, b: Tensor, _: Any, y: Tensor, bias: Any, *__: Any) -> None:
        launch(a, None, b, y, bias, 0.0)

    return call


def _by_pointers(product: Product) -> Configuration:
    """The configuration by pointers for a product that the Hopper kernel was chosen for but cannot compute."""
    return fitted(
        pointer_rule(product.shape, product.a.itemsize, paired=product.b2 is not None),
        unsplit=product.b2 is not None or product.columns_per_scale > 0, precise=product.precise,
    )  # fmt: skip


def fitted(choice: Configuration, *, unsplit: bool, precise: bool) -> Configuration:
    """`choice`, adapted to a product whose K cannot be split, or that is added up after each 128 of K."""
    constants = dict(choice.constants)
    if unsplit:
        constants["SPLITS"] = 1
    if precise:
        constants["BLOCK_K"] = STEP_BYTES
    return Configuration(tuple(constants.items()), choice.num_warps, choice.num_stages)


def _realigned(product: Product, chosen: Configuration) -> Multiply:
    """The launch of the Hopper kernel on copies of the operands that TMA cannot read. The copies need as
    much memory as the operands, and cost less than loading by pointers: 240 × 10,000 × 2500 took 174 µs by pointers on
    an H200, and with copies 66 µs on an H100 (cuBLAS 85)."""
    a, b = product.a, product.b
    copy_a = not copies_take(a)
    copy_b = not copies_take(b.t()) or product.b2 is not None
    copy_both = realign(a if copy_a else None, b.t() if copy_b else None)
    copy_b2 = None if product.b2 is None else realign(None, product.b2.t())
    a_like, bt_like = copy_both(a, b.t())
    aligned = replace(
        product, a=a_like, b=bt_like.t(), b2=None if product.b2 is None else bt_like.t(),
        b_ahead=product.b_ahead and not copy_b,  # a copy is written by the kernel just before
    )  # fmt: skip
    multiply = hopper_gemm_launch(aligned, launchable(aligned, chosen))

    def call(a: Tensor, b: Tensor, b2: Tensor | None, *rest: Tensor | None) -> None:
        a = a if a.dim() == 2 else a.view(-1, a.shape[-1])
        a_ready, bt_ready = copy_both(a, b.t())
        if b2 is not None and copy_b2 is not None:
            b2 = copy_b2(a, b2.t())[1]
        multiply(a_ready, bt_ready, b2, *rest)

    return call


def gemm_rule(shape: tuple[int, ...], itemsize: int) -> Configuration:
    """For (M, N, K): the tiles and splits of K with the shortest estimated time."""
    M, N, K = shape
    if M == 1 and K and itemsize > 1:
        return gemv_rule(K)
    if M <= POINTER_ROWS or N <= POINTER_COLUMNS or not K:
        return pointer_rule(shape, itemsize)
    if M <= FEW_ROWS:
        by_pointers = N <= FEW_ROWS_POINTER_COLUMNS or itemsize != 2
        return pointer_rule(shape, itemsize) if by_pointers else hopper_few_rows_rule(shape)
    if N <= FEWEST_COLUMNS and M <= SMALL_ROWS and not K % ALIGNED:
        return pointer_rule(shape, itemsize)
    if itemsize == 2 and (short := _short_rule(shape)):
        return short
    if M * N <= SMALL and not K % ALIGNED:
        return pointer_rule(shape, itemsize)
    return min(_hopper_choices(shape, itemsize), key=lambda choice: _seconds(choice, shape, itemsize))


def hopper_few_rows_rule(shape: tuple[int, ...], *, powers_of_two: bool = False) -> Configuration:
    """For (M, N, K) of two bytes, M up to 64, by the Hopper kernel: tiles of 64 rows. A step is twice as deep, so that
    256 bytes of a row of b are read at a time: 1 to 3 % faster."""
    choices = [choice for choice in _hopper_choices(shape, 2) if choice["BLOCK_M"] == FEW_ROWS and not in_turn(choice)]
    if powers_of_two:
        choices = [choice for choice in choices if not more_columns(choice)]
    best = min(choices, key=lambda choice: _seconds(choice, shape, 2))
    return gemm_configuration(
        FEW_ROWS, best["BLOCK_N"], 2 * best["BLOCK_K"], stages=best.num_stages // 2 + 1, splits=best["SPLITS"],
        hopper=True, more_n=more_columns(best),
    )  # fmt: skip


def _short_rule(shape: tuple[int, ...]) -> Configuration | None:
    """For products that end before the warps and barriers of the Hopper kernel pay: small tiles, loaded by pointers,
    all at once. On an H200 512³ took 6.4 µs (Hopper kernel 7.7, cuBLAS 6.8), 512 × 512 × 2048 9.7 (11.4, 9.5)."""
    M, N, K = shape
    if K % ALIGNED:
        return None
    if triton.cdiv(M, 64) * triton.cdiv(N, 32) <= MULTIPROCESSORS and K <= SHORT_DEPTH:
        return gemm_configuration(64, 32, 128, stages=5)
    if triton.cdiv(M, 64) * triton.cdiv(N, 64) <= MULTIPROCESSORS and K <= SHORT_DEPTH // 6:
        return gemm_configuration(64, 64, 64, stages=5)
    return None


def _seconds(choice: Configuration, shape: tuple[int, ...], itemsize: int) -> float:
    """The estimated time in seconds: the longest of those of the waves of tiles, of the bytes from memory and of those
    from the cache, a share of the other two, and the time of tiles and of the sum of splits."""
    M, N, K = shape
    rows, splits, more, cluster = choice["BLOCK_M"], choice["SPLITS"], more_columns(choice), clusters(choice)
    columns = choice["BLOCK_N"] + more
    tiles = cluster * triton.cdiv(triton.cdiv(M, rows), cluster) * triton.cdiv(N, columns)
    waves = triton.cdiv(tiles * splits, MULTIPROCESSORS)
    steps = triton.cdiv(triton.cdiv(K, splits) * itemsize, STEP_BYTES)
    turns = in_turn(choice)
    _, step_seconds = HOPPER_TILES[Tile(rows, columns - more, more, turns)]
    tile_seconds = SCALED_TILE_SECONDS if itemsize == 1 else TILE_SECONDS
    written_seconds = rows * columns * WRITTEN_SECONDS
    begun, written = (1, waves + 1) if turns else (waves, waves)
    tiles_seconds = begun * tile_seconds + written * written_seconds
    read_bytes, taken_bytes = (M + N) * K * itemsize, tiles * (rows + columns // cluster) * K * itemsize
    if _reads_between_lines(K, itemsize):
        taken_bytes *= BETWEEN_LINES
    read_seconds = read_bytes / BYTES_PER_SECOND
    if read_bytes < MORE_BYTES:
        passed_seconds = taken_bytes / TAKEN_BYTES_PER_SECOND + read_bytes / MISSED_BYTES_PER_SECOND
    else:
        passed_seconds = taken_bytes / TAKEN_OF_MORE
    shares_seconds = SPLIT_SECONDS + splits * M * N * 8 / BYTES_PER_SECOND if splits > 1 else 0.0
    limits = waves * steps * step_seconds, read_seconds, passed_seconds
    seconds: float = (
        max(limits)
        + ALSO * (sum(limits) - max(limits))
        + tiles_seconds
        + waves * (cluster > 1) * TOGETHER_SECONDS
        + shares_seconds
    )
    return seconds


def _reads_between_lines(K: int, itemsize: int) -> bool:
    """Whether rows of K elements begin between lines, and TMA can read them: else they are copied to lines,
    and tiles are as for aligned rows. 4097 × 4095 × 4093 took 331 µs on an H100 with a tile for rows between lines, 303
    with one for aligned rows."""
    return K * itemsize % STEP_BYTES != 0 and K * itemsize % COPY_ALIGNMENT == 0


def _hopper_choices(shape: tuple[int, ...], itemsize: int) -> Iterator[Configuration]:
    M, N, K = shape
    for (rows, columns, more, turns), (stages, _) in HOPPER_TILES.items():
        # TMA takes long for rows and columns that do not exist.
        if rows > max(M, FEW_ROWS) or N <= FEWEST_COLUMNS < columns + more:
            continue
        cluster = CLUSTER if _reads_between_lines(K, itemsize) and rows < M else 1
        tiles = triton.cdiv(M, rows) * triton.cdiv(N, columns + more)
        for splits in sorted({1, *(max(1, min(16, K // LEAST_DEPTH, n * MULTIPROCESSORS // tiles)) for n in (1, 2))}):
            choice = gemm_configuration(
                rows, columns, STEP_BYTES // itemsize, stages=stages, splits=splits, hopper=True, more_n=more,
                cluster=cluster, turns=turns,
            )  # fmt: skip
            sum_itemsize = 4 if itemsize == 4 or splits > 1 else 2
            if hopper_stages(choice, itemsize, sum_itemsize, paired=False)[0] >= LEAST_STAGES:
                yield choice


def pointer_rule(shape: tuple[int, ...], itemsize: int, *, paired: bool = False) -> Configuration:
    """For (M, N, K), loaded by pointers: as many programs as multiprocessors, or twice as many. paired: two right
    operands are read."""
    M, N, K = shape
    if K % ALIGNED and min(M, N) <= FEW_ROWS:
        return _unaligned_rule(shape, itemsize, paired)
    if M <= 16:
        tile = (16, 16, 256, 2, 4) if N <= 4096 and M >= 8 else (16, 32, 256, 2, 4)
    elif M <= 32:
        tile = (32, 64, 128, 4, 4)
    elif N <= 16:
        tile = (64, 16, 128, 4, 4)
    elif N <= 128 or (M <= FEW_ROWS and N <= 4096):
        tile = (64, 32, 128, 4, 5)
    elif M <= FEW_ROWS:
        # If there are more tiles than multiprocessors, all must run at once; else memory is idle during the last ones:
        # at 18,944 columns 53 µs on an H100, with half as many at once 57.
        tile = (64, 64, 64, 4, 4) if triton.cdiv(N, 64) > MULTIPROCESSORS else (64, 64, 128, 4, 4)
    elif M * N <= 2048 * 2048:
        tile = (64, 64, 64, 4, 5)
    else:
        tile = (128, 128, 64, 8, 3)
    rows, columns, depth, warps, stages = tile
    depth = max(16, depth * 2 // itemsize)
    tiles = triton.cdiv(M, rows) * triton.cdiv(N, columns)
    splits = max(1, min(128, K // max(LEAST_DEPTH // 2, depth), triton.cdiv(MULTIPROCESSORS - 4, tiles)))
    return gemm_configuration(rows, columns, depth, stages=stages, warps=warps, splits=splits if tiles <= 96 else 1)


def _unaligned_rule(shape: tuple[int, ...], itemsize: int, paired: bool) -> Configuration:
    """For a K that is no multiple of 16, so that Triton does not take rows for aligned. It then loads single elements,
    and a thread keeps the place of each: with the tiles for aligned rows more than fit into registers. On an H100 in
    graphs, 2 × 5003 × 4097 took 1142 µs so and 30 with these tiles (cuBLAS 33), 16 × 18,944 × 3585 2082 and 88 (133),
    64 × 5003 × 4097 159 and 50 (64)."""
    M, N, K = shape
    if M <= 8 and itemsize > 1 and not paired:
        tile = (16, 64, 128, 4)
    elif M <= 16:
        tile = (16, 64, 64, 4)
    elif M <= 32:
        tile = (32, 64, 64, 8)
    else:
        tile = (64, 32 if paired or N <= POINTER_COLUMNS else 64, 64, 4)
    rows, columns, depth, warps = tile
    depth = depth * 2 // max(itemsize, 2)
    tiles = triton.cdiv(M, rows) * triton.cdiv(N, columns)
    splits = max(1, min(64, K // (2 * depth), 2 * MULTIPROCESSORS // tiles))
    return gemm_configuration(rows, columns, depth, stages=3, warps=warps, splits=splits)


def gemm_choices(shape: tuple[int, ...], itemsize: int) -> Iterator[Configuration]:
    """The configurations that a search may try for (M, N, K)."""
    rule = gemm_rule(shape, itemsize)
    yield from dict.fromkeys((rule, *_hopper_choices(shape, itemsize), pointer_rule(shape, itemsize)))


def gated_rule(shape: tuple[int, ...], itemsize: int) -> Configuration:
    """For (M, F, K): one half of a tile is of gate, the other of up."""
    M, _, K = shape
    if M <= FEW_ROWS or not K:
        return fitted(pointer_rule(shape, itemsize, paired=True), unsplit=True, precise=False)
    return gemm_configuration(128, 256, STEP_BYTES // itemsize, stages=4, hopper=True, group=16)


def gated_choices(shape: tuple[int, ...], itemsize: int) -> Iterator[Configuration]:
    """The configurations that a search may try for (M, F, K)."""
    depth = STEP_BYTES // itemsize
    others = [gemm_configuration(128, 256, depth, stages=4, hopper=True, group=group) for group in (4, 8, 16, 32)]
    yield from dict.fromkeys((gated_rule(shape, itemsize), *others))


def fp8_rule(shape: tuple[int, ...], itemsize: int, precise: bool, blocks: bool) -> Configuration:
    """For (M, N, K) of float8. Adding up in float32 needs registers for two sums, so its tiles are smaller. With scales
    of blocks, steps are 128 of K, and K is not split.

    On an H100 in single calls, 2048 × 18,944 × 3584 with scales of rows went from 0.942 of the speed of
    torch._scaled_mm to 0.974 when the groups of warps took turns (run h100-fp8-2026-11-26), and in trials
    2048 × 3584 × 18,944 from 1.01 to 1.09 with tiles of 224 columns.
    """
    M, _, K = shape
    if M <= FEW_ROWS or not K:
        return fitted(pointer_rule(shape, itemsize), unsplit=blocks, precise=precise)
    if precise:
        return gemm_configuration(128, 128, STEP_BYTES, stages=6, hopper=True)
    return gemm_rule(shape, itemsize)


def fp8_choices(shape: tuple[int, ...], itemsize: int, precise: bool, blocks: bool) -> Iterator[Configuration]:
    """The configurations that a search may try for (M, N, K) of float8, the rule's choice first."""
    if precise:
        others = [gemm_configuration(128, 128, STEP_BYTES, stages=6, hopper=True, group=group) for group in (4, 8, 16)]
    else:
        others = list(_hopper_choices(shape, itemsize))
    yield from dict.fromkeys((fp8_rule(shape, itemsize, precise, blocks), *others))
