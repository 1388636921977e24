"""A printed speed-up beside the same case measured here: a product of causes, and the figures that show each. Pure.

printed = rival × formula × warmth × launches × elsewhere, where

    rival      the subject over the fastest other profile, in GPU time with nothing in the cache: what is left
    formula    that profile over the formula which the publication compared with, in the same scope
    warmth     what the ratio changes where calls follow one another in a graph: warm caches, no gap before a kernel
    launches   what it changes again under a clock of the host around a loop of calls: the longer of the host's time to
               enqueue a call and of the GPU's to run it, for the one goes on while the other works
    elsewhere  what all this does not explain: another GPU, another host, other kernels
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from lab.definition.experiment import GRAPH
from lab.definition.publication import Publication, Replication, Row, Table
from lab.verdict.audit.finding import Amount, Words
from lab.verdict.call_counters import call_of
from lab.verdict.cells import SCOPE, CellResult
from lab.verdict.results import ExperimentResult
from lab.verdict.statistics import Speedup

NAMED = 1.10  # a factor that changes a ratio by less is not named
FAR_ABOVE = 2.0  # times the memory's own time: above, a kernel's time is hardly that of its memory
NOT_THE_SAME = 2.0  # between two times of one kernel at one case
FACTORS = ("rival", "formula", "warmth", "launches", "elsewhere")


@dataclass(frozen=True, kw_only=True, slots=True)
class Printed:
    """A speed-up as a publication prints it. `elsewhere_seconds`: of the subject at this case in another table."""

    table: str
    case: str  # of this lab's experiment
    gpu: str
    clock: str
    baseline_seconds: float
    subject_seconds: float
    ratio: float
    baseline_launches: int | None
    working_set_bytes: float
    cache_bytes: float
    memory_seconds: float  # of the working set, at the peak of its GPU
    matrix_seconds: float  # of its products, at the dense peak of its GPU; 0 where they are not most of the work
    elsewhere_table: str
    elsewhere_seconds: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class MeasuredProfile:
    """One profile of this lab at a case; None where the profiler did not count."""

    profile: str
    seconds: float
    graph_seconds: float | None
    enqueue_seconds: float
    launches: int | None
    bytes_ratio: float | None  # moved over least

    @property
    def loop_seconds(self) -> float | None:
        """Of a call in a loop that waits once, at its end: estimated, not measured."""
        return max(self.enqueue_seconds, self.graph_seconds) if self.graph_seconds else None


@dataclass(frozen=True, kw_only=True, slots=True)
class Measured:
    """The same case here. A scope that was not measured is None."""

    subject: MeasuredProfile
    baseline: MeasuredProfile
    rival: MeasuredProfile
    over_baseline: Mapping[str, Speedup | None]  # by scope
    over_rival: Speedup

    @property
    def loop_ratio(self) -> float | None:
        baseline, subject = self.baseline.loop_seconds, self.subject.loop_seconds
        return baseline / subject if baseline and subject else None


def printed_speedups(publication: Publication, replication: Replication) -> Iterator[Printed]:
    """Every speed-up of the publication that the experiment measures again, table by table."""
    for table in publication.tables:
        sides = {(row.case, row.profile): row for row in table.rows}
        for row in table.rows:
            baseline = sides.get((row.case, replication.printed_baseline))
            if row.profile == replication.printed_subject and row.case in replication.cases and baseline:
                yield _printed(publication, table, row, baseline, replication.cases[row.case])


def _printed(publication: Publication, table: Table, row: Row, baseline: Row, case: str) -> Printed:
    assert row.work, f"{table.title}, {row.label}: without its least work"
    seconds, baseline_seconds = _seconds(row), _seconds(baseline)
    assert seconds, f"{table.title}, {row.label}: without a time"
    assert baseline_seconds, f"{table.title}, {baseline.label}: without a time"
    other = _elsewhere(publication, table, row)
    return Printed(
        table=table.title,
        case=case,
        gpu=table.limits.gpu,
        clock=table.scope,
        baseline_seconds=baseline_seconds,
        subject_seconds=seconds,
        ratio=row.speedup or baseline_seconds / seconds,
        baseline_launches=baseline.launches,
        working_set_bytes=row.work.total_bytes,
        cache_bytes=table.limits.l2_bytes,
        memory_seconds=row.work.total_bytes / table.limits.bytes_per_second,
        matrix_seconds=row.work.flops / table.limits.flops_per_second[row.matrix] if row.matrix else 0.0,
        elsewhere_table=other[0] if other else "",
        elsewhere_seconds=other[1] if other else None,
    )


def _seconds(row: Row) -> float | None:
    """As printed, or from the printed rate."""
    if row.seconds or not (row.work and row.flops_per_second):
        return row.seconds
    return row.work.flops / row.flops_per_second


def _elsewhere(publication: Publication, table: Table, row: Row) -> tuple[str, float] | None:
    """Where the same kernel stands with another time, by the same clock on the same GPU."""
    for other in publication.tables:
        if other is table or (other.limits.gpu, other.scope) != (table.limits.gpu, table.scope):
            continue
        for again in other.rows:
            if (again.case, again.profile) == (row.case, row.profile) and again.seconds:
                return other.title, again.seconds
    return None


def measured(experiment: ExperimentResult, replication: Replication, case: str) -> Measured | str:
    """The case as this lab measured it, or why there is nothing to show."""
    sides = {}
    for name in (replication.subject, replication.baseline):
        cell = experiment.cells[case, name]
        if cell.outcome != "measured":
            return f"{cell.outcome}: {cell.reason}"
        if cell.latency is None:
            return cell.unmeasured.get(SCOPE, f"it has no time in scope {SCOPE}")
        if why := cell.impossible.get(SCOPE):
            return f"rejected: {why}"
        sides[name] = cell
    least_bytes = next(each.least_bytes for each in experiment.plan.cases if each.name == case)
    rival = _fastest_rival(experiment, case, replication.subject)
    over_rival = experiment.compare(case, replication.subject, rival.profile)
    if over_rival is None:
        return "too few sweeps to compare"
    return Measured(
        subject=_side(sides[replication.subject], least_bytes),
        baseline=_side(sides[replication.baseline], least_bytes),
        rival=_side(rival, least_bytes),
        over_baseline={
            scope: experiment.compare(case, replication.subject, replication.baseline, scope)
            if all(scope in cell.latencies and not cell.impossible.get(scope) for cell in sides.values()) else None
            for scope in experiment.plan.scopes
        },
        over_rival=over_rival,
    )  # fmt: skip


def _fastest_rival(experiment: ExperimentResult, case: str, subject: str) -> CellResult:
    """The baseline at least is there."""
    rivals = [
        cell
        for cell in experiment.measured(case)
        if cell.profile != subject and cell.latency and not cell.impossible.get(SCOPE)
    ]
    return min(rivals, key=lambda cell: cell.latencies[SCOPE].p50_seconds)


def _side(cell: CellResult, least_bytes: int) -> MeasuredProfile:
    call = call_of(cell.counters)
    return MeasuredProfile(
        profile=cell.profile,
        seconds=cell.latencies[SCOPE].p50_seconds,
        graph_seconds=cell.latencies[GRAPH].p50_seconds if GRAPH in cell.latencies else None,
        enqueue_seconds=cell.enqueue_seconds,
        launches=call.launches if call else None,
        bytes_ratio=cell.traffic.moved.bytes / least_bytes if cell.traffic else None,
    )


def factors(printed_ratio: float, measured: Measured) -> Mapping[str, float | None]:
    """The printed ratio as a product, by the names of `FACTORS`; None where a scope that it needs is missing."""
    cold, graph = (
        speedup.ratio if (speedup := measured.over_baseline.get(scope)) else None for scope in (SCOPE, GRAPH)
    )
    stages = (1.0, measured.over_rival.ratio, cold, graph, measured.loop_ratio if graph else None, printed_ratio)
    return {
        name: after / before if before and after else None
        for name, before, after in zip(FACTORS, stages[:-1], stages[1:], strict=True)
    }


def inconsistencies(printed: Printed) -> Iterator[Words]:
    """Contradictions among the publication's own figures about a printed speed-up, without measurements of the lab."""
    subject, needed = printed.subject_seconds, printed.memory_seconds
    if subject < printed.matrix_seconds:
        yield (
            "Its kernel's ", Amount(subject, "seconds"), " are less than the ",
            Amount(printed.matrix_seconds, "seconds"), f" that the matrix units of the {printed.gpu} need.",
        )  # fmt: skip
    elif printed.matrix_seconds > needed:
        pass  # how far a product is above the matrix units' own time says nothing of the clock
    elif subject < needed:
        yield (
            "Its kernel's ", Amount(subject, "seconds"), " are less than the ", Amount(needed, "seconds"),
            f" that the memory of the {printed.gpu} needs for ", Amount(printed.working_set_bytes, "bytes"),
            ": a cache of ", Amount(printed.cache_bytes, "bytes"), ", never emptied, held some of them.",
        )  # fmt: skip
    elif subject > FAR_ABOVE * needed:
        yield (
            "Its kernel's ", Amount(subject, "seconds"), " are ", _times(subject / needed), " what the memory of the "
            f"{printed.gpu} needs for ", Amount(printed.working_set_bytes, "bytes"), f": its clock ({printed.clock}) "
            "counts more than the kernel.",
        )  # fmt: skip
    again = printed.elsewhere_seconds
    if again and not 1 / NOT_THE_SAME <= again / subject <= NOT_THE_SAME:
        yield (
            f"“{printed.elsewhere_table}” gives the same kernel ", Amount(again, "seconds"), " by the same clock: ",
            _times(max(again / subject, subject / again)), " apart.",
        )  # fmt: skip


