"""What Nsight Compute runs to see the lab's flush at work, `python -m lab.profiler.flushed ORDER`: one read, cold and
warm, once it is told to.

The same buffer, smaller than the cache, is read after the flush and at once again. After a flush that works
all of it comes from DRAM, and the second time next to nothing does.
"""

import sys
from pathlib import Path

import torch

from lab.process.order import awaited
from lab.profiler.raw_page import RANGE_SEPARATOR
from lab.worker.device import CudaClock, profiled_range

FOOTPRINT_BYTES = 16 << 20
FLUSHED, WARM = "flushed", "warm"


def main() -> None:
    if awaited(Path(sys.argv[1])) is None:
        return
    clock = CudaClock()
    buffer = torch.randn(FOOTPRINT_BYTES // 4, device="cuda")
    buffer.sum()
    clock.flush()
    for name in (FLUSHED, WARM):
        with profiled_range(RANGE_SEPARATOR.join(("read", name))):
            buffer.sum()


if __name__ == "__main__":
    main()
