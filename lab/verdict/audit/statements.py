"""Rules that hold what a publication says of its rows against the rows: aggregates, headlines, selections, ranges."""

from collections.abc import Iterator
from typing import TypeVar

from lab.definition.publication import (
    Aggregate,
    Headline,
    Publication,
    Row,
    Selection,
    StatedQuantity,
    StatedRange,
    Table,
    Tally,
)
from lab.verdict.audit.finding import AGGREGATE, CONSISTENT, RIVALS, Amount, Finding, Rule
from lab.verdict.statistics import geometric_mean, per_cent

PRINTED = 0.005  # by how much a printed figure may be off for being rounded
STATED = 0.02
WEAK = 1 / 3  # of the memory rate that the same implementation reaches elsewhere

Kind = TypeVar("Kind")


def _of(publication: Publication, kind: type[Kind]) -> Iterator[Kind]:
    return (statement for statement in publication.statements if isinstance(statement, kind))


def _close(one: float, other: float, tolerance: float = PRINTED) -> bool:
    return abs(one - other) <= tolerance * max(abs(one), abs(other))


def sum_of_ratios(publication: Publication) -> Iterator[Finding]:
    for aggregate in _of(publication, Aggregate):
        if _is_sum(aggregate):
            yield _aggregate(aggregate, "is their sum: speed-ups of different kernels cannot be added")


def mean_of_ratios(publication: Publication) -> Iterator[Finding]:
    for aggregate in _of(publication, Aggregate):
        mean = sum(aggregate.ratios) / len(aggregate.ratios)
        if _close(aggregate.said, mean) and not _close(aggregate.said, geometric_mean(aggregate.ratios)):
            yield _aggregate(aggregate, "is their arithmetic mean, which depends on what is divided by what")


def no_mean_of_ratios(publication: Publication) -> Iterator[Finding]:
    for aggregate in _of(publication, Aggregate):
        sound = (geometric_mean(aggregate.ratios), sum(aggregate.ratios) / len(aggregate.ratios), *aggregate.ratios)
        if not _is_sum(aggregate) and not any(_close(aggregate.said, ratio) for ratio in sound):
            yield _aggregate(aggregate, "is neither a mean of them nor one of them")


def _is_sum(aggregate: Aggregate) -> bool:
    return len(aggregate.ratios) > 1 and _close(aggregate.said, sum(aggregate.ratios))


def _aggregate(aggregate: Aggregate, what: str) -> Finding:
    mean = Amount(geometric_mean(aggregate.ratios), "ratio")
    return Finding(
        table="", row=aggregate.label, printed=Amount(aggregate.said, "ratio"), allowed=mean,
        words=("Of ", Amount(len(aggregate.ratios), "count"), f" ratios, the figure {what}; their geometric mean is ",
               mean, "."),
    )  # fmt: skip


def headline_case(publication: Publication) -> Iterator[Finding]:
    for headline in _of(publication, Headline):
        if headline.listed and headline.case not in headline.listed:
            yield Finding(
                table="", row=headline.label, printed=None, allowed=None,
                words=(f"It is of {headline.case}, which is not among the ", Amount(len(headline.listed), "count"),
                       " cases that the publication lists."),
            )  # fmt: skip


def weak_rival(publication: Publication) -> Iterator[Finding]:
    for headline in _of(publication, Headline):
        table = next((table for table in publication.tables if table.title == headline.table), None)
        if table is None:
            continue
        rivals = [row for row in table.rows if row.case == headline.case and row.profile != headline.profile]
        here = max((rate for row in rivals if (rate := _least_rate(row))), default=None)
        elsewhere = _best_rate(publication, table, {row.profile for row in rivals})
        if here and elsewhere and here < WEAK * elsewhere:
            yield Finding(
                table=table.title, row=headline.label, printed=None, allowed=None,
                words=(
                    "By least bytes its fastest rival moves ", Amount(here, "bytes_per_second"),
                    " there, and elsewhere in the publication ", Amount(elsewhere, "bytes_per_second"),
                    ": the ratio tells more of the rival than of the kernel.",
                ),
            )  # fmt: skip


def _best_rate(publication: Publication, table: Table, profiles: set[str]) -> float | None:
    """The most bytes per second that these implementations reach on the table's GPU by its clock."""
    rows = [
        row for each in publication.tables if (each.limits.gpu, each.scope) == (table.limits.gpu, table.scope)
        for row in each.rows if row.profile in profiles
    ]  # fmt: skip
    return max((rate for row in rows if (rate := _least_rate(row))), default=None)


def _least_rate(row: Row) -> float | None:
    return row.work.total_bytes / row.seconds if row.work and row.seconds else None


