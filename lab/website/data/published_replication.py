"""Published speed-ups beside the same cases measured here, as the data behind a section of an experiment's page."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from lab.definition.plan import PlannedCase
from lab.definition.publication import Publication, Replication
from lab.verdict.audit.finding import Amount, Words
from lab.verdict.replication import Measured, Printed, factors, measured, printed_speedups, reasons, told_by_itself
from lab.verdict.results import ExperimentResult, RunResult
from lab.verdict.roofline import peak_bytes_per_second
from lab.verdict.statistics import Speedup
from lab.website.data.rounding import rounded


def publication_of(publications: Sequence[Publication], experiment: str) -> Publication | None:
    """The one whose cases the experiment measures again."""
    return next((p for p in publications if p.replication and p.replication.experiment == experiment), None)


def replication_data(publication: Publication, result: ExperimentResult, run: RunResult | None) -> dict[str, Any]:
    """Plain JSON values, SI units; what was measured by case, what was printed by table and case."""
    replication = publication.replication
    assert replication is not None, "asked only of a publication that is measured again"
    included = [case for case in result.plan.cases if case.name in replication.cases.values()]
    found = {case.name: _found(result, run, replication, case) for case in included}
    tables: dict[str, Any] = {}
    for printed in printed_speedups(publication, replication):
        if printed.case in found:
            tables.setdefault(printed.table, {})[printed.case] = _printed(printed, found[printed.case])
    return {
        "publication": publication.slug,
        "there": _there(publication),
        "here": _here(run),
        "measured": {case: _measured(each) for case, each in found.items()},
        "tables": tables,
    }


def _found(
    result: ExperimentResult, run: RunResult | None, replication: Replication, case: PlannedCase
) -> Measured | str:
    return measured(result, replication, case.name) if run else ""


def _there(publication: Publication) -> dict[str, Any]:
    limits = publication.tables[0].limits
    return {"gpu": limits.gpu, "bytes_per_second": limits.bytes_per_second, "cache_bytes": limits.l2_bytes}


def _here(run: RunResult | None) -> dict[str, Any] | None:
    if run is None or run.machine.device == "cpu":
        return None
    machine = run.machine
    return {
        "gpu": machine.gpu,
        "bytes_per_second": rounded(peak_bytes_per_second(machine)),
        "cache_bytes": machine.l2_bytes,
    }


def _measured(found: Measured | str) -> dict[str, Any]:
    if isinstance(found, str):
        return {"outcome": found or "not measured yet"}
    return {
        "outcome": "measured",
        "rival": found.rival.profile,
        "over_rival": _ratio(found.over_rival),
        "over_baseline": {scope: _ratio(each) for scope, each in found.over_baseline.items() if each},
        "loop_ratio": rounded(found.loop_ratio),
    }


def _ratio(found: Speedup) -> dict[str, Any]:
    return {"ratio": rounded(found.ratio), "low": rounded(found.low), "high": rounded(found.high)}


def _printed(printed: Printed, found: Measured | str) -> dict[str, Any]:
    known = None if isinstance(found, str) else found
    return {
        "baseline_seconds": rounded(printed.baseline_seconds),
        "subject_seconds": rounded(printed.subject_seconds),
        "ratio": printed.ratio,
        "factors": _factors(factors(printed.ratio, known)) if known else {},
        "by_itself": _words(told_by_itself(printed)),
        "reasons": _words(reasons(printed, known)) if known else [],
    }


def _factors(found: Mapping[str, float | None]) -> dict[str, float | None]:
    """`clock`: launches and all else together. What a clock on the host adds is an estimate, so that a remainder
    beside it takes back what the estimate has too much."""
    launches, elsewhere = found["launches"], found["elsewhere"]
    told = {name: rounded(value) for name, value in found.items() if name not in ("launches", "elsewhere")}
    return told | {"clock": rounded(launches * elsewhere) if launches and elsewhere else None}


def _words(sentences: Iterable[Words]) -> list[list[Any]]:
    """Sentences as lists of texts and of amounts."""
    return [
        [{"value": rounded(word.value), "unit": word.unit} if isinstance(word, Amount) else word for word in words]
        for words in sentences
    ]