def reasons(printed: Printed, measured: Measured) -> Iterator[Words]:
    """Why the printed ratio differs from the one in GPU time, the weightiest cause first."""
    product = factors(printed.ratio, measured)
    named = sorted(
        ((name, factor) for name, factor in product.items() if name != "rival" and factor and _matters(factor)),
        key=lambda pair: -abs(math.log(pair[1])),
    )
    for name, factor in named:
        yield (_times(factor), *CAUSE_WORDS[name](printed, measured))
    if not named:
        yield ("Nothing in it changes the ratio by more than ", Amount(NAMED - 1, "share"), ".")


def _matters(factor: float) -> bool:
    return not 1 / NAMED < factor < NAMED


def _formula(printed: Printed, measured: Measured) -> Words:
    """The baseline is weak: more kernels, more bytes."""
    one, best = measured.baseline, measured.rival
    words: Words = (" is the formula's, over the fastest other profile",)
    if one.launches and one.bytes_ratio and best.launches and best.bytes_ratio:
        words = (
            *words, ": written out it takes ", Amount(one.launches, "count"), " kernels that move ",
            _times(one.bytes_ratio), " the least bytes, against ", Amount(best.launches, "count"), " and ",
            _times(best.bytes_ratio),
        )  # fmt: skip
    if printed.baseline_launches and one.launches and printed.baseline_launches != one.launches:
        words = (
            *words, "; the formula printed there launches ", Amount(printed.baseline_launches, "count"), " kernels",
        )  # fmt: skip
    return (*words, ".")


