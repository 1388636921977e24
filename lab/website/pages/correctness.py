"""How right each implementation was, before anything was timed: against float64, over seeds and edge inputs."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lab.definition.plan import PlannedCase, PlannedProfile
from lab.website import format
from lab.website.data.judged import Judged
from lab.website.figure import DataView, joined
from lab.website.pages.labels import case_label, operator_title, shape_label
from lab.website.table import (
    Fold,
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
