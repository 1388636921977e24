"""Softmax of wide rows, each by a cluster of programs that hold all of it in their registers.

One program cannot hold a row of more than some 64,000 columns and must read the rest twice. It holds a narrower one in
so many registers that nothing else is read while it computes and writes. The programs of a cluster run at the same time
on neighbouring multiprocessors and can write to one another's shared memory (CUDA C++ Programming Guide, "Thread Block
Clusters"; from compute capability 9.0), so a row is read once and they exchange eight bytes each.
Written in Gluon, whose layouts say which program of a cluster has which part of a tensor. Triton 3.6 cannot reduce
across programs: the exchange is PTX.
"""

from collections.abc import Iterator
from typing import Any

import triton
from torch import Tensor
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from lab.kernels.early import wait_for_previous
from lab.kernels.exponential import exponential
from lab.kernels.launch import SMALL_GRID, Configuration, Launch, capability, multiprocessors
from lab.kernels.rows import LOAD_BYTES

MOST_PROGRAMS = 16  # of a cluster
FEWEST_MULTIPROCESSORS = 132  # of a GPU on which clusters were tried: 16 or 18 in each group that may hold a cluster
FEWEST_ELEMENTS, MOST_ELEMENTS = 8, 136  # of a row in the registers of a thread, in float32, that a search may try
FEW_ROWS = 128
FOUR_WARPS = 128  # threads
# Elements of a thread, by rule: more, by element size, and another program of the cluster takes a part of them; more of
# few rows, and one of up to eight programs does; more, if there are 16 programs, and they have eight warps.
HELD, HELD_OF_FEW, MOST_HELD = {2: 80, 4: 48}, 32, 136
# Registers of a thread, at most: with fewer, more programs are at work. It needs BESIDES, by element size, and those of
# its elements.
FEWEST_REGISTERS, BESIDES = 64, {2: 16, 4: 32}
MOST_REGISTERS, PROGRAM_REGISTERS = 255, 65_536

# A program's slots, one for each program of the cluster, and the barrier that counts the bytes written to them. $0 is
# their address. Nobody may write to the shared memory of a program that has not begun, so that each tells the others.
BEGUN = gl.constexpr("""
{
  .reg .pred %first;
  .reg .b32 %thread, %slots, %bar, %bytes;
  .shared .align 16 .b64 slots[17];
  mov.u32 %thread, %tid.x;
  mov.u32 %slots, slots;
  add.u32 %bar, %slots, 128;
  mov.u32 %bytes, %cluster_nctarank;
  shl.b32 %bytes, %bytes, 3;
  setp.eq.u32 %first, %thread, 0;
  @%first mbarrier.init.shared::cta.b64 [%bar], 1;
  @%first fence.mbarrier_init.release.cluster;
  @%first mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], %bytes;
  barrier.cluster.arrive.relaxed;
  add.u32 $0, %slots, $1;
}
""")
# Write two floats into this program's slot at every program of the cluster, by one thread each.
TELL = gl.constexpr("""
{
  .reg .pred %writes;
  .reg .b32 %slot, %bar, %rank, %thread, %programs;
  mov.u32 %thread, %tid.x;
  mov.u32 %programs, %cluster_nctarank;
  mov.u32 %rank, %cluster_ctarank;
  mad.lo.u32 %slot, %rank, 8, $1;
  add.u32 %bar, $1, 128;
  setp.lt.u32 %writes, %thread, %programs;
  barrier.cluster.wait;
  @%writes mapa.shared::cluster.u32 %slot, %slot, %thread;
  @%writes mapa.shared::cluster.u32 %bar, %bar, %thread;
  @%writes st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.f32 [%slot], {$2, $3}, [%bar];
  mov.b32 $0, $1;
}
""")
# Wait until all programs have written theirs.
HEARD = gl.constexpr("""
{
  .reg .pred %complete;
  .reg .b32 %bar;
  add.u32 %bar, $1, 128;
waiting:
  mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %complete, [%bar], 0;
  @!%complete bra waiting;
  mov.b32 $0, $1;
}
""")
READ = gl.constexpr("ld.shared.f32 $0, [$1];")


