"""Published runs as an earlier or later page names them: which may be compared, when they were, where their data is."""

from collections.abc import Sequence
from dataclasses import dataclass

from lab.website import format
from lab.website.addresses import run_folder, verdict_folder
from lab.website.data.judged import Judged
from lab.website.pages.tallies import StatusCount, status_counts, verdict_counts


@dataclass(frozen=True, kw_only=True, slots=True)
class Elsewhere:
    """A run on another machine: never in one line with the one shown, and no contradiction of it."""

    run_id: str
    link: str
    date: str
    machine: str
    counts: tuple[StatusCount, ...]  # its verdicts


def comparable(item: Judged, published: Sequence[Judged]) -> tuple[Judged, ...]:
    """The runs on the GPU model (or CPU) of the run shown, oldest first."""
    return tuple(run for run in published if run.machine_name == item.machine_name) if item.evidence else ()


def elsewhere(item: Judged, published: Sequence[Judged], root: str) -> tuple[Elsewhere, ...]:
    return tuple(
        Elsewhere(
            run_id=run.evidence["run_id"],
            link=verdict_link(run, root),
            date=finished(run),
            machine=run.machine_name,
            counts=status_counts([verdict_counts(run)]),
        )
        for run in reversed(published)
        if run.machine_name != item.machine_name
    )


def other_models(item: Judged, published: Sequence[Judged], root: str) -> tuple[Elsewhere, ...]:
    """Of each other GPU model (or CPU) the run with the fullest evidence; the newest first."""
    fullest: dict[str, Judged] = {}
    for run in published:
        known = fullest.get(run.machine_name)
        if known is None or run.fullness > known.fullness:
            fullest[run.machine_name] = run
    kept = sorted(fullest.values(), key=lambda run: run.finished_utc)
    return elsewhere(item, kept, root)


def software(run: Judged) -> str:
    names = ("torch", "triton", "driver") if not run.on_cpu else ("torch",)
    return ", ".join(f"{name} {run.machine[name]}" for name in names if run.machine.get(name))


def finished(run: Judged) -> str:
    """The day on which a run ended, or began where it never did."""
    return format.day(run.measured_utc)


def run_link(run: Judged, root: str) -> str:
    return f"{root}{run_folder(run.digest)}/index.html"


def verdict_link(run: Judged, root: str) -> str:
    """What a run said of its experiment, for ever."""
    return f"{root}{verdict_folder(run.digest, run.plan.name)}/index.html"


def source(run: Judged, root: str) -> str:
    """The file with the figures of that page."""
    return f"{root}{verdict_folder(run.digest, run.plan.name)}/data.json"
