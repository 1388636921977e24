"""What the watch saw of the GPU → system metrics, under the names that MLflow gives its own. Pure.

A journal holds the rounds of a case without times of day, and when each of its cells was done. So there is one point
for each case and sweep: the extremes over its rounds, at the moment when the case was done.
"""

from collections.abc import Iterable, Iterator

from lab.evidence.record import Cell, Machine, Watch
from lab.quantities import unit_of
from lab.tracking.measures import Measure, rounded
from lab.verdict.results import ExperimentResult

PREFIX = "system/gpu_0_"  # by it the UI knows system metrics; a run has one GPU


def gpu_of_run(experiment: ExperimentResult, machine: Machine) -> Iterator[Measure]:
    """A point for each case and sweep, in the order in which they were measured."""
    moments = [
        (end_utc, watch)
        for case, watches in experiment.watches.items()
        for watch in watches
        if (end_utc := _end_utc(watch, _records(experiment, case)))
    ]
    for step, (end_utc, watch) in enumerate(sorted(moments, key=lambda moment: moment[0])):
        yield from _points(watch, machine, end_utc, step)


def gpu_of_cell(experiment: ExperimentResult, case: str, cells: Iterable[Cell], machine: Machine) -> Iterator[Measure]:
    """A point for each sweep, at the moment when the cell was done; its case's profiles took turns in every round."""
    records = list(cells)
    for watch in experiment.watches.get(case, ()):
        if end_utc := _end_utc(watch, records):
            yield from _points(watch, machine, end_utc, watch.sweep)


def _records(experiment: ExperimentResult, case: str) -> list[Cell]:
    results = (experiment.cells[case, profile.name] for profile in experiment.plan.profiles)
    return [record for result in results for record in result.cells]


def _end_utc(watch: Watch, records: Iterable[Cell]) -> str:
    """Empty where no cell of that sweep and process is on record."""
    return max((r.finished_utc for r in records if (r.sweep, r.process) == (watch.sweep, watch.process)), default="")


def _points(watch: Watch, machine: Machine, utc: str, step: int) -> Iterator[Measure]:
    """None of a CPU."""
    for name, value in _extremes(watch, machine).items() if machine.device == "cuda" else ():
        yield Measure(key=PREFIX + name, value=rounded(value), utc=utc, step=step)


def _extremes(watch: Watch, machine: Machine) -> dict[str, float]:
    """The lowest clocks, the largest power and the highest temperature of its rounds, as far as they are known."""
    megahertz = unit_of("sm_hertz").factor
    clocks = [seen.sm_hertz for seen in watch.rounds if seen.sm_hertz is not None]
    spins = [seen.spin_hertz for seen in watch.rounds if seen.spin_hertz is not None]
    watts = [seen.power_watts for seen in watch.rounds if seen.power_watts is not None]
    degrees = [seen.temperature_celsius for seen in watch.rounds if seen.temperature_celsius is not None]
    values: dict[str, float] = {}
    if clocks:
        values["sm_clock_megahertz"] = min(clocks) * megahertz
    if spins:
        values["sm_clock_by_spins_megahertz"] = min(spins) * megahertz
    if watts:
        values["power_usage_watts"] = max(watts)
        if machine.power_limit_watts:
            values["power_usage_percentage"] = 100 * max(watts) / machine.power_limit_watts
    if degrees:
        values["temperature_celsius"] = max(degrees)
    return values
