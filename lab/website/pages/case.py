"""A page for every case of every experiment: what it computes, and all that the run shown knows of it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lab.definition.asked import claim_sentence
from lab.definition.experiment import CEILINGS
from lab.definition.plan import PlannedCase, PlannedProfile
from lab.verdict.cells import SCOPE
from lab.verdict.ranking import Place
from lab.website import format
from lab.website.addresses import experiment_folder
from lab.website.data.judged import Judged
from lab.website.figure import Figure, Ledger, Sentence, pointer
from lab.website.files.csv_tables import tables_of
from lab.website.outputs import Document, Gathered
from lab.website.pages.case_history import case_history
from lab.website.pages.case_views import (
    CaseCell,
    CaseClaim,
    CaseHistory,
    CorrectnessRow,
    Distribution,
    Draws,
    OtherClocks,
    PairRow,
    ScopeTime,
)
from lab.website.pages.clock_notes import clock_names, clock_notes, faster_cold, other_clocks
from lab.website.pages.clocks import clock_words, legend
from lab.website.pages.correctness import correctness_rows
from lab.website.pages.draws import draws
from lab.website.pages.hardware_views import KernelsSection, LimitGroup, TrafficGroup
from lab.website.pages.kernels import kernels_section
from lab.website.pages.labels import TITLES, begun, case_label, listed, named, profile_title
from lab.website.pages.limits import limit_group, limit_scopes
from lab.website.pages.past import run_link
from lab.website.pages.pooled import pooled_sentence
from lab.website.pages.replication import printed_reasons
from lab.website.pages.replication_views import PrintedReasons
from lab.website.pages.sweeps import distribution
from lab.website.pages.tables import control_row, gpu_row, split_rows
from lab.website.pages.traffic import traffic_group
from lab.website.pages.views import ControlRow, GpuRow, SplitRow

ROOT = "../../../../"  # from a case's page to the site's root
MOST_PAIRS = 16  # profiles; the table of all pairs grows with their square


@dataclass(frozen=True, kw_only=True, slots=True)
class CasePage:
    name: str
    label: str
    operator: str
    shape: str
    dtype: str
    description: str
    experiment: str
    title: str
    included: bool
    only_with: str
    on_cpu: bool
    clock: str  # what the times of the headline scope are
    clocks: tuple[tuple[str, str], ...]  # the same of each scope
    answer: Sentence
    least: Figure | None
    flops: Figure | None
    intensity: Figure | None
    machine: str
    date: str
    run_id: str
    run_link: str
    cells: tuple[CaseCell, ...]
    scopes: tuple[str, ...]
    pairs: tuple[PairRow, ...]
    splits: tuple[SplitRow, ...]
    claims: tuple[CaseClaim, ...]
    distribution: Distribution | None
    is_cold_short: bool  # whether a cell is faster with nothing cached than in another scope
    medians: bool  # whether a ratio stands beside medians of another quotient
    clocks_of_claims: tuple[OtherClocks, ...]
    clock_names: tuple[str, ...]
    draws: tuple[Draws, ...]
    limit_scopes: tuple[str, ...]
    limit: LimitGroup | None
    ceilings: str  # where on the experiment's page
    traffic: TrafficGroup | None
    kernels: KernelsSection | None
    edges: tuple[str, ...]
    correctness: tuple[CorrectnessRow, ...]
    control: ControlRow | None
    gpu: GpuRow | None
    printed: tuple[PrintedReasons, ...]
    power_capped: bool
    history: CaseHistory | None
    tables: tuple[tuple[str, str], ...]  # each CSV of the experiment, and what it holds
    before: tuple[str, str] | None  # (case, label) of the neighbours in the experiment's order
    after: tuple[str, str] | None


def case_pages(gathered: Gathered) -> Iterator[Document]:
    for item in gathered.current:
        ledger = Ledger(item.data)
        # A preview has no pages of published runs to lead to.
        published = () if gathered.label else gathered.history(item.plan.name)
        kernels, tables = kernels_section(item, ledger), tables_of(item)
        for number, case in enumerate(item.plan.cases):
            page = _page(item, case, number, ledger, published, kernels, tables, gathered.trust)
            yield Document(
                path=f"experiments/{item.plan.name}/cases/{experiment_folder(case.name)}/index.html",
                template="case.html",
                view={"page": page},
            )


def _page(
    item: Judged,
    case: PlannedCase,
    number: int,
    ledger: Ledger,
    published: Sequence[Judged],
    kernels: KernelsSection | None,
    tables: tuple[tuple[str, str], ...],
    trust: Mapping[str, Any],
) -> CasePage:
    plan, measured = item.plan, case.included and bool(item.evidence)
    edges, correctness = correctness_rows(item, case, ledger) if measured else ((), ())
    limited = measured and ledger.value("limits", case.name) is not None
    return CasePage(
        name=case.name,
        label=case_label(case),
        operator=TITLES.get(case.op, case.op),
        shape="×".join(map(str, case.shape)),
        dtype=case.dtype,
        description=case.description[:1].upper() + case.description[1:],
        experiment=plan.name,
        title=plan.title,
        included=measured,
        only_with=case.only_with,
        on_cpu=item.on_cpu,
        clock=clock_words(SCOPE, item.on_cpu),
        clocks=legend(plan.scopes, item.on_cpu),
        answer=_answer(item, case, ledger),
        least=ledger.figure("cases", case.name, "least_bytes", show=format.megabytes),
        flops=ledger.figure("cases", case.name, "flops", show=format.mega) if case.flops else None,
        intensity=ledger.figure("limits", case.name, "flops_per_byte", show=format.intensity) if case.flops else None,
        machine=item.machine_name,
        date=format.day(item.measured_utc),
        run_id=item.evidence.get("run_id", ""),
        run_link=run_link(item, ROOT) if item.digest else "",
        cells=_cells(item, case, ledger) if measured else (),
        scopes=plan.scopes,
        pairs=_pairs(item, case, ledger) if measured else (),
        splits=split_rows(item, case, ledger),
        claims=_claims(item, case, ledger, trust) if measured else (),
        distribution=distribution(item, case, ledger) if measured else None,
        is_cold_short=measured and any(faster_cold(item, case.name, each.name) for each in plan.profiles_of(case)),
        medians=_any_quotient(case, ledger),
        clocks_of_claims=other_clocks(item, case, ledger),
        clock_names=clock_names(case, ledger),
        draws=draws(item, case, ledger) if measured else (),
        limit_scopes=limit_scopes(item),
        limit=limit_group(item, case, ledger) if limited else None,
        ceilings="ceilings" if plan.name == CEILINGS else "limits",
        traffic=traffic_group(item, case, ledger),
        kernels=_of_case(kernels, case.name),
        edges=edges,
        correctness=correctness,
        control=control_row(item, case, ledger) if measured else None,
        gpu=gpu_row(case, ledger) if measured else None,
        printed=printed_reasons(case, ledger),
        power_capped=bool(ledger.value("gpu", case.name, "power_capped")),
        history=case_history(item, published, case, ROOT),
        tables=tables,
        before=_neighbour(plan.cases, number - 1),
        after=_neighbour(plan.cases, number + 1),
    )


def _answer(item: Judged, case: PlannedCase, ledger: Ledger) -> Sentence:
    """One sentence: who was fastest here, by how much, and how surely."""
    places = item.places(case.name, SCOPE) if case.included else {}
    if not places:
        return ("Not measured in the run that the experiment's page shows.",)
    names = {profile.name: named(profile.title) for profile in item.plan.profiles}
    first, *rest = places
    fastest = begun(profile_title(item, first))
    p50 = ledger.figure("cells", case.name, first, "p50_seconds", show=format.microseconds) or ""
    tied = [names[name] for name in rest if places[name].level]
    behind = next((name for name in rest if not places[name].level), None)
    who: Sentence = (f"{fastest} was the fastest, with ", p50, " µs a call")
    if not rest:
        who = (f"{fastest}, the only profile that was measured, took ", p50, " µs a call")
    elif not places[first].proven:
        who = (f"{fastest} had the shortest p50, ", p50, " µs a call, by too few sweeps to say that it is faster")
    elif tied:
        who = (f"{fastest} shared the first place with {listed(tied)}, at ", p50, " µs a call")
    path = ("against", case.name, first, behind) if behind else ()
    ratio, interval = (ledger.ratio(*path), ledger.interval(*path)) if path else (None, None)
    if behind and ratio and interval:
        lead: Sentence = (*who, ": ", ratio, " ", interval, f" as fast as {names[behind]}, the next")
        medians = _quotient(ledger, *path)
        return (*lead, " (", medians, " by the two medians).") if medians else (*lead, ".")
    return (*who, ".")


def _cells(item: Judged, case: PlannedCase, ledger: Ledger) -> tuple[CaseCell, ...]:
    places = item.places(case.name, SCOPE)
    return tuple(
        _cell(item, case, profile, places.get(profile.name), ledger) for profile in item.plan.profiles_of(case)
    )


def _cell(item: Judged, case: PlannedCase, profile: PlannedProfile, place: Place | None, ledger: Ledger) -> CaseCell:
    path = ("cells", case.name, profile.name)
    held, figure = item.cell(case.name, profile.name), ledger.at(*path).figure
    return CaseCell(
        at=pointer(*path),
        profile=profile.name,
        title=profile.title,
        outcome=held["outcome"],
        reason=held["reason"],
        place=f"fastest{place.doubt}" if place and place.rank == 1 else "",
        p50=figure("p50_seconds", show=format.microseconds),
        p95=figure("p95_seconds", show=format.microseconds),
        noise=figure("noise_ratio", show=format.noise),
        spread=figure("between_sweep_spread", show=format.share),
        samples=figure("samples"),
        gigabytes=figure("bytes_per_second", show=format.gigabytes_per_second),
        enqueue=figure("enqueue_seconds", show=format.microseconds) if held.get("enqueue_seconds") else None,
        prepare=figure("prepare_seconds", show=format.seconds),
        memory=figure("peak_memory_bytes", show=format.megabytes),
        launch_bound=held.get("launch_bound", False),
        host_bound=held.get("host_bound", False),
        notes=clock_notes(item, case.name, profile.name, ledger),
        scopes=tuple(_scope(ledger, path, scope) for scope in item.plan.scopes),
    )


def _scope(ledger: Ledger, path: tuple[str, ...], scope: str) -> ScopeTime:
    figure = ledger.at(*path, "scopes", scope).figure
    return ScopeTime(
        p50=figure("p50_seconds", show=format.microseconds),
        p95=figure("p95_seconds", show=format.microseconds),
        why_not=ledger.value(*path, "unmeasured", scope) or "",
    )


def _pairs(item: Judged, case: PlannedCase, ledger: Ledger) -> tuple[PairRow, ...]:
    """Each measured profile against each other; none where they are too many to read."""
    profiles = item.measured_profiles(case.name)
    if not 1 < len(profiles) <= MOST_PAIRS:
        return ()
    return tuple(
        PairRow(
            title=subject.title,
            ratios=tuple(
                None
                if baseline == subject
                else (
                    ledger.ratio("against", case.name, subject.name, baseline.name),
                    ledger.interval("against", case.name, subject.name, baseline.name),
                    _quotient(ledger, "against", case.name, subject.name, baseline.name),
                )
                for baseline in profiles
            ),
        )
        for subject in profiles
    )


def _claims(item: Judged, case: PlannedCase, ledger: Ledger, trust: Mapping[str, Any]) -> tuple[CaseClaim, ...]:
    found = []
    for claim in item.plan.claims:
        path = ("claims", claim.name, "cases", case.name)
        if verdict := ledger.value(*path):
            found.append(
                CaseClaim(
                    name=claim.name,
                    text=claim_sentence(claim),
                    status=verdict["status"],
                    mark=verdict["mark"],
                    reason=verdict["reason"],
                    ratio=ledger.figure(*path, "ratio", show=format.times)
                    if claim.measure == "traffic"
                    else ledger.ratio(*path),
                    interval=None if claim.measure == "traffic" else ledger.interval(*path),
                    quotient=_quotient(ledger, *path),
                    pooled=pooled_sentence(trust, item, claim, case.name),
                )
            )
    return tuple(found)


def _quotient(ledger: Ledger, *path: str) -> Figure | None:
    return ledger.figure(*path, "quotient_of_medians", show=format.times)


def _any_quotient(case: PlannedCase, ledger: Ledger) -> bool:
    pairs = (ledger.value("against", case.name) or {}).values()
    return any("quotient_of_medians" in (found or {}) for baselines in pairs for found in baselines.values())


def _of_case(section: KernelsSection | None, case: str) -> KernelsSection | None:
    """What the profiler saw of this case alone."""
    if section is None:
        return None
    held = tuple(each for each in section.cases if each.name == case)
    return replace(section, cases=held) if held else None


def _neighbour(cases: Sequence[PlannedCase], number: int) -> tuple[str, str] | None:
    return (cases[number].name, case_label(cases[number])) if 0 <= number < len(cases) else None
