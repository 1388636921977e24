"""Rules that hold a profiler's counters against the row beside them."""

from collections.abc import Iterator

from lab.definition.publication import Captured, Publication, Row
from lab.verdict.audit.ceilings import OVERCOUNTED, rows_of
from lab.verdict.audit.finding import COUNTERS, Amount, Finding, Rule
from lab.verdict.statistics import per_cent

ABOVE_PEAK = 1.02  # a counter may be off by so much
DIFFERENT_TIMES = 1.5
SAME_COUNTERS = 1.05


def modelled_above_counted(publication: Publication) -> Iterator[Finding]:
    for table, row in rows_of(publication):
        modelled, counted = row.modelled_bytes, row.counters
        if modelled is None or counted is None or row.work is None or row.seconds is None:
            continue
        least = row.work.total_bytes
        whole = counted.total_bytes + table.limits.l2_bytes >= least
        if whole and modelled > OVERCOUNTED * max(counted.total_bytes, least):
            yield Finding(
                table=table.title, row=row.label,
                printed=Amount(modelled, "bytes"), allowed=Amount(counted.total_bytes, "bytes"),
                words=(
                    "The printed rate counts ", Amount(modelled, "bytes"), " a call; the publication's own profiler "
                    "counted ", Amount(counted.total_bytes, "bytes"), ", and the operator needs ",
                    Amount(least, "bytes"), ", which are ", Amount(least / row.seconds, "bytes_per_second"), ".",
                ),
            )  # fmt: skip


def counted_too_little(publication: Publication) -> Iterator[Finding]:
    for table, row in rows_of(publication):
        if row.counters is None or row.work is None:
            continue
        if row.counters.read_bytes + table.limits.l2_bytes < row.work.read_bytes:
            yield Finding(
                table=table.title, row=row.label,
                printed=Amount(row.counters.read_bytes, "bytes"), allowed=Amount(row.work.read_bytes, "bytes"),
                words=(
                    "The operator must read ", Amount(row.work.read_bytes, "bytes"), "; even with all of the cache's ",
                    Amount(table.limits.l2_bytes, "bytes"), " in place, what was captured read too little to be it.",
                ),
            )  # fmt: skip


def impossible_counters(publication: Publication) -> Iterator[Finding]:
    for table, row in rows_of(publication):
        if row.counters is None:
            continue
        peak = table.limits.bytes_per_second
        if (wrong := _impossible(row.counters, peak)) is not None:
            yield Finding(
                table=table.title, row=row.label, printed=wrong,
                allowed=Amount(peak, "bytes_per_second") if wrong.unit == "bytes_per_second" else None,
                words=("No kernel of this GPU can have counted ", wrong, "."),
            )  # fmt: skip


def _impossible(counted: Captured, peak: float) -> Amount | None:
    """The first of the counters that no kernel can have."""
    if counted.seconds <= 0:
        return Amount(counted.seconds, "seconds")
    for size_bytes in (counted.read_bytes, counted.written_bytes):
        if size_bytes < 0:
            return Amount(size_bytes, "bytes")
    if counted.total_bytes / counted.seconds > ABOVE_PEAK * peak:
        return Amount(counted.total_bytes / counted.seconds, "bytes_per_second")
    for share in (counted.dram_share, counted.occupancy_share):
        if share is not None and not 0 <= share <= ABOVE_PEAK:
            return Amount(share, "share")
    return None


def same_counters(publication: Publication) -> Iterator[Finding]:
    for table in publication.tables:
        profiled = [row for row in table.rows if row.counters]
        for row in profiled:
            twins = [other for other in profiled if _twin(row, other)]
            if twins and row.counters and row.seconds:
                other = max(twins, key=lambda candidate: abs((candidate.seconds or 0.0) - (row.seconds or 0.0)))
                yield Finding(
                    table=table.title, row=row.label, printed=Amount(row.counters.seconds, "seconds"),
                    allowed=None,
                    words=(
                        f"{other.label} takes ", Amount(other.seconds or 0.0, "seconds"), " a call and this row ",
                        Amount(row.seconds, "seconds"), ", yet both were profiled as one kernel of about ",
                        Amount(row.counters.seconds, "seconds"), " that reads ",
                        Amount(row.counters.read_bytes, "bytes"), " and writes ",
                        Amount(row.counters.written_bytes, "bytes"), ".",
                    ),
                )  # fmt: skip


def _twin(row: Row, other: Row) -> bool:
    """Whether two rows of different times were captured as the same kernel."""
    if row.counters is None or other.counters is None or not row.seconds or not other.seconds:
        return False
    mine, theirs = row.counters, other.counters
    apart = max(row.seconds, other.seconds) / min(row.seconds, other.seconds) >= DIFFERENT_TIMES
    return apart and mine.registers_per_thread == theirs.registers_per_thread and _alike(mine, theirs)


def _alike(mine: Captured, theirs: Captured) -> bool:
    pairs = (
        (mine.seconds, theirs.seconds),
        (mine.read_bytes, theirs.read_bytes),
        (mine.written_bytes, theirs.written_bytes),
    )
    return all(max(pair) <= SAME_COUNTERS * min(pair) for pair in pairs)


RULES = (
    Rule(
        name="modelled-above-counted", principle=COUNTERS, find=modelled_above_counted,
        statement=(
            f"A rate counts more than {OVERCOUNTED:.2f} times the bytes that the row's own profile counted, and than "
            "the operator needs."
        ),
    ),
    Rule(
        name="counted-too-little", principle=COUNTERS, find=counted_too_little,
        statement="What was profiled read less than the operator must, by more than the cache could hold back.",
    ),
    Rule(
        name="impossible-counters", principle=COUNTERS, find=impossible_counters,
        statement=(
            "A profiler counted more bytes than the memory moves in the kernel's time, a share above the whole, or "
            "less than nothing."
        ),
    ),
    Rule(
        name="same-counters", principle=COUNTERS, find=same_counters,
        statement=(
            f"Two rows whose times differ by a factor of {DIFFERENT_TIMES} or more have the same kernel time, bytes "
            f"and registers within {per_cent(SAME_COUNTERS - 1)}: the same kernel was captured for both."
        ),
    ),
)  # fmt: skip
