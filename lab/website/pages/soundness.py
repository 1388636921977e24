"""Why to believe a time: what was expected, whether results were right, how calm it was, what other clocks say."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lab.definition.claim_words import claim_sentence
from lab.definition.plan import PlannedCase, PlannedProfile
from lab.verdict.cells import SCOPE
from lab.website import format
from lab.website.addresses import case_address
from lab.website.data.judged import Judged
from lab.website.data.published_clocks import is_lengthened
from lab.website.figure import DataView, Sentence, joined
from lab.website.pages.kernels import essentials
from lab.website.pages.labels import CPU_SCOPES, SCOPES, case_label, operator_title, scope_title, shape_label
from lab.website.table import (
    Fold,
    Link,
    PageTable,
    Soft,
    Strong,
    TableRow,
    Words,
    below,
    column,
    named,
    numbers,
    row,
    table_row,
    words,
)

# How right each implementation was, before anything was timed: against float64, over seeds and edge inputs.
PASSED = "passed"
MOST_CASES = 3  # that are named one by one
CHECKED = (
    named("profile", "Implementation"), column("worst_absolute_error", "Largest error", show=format.error),
    column("worst_tolerance_share", "Share of tolerance", show=format.noise),
    column("standard_tolerance_share", "The standard's", show=format.noise), column("correctness_checks", "Checks"),
)  # fmt: skip


def case_correctness(item: Judged, case: PlannedCase, view: DataView) -> Fold | None:
    """A row for each implementation that was checked at a case."""
    checked = [(profile, cell) for profile in item.plan.profiles_of(case) if (cell := _cell(case, profile, view))]
    edges = tuple(dict.fromkeys(name for _, cell in checked for name in cell["edges"]))
    rows = []
    for profile, cell in checked:
        wrong = below(Strong(("wrong",)), f": {cell['reason']}") if cell["outcome"] == "wrong" else ""
        outcomes = (cell["edges"].get(name, "–") for name in edges)
        marked = (each if each in (PASSED, "–") else Strong((each,)) for each in outcomes)
        counted = row(view.at("cells", case.name, profile.name), CHECKED, profile=(profile.title, wrong))
        rows.append(table_row(*counted.cells, *marked))
    table = PageTable(label="Correctness", heads=(*CHECKED, *words(*edges)), rows=rows)
    lead = ("Checked on this shape before anything was timed, in every sweep, and again on timed outputs, against "
            "a float64 reference. Share is the largest error over what is tolerated: above one is wrong, unless "
            "the error is at most twice that of the standard implementation, whose share then stands beside it. "
            "Of long sums of products a share may leave out what the rounding of the sums costs: at most a small "
            "part of the sum of the products’ magnitudes. Edge inputs are out of the ordinary on purpose; an "
            "implementation may refuse one by raising an error.",)  # fmt: skip
    return Fold(id="correctness", title="Correctness", lead=lead, tables=(table,)) if rows else None


Checked = list[tuple[PlannedCase, Mapping[str, Any]]]  # the cases at which an implementation was checked, and its cells


def _checked(item: Judged, profile: PlannedProfile, view: DataView) -> Checked:
    cases = (case for case, checked in item.plan.cells() if checked.name == profile.name)
    return [(case, cell) for case in cases if (cell := _cell(case, profile, view))]


def _worst(profile: PlannedProfile, checked_cells: Checked, ops: Sequence[str], view: DataView) -> TableRow:
    """`ops`: see _references."""
    parts = [[pair for pair in checked_cells if pair[0].op == op] for op in ops] or [checked_cells]
    share = _largest(checked_cells, "worst_tolerance_share")
    least = min(checked_cells, key=lambda pair: pair[1]["correctness_checks"])[0]
    wrong = [case_label(case) for case, cell in checked_cells if cell["outcome"] == "wrong"]
    failed = below(Strong(("wrong result",)), wrong and f" at {', '.join(wrong)}")
    return table_row(
        (profile.title, failed),
        *(_largest_error(profile, part, shape_label if ops else case_label, view) if part else () for part in parts),
        (view.figure("cells", share.name, profile.name, "worst_tolerance_share", show=format.noise),
         below(case_label(share)), _of_standard(view.at("cells", share.name, profile.name))),
        view.figure("cells", least.name, profile.name, "correctness_checks"),
        _edges(checked_cells),
    )  # fmt: skip


def _of_standard(view: DataView) -> Soft | str:
    return below("the standard's: ", view.figure("standard_tolerance_share", show=format.noise))


def _largest_error(
    profile: PlannedProfile, checked_cells: Checked, label: Callable[[PlannedCase], str], view: DataView
) -> Words:
    worst = _largest(checked_cells, "worst_absolute_error")
    error = view.figure("cells", worst.name, profile.name, "worst_absolute_error", show=format.error)
    return error, below(label(worst))


def _largest(checked_cells: Checked, name: str) -> PlannedCase:
    return max(checked_cells, key=lambda pair: _size(pair[1][name]))[0]


def _references(item: Judged, checked: Mapping[str, Checked]) -> tuple[str, ...]:
    """The operators whose errors stand apart, for each may have a reference of its own; () where nobody was checked at
    several."""
    ops = [{case.op for case, _ in cells} for cells in checked.values()]
    in_order = dict.fromkeys(case.op for case in item.plan.included_cases)
    return tuple(op for op in in_order if op in set().union(*ops)) if any(len(each) > 1 for each in ops) else ()


def _edges(checked_cells: Checked) -> Words:
    """'passed zeros, strided; refused odd-sizes at 2 cases'."""
    outcomes: dict[tuple[str, str], list[str]] = {}
    for case, cell in checked_cells:
        for edge, outcome in cell["edges"].items():
            outcomes.setdefault((edge, outcome), []).append(case_label(case))
    unusual = {key: cases for key, cases in outcomes.items() if key[1] != PASSED}
    failing = {edge for edge, _ in unusual}
    passed = [edge for edge, outcome in outcomes if outcome == PASSED and edge not in failing]
    phrases: list[Words] = [(f"passed {', '.join(passed)}",)] if passed else []
    for (edge, outcome), cases in unusual.items():
        where = ", ".join(cases) if len(cases) <= MOST_CASES else f"{len(cases)} cases"
        phrases.append((Strong((f"{outcome} {edge}",)), f" at {where}"))
    return joined(phrases, "; ") or ("none",)


def _cell(case: PlannedCase, profile: PlannedProfile, view: DataView) -> Mapping[str, Any]:
    """Empty where nothing was checked."""
    cell: Mapping[str, Any] = view.value("cells", case.name, profile.name) or {}
    return cell if "worst_tolerance_share" in cell else {}


def _size(error: float | None) -> float:
    """None is what was not finite: worse than any number."""
    return float("inf") if error is None else error


def expectations_fold(item: Judged, view: DataView) -> Fold:
    """Each implementation: how it works, what its author expected, what the profiler counted at its largest case."""
    expected = "hat was expected of each implementation before it was measured"
    title, lead = "Why: what was expected", f"W{expected}."
    if any(_largest_profiled(item, profile, view) for profile in item.plan.profiles):
        title = "Why: what was expected, and what the profiler counted"
        lead = (f"W{expected}, and beside it what Nsight Compute counted at its largest profiled case, in a pass of "
                "its own that times nothing.")  # fmt: skip
    return Fold(
        id="explanation",
        title=title,
        lead=(lead,),
        items=tuple(_expectation(item, profile, view) for profile in item.plan.profiles),
    )  # fmt: skip


def _expectation(item: Judged, profile: PlannedProfile, view: DataView) -> Words:
    expected = below(f"Expected: {profile.hypothesis} {profile.signal}")
    phrase: Words = (Strong((profile.title,)), ": ", profile.technique, expected)
    case = _largest_profiled(item, profile, view)
    if case is None:
        return phrase
    attained = view.figure("limits", case.name, "profiles", profile.name, SCOPE, "attained")
    of_limit = ("; ", attained, " % of its reference") if attained else ()
    where = Link(case_label(case), f"{case_address(case.name)}#kernels")
    return (*phrase, below("Counted at ", where, ": ", *essentials(case, profile, view), *of_limit, "."))


def _largest_profiled(item: Judged, profile: PlannedProfile, view: DataView) -> PlannedCase | None:
    """The case with the most bytes at which the profiler counted the kernels of this implementation."""
    counted = [
        case
        for case in item.plan.included_cases
        if view.value("cells", case.name, profile.name, "counters", "launches")
    ]
    return max(counted, key=lambda case: case.least_bytes, default=None)


def correctness_fold(item: Judged, view: DataView) -> Fold | None:
    """By implementation, the worst over all cases, of errors at each operator; None where nothing was checked."""
    checked = {each.name: cells for each in item.plan.profiles if (cells := _checked(item, each, view))}
    ops = _references(item, checked)
    rows = [_worst(item.plan.profile(name), cells, ops, view) for name, cells in checked.items()]
    errors = [f"Largest error, {operator_title(op)}" for op in ops] or ["Largest error"]
    heads = (*words("Implementation"), *numbers(*errors, "Share of tolerance", "Checks, at least"),
             *words("Edge inputs"))  # fmt: skip
    lead = ("Before anything is timed, each implementation is held against a float64 reference on the shapes that "
            "are timed, with fresh inputs in every sweep and with edge inputs, and again on timed outputs. A wrong "
            "result is never timed. Share is the largest error over what is tolerated; above one is wrong, unless "
            "the error is at most twice that of the standard implementation on the same inputs. Of long sums of "
            "products a share may leave out what the rounding of the sums costs: at most a small part of the sum of "
            "the products’ magnitudes.",)  # fmt: skip
    table = PageTable(label="Correctness", kind="errors stacks", heads=heads, rows=rows)
    return Fold(id="correctness", title="Correctness", lead=lead, tables=(table,)) if rows else None


# What a reader must know of a time beside the time: what its clock leaves out, and what else a clock would say.
SHORT_SECONDS = 7e-6  # below it, what two events cost by themselves is a large part of a time
CLEARLY = 0.98  # of a time in another scope: cold is shorter by more than noise
# How times were taken, within a sentence.
HOST_WENT_ON = "taken while the host went on enqueuing, so that each call reads about half a microsecond longer"
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
    """The scopes in which the same call takes longer than with nothing cached."""
    cell = item.cell(case, profile)
    p50, scopes = cell.get("p50_seconds"), cell.get("scopes") or {}
    return tuple(s for s in BESIDE if p50 is not None and s in scopes and p50 < CLEARLY * scopes[s]["p50_seconds"])


def clock_note(item: Judged, case: str, profile: str, view: DataView) -> Sentence:
    """Of one cell in device_cold, computed from its data; none where there is nothing to say."""
    events = view.figure("evidence", "median_empty_seconds", show=format.brief_time)
    if is_short(item, case, profile) and events and events.value:
        return (events, " of this is the timer itself")
    return ()


BEYOND_REFERENCE = 1.005  # of the reference: what is shown as more than 100 per cent


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
        note = (*note, f"{_of(cold, cells)} faster cold than warm or in a graph: their results stay in L2, and writing "
                "them back is not timed. ")  # fmt: skip
    if beyond:
        note = (
            *note,
            f"{_of(beyond, cells)} faster than the reference, the best copy or matrix product of the same run. ",
        )
    return (*note, *_power_note(item, view))


def _power_note(item: Judged, view: DataView) -> Words:
    """At how many cases the board was at its power limit, and how far its clock fell; empty where it never was."""
    capped = [case for case, seen in item.data["gpu"].items() if seen["power_capped"]]
    if not capped:
        return ()
    cases = len(item.data["gpu"])
    place = f"At {len(capped)} of {cases} cases" if cases > 1 else "At the only case"
    told = f"{place} the board was at its power limit for part of the time"
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
