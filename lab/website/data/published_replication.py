"""Published speed-ups beside the same cases measured here, as the data behind a section of an experiment's page."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from lab.definition.publication import Limits, Publication
from lab.verdict.audit.finding import Words
from lab.verdict.replication import Measured, Printed, factors, inconsistencies, measured, printed_speedups, reasons
from lab.verdict.results import ExperimentResult, RunResult
from lab.verdict.roofline import peak_bytes_per_second
from lab.website.data.typed import ByCase

Sentences = Annotated[tuple[Words, ...], "Sentences, as texts and amounts."]


@dataclass(frozen=True, kw_only=True, slots=True)
class Bandwidth:
    gpu: str
    bytes_per_second: float


@dataclass(frozen=True, kw_only=True, slots=True)
class PrintedData:
    """`reasons`: why the printed ratio differs from ours; `by_itself`: what of it the publication contradicts."""

    printed: Printed
    factors: Annotated[dict[str, float | None], "By cause."]
    by_itself: Sentences
    reasons: Sentences


@dataclass(frozen=True, kw_only=True, slots=True)
class ReplicationData:
    """Cases of a publication, measured again."""

    publication: str
    there: Limits
    here: Bandwidth | None
    measured: ByCase[Measured]
    unmeasured: Annotated[dict[str, str], "By case, why there is nothing to show."]
    tables: Annotated[Mapping[str, ByCase[PrintedData]], "By table of the publication."]


def replication_data(
    publications: Sequence[Publication], result: ExperimentResult, run: RunResult | None
) -> ReplicationData | None:
    """None where the experiment measures no publication's cases again."""
    pairs = ((publication, each) for publication in publications for each in publication.replications)
    publication, replication = next((pair for pair in pairs if pair[1].experiment == result.plan.name), (None, None))
    if publication is None or replication is None:
        return None
    included = [case.name for case in result.plan.cases if case.name in replication.cases.values()]
    outcomes = {case: measured(result, replication, case) if run else "not measured yet" for case in included}
    known = {case: each for case, each in outcomes.items() if isinstance(each, Measured)}
    tables: dict[str, dict[str, PrintedData]] = {}
    for printed in printed_speedups(publication, replication):
        if printed.case in outcomes:
            tables.setdefault(printed.table, {})[printed.case] = _printed(printed, known.get(printed.case))
    here = run.machine if run and run.machine.device == "cuda" else None
    return ReplicationData(
        publication=publication.slug,
        there=publication.tables[0].limits,
        here=Bandwidth(gpu=here.gpu, bytes_per_second=peak_bytes_per_second(here)) if here else None,
        measured=known,
        unmeasured={case: each for case, each in outcomes.items() if isinstance(each, str)},
        tables=tables,
    )


def _printed(printed: Printed, known: Measured | None) -> PrintedData:
    return PrintedData(
        printed=printed,
        factors=_factors(factors(printed.ratio, known)) if known else {},
        by_itself=tuple(inconsistencies(printed)),
        reasons=tuple(reasons(printed, known)) if known else (),
    )


def _factors(causes: Mapping[str, float | None]) -> dict[str, float | None]:
    """`clock`: launches and all else together. What a clock on the host adds is an estimate, so that a remainder
    beside it takes back what the estimate has too much."""
    launches, elsewhere = causes["launches"], causes["elsewhere"]
    rest = {name: value for name, value in causes.items() if name not in ("launches", "elsewhere")}
    return rest | {"clock": launches * elsewhere if launches and elsewhere else None}
