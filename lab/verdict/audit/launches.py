"""Rules that find times of launches, hosts and stalls where a kernel's own time should be."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from lab.definition.publication import Publication, Row, Table
from lab.verdict.audit.ceilings import rows_of
from lab.verdict.audit.finding import LAUNCH, Amount, Finding, Rule
from lab.verdict.roofline import NEAR_FLOOR
from lab.verdict.statistics import per_cent

MORE_WORK = 1.5  # times the shortest time that the hardware allows
EQUAL_TIMES = 1.01
IDENTICAL = 0.001
CLEARLY_FASTER = 2.0  # odd shapes may cost a kernel some time, not half of it
CONSTANT = 2.0  # largest over smallest difference that still counts as one constant
SPREAD = 4.0  # of the rows' own times, over which a difference must be constant to be none of the kernels'
LARGEST_LAUNCH_SECONDS = 10e-6  # what a GPU spends on the launch of a kernel, from event to event
FEWEST_GAPS = 4
FEWEST_PROFILED = 3


def more_work_in_no_more_time(publication: Publication) -> Iterator[Finding]:
    for table, row, alike in _alike(publication):
        if not row.rated or row.launch_bound:
            continue
        larger = [other for other in alike if _outruns(other, row, table)]
        if larger and row.seconds is not None:
            other = min(larger, key=lambda candidate: candidate.seconds or 0.0)
            yield Finding(
                table=table.title, row=row.label, printed=Amount(row.seconds, "seconds"), allowed=None,
                words=(
                    f"{other.label} is ", Amount(_least(other, table) / _least(row, table), "ratio"),
                    " the work and takes ", Amount(other.seconds or 0.0, "seconds"),
                    ": this row's time does not follow its work.",
                ),
            )  # fmt: skip


def identical_times(publication: Publication) -> Iterator[Finding]:
    for table, row, alike in _alike(publication):
        if not row.rated or row.launch_bound or row.seconds is None:
            continue
        for other in alike:
            if _identical(row.seconds, other.seconds or 0.0, table) and _outruns(row, other, table):
                yield Finding(
                    table=table.title, row=row.label, printed=Amount(row.seconds, "seconds"), allowed=None,
                    words=(
                        f"{other.label} takes ", Amount(other.seconds or 0.0, "seconds"), " as well, with ",
                        Amount(_least(other, table) / _least(row, table), "share"), " of the work.",
                    ),
                )  # fmt: skip
                break


def _alike(publication: Publication) -> Iterator[tuple[Table, Row, Sequence[Row]]]:
    """Every row, with the rows of its table that are of the same implementation: none but these can outrun it."""
    for table in publication.tables:
        groups: dict[tuple[str, str], list[Row]] = defaultdict(list)
        for row in table.rows:
            groups[row.operator, row.profile].append(row)
        for row in table.rows:
            yield table, row, groups[row.operator, row.profile]


def _identical(one: float, other: float, table: Table) -> bool:
    return abs(one - other) <= max(IDENTICAL * other, table.clock_step_seconds / 2)


def _outruns(other: Row, row: Row, table: Table) -> bool:
    """Whether `other`, of the same implementation, does at least the work of `row`, and more in no more time."""
    if other is row:
        return False
    if other.dtype != row.dtype and not (other.launches == row.launches == 1):
        return False  # several kernels may be other kernels for another data type
    if other.seconds is None or row.seconds is None or other.work is None or row.work is None:
        return False
    clearly = row.seconds >= CLEARLY_FASTER * other.seconds
    if not clearly and other.seconds > max(EQUAL_TIMES * row.seconds, row.seconds + table.clock_step_seconds / 2):
        return False
    if other.work.total_bytes < row.work.total_bytes or other.work.flops < row.work.flops:
        return False
    return clearly or _least(other, table) >= MORE_WORK * _least(row, table)


def _least(row: Row, table: Table) -> float:
    """The shortest time of the row's work without any help of a cache."""
    assert row.work is not None, "asked only of rows with work"
    rate = table.limits.flops_per_second.get(row.matrix)
    memory = row.work.total_bytes / table.limits.bytes_per_second
    return max(memory, row.work.flops / rate if rate else 0.0)


def bandwidth_near_floor(publication: Publication) -> Iterator[Finding]:
    near = [(table, row) for table, row in rows_of(publication) if row.bytes_per_second is not None]
    floors = {} if all(table.launch_floor_seconds for table, _ in near) else _floors(publication)
    for table, row in near:
        floor = table.launch_floor_seconds or floors.get(_waits(table, row), 0.0)
        if row.bytes_per_second is None or row.seconds is None:
            continue
        if row.seconds < NEAR_FLOOR * floor:
            yield Finding(
                table=table.title, row=row.label,
                printed=Amount(row.bytes_per_second, "bytes_per_second"), allowed=None,
                words=(
                    Amount(row.seconds, "seconds"), " are ", Amount(row.seconds / floor, "ratio"), " the floor of ",
                    Amount(floor, "seconds"), ", below which this implementation's times do not follow its work.",
                ),
            )  # fmt: skip


