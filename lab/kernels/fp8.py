"""Quantisation to float8 with one scale for each row, each group of columns, or the whole tensor.

    scale = max(max |x| / L, 2^-126)      q = x / scale, rounded to the nearest float8      x ≈ q · scale

x: (…, N), float16, bfloat16 or float32. q: the shape of x, float8_e4m3fn (L = 448) or float8_e5m2 (L = 57,344).
scale: float32, (…, 1) by rows, as torch._scaled_mm takes it; (…, ⌈N / group⌉) by groups, of which the last of a row
may be shorter; () for the tensor. All arithmetic is in float32: where x / scale is within a float32 rounding of the
midpoint of two float8, the result may be either. No value leaves the range, because the largest |x| becomes L.

A NaN makes its scale NaN, and with it its whole row, group or tensor. An infinity makes its scale infinite: it becomes
NaN, and all other values with the same scale become 0. Values with other scales do not change.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial

import torch
import triton
import triton.language as tl
from torch import Tensor

from lab.kernels.checks import check_rows
from lab.kernels.early import wait_for_previous
from lab.kernels.float8 import LARGEST, SMALLEST_SCALE, magnitude_bits, scale_of, to_float8
from lab.kernels.launch import Configuration, Launch, Launches, as_rows, multiprocessors
from lab.kernels.library import registered, traced
from lab.kernels.pieces import read_piece
from lab.kernels.rows import (
    MAXIMUM_COLUMNS,
    WIDEST_REGISTER_ROW,
    check_tiles,
    norm_choices,
    norm_rule,
    piece_constants,
    row_choices,
)
from lab.kernels.traffic import Traffic
from lab.kernels.tuned import Tuning, by_elements, by_rows
from lab.kernels.wide_row import lane_maxima, opaque, read_tile, read_tiles

GRANULARITIES = ("row", "group", "tensor")
GROUP = 128
LOAD_BYTES = 16  # the widest load of a thread
PROGRAMS_PER_MULTIPROCESSOR = 4  # where a whole tensor has one scale


@triton.jit
def _quantize_kernel(
    x_ptr, q_ptr, scale_ptr, segments, x_stride: tl.constexpr,
    N: tl.constexpr, SEGMENT: tl.constexpr, LARGEST: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
    PIECES: tl.constexpr, PARTIAL: tl.constexpr, PACKED: tl.constexpr,
):  # fmt: skip
    """ROWS segments a program, each of SEGMENT columns with one scale and in registers as PIECES of BLOCK columns, so
    that x is read once."""
    wait_for_previous()
    IN_A_ROW: tl.constexpr = (N + SEGMENT - 1) // SEGMENT
    segment = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    row = segment // IN_A_ROW
    first = segment % IN_A_ROW * SEGMENT
    inside = segment < segments
    CUT: tl.constexpr = N % SEGMENT != 0
    lanes = tl.arange(0, BLOCK)[None, :]
    x_ptrs = x_ptr + row * x_stride + first
    x = ()
    for piece in tl.static_range(PIECES):
        there = inside & (first + piece * BLOCK + lanes < N) if CUT else inside
        x_new = read_piece(x_ptrs, there, piece * BLOCK, SEGMENT, BLOCK, PARTIAL or CUT, "evict_first")
        x = x + (x_new,)  # type: ignore[assignment]  # noqa: RUF005
    magnitudes = tl.zeros((ROWS, BLOCK), tl.int32)
    for piece in tl.static_range(PIECES):
        magnitudes = tl.maximum(magnitudes, magnitude_bits(x[piece].to(tl.float32)))
    bits = tl.max(magnitudes, axis=1, keep_dims=True)
    scale = scale_of(bits, LARGEST)
    tl.store(scale_ptr + segment, scale, mask=inside if PARTIAL else None)
    reciprocal = tl.div_rn(1.0, scale)
    AT_ONCE: tl.constexpr = 128 // x_ptr.dtype.element_ty.primitive_bitwidth
    q_ptrs = q_ptr + row * N + first
    for piece in tl.static_range(PIECES):
        x_piece = (opaque(x[piece], bits.to(tl.float32, bitcast=True)) if PACKED else x[piece]).to(tl.float32)
        there = inside & (first + piece * BLOCK + lanes < N) if CUT else inside
        y = x_piece * reciprocal
        write_float8_piece(q_ptrs, there, piece * BLOCK, y, SEGMENT, BLOCK, PARTIAL or CUT, AT_ONCE)


@triton.jit
def write_float8_piece(
    row_ptrs, inside, START: tl.constexpr, y,
    N: tl.constexpr, BLOCK: tl.constexpr, PARTIAL: tl.constexpr, AT_ONCE: tl.constexpr,
):  # fmt: skip
    """As `write_piece`, in float8.

    A thread takes AT_ONCE neighbours, as many as one load brings. By default Triton gives a thread as many as one store
    takes, which are two or four times as many, and then the loads of neighbouring threads leave gaps.
    """
    columns = START + tl.arange(0, BLOCK)[None, :]
    RAGGED: tl.constexpr = START + BLOCK > N
    q = to_float8(y, row_ptrs.dtype.element_ty)
    place = tl.max_contiguous(row_ptrs + columns, [1, AT_ONCE])
    if RAGGED:
        mask = inside & (columns < N) if PARTIAL else columns < N
        tl.store(place, q, mask=mask)
    else:
        tl.store(place, q, mask=inside if PARTIAL else None)


@triton.jit
def _quantize_wide_kernel(
    x_ptr, q_ptr, scale_ptr, columns, x_stride,
    N: tl.constexpr, LARGEST: tl.constexpr, HELD: tl.constexpr, BLOCK: tl.constexpr,
    MASKED: tl.constexpr,
):  # fmt: skip
    """One row a program, in tiles of BLOCK columns: the first HELD stay in registers, the rest is read twice.

    columns: N again, but not as a constant. If the compiler knows the length of the loops it unrolls them, and moves
    more loads to the front than there are registers for.
    """
    wait_for_previous()
    LANES: tl.constexpr = BLOCK * x_ptr.dtype.element_ty.primitive_bitwidth // 128
    row = tl.program_id(0).to(tl.int64)
    x_ptr += row * x_stride
    q_ptr += row * N
    tiles = read_tiles(x_ptr, N, HELD, BLOCK, MASKED)
    largest = tl.zeros((LANES,), tl.int32)
    for tile in tl.static_range(HELD):
        largest = tl.maximum(largest, lane_maxima(magnitude_bits(tiles[tile].to(tl.float32)), LANES))
    for start in range(HELD * BLOCK, columns, BLOCK):
        x = read_tile(x_ptr, start, N, BLOCK, MASKED, "evict_last").to(tl.float32)
        largest = tl.maximum(largest, lane_maxima(magnitude_bits(x), LANES))
    bits = tl.max(largest, axis=0)
    scale = scale_of(bits, LARGEST)
    tl.store(scale_ptr + row, scale)
    reciprocal = tl.div_rn(1.0, scale)
    AT_ONCE: tl.constexpr = BLOCK // LANES
    LAST: tl.constexpr = (N - 1) // BLOCK * BLOCK
    for back in range(0, columns - HELD * BLOCK, BLOCK):  # the last tile first: most likely it is still cached
        x = read_tile(x_ptr, LAST - back, N, BLOCK, MASKED, "evict_first").to(tl.float32)
        write_float8_tile(q_ptr, LAST - back, x * reciprocal, N, BLOCK, AT_ONCE, MASKED)
    for tile in tl.static_range(HELD):
        x_tile = opaque(tiles[tile], bits.to(tl.float32, bitcast=True)).to(tl.float32)
        write_float8_tile(q_ptr, tile * BLOCK, x_tile * reciprocal, N, BLOCK, AT_ONCE, MASKED)


@triton.jit
def write_float8_tile(
    row_ptr, start, y,
    N: tl.constexpr, BLOCK: tl.constexpr, AT_ONCE: tl.constexpr, MASKED: tl.constexpr,
):  # fmt: skip
    """Write BLOCK columns of the row from `start`, rounded to its dtype. AT_ONCE: as in `write_float8_piece`."""
    columns = start + tl.arange(0, BLOCK)
    mask = columns < N if MASKED else None
    place = tl.max_contiguous(row_ptr + columns, AT_ONCE)
    tl.store(place, to_float8(y, row_ptr.dtype.element_ty), mask=mask)


@triton.jit
def _largest_kernel(x_ptr, largest_ptr, tiles, N, x_stride, TILES_IN_A_ROW, BLOCK: tl.constexpr):
    """Each program stores the bits of the largest |x| of its tiles. A tile is BLOCK columns of one row."""
    wait_for_previous()
    lanes = tl.arange(0, BLOCK)
    largest = tl.zeros((BLOCK,), tl.int32)
    for tile in range(tl.program_id(0), tiles, tl.num_programs(0)):
        columns = (tile % TILES_IN_A_ROW).to(tl.int64) * BLOCK + lanes
        row = (tile // TILES_IN_A_ROW).to(tl.int64)
        x = tl.load(x_ptr + row * x_stride + columns, mask=columns < N, other=0.0)
        largest = tl.maximum(largest, magnitude_bits(x.to(tl.float32)))
    tl.store(largest_ptr + tl.program_id(0), tl.max(largest, axis=0))


@triton.jit
def _quantize_tensor_kernel(
    x_ptr, q_ptr, scale_ptr, largest_ptr, tiles, N, x_stride, TILES_IN_A_ROW, programs,
    BLOCK: tl.constexpr, PROGRAMS: tl.constexpr, LARGEST: tl.constexpr,
):  # fmt: skip
    """Quantise the tiles that `_largest_kernel` reads, the last ones first: they may still be cached."""
    wait_for_previous()
    places = tl.arange(0, PROGRAMS)
    scale = scale_of(tl.max(tl.load(largest_ptr + places, mask=places < programs, other=0), axis=0), LARGEST)
    if tl.program_id(0) == 0:
        tl.store(scale_ptr, scale)
    reciprocal = tl.div_rn(1.0, scale)
    lanes = tl.arange(0, BLOCK)
    for number in range(tl.program_id(0), tiles, tl.num_programs(0)):
        tile = tiles - 1 - number
        columns = (tile % TILES_IN_A_ROW).to(tl.int64) * BLOCK + lanes
        row = (tile // TILES_IN_A_ROW).to(tl.int64)
        x = tl.load(x_ptr + row * x_stride + columns, mask=columns < N, eviction_policy="evict_first").to(tl.float32)
        q = to_float8(x * reciprocal, q_ptr.dtype.element_ty)
        place = tl.max_contiguous(q_ptr + row * N + columns, 128 // x_ptr.dtype.element_ty.primitive_bitwidth)
        tl.store(place, q, mask=columns < N)


@dataclass(frozen=True, slots=True)
class _Settled:
    """The shape of the scales of a call, and the launch on (rows of x, q, scale)."""

    scale_shape: tuple[int, ...]
    launch: Callable[..., None]


def quantize_fp8(
    x: Tensor,
    granularity: str = "row",
    dtype: torch.dtype = torch.float8_e4m3fn,
    group: int = GROUP,
    *,
    configuration: Configuration | None = None,
) -> tuple[Tensor, Tensor]:
    """(q, scale) with x ≈ q · scale, in one kernel launch, or two for the whole tensor, whose scale comes first.

    x: (..., N), any distance between rows, N from 1 to 524,288. granularity: one scale for each "row", for each "group"
    of adjacent columns, or for the "tensor". dtype: torch.float8_e4m3fn or torch.float8_e5m2. group: 1 to 16,384
    columns. configuration: how to launch, one of `quantize_fp8_choices`; by default as tuned here, else by rule.
    Returns new contiguous tensors: q of the shape of x, and scale, float32, (..., 1), (..., ceil(N / group)) or (). No
    rows give empty results; granularity "tensor" then gives the scale of zeros. Raises TypeError or ValueError naming
    the argument, what it was and what is accepted, and NotImplementedError where a gradient would be needed.
    """
    if configuration is None and traced(x):
        result: tuple[Tensor, Tensor] = _registered(x, granularity, dtype, group)
        return result
    return _quantize_fp8(x, granularity, dtype, group, configuration)


def _quantize_fp8(
    x: Tensor, granularity: str, dtype: torch.dtype, group: int, configuration: Configuration | None = None
) -> tuple[Tensor, Tensor]:
    settled = _LAUNCHES(x, options=(granularity, dtype, group, configuration))
    q = torch.empty(x.shape, dtype=dtype, device=x.device)
    scale = torch.empty(settled.scale_shape, dtype=torch.float32, device=x.device)
    settled.launch(as_rows(x), q, scale)
    return q, scale


def _empty(x: Tensor, granularity: str, dtype: torch.dtype, group: int) -> tuple[Tensor, Tensor]:
    if granularity == "tensor":
        shape: tuple[int, ...] = ()
    else:
        shape = (*x.shape[:-1], -(-x.shape[-1] // group) if granularity == "group" else 1)
    return x.new_empty(x.shape, dtype=dtype), x.new_empty(shape, dtype=torch.float32)


@registered("quantize_fp8", _empty)
def _registered(x: Tensor, granularity: str, dtype: torch.dtype, group: int) -> tuple[Tensor, Tensor]:
    return _quantize_fp8(x, granularity, dtype, group)


def _prepare(
    x: Tensor, granularity: str, dtype: torch.dtype, group: int, configuration: Configuration | None
) -> _Settled:
    check_rows("quantize_fp8", x, MAXIMUM_COLUMNS)
    if granularity not in GRANULARITIES:
        raise ValueError(f"quantize_fp8: granularity is {granularity!r}; accepted are {list(GRANULARITIES)}")
    check_float8("quantize_fp8", dtype)
    if granularity == "tensor":
        return _Settled((), _tensor_launch(x, dtype, configuration))
    N = x.shape[-1]
    if granularity == "group" and not (isinstance(group, int) and 1 <= group <= WIDEST_REGISTER_ROW):
        raise ValueError(f"quantize_fp8: group is {group!r}; accepted are 1 to {WIDEST_REGISTER_ROW} columns")
    width = min(group, N) if granularity == "group" else N
    shape = (*x.shape[:-1], triton.cdiv(N, width))
    if x.numel() == 0:
        return _Settled(shape, _nothing)
    chosen = configuration or quantize_fp8_tuning(granularity, group).choose((x.numel() // N, N), x)
    check_tiles(chosen, width)
    whole = "HELD" not in dict(chosen.constants)
    if granularity == "group" and not whole:
        raise ValueError(f"quantize_fp8: configuration is {chosen}; accepted are those that hold a group of {width}")
    return _Settled(shape, (_segments_launch if whole else _wide_launch)(x, width, dtype, chosen))


def check_float8(op: str, dtype: torch.dtype) -> None:
    """TypeError unless `dtype` is torch.float8_e4m3fn or torch.float8_e5m2."""
    if dtype not in LARGEST:
        raise TypeError(f"{op}: dtype is {dtype}; accepted are {', '.join(map(str, LARGEST))}")


def _segments_launch(x: Tensor, width: int, dtype: torch.dtype, chosen: Configuration) -> Callable[..., None]:
    # If all segments follow each other in memory, each is taken as a row: the kernel needs no division for its place.
    rows = x.view(-1, width) if x.is_contiguous() and x.shape[-1] % width == 0 else x.reshape(-1, x.shape[-1])
    M, N = rows.shape
    segments = M * triton.cdiv(N, width)
    count, block = chosen["ROWS"], chosen["BLOCK"]
    return Launch(
        _quantize_kernel, triton.cdiv(segments, count), x.get_device(), segments, rows.stride(0),
        early=True, num_warps=chosen.num_warps, num_stages=chosen.num_stages,
        N=N, SEGMENT=width, LARGEST=LARGEST[dtype], ROWS=count, BLOCK=block,
        **piece_constants(chosen, segments, width, x.itemsize),
    )  # fmt: skip


def _wide_launch(x: Tensor, width: int, dtype: torch.dtype, chosen: Configuration) -> Callable[..., None]:
    rows = x.reshape(-1, width)
    return Launch(
        _quantize_wide_kernel, len(rows), x.get_device(), width, rows.stride(0),
        early=True, num_warps=chosen.num_warps, num_stages=chosen.num_stages,
        N=width, LARGEST=LARGEST[dtype], **dict(chosen.constants), MASKED=width % chosen["BLOCK"] != 0,
    )  # fmt: skip


def _tensor_launch(x: Tensor, dtype: torch.dtype, configuration: Configuration | None) -> Callable[..., None]:
    if x.numel() == 0:
        return lambda _, q, scale: scale.fill_(SMALLEST_SCALE)
    rows = x.view(1, -1) if x.is_contiguous() else x.reshape(-1, x.shape[-1])
    M, N = rows.shape
    chosen = configuration or quantize_fp8_tuning("tensor").choose(tuple(x.shape), x)
    block, device = chosen["BLOCK"], x.get_device()
    in_a_row = triton.cdiv(N, block)
    tiles = M * in_a_row
    programs = min(tiles, chosen["PROGRAMS"] * multiprocessors(device))
    how = {"num_warps": chosen.num_warps, "num_stages": chosen.num_stages, "BLOCK": block}
    find = Launch(_largest_kernel, programs, device, tiles, N, rows.stride(0), in_a_row, early=True, **how)
    quantize = Launch(
        _quantize_tensor_kernel, programs, device, tiles, N, rows.stride(0), in_a_row, programs, early=True, **how,
        PROGRAMS=triton.next_power_of_2(programs), LARGEST=LARGEST[dtype],
    )  # fmt: skip

    def both(x: Tensor, q: Tensor, scale: Tensor) -> None:
        largest = torch.empty(programs, dtype=torch.int32, device=x.device)
        find(x, largest)
        quantize(x, q, scale, largest)

    return both


def _nothing(*_: Tensor) -> None:
    """Launches nothing, since a grid without programs would be an error."""


_LAUNCHES = Launches(_prepare)


def quantize_fp8_rule(
    shape: tuple[int, ...], itemsize: int, granularity: str = "row", group: int = GROUP
) -> Configuration:
    """For (M, N): BLOCK, PROGRAMS and warps for a whole tensor; for rows and groups the rule of other row kernels."""
    if granularity == "tensor":
        return _tensor_choice(16, 1, PROGRAMS_PER_MULTIPROCESSOR, itemsize)
    return norm_rule(_segments(shape, granularity, group), itemsize)


def _tensor_choice(num_warps: int, loads: int, programs: int, itemsize: int) -> Configuration:
    block = num_warps * 32 * loads * LOAD_BYTES // itemsize
    return Configuration.of(BLOCK=block, PROGRAMS=programs, num_warps=num_warps)


def quantize_fp8_choices(
    shape: tuple[int, ...], itemsize: int, granularity: str = "row", group: int = GROUP
) -> Iterator[Configuration]:
    """The configurations that a search may try for (M, N). PROGRAMS, for whole tensors only: of each multiprocessor."""
    if granularity == "tensor":
        for num_warps, programs in ((8, 4), (8, 8), (16, 2), (16, 4), (32, 2)):
            for loads in (1, 2, 4):
                yield _tensor_choice(num_warps, loads, programs, itemsize)
    else:
        choices = norm_choices if granularity == "row" else row_choices
        yield from choices(_segments(shape, granularity, group), itemsize)


def _segments(shape: tuple[int, ...], granularity: str, group: int) -> tuple[int, int]:
    """(number of segments with one scale, their width) of (M, N)."""
    M, N = shape
    width = min(group, N) if granularity == "group" else N
    return M * triton.cdiv(N, width), width


@cache
def quantize_fp8_tuning(granularity: str = "row", group: int = GROUP) -> Tuning:
    """The tuning for one granularity. Groups have one for each width, since rows of any length are tuned alike."""

    def parts(shape: tuple[int, ...]) -> str:
        return by_elements(shape) if granularity == "tensor" else by_rows(_segments(shape, granularity, group))

    return Tuning(
        f"fp8-group-{group}" if granularity == "group" else f"fp8-{granularity}", __name__,
        partial(quantize_fp8_rule, granularity=granularity, group=group),
        partial(quantize_fp8_choices, granularity=granularity, group=group),
        parts,
    )  # fmt: skip


def quantize_fp8_reference(
    x: Tensor, granularity: str = "row", dtype: torch.dtype = torch.float8_e4m3fn, group: int = GROUP
) -> tuple[Tensor, Tensor]:
    """(x / scale, scale) in float64, on the device of `x`: q before rounding, and its scale."""
    x = x.double()
    N = x.shape[-1]
    if granularity == "tensor":
        largest = x.abs().amax() if x.numel() else x.new_zeros(())
        scale = (largest / LARGEST[dtype]).clamp(min=SMALLEST_SCALE)
        return x / scale, scale
    width = group if granularity == "group" else N
    filled = torch.nn.functional.pad(x, (0, -N % width)).unflatten(-1, (-1, width))
    scale = (filled.abs().amax(-1) / LARGEST[dtype]).clamp(min=SMALLEST_SCALE)
    return (filled / scale[..., None]).flatten(-2)[..., :N], scale


def quantize_fp8_inputs(shape: tuple[int, ...], dtype: torch.dtype, device: str, seed: int) -> tuple[Tensor]:
    """(x,) of normal data."""
    generator = torch.Generator(device).manual_seed(seed)
    return (torch.randn(shape, dtype=dtype, device=device, generator=generator),)


def quantize_fp8_traffic(
    shape: tuple[int, ...], itemsize: int, granularity: str = "row", group: int = GROUP
) -> Traffic:
    """Least work for (M, N): read x once, write a byte for each element and four for each scale.

    Magnitude, comparison, product and conversion count as four operations an element. A whole tensor larger than the
    cache must be read twice, since its scale comes first; the least traffic counts one read all the same.
    """
    M, N = shape
    scales = {"row": M, "group": M * triton.cdiv(N, group), "tensor": 1}[granularity]
    return Traffic(read_bytes=M * N * itemsize, written_bytes=M * N + 4 * scales, flops=4 * M * N)
