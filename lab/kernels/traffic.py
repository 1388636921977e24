"""The least work that any implementation of an operator must do."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Traffic:
    """Bytes that one call must read and write at least once, cached or not, and its floating-point operations.

    It depends on the problem, not on an implementation: the throughput of every profile is computed from these numbers.
    """

    read_bytes: int
    written_bytes: int
    flops: int

    @property
    def total_bytes(self) -> int:
        return self.read_bytes + self.written_bytes
