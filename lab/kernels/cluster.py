"""Rows held by clusters of thread blocks, which run at the same time on neighbouring multiprocessors.

One thread block cannot hold a row of more than some 64,000 columns and must read the rest twice. A narrower row fills
so many of its registers that no second block fits on the multiprocessor, and nothing is read while it computes and
writes. The blocks of a cluster can write to one another's shared memory (CUDA C++ Programming Guide, "Thread Block
Clusters"; from compute capability 9.0), so each holds a part of the row, the row is read once and they exchange eight
bytes each. Written in Gluon, whose layouts say which block has which part of a tensor; a program there is a whole
cluster. Triton 3.6 cannot reduce across blocks: the exchange is PTX.
"""

from collections.abc import Callable, Iterator
from typing import Any

import triton
from torch import Tensor
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from lab.kernels.launch import Configuration, Launch, capability, multiprocessors
from lab.kernels.rows import LOAD_BYTES

MOST_CTAS = 16  # thread blocks of a cluster
WARPS = (4, 8, 16)  # that a block may have
FEWEST_MULTIPROCESSORS = 132  # of a GPU on which clusters were tried: 16 or 18 in each group that may hold a cluster
FEW_ROWS = 96
FOUR_WARPS = 128  # threads
# The most elements of a thread, by element size, before the rule takes twice the blocks. With at most FEW_ROWS a thread
# of four blocks has at most HELD_OF_FEW. With 16 blocks it has up to MOST_HELD; above that, a block has eight warps.
HELD, HELD_OF_FEW, MOST_HELD = {2: 80, 4: 48}, 32, 136
FEWEST_HELD = 8  # elements of a thread that a search may try
FEWEST_REGISTERS = 64  # of a thread: with fewer, no more blocks are at work
MOST_REGISTERS, BLOCK_REGISTERS = 255, 65_536

# A block's slots, one for each block of the cluster, and the barrier that counts the bytes written to them. $0 is their
# address. Nobody may write to the shared memory of a block that has not begun, so each says that it has.
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
# Write two floats into this block's slot at every block of the cluster, by one thread each.
SEND = gl.constexpr("""
{
  .reg .pred %writes;
  .reg .b32 %slot, %bar, %rank, %thread, %blocks;
  mov.u32 %thread, %tid.x;
  mov.u32 %blocks, %cluster_nctarank;
  mov.u32 %rank, %cluster_ctarank;
  mad.lo.u32 %slot, %rank, 8, $1;
  add.u32 %bar, $1, 128;
  setp.lt.u32 %writes, %thread, %blocks;
  barrier.cluster.wait;
  @%writes mapa.shared::cluster.u32 %slot, %slot, %thread;
  @%writes mapa.shared::cluster.u32 %bar, %bar, %thread;
  @%writes st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.f32 [%slot], {$2, $3}, [%bar];
  mov.b32 $0, $1;
}
""")
# Wait until all blocks have written theirs.
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
    """Make this block's slots ready. Returns their address, for `send` and `receive`."""
    return gl.inline_asm_elementwise(READY, "=r,r", [gl.program_id(0) * 0], gl.int32, is_pure=False, pack=1)


@gluon.jit
def send(slots, first, second):
    """Send two floats to all blocks of the cluster."""
    gl.inline_asm_elementwise(SEND, "=r,r,f,f", [slots, first, second], gl.int32, is_pure=False, pack=1)


@gluon.jit
def receive(slots, CTAS: gl.constexpr, LANES: gl.constexpr):
    """The first and the second floats of all blocks, (CTAS,), when all have sent theirs.

    Each lane of a warp, in the layout LANES, reads those of one block: with all of them in every thread, softmax needed
    so many registers that fewer blocks were at work, and 1024 rows of 262,144 in float16 took 409 µs on an H100 instead
    of 358.
    """
    slots = gl.inline_asm_elementwise(RECEIVED, "=r,r", [slots], gl.int32, is_pure=False, pack=1)
    slots += 8 * gl.arange(0, CTAS, LANES)
    return _read(slots), _read(slots + 4)


@gluon.jit
def _read(slots):
    """The floats at addresses in shared memory."""
    return gl.inline_asm_elementwise(READ, "=f,r", [slots], gl.float32, is_pure=False, pack=1)


@gluon.jit
def first_columns(CTAS: gl.constexpr, BLOCK: gl.constexpr, LAYOUT: gl.constexpr):
    """The columns of the first tile of a row, (CTAS, BLOCK): BLOCK for each thread block of the cluster."""
    part = gl.arange(0, CTAS, gl.SliceLayout(1, LAYOUT))
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
    """Whether the GPU with this index can run clusters of 16 thread blocks: a whole H100 SXM, H200 or GH200 can.
    Smaller Hopper GPUs, parts of one, and later generations have not been tried."""
    return capability(device)[0] == 9 and multiprocessors(device) >= FEWEST_MULTIPROCESSORS


def clusters_hold(*tensors: Tensor) -> bool:
    """Whether clusters can be launched for the rows of these tensors, (M, N) each: their GPU can, and each row, also of
    a contiguous result, begins at a multiple of 16 bytes, as a thread reads and writes them."""
    return has_clusters(tensors[0].get_device()) and all(map(_aligned, tensors))