@gluon.jit
def _read(slots):
    """The floats at addresses in shared memory."""
    return gl.inline_asm_elementwise(READ, "=f,r", [slots], gl.float32, is_pure=False, pack=1)


@gluon.jit
def _softmax_cluster_kernel(
    x_ptr, y_ptr, x_stride: gl.constexpr,
    N: gl.constexpr, PROGRAMS: gl.constexpr, TILES: gl.constexpr, BLOCK: gl.constexpr, LAYOUT: gl.constexpr,
    LANES: gl.constexpr,
):  # fmt: skip
    """A row in TILES tiles, of which each program has BLOCK columns. A program takes its powers relative to its own
    maximum, and scales them when it knows those of the others, so that they are computed once. Each lane of a warp, in
    the layout LANES, reads what one program has told: with all of it in every thread, a thread needs so many registers
    that fewer programs are at work, and 1024 rows of 262,144 in float16 took 409 µs on an H100 instead of 358."""
    EXACT: gl.constexpr = x_ptr.dtype.element_ty == gl.float32
    slots = gl.inline_asm_elementwise(BEGUN, "=r,r", [gl.program_id(0) * 0], gl.int32, is_pure=False, pack=1)
    wait_for_previous()
    row = gl.program_id(0).to(gl.int64)
    x_ptr += row * x_stride
    y_ptr += row * N
    part = gl.arange(0, PROGRAMS, gl.SliceLayout(1, LAYOUT))
    columns = part[:, None] * BLOCK + gl.arange(0, BLOCK, gl.SliceLayout(0, LAYOUT))[None, :]
    tiles = ()
    for tile in gl.static_range(TILES):
        at = tile * PROGRAMS * BLOCK + columns
        tiles = tiles + (_loaded(x_ptr, at, N, (tile + 1) * PROGRAMS * BLOCK > N),)  # type: ignore  # noqa: RUF005
    largest = tiles[0]  # type: ignore[misc]
    for tile in gl.static_range(1, TILES):
        largest = gl.maximum(largest, tiles[tile])
    top = gl.max(largest, axis=1)
    # If all values are −inf there is nothing to add, and −inf − (−inf) would be NaN.
    anchor = gl.where(top == float("-inf"), 0.0, top)[:, None]
    powers = ()
    summed = gl.zeros_like(largest)
    for tile in gl.static_range(TILES):
        power = exponential(tiles[tile] - anchor, EXACT)
        powers = powers + (power,)  # type: ignore[assignment]  # noqa: RUF005
        summed += power
    total = gl.sum(summed, axis=1)
    gl.inline_asm_elementwise(TELL, "=r,r,f,f", [slots, top, total], gl.int32, is_pure=False, pack=1)
    slots = gl.inline_asm_elementwise(HEARD, "=r,r", [slots], gl.int32, is_pure=False, pack=1)
    theirs = slots + 8 * gl.arange(0, PROGRAMS, LANES)
    tops = _read(theirs)
    highest = gl.max(tops, axis=0)
    all_summed = gl.sum(_read(theirs + 4) * _share(tops, highest, EXACT), axis=0)
    scale = (_share(top, highest, EXACT) / all_summed)[:, None]
    for tile in gl.static_range(TILES):
        at = tile * PROGRAMS * BLOCK + columns
        y = (powers[tile] * scale).to(y_ptr.dtype.element_ty)
        if (tile + 1) * PROGRAMS * BLOCK > N:
            gl.store(y_ptr + at, y, mask=at < N)
        else:
            gl.store(y_ptr + at, y)


@gluon.jit
def _loaded(x_ptr, at, N: gl.constexpr, ENDS: gl.constexpr):
    """Columns of a row in float32. ENDS: the row may end among them, and what is beyond is −inf."""
    mask = at < N if ENDS else None
    return gl.load(x_ptr + at, mask=mask, other=float("-inf") if ENDS else None).to(gl.float32)


