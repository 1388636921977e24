"""What a reader must know of a time beside the time: what its clock leaves out, and what else a clock would say."""

from lab.definition.asked import claim_sentence
from lab.definition.plan import PlannedCase
from lab.website import format
from lab.website.data.judged import Judged
from lab.website.figure import Ledger, Sentence
from lab.website.pages.case_views import OtherClocks
from lab.website.pages.labels import listed

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


def clock_notes(item: Judged, case: str, profile: str, ledger: Ledger) -> tuple[Sentence, ...]:
    """Of one cell in device_cold, computed from its data; none where there is nothing to say."""
    notes: list[Sentence] = []
    events = ledger.figure("evidence", "median_empty_seconds", show=format.microseconds)
    if is_short(item, case, profile) and events and events.value:
        notes.append(("two events alone read ", events, " µs of it"))
    if slower := faster_cold(item, case, profile):
        notes.append((f"shorter than {listed(slower)}",))
    return tuple(notes)


def cells_note(item: Judged, ledger: Ledger) -> Sentence:
    """The same of all cells together, by count; empty where there is nothing to say."""
    cells = [(case.name, profile.name) for case, profile in item.plan.cells()] if item.evidence else []
    short = sum(is_short(item, *cell) for cell in cells)
    cold = sum(bool(faster_cold(item, *cell)) for cell in cells)
    events = ledger.figure("evidence", "median_empty_seconds", show=format.microseconds)
    told: Sentence = ()
    if short and events and events.value:
        told = (f"{short} of {len(cells)} cells are so short that what two events read by themselves, ", events,
                " µs, is a large part of them. ")  # fmt: skip
    if cold:
        told = (*told, f"{cold} of {len(cells)} cells are faster with nothing cached than warm or in a graph: what "
                "they write stays in L2, and its way to memory is not timed.")  # fmt: skip
    return told


def clock_names(case: PlannedCase, ledger: Ledger) -> tuple[str, ...]:
    """The other clocks by which any claim's pair was timed at a case."""
    held = ledger.value("clocks", case.name) or {}
    return tuple(title for name, title in OTHERS.items() if any(name in found for found in held.values()))


def other_clocks(item: Judged, case: PlannedCase, ledger: Ledger) -> tuple[OtherClocks, ...]:
    names = [name for name, title in OTHERS.items() if title in clock_names(case, ledger)]
    rows = []
    for claim in item.plan.claims:
        found = ledger.value("clocks", case.name, claim.name)
        if found:
            path = ("clocks", case.name, claim.name)
            ratios = tuple(
                (ledger.figure(*path, name, "ratio", show=format.beside(claim.threshold, format.times)),
                 name in found["turned"])
                for name in names
            )  # fmt: skip
            ours = ledger.ratio("claims", claim.name, "cases", case.name)
            rows.append(OtherClocks(text=claim_sentence(claim), ours=ours, ratios=ratios))
    return tuple(rows)