def _warmth(printed: Printed, measured: Measured) -> Words:
    relation = "fit into" if printed.working_set_bytes <= printed.cache_bytes else "are more than"
    return (
        " comes with calls back to back in a graph, whose kernels find in the cache what the last ones left; there, ",
        Amount(printed.working_set_bytes, "bytes"), f" {relation} a cache of ",
        Amount(printed.cache_bytes, "bytes"), ".",
    )  # fmt: skip


def _launches(printed: Printed, measured: Measured) -> Words:
    return (
        " is the host's: to enqueue a call it takes ", Amount(measured.baseline.enqueue_seconds, "seconds"),
        " for the formula and ", Amount(measured.subject.enqueue_seconds, "seconds"), " for the kernel, the GPU ",
        Amount(measured.baseline.graph_seconds or 0.0, "seconds"), " and ",
        Amount(measured.subject.graph_seconds or 0.0, "seconds"),
        " to run it; a loop of calls takes the longer of each.",
    )  # fmt: skip


def _other_causes(printed: Printed, measured: Measured) -> Words:
    return (" is in none of these clocks: another GPU, another host, other kernels, or stalls.",)


CAUSE_WORDS = {"formula": _formula, "warmth": _warmth, "launches": _launches, "elsewhere": _other_causes}


def _times(value: float) -> Amount:
    """A ratio without an interval has three digits."""
    return Amount(float(f"{value:.3g}"), "ratio")
