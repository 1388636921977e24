"""A few sweeps apart from all others, as where a compiler that measures its candidates chose a slower one. Pure."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

LARGEST_SHARE = 1 / 3  # of the sweeps
LEAST_GAP = 0.02  # between the few and the others, of the ratio's logarithm
DEVIATIONS = 4.0  # that the gap is wide, in standard deviations of the others
DECILES = tuple(number / 100 for number in range(5, 100, 10))


@dataclass(frozen=True, kw_only=True, slots=True)
class Minority:
    """`apart`: how far the mean of its logarithms lies from that of the others; above 0 where the baseline was slow."""

    sweeps: int
    gap: float
    apart: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Minorities:
    """Of all comparisons those with a minority on one side: by its number of sweeps, and by how far it is apart."""

    comparisons: int
    by_sweeps: Mapping[int, int]
    apart_deciles: tuple[float, ...]


def minority(ratios: Sequence[float]) -> Minority | None:
    """The few sweeps behind the widest gap; None where no gap is wide enough."""
    return max(_minorities(ratios), key=lambda each: each.gap, default=None)


def minorities(comparisons: Sequence[Sequence[float]]) -> tuple[Minorities, Minorities]:
    """Of comparisons, by their sweeps' ratios: where the baseline is slow in a few sweeps, and where the subject is."""
    found = [each for ratios in comparisons if (each := minority(ratios))]
    baseline = _counted([each for each in found if each.apart > 0], len(comparisons))
    subject = _counted([each for each in found if each.apart < 0], len(comparisons))
    return baseline, subject


def _counted(found: Sequence[Minority], comparisons: int) -> Minorities:
    apart = [abs(each.apart) for each in found]
    return Minorities(
        comparisons=comparisons,
        by_sweeps=dict(sorted(Counter(each.sweeps for each in found).items())),
        apart_deciles=tuple(map(float, np.quantile(apart, DECILES))) if apart else (),
    )


def _minorities(ratios: Sequence[float]) -> Iterator[Minority]:
    logs = np.sort(np.log(ratios))
    for count in range(1, int(LARGEST_SHARE * logs.size) + 1):
        for few, others, gap in (
            (logs[-count:], logs[:-count], logs[-count] - logs[-count - 1]),
            (logs[:count], logs[count:], logs[count] - logs[count - 1]),
        ):
            if gap > max(LEAST_GAP, DEVIATIONS * float(others.std(ddof=1))):
                yield Minority(sweeps=count, gap=float(gap), apart=float(few.mean() - others.mean()))
