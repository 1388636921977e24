"""A kernel may begin before the one before it on the stream has finished: programmatic dependent launch.

CUDA C++ Programming Guide, "Programmatic Dependent Launch and Synchronization"; `starts_early` says where. The blocks
of the next kernel are placed on multiprocessors as these become free, and its prologue runs, so that less time passes
between two kernels. Nothing overlaps that depends on the order: a kernel waits before it touches memory.

When the next kernel may begin is decided for each launch (`launch.py`): when the kernel before this one has finished;
or, where a second grid would fit only in part, when the last block of this one has ended. There the next grid's blocks
would take what room is left, so that some multiprocessors get more of them than others: residual add with RMSNorm at
1024 × 1536 in float32 took 11.7 µs in a graph on an H100, and 9.4 when the next began later.
"""

from typing import Any

import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_wait
from triton.language.target_info import cuda_capability_geq

from lab.kernels.checks import interpreting

_INTERPRETED = tl.constexpr(interpreting())

# Values of Triton's option launch_pdl, which launches a kernel early if it is not 0.
NEXT_BEGINS_EARLY, NEXT_BEGINS_AT_END = 1, 2
_NOW = tl.constexpr(NEXT_BEGINS_EARLY)

# Only thread 0 does it, which counts for its block. If all threads do, at most one block ends every 1.4 ns: quantising
# 16,384 × 896 to float8, one program a row, took 24.7 µs so on an H100, and 16.5 with one thread. And only in the last
# 2112 blocks of a grid, 16 for each multiprocessor of an H100: most of those before have ended by then. If all do, at
# most one ends every 1.2 ns: cold copies of 16 and 32 MiB in blocks of 2 KiB took 13.1 and 23.1 µs so, and 12.1 and
# 21.2 µs with the last alone.
LETS_BEGIN = tl.constexpr("""{
.reg .pred lets; .reg .b32 thread, block, blocks;
mov.u32 thread, %tid.x; mov.u32 block, %ctaid.x; mov.u32 blocks, %nctaid.x;
add.u32 block, block, 2112;
setp.eq.u32 lets, thread, 0;
setp.ge.and.u32 lets, block, blocks, lets;
selp.u32 $0, 1, 0, lets; }""")
BEGIN = tl.constexpr("""{
.reg .pred lets;
setp.ne.u32 lets, $1, 0;
@lets griddepcontrol.launch_dependents;
mov.u32 $0, 0; }""")


@tl.core.builtin
def _launch_pdl(_semantic: Any = None) -> Any:
    """The value with which the kernel is launched. If it is 0, the kernel neither waits nor lets the next begin."""
    return tl.constexpr(int(_semantic.builder.options.launch_pdl))


@triton.jit
def _lets_begin():
    return tl.inline_asm_elementwise(LETS_BEGIN, "=r", [], dtype=tl.int32, is_pure=False, pack=1)


@triton.jit
def _begin_next(lets_begin):
    tl.inline_asm_elementwise(BEGIN, "=r,r", [lets_begin], dtype=tl.int32, is_pure=False, pack=1)


@triton.jit
def let_next_begin():
    """Let the next kernel begin, once the last blocks are here, although this one has not yet waited, whatever was
    decided for its launch: a linear layer of one row, so that the next one's weights are read meanwhile.

    The next kernel may then read without waiting only what no kernel that is still running writes.
    """
    if not _INTERPRETED and cuda_capability_geq(9, 0) and _launch_pdl() != 0:
        _begin_next(_lets_begin())


@triton.jit
def wait_for_previous(next_began: tl.constexpr = False):
    """Wait until the kernel before has finished and its writes can be seen; then let the next one begin, once the last
    blocks are here, unless it is to begin when this one ends.

    Every kernel launched with `early` must call this before it reads or writes what another kernel may write or read.
    Without waiting it may read constants, and what was complete before the kernel before began, if that one calls this
    and not `let_next_begin`. It does nothing in a kernel that is not launched early, nor on GPUs that cannot do it.
    next_began: the kernel has called `let_next_begin`. A second time would cost each block as much again:
    one row times a weight of 18,944 × 3584 took 45.8 µs so on an H100, and 43.8 without.
    """
    if not _INTERPRETED and cuda_capability_geq(9, 0) and _launch_pdl() != 0:
        if not next_began and _launch_pdl() == _NOW:
            lets_begin = _lets_begin()  # while it would wait anyway
            gdc_wait()
            _begin_next(lets_begin)
        else:
            gdc_wait()
