"""A kernel may begin before the one before it on the stream has finished: programmatic dependent launch.

CUDA C++ Programming Guide, "Programmatic Dependent Launch and Synchronization"; `starts_early` says where. The blocks
of the next kernel are placed on multiprocessors as these become free, and its prologue runs, so that less time passes
between two kernels. Nothing overlaps that depends on the order: a kernel waits before it touches memory.
"""

from typing import Any

import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait
from triton.language.target_info import cuda_capability_geq

from lab.kernels.checks import interpreting

_INTERPRETED = tl.constexpr(interpreting())


@tl.core.builtin
def _may_begin_early(_semantic: Any = None) -> Any:
    """Whether the kernel is compiled to be launched with `early`. Elsewhere it neither waits nor lets the next begin:
    blocks that do so end at most one every 1.4 ns. A copy of 64 MiB in 32,768 programs took 44 µs with that on an H200,
    and 34 without."""
    return tl.constexpr(bool(_semantic.builder.options.launch_pdl))


@triton.jit
def let_next_begin():
    """Let the next kernel begin although this one has not yet waited: sooner than `wait_for_previous` does.

    Of one row times a weight of 18,944 × 3584, one call after another in a graph, a call took 45.0 µs on an H100; when
    only `wait_for_previous` let the next begin, 47.2. The next may then read without waiting only what no kernel that
    is still running writes.
    """
    if not _INTERPRETED and cuda_capability_geq(9, 0) and _may_begin_early():
        gdc_launch_dependents()


@triton.jit
def wait_for_previous():
    """Wait until the kernel before has finished and its writes can be seen; from then on the next one may begin.

    Every kernel launched with `early` must call this before it reads or writes what another kernel may write or read.
    Without waiting it may read constants, and what was complete before the kernel before began, if that one calls this
    and not `let_next_begin`. It does nothing in a kernel that is not launched early, nor on GPUs that cannot do it.
    """
    if not _INTERPRETED and cuda_capability_geq(9, 0) and _may_begin_early():
        gdc_wait()
        gdc_launch_dependents()
