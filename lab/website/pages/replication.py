"""Published speed-ups beside the same cases measured here, and why they differ: a section of an experiment's page."""

from collections.abc import Mapping, Sequence
from typing import Any

from lab.definition.plan import PlannedCase
from lab.definition.publication import Publication
from lab.verdict.cells import SCOPE
from lab.website import format
from lab.website.charts.published import PublishedChart, Told, published_chart
from lab.website.data.judged import Judged
from lab.website.figure import Figure, Ledger, Sentence, pointer
from lab.website.pages.labels import case_label, profile_title
from lab.website.pages.replication_views import PrintedReasons, PrintedTable, ReplicationRow, ReplicationSection

ROOT = "replication"
REASONS = ("reasons", "by_itself")
RIVAL_SERIES = "torch-compile"  # colour and marker of the fastest other profile, whichever that is
SIGNS = {"rival": " kernel", "formula": " formula", "warmth": " warm cache", "clock": " launches and all else"}


def replication_section(
    publications: Sequence[Publication], shown: Judged, ledger: Ledger
) -> ReplicationSection | None:
    """None where the experiment measures no publication's cases again."""
    publication = next((each for each in publications if each.slug == ledger.value(ROOT, "publication")), None)
    if publication is None:
        return None
    cases = {case.name: case for case in shown.plan.cases}
    first: dict[str, str] = {}  # case → the first table that has it
    for table in publication.tables:
        for case in ledger.value(ROOT, "tables", table.title) or ():
            first.setdefault(case, table.title)
    tables = tuple(
        PrintedTable(
            title=table.title,
            source=table.source,
            clock=table.scope,
            rows=tuple(_row(shown, table.title, cases[case], first[case], ledger) for case in held),
        )
        for table in publication.tables
        if (held := ledger.value(ROOT, "tables", table.title))
    )
    return ReplicationSection(
        publication=publication.title,
        slug=publication.slug,
        scopes=shown.plan.scopes,
        rival_series=RIVAL_SERIES,
        machines=_machines(ledger),
        tables=tables,
        chart=_chart(shown, ledger),
    )


def printed_reasons(case: PlannedCase, ledger: Ledger) -> tuple[PrintedReasons, ...]:
    """Of every published table that has the case; for the case's own page, as they are many words."""
    tables = ledger.value(ROOT, "tables") or {}
    return tuple(
        PrintedReasons(table=table, product=_product(ledger, path), why=why)
        for table in tables
        for path in [(ROOT, "tables", table, case.name)]
        if (why := tuple(sentence for kind in REASONS for sentence in _sentences(ledger, (*path, kind))))
    )


def _row(shown: Judged, table: str, case: PlannedCase, first: str, ledger: Ledger) -> ReplicationRow:
    path, here = (ROOT, "tables", table, case.name), (ROOT, "measured", case.name)
    outcome = ledger.value(*here, "outcome")
    rival = ledger.value(*here, "rival")
    return ReplicationRow(
        at=pointer(*path),
        case=case_label(case),
        anchor=case.name,
        baseline=ledger.figure(*path, "baseline_seconds", show=format.microseconds),
        subject=ledger.figure(*path, "subject_seconds", show=format.microseconds),
        printed=ledger.figure(*path, "ratio", show=lambda value: format.amount(value, "ratio")),
        ratios=tuple(
            (ledger.ratio(*here, "over_baseline", scope), ledger.interval(*here, "over_baseline", scope))
            for scope in shown.plan.scopes
        ),
        over_rival=(ledger.ratio(*here, "over_rival"), ledger.interval(*here, "over_rival")),
        rival=profile_title(shown, rival) if rival else "",
        loop=ledger.figure(*here, "loop_ratio", show=format.times),
        product=_product(ledger, path),
        above="" if first == table else first,
        unmeasured="" if outcome == "measured" else outcome,
    )


def _product(ledger: Ledger, path: Sequence[str]) -> Sentence:
    """'8.8× = 1.02× · 5.1× formula · …'; empty where nothing was measured."""
    parts: list[Figure | str] = []
    for name in SIGNS:
        factor = ledger.figure(*path, "factors", name, show=format.times)
        if factor:
            parts += [" · " if parts else "", factor, SIGNS[name]]
    whole = ledger.figure(*path, "ratio", show=lambda value: format.amount(value, "ratio"))
    return (whole, " = ", *parts) if parts and whole else ()


def _sentences(ledger: Ledger, path: tuple[str, ...]) -> tuple[Sentence, ...]:
    held = ledger.value(*path) or []
    return tuple(
        tuple(
            word if isinstance(word, str) else _amount(ledger, word, (*path, str(row), str(place)))
            for place, word in enumerate(words)
        )
        for row, words in enumerate(held)
    )


def _amount(ledger: Ledger, word: Mapping[str, Any], path: tuple[str, ...]) -> Figure | str:
    return ledger.figure(*path, "value", show=lambda value: format.amount(value, word["unit"])) or "–"


def _machines(ledger: Ledger) -> Sentence:
    """Times of two GPUs are not comparable: whose memory delivers what."""
    there = ledger.value(ROOT, "there", "gpu")
    words: Sentence = (f"Published are times of an {there}, whose memory delivers ", _gigabytes(ledger, "there"))
    if gpu := ledger.value(ROOT, "here", "gpu"):
        words = (*words, f"; here an {gpu} with ", _gigabytes(ledger, "here"), " was measured")
    return (*words, ". Microseconds of the two cannot be compared, their ratios can.")


def _gigabytes(ledger: Ledger, which: str) -> Figure | str:
    show = ledger.figure(ROOT, which, "bytes_per_second", show=lambda value: format.amount(value, "bytes_per_second"))
    return show or "an unknown bandwidth"


def _chart(shown: Judged, ledger: Ledger) -> PublishedChart | None:
    """None before anything was measured: printed figures alone need no picture."""
    cases = []
    for case in shown.plan.cases:
        here = (ROOT, "measured", case.name)
        ratio, rival = ledger.ratio(*here, "over_baseline", SCOPE), ledger.ratio(*here, "over_rival")
        if not ratio or not rival:
            continue
        printed = [
            (held[case.name]["ratio"], f"{title}: {format.amount(held[case.name]['ratio'], 'ratio')}")
            for title, held in ledger.value(ROOT, "tables").items() if case.name in held
        ]  # fmt: skip
        name = profile_title(shown, ledger.value(*here, "rival"))
        cases.append(
            Told(
                label=case_label(case),
                printed=tuple(printed),
                measured=(
                    (RIVAL_SERIES, float(rival.value), f"measured here, over {name}: {rival.text}"),
                    ("triton", float(ratio.value), f"measured here, over the formula: {ratio.text}"),
                ),
            )
        )
    return published_chart(cases) if cases else None
