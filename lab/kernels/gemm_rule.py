"""Which launch a matrix product gets: by a rule on its shape, and by what the GPU and the operands' layout allow."""

from collections.abc import Iterator

import torch
import triton
from torch import Tensor

from lab.kernels.gemm import Multiply, Product, gemm_configuration, gemm_launch, on_hopper
from lab.kernels.gemm_hopper import SHARED_BYTES, aligned_columns, copies_take, hopper_gemm_launch, hopper_takes
from lab.kernels.launch import Configuration

PROGRAMS = 132  # multiprocessors of an H100 or H200, which the rule was made on
STEP_BYTES = 128  # of K that a tile takes at once: a line of shared memory
# (rows, columns, what share of the largest tiles' rate the tile reaches)
HOPPER_TILES = ((128, 256, 1.0), (256, 128, 1.0), (128, 128, 0.85), (128, 64, 0.6))
FEW_ROWS = 64  # up to here the weight's bandwidth is the limit, and tiles of the other kernel are as low as that
LEAST_DEPTH = 512  # of K in a share: below, adding the shares up costs more than it saves


def settle_product(product: Product, chosen: Configuration) -> Multiply:
    """The launch of `product` as chosen, or as near to it as GPU and operands allow."""
    M, N, K = product.shape
    if not chosen["HOPPER"]:
        return gemm_launch(product, chosen)
    if K and on_hopper(product.a.get_device()):
        if hopper_takes(product):
            return hopper_gemm_launch(product, chosen)
        if min(M, N, K) >= LEAST_DEPTH:
            return _realigned(product, chosen)
    return gemm_launch(product, _by_pointers(product))


def _by_pointers(product: Product) -> Configuration:
    """The launch by pointers for what the kernel for Hopper was chosen for, but cannot do."""
    return fitted(
        pointer_rule(product.shape, product.a.itemsize),
        unsplit=product.b2 is not None or product.columns_per_scale > 0, precise=product.precise,
    )  # fmt: skip


def fitted(choice: Configuration, *, unsplit: bool, precise: bool) -> Configuration:
    """`choice` for a product that cannot be added up from shares, or that is summed every 128 of K."""
    constants = dict(choice.constants)
    if unsplit:
        constants["SPLITS"] = 1
    if precise:
        constants["BLOCK_K"] = STEP_BYTES
    return Configuration(tuple(constants.items()), choice.num_warps, choice.num_stages)


def _realigned(product: Product, chosen: Configuration) -> Multiply:
    """The launch for Hopper on copies of the operands that the copy engine cannot take: for a large product they cost
    less than loading by pointers would."""
    a, b = product.a, product.b
    a_ready, b_ready = copies_take(a), copies_take(b.t()) and product.b2 is None
    a_like, bt_like = a if a_ready else _copy(a), b.t() if b_ready else _copy(b.t())
    aligned = Product(
        a_like, bt_like.t(), product.y_dtype, None if product.b2 is None else bt_like.t(), product.activation,
        product.bias, product.row_scale, product.column_scale, product.precise, product.columns_per_scale,
        product.row_scale_stride, product.column_scale_stride,
    )  # fmt: skip
    multiply = hopper_gemm_launch(aligned, chosen)

    def call(a: Tensor, b: Tensor, b2: Tensor | None, *rest: Tensor | None) -> None:
        a = a if a_ready else _copy(a)
        b = b if b_ready else _copy(b.t())
        multiply(a, b, b2 if b2 is None else _copy(b2.t()), *rest)

    return call


def _copy(matrix: Tensor) -> Tensor:
    """(rows, columns) once more, with adjacent columns and aligned rows."""
    matrix = matrix if matrix.dim() == 2 else matrix.view(-1, matrix.shape[-1])
    wide = torch.empty((matrix.shape[0], aligned_columns(matrix)), dtype=matrix.dtype, device=matrix.device)
    return wide[:, : matrix.shape[1]].copy_(matrix)


def gemm_rule(shape: tuple[int, ...], itemsize: int) -> Configuration:
    """For (M, N, K): of the tiles and shares of K that could be, those that should be done first."""
    M, N, K = shape
    if M <= FEW_ROWS or N <= FEW_ROWS // 2 or not K:
        return pointer_rule(shape, itemsize)
    return min(_hopper_choices(shape, itemsize), key=lambda choice: _cost(choice, shape))


