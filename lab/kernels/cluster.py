"""Rows held by clusters: programs that run at the same time on neighbouring multiprocessors, each with a part of a row.

One program cannot hold a row of more than some 64,000 columns and must read the rest twice. It holds a narrower one in
so many registers that nothing else is read while it computes and writes. The programs of a cluster can write to one
another's shared memory (CUDA C++ Programming Guide, "Thread Block Clusters"; from compute capability 9.0), so a row is
read once and they exchange eight bytes each. Written in Gluon, whose layouts say which program of a cluster has which
part of a tensor. Triton 3.6 cannot reduce across programs: the exchange is PTX.
"""

from collections.abc import Iterator
from typing import Any

import triton
from torch import Tensor
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from lab.kernels.launch import SMALL_GRID, Configuration, Launch, capability, multiprocessors
from lab.kernels.rows import LOAD_BYTES

MOST_PROGRAMS = 16  # of a cluster
FEWEST_MULTIPROCESSORS = 132  # of a GPU on which clusters were tried: 16 or 18 in each group that may hold a cluster
FEWEST_ELEMENTS, MOST_ELEMENTS = 8, 136  # of a row in the registers of a thread, in float32, that a search may try
FEW_ROWS = 96
FOUR_WARPS = 128  # threads
# Elements of a thread, by rule. With more than HELD, by element size, the cluster has twice the programs; with few rows
# from HELD_OF_FEW on, up to eight programs. Of 16 programs a thread has up to MOST_HELD; then they have eight warps.
HELD, HELD_OF_FEW, MOST_HELD = {2: 80, 4: 48}, 32, 136
FEWEST_REGISTERS = 64  # of a thread: with fewer, no more programs are at work
MOST_REGISTERS, PROGRAM_REGISTERS = 255, 65_536

