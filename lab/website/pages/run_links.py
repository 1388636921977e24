"""Published runs on a page: which can be compared with the one shown, how they are named, and where they stand."""

from collections.abc import Sequence

from lab.definition.experiment import CEILINGS
from lab.website import format
from lab.website.addresses import SITE, pair_folder, run_folder, verdict_folder
from lab.website.data.comparison import has_page
from lab.website.data.judged import Judged
from lab.website.data.verdict_log import VerdictChange
from lab.website.figure import DataView
from lab.website.table import Link, Words, below


def comparable(item: Judged, published: Sequence[Judged]) -> tuple[Judged, ...]:
    """The runs on the GPU model (or CPU) of the run shown, oldest first."""
    return tuple(run for run in published if run.machine_name == item.machine_name) if item.evidence else ()


def elsewhere(item: Judged, published: Sequence[Judged]) -> list[Judged]:
    """The runs on other machines, the newest first."""
    return [run for run in reversed(published) if run.machine_name != item.machine_name]


def other_models(item: Judged, published: Sequence[Judged]) -> list[Judged]:
    """Of each other GPU model (or CPU) the run with the fullest evidence; the newest first."""
    fullest: dict[str, Judged] = {}
    for run in published:
        fullest[run.machine_name] = max(fullest.get(run.machine_name, run), run, key=lambda each: each.fullness)
    return elsewhere(item, sorted(fullest.values(), key=lambda run: run.finished_utc))


def software(run: Judged) -> str:
    names = ("torch", "triton", "driver") if not run.on_cpu else ("torch",)
    return ", ".join(f"{name} {run.machine[name]}" for name in names if run.machine.get(name))


def finished(run: Judged) -> str:
    """The day on which a run ended, or began where it never did."""
    return format.day(run.measured_utc)


def run_link(run: Judged) -> str:
    return f"{SITE}{run_folder(run.digest)}/index.html"


def verdict_link(run: Judged) -> str:
    """What a run said of its experiment, for ever."""
    return f"{SITE}{verdict_folder(run.digest, run.plan.name)}/index.html"


def named_run(run: Judged) -> Link:
    """A link to what it said, by its name."""
    return Link(run.evidence["run_id"], verdict_link(run))


def noted_run(runs: Sequence[Judged], number: int, shown: Judged) -> Words:
    """One of several runs, the oldest first: whether a page shows it, and its software, if that of the run before is
    another."""
    run, before = runs[number], runs[number - 1] if number else None
    changed = before is None or software(run) != software(before)
    return named_run(run), below(run.digest == shown.digest and "shown here"), below(changed and software(run))


def view_of(run: Judged) -> DataView:
    """Its figures, which point into the data beside its verdicts."""
    return DataView(run.data, f"{SITE}{verdict_folder(run.digest, run.plan.name)}/data.json#")


def compare_link(change: VerdictChange, history: Sequence[Judged]) -> str:
    """The page that compares the two runs between which a verdict changed; empty where there is none, because they are
    too far apart or share only ceilings.

    `history`: all published runs of the experiment, oldest first.
    """
    if history[0].name == CEILINGS or not has_page(change.before, change.digest, history):
        return ""
    return f"{SITE}{pair_folder(change.before, change.digest)}/index.html"
