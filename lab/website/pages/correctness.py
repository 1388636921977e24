"""How right each profile was, before anything was timed: against float64, over seeds and edge inputs."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from lab.definition.plan import PlannedCase, PlannedProfile
from lab.website import format
from lab.website.data.judged import Judged
from lab.website.figure import Figure, Ledger, pointer
from lab.website.pages.case_views import CorrectnessRow
from lab.website.pages.labels import case_label

PASSED = "passed"


@dataclass(frozen=True, kw_only=True, slots=True)
class Unusual:
    """What an edge input gave where it did not pass: 'odd-sizes' 'refused' at some cases."""

    edge: str
    outcome: str
    cases: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Worst:
    """The largest errors of one profile over all cases, and how it took the edge inputs."""

    profile: str
    title: str
    error: Figure | None
    error_at: str  # the case
    tolerance: Figure | None
    tolerance_at: str
    checks: Figure | None  # at the case that was checked least often
    passed: tuple[str, ...]  # edge inputs that it passed wherever they were tried
    unusual: tuple[Unusual, ...]
    wrong: tuple[str, ...]  # cases


def worst_rows(item: Judged, ledger: Ledger) -> tuple[Worst, ...]:
    """By profile, over all cases; none where nothing was checked."""
    return tuple(row for profile in item.plan.profiles if (row := _worst(item, profile, ledger)))


def correctness_rows(
    item: Judged, case: PlannedCase, ledger: Ledger
) -> tuple[tuple[str, ...], tuple[CorrectnessRow, ...]]:
    """The edge inputs of a case, and a row for each profile that was checked there."""
    checked = [(profile, cell) for profile in item.plan.profiles_of(case) if (cell := _cell(case, profile, ledger))]
    edges = tuple(dict.fromkeys(name for _, cell in checked for name in cell["edges"]))
    return edges, tuple(
        CorrectnessRow(
            at=pointer("cells", case.name, profile.name),
            profile=profile.title,
            error=ledger.figure("cells", case.name, profile.name, "worst_absolute_error", show=format.error),
            tolerance=ledger.figure("cells", case.name, profile.name, "worst_tolerance_share", show=format.noise),
            checks=ledger.figure("cells", case.name, profile.name, "correctness_checks"),
            edges=tuple(cell["edges"].get(name, "–") for name in edges),
            wrong=cell["reason"] if cell["outcome"] == "wrong" else "",
        )
        for profile, cell in checked
    )


def _worst(item: Judged, profile: PlannedProfile, ledger: Ledger) -> Worst | None:
    held = [(case, cell) for case, checked, cell in _checked(item, ledger) if checked.name == profile.name]
    if not held:
        return None
    places = [
        max(held, key=lambda pair: _size(pair[1][name]))[0]
        for name in ("worst_absolute_error", "worst_tolerance_share")
    ]
    least = min(held, key=lambda pair: pair[1]["correctness_checks"])[0]
    outcomes: dict[tuple[str, str], list[str]] = {}
    for case, cell in held:
        for edge, outcome in cell["edges"].items():
            outcomes.setdefault((edge, outcome), []).append(case_label(case))
    unusual = tuple(
        Unusual(edge=edge, outcome=outcome, cases=tuple(cases))
        for (edge, outcome), cases in outcomes.items()
        if outcome != PASSED
    )
    failing = {found.edge for found in unusual}
    return Worst(
        profile=profile.name,
        title=profile.title,
        error=ledger.figure("cells", places[0].name, profile.name, "worst_absolute_error", show=format.error),
        error_at=case_label(places[0]),
        tolerance=ledger.figure("cells", places[1].name, profile.name, "worst_tolerance_share", show=format.noise),
        tolerance_at=case_label(places[1]),
        checks=ledger.figure("cells", least.name, profile.name, "correctness_checks"),
        passed=tuple(edge for edge, outcome in outcomes if outcome == PASSED and edge not in failing),
        unusual=unusual,
        wrong=tuple(case_label(case) for case, cell in held if cell["outcome"] == "wrong"),
    )


def _checked(item: Judged, ledger: Ledger) -> Iterator[tuple[PlannedCase, PlannedProfile, Mapping[str, Any]]]:
    for case, profile in item.plan.cells():
        if cell := _cell(case, profile, ledger):
            yield case, profile, cell


def _cell(case: PlannedCase, profile: PlannedProfile, ledger: Ledger) -> Mapping[str, Any]:
    """Empty where nothing was checked."""
    cell: Mapping[str, Any] = ledger.value("cells", case.name, profile.name) or {}
    return cell if "worst_tolerance_share" in cell else {}


def _size(error: float | None) -> float:
    """None is what was not finite: worse than any number."""
    return float("inf") if error is None else error
