"""What Nsight Compute runs to see the lab's flush at work, `python -m lab.profiler.flushed`: one read, cold and warm.

The same buffer, smaller than the cache, is read after the flush and at once again. After a flush that works
all of it comes from DRAM, and the second time next to nothing does.
"""

import torch

from lab.profiler.raw_page import RANGE_SEPARATOR
from lab.worker.device import CudaClock, profiled_range

FOOTPRINT_BYTES = 16 << 20
FLUSHED, WARM = "flushed", "warm"


def main() -> None:
    clock = CudaClock()
    buffer = torch.randn(FOOTPRINT_BYTES // 4, device="cuda")
    buffer.sum()
    clock.flush()
    for name in (FLUSHED, WARM):
        with profiled_range(RANGE_SEPARATOR.join(("read", name))):
            buffer.sum()


if __name__ == "__main__":
    main()
