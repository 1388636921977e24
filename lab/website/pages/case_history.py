"""One case across published runs: the p50 of each profile by run, on one GPU model."""

from collections.abc import Sequence

from lab.definition.plan import PlannedCase
from lab.website import format
from lab.website.data.judged import Judged
from lab.website.figure import Ledger
from lab.website.pages.case_views import CaseHistory, PastTime
from lab.website.pages.past import comparable, elsewhere, finished, software, source, verdict_link


def case_history(item: Judged, published: Sequence[Judged], case: PlannedCase, root: str) -> CaseHistory | None:
    """`published`: every run of the experiment, oldest first; None where none measured the case."""
    held = [run for run in published if _measured(run, case.name)]
    runs = comparable(item, held)
    if not held:
        return None
    profiles = [
        profile
        for profile in item.plan.profiles_of(case)
        if any(_time(run, case.name, profile.name) is not None for run in runs)
    ]
    rows = [
        PastTime(
            run_id=run.evidence["run_id"],
            link=verdict_link(run, root),
            date=finished(run),
            software=software(run),
            changed=number > 0 and software(run) != software(runs[number - 1]),
            current=run.digest == item.digest,
            data=source(run, root),
            times=tuple(
                Ledger(run.data).figure("cells", case.name, profile.name, "p50_seconds", show=format.microseconds)
                for profile in profiles
            ),
        )
        for number, run in enumerate(runs)
    ]
    return CaseHistory(
        profiles=tuple(profile.title for profile in profiles),
        rows=tuple(reversed(rows)),
        elsewhere=elsewhere(item, held, root),
    )


def _measured(run: Judged, case: str) -> bool:
    return any("p50_seconds" in cell for cell in run.data["cells"].get(case, {}).values())


def _time(run: Judged, case: str, profile: str) -> float | None:
    seconds: float | None = run.data["cells"].get(case, {}).get(profile, {}).get("p50_seconds")
    return seconds
