"""Published speed-ups beside the same cases measured here, as the data behind a section of an experiment's page."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from lab.definition.publication import Publication, Replication
from lab.verdict.audit.finding import Amount, Words
from lab.verdict.replication import Measured, Printed, factors, inconsistencies, measured, printed_speedups, reasons
from lab.verdict.results import ExperimentResult, RunResult
from lab.verdict.roofline import peak_bytes_per_second
from lab.website.data.published_cells import attributes


def replication_of(publications: Sequence[Publication], experiment: str) -> tuple[Publication, Replication] | None:
    """The publication whose cases the experiment measures again, and which they are."""
    pairs = ((publication, each) for publication in publications for each in publication.replications)
    return next((pair for pair in pairs if pair[1].experiment == experiment), None)


def replication_data(
    publication: Publication, replication: Replication, result: ExperimentResult, run: RunResult | None
) -> dict[str, Any]:
    """Plain JSON values, SI units; what was measured by case, what was printed by table and case."""
    included = [case for case in result.plan.cases if case.name in replication.cases.values()]
    outcomes = {case.name: measured(result, replication, case.name) if run else "" for case in included}
    tables: dict[str, Any] = {}
    for printed in printed_speedups(publication, replication):
        if printed.case in outcomes:
            tables.setdefault(printed.table, {})[printed.case] = _printed(printed, outcomes[printed.case])
    return {
        "publication": publication.slug,
        "there": _there(publication),
        "here": _here(run),
        "measured": {case: _measured(each) for case, each in outcomes.items()},
        "tables": tables,
    }


def _there(publication: Publication) -> dict[str, Any]:
    limits = publication.tables[0].limits
    return {"gpu": limits.gpu, "bytes_per_second": limits.bytes_per_second, "cache_bytes": limits.l2_bytes}


def _here(run: RunResult | None) -> dict[str, Any] | None:
    if run is None or run.machine.device == "cpu":
        return None
    machine = run.machine
    return {
        "gpu": machine.gpu,
        "bytes_per_second": peak_bytes_per_second(machine),
        "cache_bytes": machine.l2_bytes,
    }


def _measured(outcome: Measured | str) -> dict[str, Any]:
    if isinstance(outcome, str):
        return {"outcome": outcome or "not measured yet"}
    return {
        "outcome": "measured",
        "rival": outcome.rival.profile,
        "over_rival": attributes(outcome.over_rival, "ratio low high"),
        "over_baseline": {
            scope: attributes(each, "ratio low high") for scope, each in outcome.over_baseline.items() if each
        },
        "loop_ratio": outcome.loop_ratio,
    }


def _printed(printed: Printed, outcome: Measured | str) -> dict[str, Any]:
    known = None if isinstance(outcome, str) else outcome
    return {
        **attributes(printed, "baseline_seconds subject_seconds ratio"),
        "factors": _factors(factors(printed.ratio, known)) if known else {},
        "by_itself": _words(inconsistencies(printed)),
        "reasons": _words(reasons(printed, known)) if known else [],
    }


def _factors(causes: Mapping[str, float | None]) -> dict[str, float | None]:
    """`clock`: launches and all else together. What a clock on the host adds is an estimate, so that a remainder
    beside it takes back what the estimate has too much."""
    launches, elsewhere = causes["launches"], causes["elsewhere"]
    rest = {name: value for name, value in causes.items() if name not in ("launches", "elsewhere")}
    return rest | {"clock": launches * elsewhere if launches and elsewhere else None}


def _words(sentences: Iterable[Words]) -> list[list[Any]]:
    """Sentences as lists of texts and of amounts."""
    return [
        [attributes(word, "value unit") if isinstance(word, Amount) else word for word in words] for words in sentences
    ]
