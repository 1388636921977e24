"""What the clock of a scope covers, in the words of a caption: a CPU's times are wall times, and say so."""

from collections.abc import Sequence

from lab.definition.claim_words import claim_sentence
from lab.definition.plan import PlannedCase
from lab.website import format
from lab.website.data.judged import Judged
from lab.website.figure import DataView, Sentence
from lab.website.pages.labels import CPU_SCOPES, SCOPES, listed
from lab.website.table import PageTable, Strong, Words, numbers, table_row, words

# What a reader must know of a time beside the time: what its clock leaves out, and what else a clock would say.
SHORT_SECONDS = 7e-6  # below it, what two events cost by themselves is a large part of a time
CLEARLY = 0.98  # of a time in another scope: cold is shorter by more than noise
BESIDE = ("device_warm", "graph")  # in which a call may wait for the write-back of the call before it
OTHERS = {
    "device_dirty": "after a flush that leaves dirty lines", "dirty_flush": "Lab, dirty flush", "do_bench": "do_bench",
    "nvbench": "nvbench",
}  # fmt: skip


def is_short(item: Judged, case: str, profile: str) -> bool:
    """Whether the clock's own cost is a large part of a time; a CPU is not timed by events."""
    p50 = item.cell(case, profile).get("p50_seconds")
    return p50 is not None and p50 < SHORT_SECONDS and not item.on_cpu


def faster_cold(item: Judged, case: str, profile: str) -> tuple[str, ...]:
    """The scopes in which the same call takes longer than with nothing cached."""
    cell = item.cell(case, profile)
    p50, scopes = cell.get("p50_seconds"), cell.get("scopes") or {}
    return tuple(s for s in BESIDE if p50 is not None and s in scopes and p50 < CLEARLY * scopes[s]["p50_seconds"])


def clock_notes(item: Judged, case: str, profile: str, view: DataView) -> tuple[Sentence, ...]:
    """Of one cell in device_cold, computed from its data; none where there is nothing to say."""
    notes: list[Sentence] = []
    events = view.figure("evidence", "median_empty_seconds")
    if is_short(item, case, profile) and events and events.value:
        notes.append(("two events alone read ", events, " µs of it"))
    if slower := faster_cold(item, case, profile):
        notes.append((f"shorter than {listed(slower)}",))
    return tuple(notes)


def cells_note(item: Judged, view: DataView) -> Sentence:
    """The same of all cells together, by count; empty where there is nothing to say."""
    cells = [(case.name, profile.name) for case, profile in item.plan.cells()] if item.evidence else []
    short = sum(is_short(item, *cell) for cell in cells)
    cold = sum(bool(faster_cold(item, *cell)) for cell in cells)
    events = view.figure("evidence", "median_empty_seconds")
    note: Sentence = ()
    if short and events and events.value:
        note = (f"{short} of {len(cells)} cells are so short that what two events read by themselves, ", events,
                " µs, is a large part of them. ")  # fmt: skip
    if cold:
        note = (*note, f"{cold} of {len(cells)} cells are faster with nothing cached than warm or in a graph: what "
                "they write stays in L2, and its way to memory is not timed.")  # fmt: skip
    return note


def other_clocks(item: Judged, case: PlannedCase, view: DataView) -> PageTable | None:
    """What other clocks say of the pair of each claim; in bold what turns the verdict. None where nothing was read."""
    by_claim = view.value("clocks", case.name) or {}
    names = [name for name in OTHERS if any(name in others for others in by_claim.values())]
    rows = []
    for claim in item.plan.claims:
        others = by_claim.get(claim.name)
        if others:
            path, show = ("clocks", case.name, claim.name), format.beside(claim.threshold, format.times)
            ratios = ((name, view.figure(*path, name, "ratio", show=show)) for name in names)
            cells: list[Words] = [(Strong((each,)),) if name in others["turned"] else (each,) for name, each in ratios]
            ours = view.ratio("claims", claim.name, "cases", case.name)
            rows.append(table_row(claim_sentence(claim), ours, *cells))
    heads = (*words("Claim"), *numbers("device_cold", *(OTHERS[name] for name in names)))
    return PageTable(label="Claims by other clocks", kind="claims", heads=heads, rows=rows) if rows else None


def legend(scopes: Sequence[str], on_cpu: bool) -> tuple[tuple[str, str], ...]:
    """Each scope that was measured, and what its clock covers."""
    known = CPU_SCOPES if on_cpu else SCOPES
    return tuple((scope, known[scope].clock) for scope in scopes if scope in known)