def _cost(choice: Configuration, shape: tuple[int, ...]) -> float:
    """Time, in steps of the largest tile by one element of K."""
    M, N, K = shape
    rows, columns, splits = choice["BLOCK_M"], choice["BLOCK_N"], choice["SPLITS"]
    rate = {(m, n): share for m, n, share in HOPPER_TILES}[rows, columns]
    tiles = triton.cdiv(M, rows) * triton.cdiv(N, columns)
    waves = triton.cdiv(tiles * splits, PROGRAMS)
    tile = rows * columns / (128 * 256) / rate * (triton.cdiv(K, splits) + 200)
    added = 1000 + M * N * (splits + 1) / 30_000 if splits > 1 else 0
    return waves * tile + added


def _hopper_choices(shape: tuple[int, ...], itemsize: int) -> Iterator[Configuration]:
    M, N, K = shape
    depth = STEP_BYTES // itemsize
    for rows, columns, _ in HOPPER_TILES:
        tiles = triton.cdiv(M, rows) * triton.cdiv(N, columns)
        stage_bytes = (rows + columns) * STEP_BYTES
        y_bytes = min(rows * columns, 128 * 128) * 2 if itemsize < 4 else rows * columns * 2
        stages = min(8, (SHARED_BYTES - 1024 - y_bytes) // stage_bytes)
        for splits in sorted({1, *(max(1, min(16, K // LEAST_DEPTH, n * PROGRAMS // tiles)) for n in (1, 2))}):
            yield gemm_configuration(rows, columns, depth, stages=stages, splits=splits, hopper=True)


def pointer_rule(shape: tuple[int, ...], itemsize: int) -> Configuration:
    """For (M, N, K), where tiles are loaded by pointers."""
    M, N, K = shape
    if M <= 16:
        tile = (16, 32, 256, 4, 4)
    elif M <= 32:
        tile = (32, 64, 128, 4, 4)
    elif M <= 64 or N <= 64:
        tile = (64, 64, 64, 4, 4)
    elif M * N <= 1024 * 1024:
        tile = (64, 128, 64, 4, 4)
    else:
        tile = (128, 128, 64, 8, 3)
    rows, columns, depth, warps, stages = tile
    depth = max(16, depth * 2 // itemsize)
    tiles = triton.cdiv(M, rows) * triton.cdiv(N, columns)
    splits = max(1, min(32, K // max(LEAST_DEPTH, depth), PROGRAMS // tiles))
    return gemm_configuration(rows, columns, depth, stages=stages, warps=warps, splits=splits)


def gemm_choices(shape: tuple[int, ...], itemsize: int) -> Iterator[Configuration]:
    """What a search may try for (M, N, K)."""
    seen = [gemm_rule(shape, itemsize)]
    yield seen[0]
    for choice in (*_hopper_choices(shape, itemsize), pointer_rule(shape, itemsize)):
        if choice not in seen:
            seen.append(choice)
            yield choice




def gated_rule(shape: tuple[int, ...], itemsize: int) -> Configuration:
    """For (M, F, K), where a tile is half of the gate and half of up."""
    M, F, K = shape
    if M <= FEW_ROWS or not K:
        return fitted(pointer_rule(shape, itemsize), unsplit=True, precise=False)
    return gemm_configuration(128, 256, STEP_BYTES // itemsize, stages=4, hopper=True)


def gated_choices(shape: tuple[int, ...], itemsize: int) -> Iterator[Configuration]:
    """What a search may try for (M, F, K)."""
    seen = [gated_rule(shape, itemsize)]
    yield seen[0]
    depth = STEP_BYTES // itemsize
    for group in (4, 8, 16, 32):
        choice = gemm_configuration(128, 256, depth, stages=4, hopper=True, group=group)
        if choice not in seen:
            seen.append(choice)
            yield choice


def fp8_rule(shape: tuple[int, ...], itemsize: int, precise: bool, blocks: bool) -> Configuration:
    """For (M, N, K) of float8. What is added up in float32 needs registers for two sums: its tiles are smaller, and
    scales of blocks come with steps of 128 and all of K."""
    M, _, K = shape
    if M <= FEW_ROWS or not K:
        return fitted(pointer_rule(shape, itemsize), unsplit=blocks, precise=precise)
    if precise:
        return gemm_configuration(128, 128, STEP_BYTES, stages=5, hopper=True)
    return gemm_rule(shape, itemsize)


def fp8_choices(shape: tuple[int, ...], itemsize: int, precise: bool, blocks: bool) -> Iterator[Configuration]:
    """What a search may try for (M, N, K) of float8, the rule's choice first."""
    seen = [fp8_rule(shape, itemsize, precise, blocks)]
    yield seen[0]
    if precise:
        others = (gemm_configuration(128, 128, STEP_BYTES, stages=5, hopper=True, group=group) for group in (4, 8, 16))
    else:
        others = _hopper_choices(shape, itemsize)
    for choice in others:
        if choice not in seen:
            seen.append(choice)
            yield choice