def _aligned(rows: Tensor) -> bool:
    steps = (rows.shape[1],) if len(rows) == 1 else (rows.shape[1], rows.stride(0))
    return rows.data_ptr() % LOAD_BYTES == 0 and all(step * rows.itemsize % LOAD_BYTES == 0 for step in steps)


def is_cluster(chosen: Configuration) -> bool:
    return "CTAS" in dict(chosen.constants)


def launchable(
    chosen: Configuration, rule: Callable[[tuple[int, ...], int], Configuration], *rows: Tensor
) -> Configuration:
    """`chosen`; or, if it asks for clusters that cannot be launched for these rows, what `rule` chooses for them."""
    if is_cluster(chosen) and not clusters_hold(*rows):
        return rule(rows[0].shape, rows[0].itemsize)
    return chosen


def cluster_rule(shape: tuple[int, ...], itemsize: int) -> Configuration:
    """For (M, N), as softmax needs them: as few thread blocks of four warps as hold a row with HELD elements a thread;
    with few rows, which leave room for more, up to eight of HELD_OF_FEW elements."""
    M, N = shape
    few = M <= FEW_ROWS
    ctas = 4 if few else 2
    while ctas < MOST_CTAS:
        held = HELD_OF_FEW if few and ctas < 8 else HELD[itemsize]
        if ctas * FOUR_WARPS * held >= N:
            break
        ctas *= 2
    return clusters(ctas, 4 if ctas * FOUR_WARPS * MOST_HELD >= N else 8)


def cluster_choices(N: int, itemsize: int) -> Iterator[Configuration]:
    """The configurations that a search may try for rows of N columns."""
    if N * itemsize % LOAD_BYTES != 0:
        return
    for ctas in (2, 4, 8, MOST_CTAS):
        for warps in WARPS:
            if N / (ctas * warps * 32) >= FEWEST_HELD and _held(N, ctas, warps, itemsize) <= MOST_HELD:
                yield clusters(ctas, warps)


def clusters(ctas: int, warps: int) -> Configuration:
    """So many thread blocks for each row, of so many warps."""
    return Configuration.of(CTAS=ctas, num_warps=warps)


def lanes_layout(ctas: int, warps: int) -> gl.BlockedLayout:
    """Of a tensor (ctas,) that every warp of every thread block has: an element for each lane."""
    return gl.BlockedLayout([1], [32], [warps], [0], cga_layout=[[0]] * (ctas.bit_length() - 1))


def cluster_layout(ctas: int, warps: int, itemsize: int) -> gl.BlockedLayout:
    """Of a tile (ctas, columns): a row for each thread block of a cluster, 16 bytes of it at a time for each thread."""
    bases = [[1 << bit, 0] for bit in range(ctas.bit_length() - 1)]
    return gl.BlockedLayout([1, LOAD_BYTES // itemsize], [1, 32], [1, warps], [1, 0], cga_layout=bases)


def _tiles(N: int, ctas: int, warps: int, itemsize: int) -> int:
    """How many tiles a row of N columns has, of 16 bytes for each thread of the cluster."""
    tiles: int = triton.cdiv(N, ctas * 32 * warps * LOAD_BYTES // itemsize)
    return tiles


def _held(N: int, ctas: int, warps: int, itemsize: int) -> int:
    """How many elements of a row of N columns a thread holds."""
    return _tiles(N, ctas, warps, itemsize) * LOAD_BYTES // itemsize


def cluster_launch(kernel: Any, x: Tensor, chosen: Configuration, besides: int = 0, **strides: int) -> Launch:
    """The launch of `kernel` for the rows of `x`, (M, N): CTAS thread blocks for each row. The last parameters of
    `kernel` are the `strides`, N, CTAS, TILES, BLOCK, LAYOUT and LANES.

    besides: registers that a thread may have besides those of its elements in float32; 0 leaves that to Triton.
    Raises ValueError if no cluster can hold such a row as chosen.
    """
    M, N = x.shape
    ctas, warps = chosen["CTAS"], chosen.num_warps
    if ctas not in (2, 4, 8, MOST_CTAS) or warps not in WARPS or _held(N, ctas, warps, x.itemsize) > MOST_HELD:
        raise ValueError(
            f"configuration: CTAS is {ctas} and num_warps {warps}, for rows of {N} columns; accepted are 2, 4, 8 or "
            f"{MOST_CTAS} thread blocks of 4, 8 or 16 warps, with at most {MOST_HELD} columns a thread"
        )
    strides = {name: stride if M > 1 else N for name, stride in strides.items()}  # one row has no distance to another
    constants: dict[str, Any] = {
        "N": N, "CTAS": ctas, "TILES": _tiles(N, ctas, warps, x.itemsize),
        "BLOCK": 32 * warps * LOAD_BYTES // x.itemsize,
        "LAYOUT": cluster_layout(ctas, warps, x.itemsize), "LANES": lanes_layout(ctas, warps),
    }  # fmt: skip
    needed = max(FEWEST_REGISTERS, _held(N, ctas, warps, x.itemsize) + besides)
    registers = min(needed, MOST_REGISTERS, BLOCK_REGISTERS // (32 * warps)) if besides else 0
    return Launch(
        kernel, M, x.get_device(), num_warps=warps, registers=registers, early=True, cluster=ctas,
        **strides, **constants,
    )  # fmt: skip
