"""What a reader must know of a time beside the time: what its clock leaves out, and what another clock would say."""

from collections.abc import Sequence

from lab.definition.claim_words import claim_sentence
from lab.definition.plan import PlannedCase
from lab.verdict.cells import SCOPE
from lab.website import format
from lab.website.addresses import case_address
from lab.website.data.judged import Judged
from lab.website.data.published_clocks import is_lengthened
from lab.website.figure import DataView, Sentence
from lab.website.pages.labels import CPU_SCOPES, SCOPES, case_label, scope_title
from lab.website.table import Fold, Link, PageTable, Strong, Words, numbers, table_row, words

SHORT_SECONDS = 7e-6  # below it, what two events cost by themselves is a large part of a time
CLEARLY = 0.98  # of a time in another scope: cold is shorter by more than noise
# How times were taken, within a sentence.
HOST_WENT_ON = "taken while the host went on enqueuing, so that each call reads about half a microsecond longer"
BEYOND_REFERENCE = 1.005  # of the reference: what is shown as more than 100 per cent
BESIDE = ("device_warm", "graph")  # in which a call may wait for the write-back of the call before it
OTHERS = {
    "device_dirty": "Dirty cache", "dirty_flush": "Lab, dirty flush", "do_bench": "do_bench",
    "nvbench": "nvbench",
}  # fmt: skip


def is_short(item: Judged, case: str, profile: str) -> bool:
    """Whether the clock's own cost is a large part of a time; a CPU is not timed by events."""
    p50 = item.cell(case, profile).get("p50_seconds")
    return p50 is not None and p50 < SHORT_SECONDS and not item.on_cpu


def host_went_on(item: Judged, case: str, profile: str) -> bool:
    """Whether a time may be clearly too long, because the host enqueued more work meanwhile."""
    p50 = item.cell(case, profile).get("p50_seconds")
    return p50 is not None and is_lengthened(p50) and not item.evidence["isolated"]


def faster_cold(item: Judged, case: str, profile: str) -> tuple[str, ...]:
    """The scopes in which the same call takes longer than with a cold cache: on a GPU, whose L2 keeps the results."""
    if item.on_cpu:
        return ()
    cell = item.cell(case, profile)
    p50, scopes = cell.get("p50_seconds"), cell.get("scopes") or {}
    return tuple(s for s in BESIDE if p50 is not None and s in scopes and p50 < CLEARLY * scopes[s]["p50_seconds"])


def clock_note(item: Judged, case: str, profile: str, view: DataView) -> Sentence:
    """Of one cell in device_cold, computed from its data; none where there is nothing to say."""
    events = view.figure("evidence", "median_empty_seconds", show=format.brief_time)
    if is_short(item, case, profile) and events and events.value:
        return (events, " of this is the timer itself")
    return ()


def cells_note(item: Judged, view: DataView) -> Words:
    """The same of all cells together, by count; empty where there is nothing to say."""
    cells = [(case.name, profile.name) for case, profile in item.plan.cells()] if item.evidence else []
    short = sum(is_short(item, *cell) for cell in cells)
    cold = sum(bool(faster_cold(item, *cell)) for cell in cells)
    events = view.figure("evidence", "median_empty_seconds", show=format.brief_time)
    attained = (view.value("limits", case, "profiles", profile, SCOPE, "attained") or 0 for case, profile in cells)
    beyond = sum(share > BEYOND_REFERENCE for share in attained)
    note: Words = (f"The times were {HOST_WENT_ON}. ",) if any(host_went_on(item, *cell) for cell in cells) else ()
    if short and events and events.value:
        note = (*note, f"In {short} of {len(cells)} cells the timer itself, ", events, ", is a large part. ")
    if cold:
        note = (
            *note,
            f"{_of(cold, cells)} faster with a cold cache than with a warm one or in a graph: their results stay in "
            "L2, and writing them back is not timed. ",
        )
    if beyond:
        note = (
            *note,
            f"{_of(beyond, cells)} faster than the reference, the best copy or matmul of the same run. ",
        )
    return (*note, *_power_note(item, view))


def _power_note(item: Judged, view: DataView) -> Words:
    """At how many cases the board was at its power limit, and how far its clock fell; empty where it never was."""
    capped = [case for case, seen in item.data["gpu"].items() if seen["power_capped_share"]]
    if not capped:
        return ()
    cases = len(item.data["gpu"])
    place = f"At {len(capped)} of {cases} cases" if cases > 1 else "At the only case"
    told = f"{place} the board reached its power limit"
    clocks = {case: clock for case in capped if (clock := view.figure("gpu", case, "lowest_sm_hertz"))}
    lowest = min(clocks, key=lambda case: clocks[case].value, default=capped[0])
    where = Link(case_label(item.plan.case(lowest)), f"{case_address(lowest)}#controls")
    usual = view.figure("machine", "sm_clock_hertz")
    fell: Words = (": its clock fell to ", clocks[lowest], " of ", usual, " MHz at ") if clocks else (", as at ",)
    return (
        told, *fell, where,
        ". Implementations take turns under one limit, but one that draws more power may run at a lower clock.",
    )  # fmt: skip


def _of(some: int, cells: Sequence[object]) -> str:
    return f"{some} of {len(cells)} cells {'is' if some == 1 else 'are'}"


def clocks_fold(item: Judged, case: PlannedCase, view: DataView) -> Fold | None:
    """What other clocks say of the pair of each claim; in bold what turns the verdict. None where nothing was read."""
    by_claim = view.value("clocks", case.name) or {}
    names = [name for name in OTHERS if any(name in others for others in by_claim.values())]
    rows = []
    for claim in item.plan.claims:
        if others := by_claim.get(claim.name):
            path, show = ("clocks", case.name, claim.name), format.beside(claim.threshold, format.times)
            ratios = ((name, view.figure(*path, name, "ratio", show=show)) for name in names)
            cells: list[Words] = [(Strong((each,)),) if name in others["turned"] else (each,) for name, each in ratios]
            ours = view.ratio("claims", claim.name, "cases", case.name)
            rows.append(table_row(claim_sentence(claim), ours, *cells))
    heads = (*words("Claim"), *numbers(scope_title(SCOPE), *(OTHERS[name] for name in names)))
    table = PageTable(label="Claims by other clocks", kind="claims", heads=heads, rows=rows)
    lead = ("Verdicts depend on the clock. The lab's cold clock reads back what its flush wrote, so no write-back is "
            "timed; do_bench and nvbench leave dirty lines, whose write-back falls into the timed window. A ratio in "
            "bold lies on the other side of the claim's threshold.",)  # fmt: skip
    return Fold(id="clocks", title="The same pairs by other clocks", lead=lead, tables=(table,)) if rows else None


def legend(scopes: Sequence[str], on_cpu: bool) -> tuple[tuple[str, str], ...]:
    """Each scope that was measured, and what its clock covers."""
    known = CPU_SCOPES if on_cpu else SCOPES
    return tuple((scope_title(scope), known[scope].clock) for scope in scopes if scope in known)