def noisy_headline(publication: Publication) -> Iterator[Finding]:
    for headline in _of(publication, Headline):
        noise, limit = headline.noise_ratio, headline.noise_limit
        if noise is not None and limit is not None and noise >= limit:
            yield Finding(
                table="", row=headline.label, printed=Amount(noise, "number"), allowed=Amount(limit, "number"),
                words=("The noise ratio of its row is ", Amount(noise, "number"), "; the publication's own rule calls "
                       "rows noisy from ", Amount(limit, "number"), " on."),
            )  # fmt: skip


def dropped_rows(publication: Publication) -> Iterator[Finding]:
    for selection in _of(publication, Selection):
        dropped = [name for name in selection.measured if name not in selection.shown]
        if dropped:
            yield Finding(
                table="", row=selection.label,
                printed=Amount(len(selection.measured) - len(dropped), "count"),
                allowed=Amount(len(selection.measured), "count"),
                words=(Amount(len(dropped), "count"), f" of the measured rows are not shown: {', '.join(dropped)}."),
            )  # fmt: skip


def counted_more_than_once(publication: Publication) -> Iterator[Finding]:
    for tally in _of(publication, Tally):
        rows, most = sum(tally.counted.values()), max(tally.counted, key=lambda case: tally.counted[case])
        if rows > len(tally.counted):
            yield Finding(
                table="", row=tally.label, printed=Amount(rows, "count"), allowed=Amount(len(tally.counted), "count"),
                words=(
                    "The tally counts ", Amount(rows, "count"), " rows of ", Amount(len(tally.counted), "count"),
                    f" cases; {most} alone counts ", Amount(tally.counted[most], "count"), " times.",
                ),
            )  # fmt: skip


def contradicts_itself(publication: Publication) -> Iterator[Finding]:
    for statement in _of(publication, StatedQuantity):
        if not _close(statement.said, statement.follows, STATED):
            yield Finding(
                table="", row=statement.label,
                printed=Amount(statement.said, statement.unit), allowed=Amount(statement.follows, statement.unit),
                words=(f"From {statement.basis} follows ", Amount(statement.follows, statement.unit), "."),
            )  # fmt: skip


def outside_its_range(publication: Publication) -> Iterator[Finding]:
    for bound in _of(publication, StatedRange):
        low, high = bound.low * (1 - PRINTED), bound.high * (1 + PRINTED)
        outside = {name: value for name, value in bound.values.items() if not low <= value <= high}
        if outside:
            worst = max(outside, key=lambda name: max(bound.low - outside[name], outside[name] - bound.high))
            stated = bound.high if outside[worst] > bound.high else bound.low
            yield Finding(
                table="", row=bound.label,
                printed=Amount(stated, bound.unit), allowed=Amount(outside[worst], bound.unit),
                words=(
                    Amount(len(outside), "count"), " of ", Amount(len(bound.values), "count"), " rows lie outside; "
                    f"{worst} has ", Amount(outside[worst], bound.unit), ".",
                ),
            )  # fmt: skip


RULES = (
    Rule(
        name="sum-of-ratios", principle=AGGREGATE, find=sum_of_ratios,
        statement="A figure for several speed-ups is their sum.",
    ),
    Rule(
        name="mean-of-ratios", principle=AGGREGATE, find=mean_of_ratios,
        statement="A figure for several ratios is their arithmetic mean, and not their geometric one.",
    ),
    Rule(
        name="no-mean-of-ratios", principle=AGGREGATE, find=no_mean_of_ratios,
        statement="A figure for several ratios is neither their sum, nor a mean of them, nor one of them.",
    ),
    Rule(
        name="headline-case", principle=CONSISTENT, find=headline_case,
        statement="A headline is of a case that is not among those listed.",
    ),
    Rule(
        name="weak-rival", principle=RIVALS, find=weak_rival, binding=False,
        statement=(
            f"The fastest rival at a headline's case reaches less than {per_cent(WEAK)} of the memory rate that the "
            "same implementation reaches elsewhere in the publication."
        ),
    ),
    Rule(
        name="noisy-headline", principle=CONSISTENT, find=noisy_headline,
        statement="A headline rests on a row that is noisy by the publication's own limit, and does not say so.",
    ),
    Rule(
        name="dropped-rows", principle=CONSISTENT, find=dropped_rows,
        statement="Rows that were measured under the same question are not shown.",
    ),
    Rule(
        name="counted-more-than-once", principle=CONSISTENT, find=counted_more_than_once,
        statement="A tally of wins counts a case more than once.",
    ),
    Rule(
        name="contradicts-itself", principle=CONSISTENT, find=contradicts_itself,
        statement=(
            f"A stated figure differs by more than {per_cent(STATED)} from what follows from the publication's own "
            "formula or other figures."
        ),
    ),
    Rule(
        name="outside-its-range", principle=CONSISTENT, find=outside_its_range,
        statement="Rows lie outside a range that is stated for them.",
    ),
)  # fmt: skip
