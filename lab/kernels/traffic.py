"""The least work an operator can do, whoever does it."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Traffic:
    """Bytes that one call must read and write at least once, cached or not, and its floating-point operations.

    A property of the problem, not of an implementation: every profile is divided by the same number.
    """

    read_bytes: int
    written_bytes: int
    flops: int

    @property
    def total_bytes(self) -> int:
        return self.read_bytes + self.written_bytes
