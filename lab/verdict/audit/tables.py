"""Rules that hold tables of one publication against each other, where they show the same case."""

from collections.abc import Iterator
from itertools import combinations

from lab.definition.publication import Publication, Row, Table
from lab.verdict.audit.finding import CONSISTENT, Amount, Finding, Rule

DISAGREES = 1.5

Pair = tuple[tuple[Table, Row], tuple[Table, Row]]


def two_times(publication: Publication) -> Iterator[Finding]:
    for (earlier, one), (later, other) in _twice(publication):
        if one.seconds and other.seconds and _apart(one.seconds, other.seconds):
            yield Finding(
                table=later.title, row=other.label,
                printed=Amount(other.seconds, "seconds"), allowed=Amount(one.seconds, "seconds"),
                words=(f"In the table “{earlier.title}” the same row takes ", Amount(one.seconds, "seconds"),
                       ": a factor of ", Amount(_factor(one.seconds, other.seconds), "ratio"), "."),
            )  # fmt: skip


def two_speedups(publication: Publication) -> Iterator[Finding]:
    for (earlier, one), (later, other) in _twice(publication):
        if one.speedup and other.speedup and _apart(one.speedup, other.speedup):
            yield Finding(
                table=later.title, row=other.label,
                printed=Amount(other.speedup, "ratio"), allowed=Amount(one.speedup, "ratio"),
                words=(f"In the table “{earlier.title}” the same row has a speed-up of ",
                       Amount(one.speedup, "ratio"), "."),
            )  # fmt: skip


def baseline_changed(publication: Publication) -> Iterator[Finding]:
    for (earlier, one), (later, other) in _twice(publication):
        if one.launches and other.launches and one.launches != other.launches:
            yield Finding(
                table=later.title, row=other.label,
                printed=Amount(other.launches, "count"), allowed=Amount(one.launches, "count"),
                words=(f"What goes by the name of {other.profile} launches ", Amount(other.launches, "count"),
                       f" kernels here, and in the table “{earlier.title}” ", Amount(one.launches, "count"), "."),
            )  # fmt: skip


def _twice(publication: Publication) -> Iterator[Pair]:
    """The rows of two tables that show one case by one implementation, on one GPU and by one kind of clock."""
    for one, other in combinations(publication.tables, 2):
        if (one.limits.gpu, one.scope) != (other.limits.gpu, other.scope):
            continue
        for row in one.rows:
            for again in other.rows:
                if (row.case, row.profile) == (again.case, again.profile):
                    yield (one, row), (other, again)


def _apart(one: float, other: float) -> bool:
    return _factor(one, other) >= DISAGREES


def _factor(one: float, other: float) -> float:
    return max(one, other) / min(one, other)


RULES = (
    Rule(
        name="two-times", principle=CONSISTENT, find=two_times,
        statement=f"Two tables give one row times that differ by a factor of {DISAGREES} or more.",
    ),
    Rule(
        name="two-speedups", principle=CONSISTENT, find=two_speedups,
        statement=f"Two tables give one row speed-ups that differ by a factor of {DISAGREES} or more.",
    ),
    Rule(
        name="baseline-changed", principle=CONSISTENT, find=baseline_changed,
        statement="Two tables give one name to implementations that launch different numbers of kernels.",
    ),
)  # fmt: skip