@gluon.jit
def _share(top, highest, EXACT: gl.constexpr):
    """What makes a sum relative to `top` one relative to `highest`; 0 if nothing was summed."""
    return gl.where(top == float("-inf"), 0.0, exponential(top - highest, EXACT))


def has_clusters(device: int) -> bool:
    """Whether the GPU with this index can run clusters of 16 programs: a whole H100 SXM, H200 or GH200 can. Smaller
    Hopper GPUs, parts of one, and later generations have not been tried."""
    return capability(device)[0] == 9 and multiprocessors(device) >= FEWEST_MULTIPROCESSORS


def in_lines(rows: Tensor) -> bool:
    """Whether each of the rows begins at a multiple of 16 bytes, as a thread reads and writes them."""
    return rows.data_ptr() % LOAD_BYTES == 0 and (len(rows) == 1 or rows.stride(0) * rows.itemsize % LOAD_BYTES == 0)


def cluster_rule(shape: tuple[int, ...], itemsize: int) -> Configuration:
    """For (M, N): as few programs of four warps as hold a row with HELD elements a thread; with few rows, which leave
    room for more, up to eight of HELD_OF_FEW elements."""
    M, N = shape
    few = M <= FEW_ROWS
    programs = 4 if few else 2
    while programs < MOST_PROGRAMS:
        held = HELD_OF_FEW if few and programs < 8 else HELD[itemsize]
        if programs * FOUR_WARPS * held >= N:
            break
        programs *= 2
    return _clusters(programs, 4 if programs * FOUR_WARPS * MOST_HELD >= N else 8)


def cluster_choices(N: int, itemsize: int) -> Iterator[Configuration]:
    """The configurations that a search may try for rows of N columns."""
    if N * itemsize % LOAD_BYTES != 0:
        return
    for programs in (2, 4, 8, MOST_PROGRAMS):
        for warps in (4, 8, 16):
            if FEWEST_ELEMENTS <= N / (programs * warps * 32) <= MOST_ELEMENTS:
                yield _clusters(programs, warps)


def _clusters(programs: int, warps: int) -> Configuration:
    return Configuration.of(PROGRAMS=programs, num_warps=warps)


def lanes_layout(programs: int, warps: int) -> gl.BlockedLayout:
    """Of a tensor (programs,) that every warp of every program has: an element for each lane."""
    return gl.BlockedLayout([1], [32], [warps], [0], cga_layout=[[0]] * (programs.bit_length() - 1))


def cluster_layout(programs: int, warps: int, itemsize: int) -> gl.BlockedLayout:
    """Of a tile (programs, columns): a row for each program of a cluster, 16 bytes of it at a time for each thread."""
    bases = [[1 << bit, 0] for bit in range(programs.bit_length() - 1)]
    return gl.BlockedLayout([1, LOAD_BYTES // itemsize], [1, 32], [1, warps], [1, 0], cga_layout=bases)


def cluster_launch(x: Tensor, chosen: Configuration) -> Launch:
    """The launch on (x, y) for the rows of `x`, (M, N): PROGRAMS for each row."""
    M, N = x.shape
    programs, warps = chosen["PROGRAMS"], chosen.num_warps
    block = 32 * warps * LOAD_BYTES // x.itemsize
    tiles = triton.cdiv(N, programs * block)
    constants: dict[str, Any] = {
        "x_stride": x.stride(0), "N": N, "PROGRAMS": programs, "TILES": tiles, "BLOCK": block,
        "LAYOUT": cluster_layout(programs, warps, x.itemsize), "LANES": lanes_layout(programs, warps),
    }  # fmt: skip
    needed = max(FEWEST_REGISTERS, tiles * LOAD_BYTES // x.itemsize + BESIDES[x.itemsize])
    registers = min(needed, MOST_REGISTERS, PROGRAM_REGISTERS // (32 * warps))
    return Launch(
        _softmax_cluster_kernel, M, x.get_device(), num_warps=warps, registers=registers, early=SMALL_GRID,
        cluster=programs, **constants,
    )  # fmt: skip