def _floors(publication: Publication) -> Mapping[tuple[str, ...], float]:
    """The time below which an implementation's times do not fall: the least that a larger case took as well."""
    floors: dict[tuple[str, ...], float] = {}
    for table, row, alike in _alike(publication):
        for other in alike:
            if _outruns(other, row, table) and other.seconds is not None:
                key = _waits(table, other)
                floors[key] = min(other.seconds, floors.get(key, other.seconds))
    return floors


def _waits(table: Table, row: Row) -> tuple[str, ...]:
    """Rows that share a floor: one clock, one implementation, as many launches; where unknown, one operator's table."""
    launches = (row.operator, table.source) if row.launches is None else (str(row.launches),)
    return table.limits.gpu, table.scope, row.profile, *launches


def host_time_in_events(publication: Publication) -> Iterator[Finding]:
    for table in publication.tables:
        profiled = [(row, row.seconds, row.counters.seconds) for row in table.rows
                    if row.counters and row.seconds and row.launches == 1]  # fmt: skip
        excess = {row.label: timed - kernel for row, timed, kernel in profiled}
        if len(profiled) < FEWEST_PROFILED or not _constant(list(excess.values()), [k for _, _, k in profiled]):
            continue
        for row, timed, kernel in profiled:
            yield Finding(
                table=table.title, row=row.label, printed=Amount(timed, "seconds"), allowed=Amount(kernel, "seconds"),
                words=(
                    "The profiler saw the kernel for ", Amount(kernel, "seconds"), "; the clock read ",
                    Amount(excess[row.label], "seconds"), " more, and between ",
                    Amount(min(excess.values()), "seconds"), " and ", Amount(max(excess.values()), "seconds"),
                    " more for kernels of every length: time of the host, not of the GPU.",
                ),
            )  # fmt: skip


def constant_loss(publication: Publication) -> Iterator[Finding]:
    for table in publication.tables:
        losses = _losses(table)
        for (profile, rival), pairs in losses.items():
            gaps = [(mine.seconds or 0.0) - (theirs.seconds or 0.0) for mine, theirs in pairs]
            times = [theirs.seconds or 0.0 for _, theirs in pairs]
            if len(pairs) >= FEWEST_GAPS and _constant(gaps, times):
                yield Finding(
                    table=table.title, row=f"{profile} against {rival}", printed=Amount(len(pairs), "count"),
                    allowed=None,
                    words=(
                        "In each of these rows it loses by ", Amount(min(gaps), "seconds"), " to ",
                        Amount(max(gaps), "seconds"), ", whether the rival takes ", Amount(min(times), "seconds"),
                        " or ", Amount(max(times), "seconds"), ": the difference is in the launch, not in the kernel.",
                    ),
                )  # fmt: skip


def _losses(table: Table) -> Mapping[tuple[str, str], Sequence[tuple[Row, Row]]]:
    """Single-launch rows that are slower than another implementation's single launch at the same case."""
    pairs: dict[tuple[str, str], list[tuple[Row, Row]]] = defaultdict(list)
    single = [row for row in table.rows if row.launches == 1 and row.seconds]
    for mine in single:
        for theirs in single:
            if mine.case == theirs.case and (mine.seconds or 0.0) > (theirs.seconds or 0.0):
                pairs[mine.profile, theirs.profile].append((mine, theirs))
    return pairs


def _constant(differences: Sequence[float], times: Sequence[float]) -> bool:
    """Whether differences stay the same while the times that they are of do not, and no launch explains them."""
    return (
        min(differences) > LARGEST_LAUNCH_SECONDS
        and max(differences) <= CONSTANT * min(differences)
        and max(times) >= SPREAD * min(times)
    )


RULES = (
    Rule(
        name="bandwidth-near-floor", principle=LAUNCH, find=bandwidth_near_floor,
        statement=(
            f"A bandwidth is printed for a time below {NEAR_FLOOR:g} times the launch floor: the measured one, or, "
            "where none was measured, the least time in which the same implementation did much more work as well."
        ),
    ),
    Rule(
        name="more-work-in-no-more-time", principle=LAUNCH, find=more_work_in_no_more_time, binding=False,
        statement=(
            f"A case of {MORE_WORK} times the work or more takes no more time by the same implementation, or one of no "
            f"less work takes less than 1/{CLEARLY_FASTER:g} of it; and the row is not said to be launch-bound."
        ),
    ),
    Rule(
        name="identical-times", principle=LAUNCH, find=identical_times, binding=False,
        statement=(
            f"A row takes the same time, to {per_cent(IDENTICAL, 1)} or half a step of the clock, as one of at most "
            f"1/{MORE_WORK} of its work."
        ),
    ),
    Rule(
        name="host-time-in-events", principle=LAUNCH, find=host_time_in_events, binding=False,
        statement=(
            f"The clock reads more than the profiler by more than {LARGEST_LAUNCH_SECONDS * 1e6:.0f} µs, and by the "
            f"same within a factor of {CONSTANT:g} for kernels whose lengths differ by a factor of {SPREAD:g} or more."
        ),
    ),
    Rule(
        name="constant-loss", principle=LAUNCH, find=constant_loss, binding=False,
        statement=(
            f"An implementation loses {FEWEST_GAPS} rows or more, each one launch against one, by the same time within "
            f"a factor of {CONSTANT:g}, while the times differ by a factor of {SPREAD:g} or more."
        ),
    ),
)  # fmt: skip
