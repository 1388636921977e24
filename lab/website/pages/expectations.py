"""Each implementation: how it works, what its author expected, and what the profiler counted."""

from lab.definition.plan import PlannedCase, PlannedProfile
from lab.verdict.cells import SCOPE
from lab.website.addresses import case_address
from lab.website.data.judged import Judged
from lab.website.figure import DataView
from lab.website.pages.kernels import essentials
from lab.website.pages.labels import case_label
from lab.website.table import Fold, Link, Strong, Words, below


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