# A program's slots, one for each program of the cluster, and the barrier that counts the bytes written to them. $0 is
# their address. Nobody may write to the shared memory of a program that has not begun, so each says that it has.
READY = gl.constexpr("""
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
SEND = gl.constexpr("""
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
RECEIVED = gl.constexpr("""
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
def begin():
    """Make this program's slots ready. Returns their address, for `send` and `receive`."""
    return gl.inline_asm_elementwise(READY, "=r,r", [gl.program_id(0) * 0], gl.int32, is_pure=False, pack=1)


@gluon.jit
def send(slots, first, second):
    """Send two floats to all programs of the cluster."""
    gl.inline_asm_elementwise(SEND, "=r,r,f,f", [slots, first, second], gl.int32, is_pure=False, pack=1)


@gluon.jit
def receive(slots, PROGRAMS: gl.constexpr, LANES: gl.constexpr):
    """The first and the second floats of all programs, (PROGRAMS,), when all have sent theirs.

    Each lane of a warp, in the layout LANES, reads those of one program: with all of them in every thread, softmax
    needed so many registers that fewer programs were at work, and 1024 rows of 262,144 in float16 took 409 µs on an
    H100 instead of 358."""
    slots = gl.inline_asm_elementwise(RECEIVED, "=r,r", [slots], gl.int32, is_pure=False, pack=1)
    slots += 8 * gl.arange(0, PROGRAMS, LANES)
    return _read(slots), _read(slots + 4)


@gluon.jit
def _read(slots):
    """The floats at addresses in shared memory."""
    return gl.inline_asm_elementwise(READ, "=f,r", [slots], gl.float32, is_pure=False, pack=1)


@gluon.jit
def first_columns(PROGRAMS: gl.constexpr, BLOCK: gl.constexpr, LAYOUT: gl.constexpr):
    """The columns of the first tile of a row, (PROGRAMS, BLOCK): BLOCK for each program of the cluster."""
    part = gl.arange(0, PROGRAMS, gl.SliceLayout(1, LAYOUT))
    return part[:, None] * BLOCK + gl.arange(0, BLOCK, gl.SliceLayout(0, LAYOUT))[None, :]


@gluon.jit
def read_tile(row_ptr, columns, TILE: gl.constexpr, N: gl.constexpr, BEYOND: gl.constexpr = 0.0):
    """A tile of a row of N columns, with the value BEYOND for columns beyond N. columns: those of the first tile."""
    WIDTH: gl.constexpr = columns.shape[0] * columns.shape[1]
    at = TILE * WIDTH + columns
    if (TILE + 1) * WIDTH > N:
        return gl.load(row_ptr + at, mask=at < N, other=BEYOND)
    return gl.load(row_ptr + at)


@gluon.jit
def read_tiles(row_ptr, columns, TILES: gl.constexpr, N: gl.constexpr, BEYOND: gl.constexpr = 0.0):
    """All tiles of a row, as a tuple."""
    tiles = ()
    for tile in gl.static_range(TILES):
        tiles = tiles + (read_tile(row_ptr, columns, tile, N, BEYOND),)  # type: ignore  # noqa: RUF005
    return tiles


@gluon.jit
def write_tile(row_ptr, columns, TILE: gl.constexpr, y, N: gl.constexpr):
    """Write a tile, rounded to the dtype of the row."""
    WIDTH: gl.constexpr = columns.shape[0] * columns.shape[1]
    at = TILE * WIDTH + columns
    y = y.to(row_ptr.dtype.element_ty)
    if (TILE + 1) * WIDTH > N:
        gl.store(row_ptr + at, y, mask=at < N)
    else:
        gl.store(row_ptr + at, y)


def has_clusters(device: int) -> bool:
    """Whether the GPU with this index can run clusters of 16 programs: a whole H100 SXM, H200 or GH200 can. Smaller
    Hopper GPUs, parts of one, and later generations have not been tried."""
    return capability(device)[0] == 9 and multiprocessors(device) >= FEWEST_MULTIPROCESSORS


def clusters_hold(*tensors: Tensor) -> bool:
    """Whether clusters can be launched for the rows of these tensors, (M, N) each: their GPU can, and each row begins
    at a multiple of 16 bytes, as a thread reads and writes them."""
    return has_clusters(tensors[0].get_device()) and all(map(_in_lines, tensors))


def _in_lines(rows: Tensor) -> bool:
    return rows.data_ptr() % LOAD_BYTES == 0 and (len(rows) == 1 or rows.stride(0) * rows.itemsize % LOAD_BYTES == 0)


def is_cluster(chosen: Configuration) -> bool:
    return "PROGRAMS" in dict(chosen.constants)


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
    return clusters(programs, 4 if programs * FOUR_WARPS * MOST_HELD >= N else 8)


def cluster_choices(N: int, itemsize: int) -> Iterator[Configuration]:
    """The configurations that a search may try for rows of N columns."""
    if N * itemsize % LOAD_BYTES != 0:
        return
    for programs in (2, 4, 8, MOST_PROGRAMS):
        for warps in (4, 8, 16):
            if FEWEST_ELEMENTS <= N / (programs * warps * 32) <= MOST_ELEMENTS:
                yield clusters(programs, warps)


def clusters(programs: int, warps: int) -> Configuration:
    """So many programs for each row, of so many warps."""
    return Configuration.of(PROGRAMS=programs, num_warps=warps)


def lanes_layout(programs: int, warps: int) -> gl.BlockedLayout:
    """Of a tensor (programs,) that every warp of every program has: an element for each lane."""
    return gl.BlockedLayout([1], [32], [warps], [0], cga_layout=[[0]] * (programs.bit_length() - 1))


def cluster_layout(programs: int, warps: int, itemsize: int) -> gl.BlockedLayout:
    """Of a tile (programs, columns): a row for each program of a cluster, 16 bytes of it at a time for each thread."""
    bases = [[1 << bit, 0] for bit in range(programs.bit_length() - 1)]
    return gl.BlockedLayout([1, LOAD_BYTES // itemsize], [1, 32], [1, warps], [1, 0], cga_layout=bases)


def cluster_launch(kernel: Any, x: Tensor, chosen: Configuration, besides: int = 0, **strides: int) -> Launch:
    """The launch of `kernel` for the rows of `x`, (M, N): PROGRAMS for each row. The last parameters of `kernel` are
    the `strides`, N, PROGRAMS, TILES, BLOCK, LAYOUT and LANES.

    besides: registers that a thread may have besides those of its elements in float32; 0 leaves that to Triton.
    """
    M, N = x.shape
    programs, warps = chosen["PROGRAMS"], chosen.num_warps
    block = 32 * warps * LOAD_BYTES // x.itemsize
    tiles = triton.cdiv(N, programs * block)
    constants: dict[str, Any] = {
        "N": N, "PROGRAMS": programs, "TILES": tiles, "BLOCK": block,
        "LAYOUT": cluster_layout(programs, warps, x.itemsize), "LANES": lanes_layout(programs, warps),
    }  # fmt: skip
    needed = max(FEWEST_REGISTERS, tiles * LOAD_BYTES // x.itemsize + besides)
    registers = min(needed, MOST_REGISTERS, PROGRAM_REGISTERS // (32 * warps)) if besides else 0
    return Launch(
        kernel, M, x.get_device(), num_warps=warps, registers=registers, early=SMALL_GRID, cluster=programs,
        **strides, **constants,
    )  # fmt: skip
