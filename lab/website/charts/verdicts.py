"""How many claims have which verdict, as one bar: lengths of its parts."""

from collections.abc import Mapping
from dataclasses import dataclass

from lab.website.pages.verdict_words import verdict_word

WIDTH, GAP, NARROWEST = 640.0, 2.0, 3.0


@dataclass(frozen=True, slots=True)
class Part:
    status: str
    x: float
    width: float


@dataclass(frozen=True, slots=True)
class VerdictBar:
    width: float
    parts: tuple[Part, ...]
    description: str


def verdict_bar(counts: Mapping[str, int]) -> VerdictBar | None:
    """In the given order; a part is never too narrow to be seen. None where there is nothing to draw."""
    total = sum(counts.values())
    if not total:
        return None
    room = WIDTH - GAP * (len(counts) - 1)
    widths = {status: max(NARROWEST, room * count / total) for status, count in counts.items()}
    scale = room / sum(widths.values())
    parts, x = [], 0.0
    for status, width in widths.items():
        parts.append(Part(status, round(x, 2), round(width * scale, 2)))
        x += width * scale + GAP
    told = ", ".join(f"{count} {verdict_word(status)}" for status, count in counts.items())
    return VerdictBar(WIDTH, tuple(parts), f"Of {total} claims: {told}.")
