"""The distribution of a case: what each sweep, a process of its own, gave for each profile."""

from lab.definition.plan import PlannedCase
from lab.website import format
from lab.website.charts.sweeps import Swept, sweeps_chart
from lab.website.data.judged import Judged
from lab.website.figure import Figure, Ledger
from lab.website.pages.case_views import Distribution
from lab.website.pages.labels import series


def distribution(item: Judged, case: PlannedCase, ledger: Ledger) -> Distribution | None:
    """None where no cell of the case was measured."""
    swept = [
        (profile, cell)
        for profile in item.plan.profiles_of(case)
        if (cell := ledger.value("cells", case.name, profile.name)) and cell.get("sweep_p50_seconds")
    ]
    if not swept:
        return None
    most = max(len(cell["sweep_p50_seconds"]) for _, cell in swept)
    return Distribution(
        chart=sweeps_chart(
            [
                Swept(
                    profile=profile.title,
                    series=series(profile.name),
                    p50_seconds=cell["p50_seconds"],
                    sweep_p50_seconds=tuple(cell["sweep_p50_seconds"]),
                )
                for profile, cell in swept
            ]
        ),
        sweeps=tuple(range(1, most + 1)),
        rows=tuple(
            (
                profile.title,
                _padded(
                    ledger.figures("cells", case.name, profile.name, "sweep_p50_seconds", show=format.microseconds),
                    most,
                ),
            )
            for profile, _ in swept
        ),
    )


def _padded(times: tuple[Figure, ...], length: int) -> tuple[Figure | None, ...]:
    """A profile may have fewer sweeps than another."""
    return (*times, *[None] * (length - len(times)))
