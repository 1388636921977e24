"""What changes from run to run of an experiment, whatever its board and source: times, and verdicts, as CSV too."""

from collections.abc import Mapping
from typing import Any

from lab.verdict.statistics import per_cent
from lab.verdict.validity import REPEATED_WITHIN
from lab.website.figure import DataView, Sentence, sentence
from lab.website.outputs import Attachment
from lab.website.pages.trust_part import Part, trust_part
from lab.website.pages.trust_repeatability import share
from lab.website.table import Constant, column, csv_table, named, row

CHANGED_CSV = "trust/changed.csv"


def repeats_part(view: DataView) -> Part:
    columns = (
        named("experiment", "Experiment"), named("gpu", "GPU"), column("gpus", "Boards"), column("runs"),
        column("sources"), named("protocol", "Protocol"),
        column("comparisons", "Claims at cases"), column("flip_count", "Reversed"), column("changed_count", "Changed"),
        column("disjoint_count", "Intervals apart"), column("cells", "Times"), column("within"),
        column("largest_deviation", "Largest deviation", show=lambda v: per_cent(v, 2)), named("largest_at", "Where"),
    )  # fmt: skip
    return trust_part(
        "repeats", "Repeats of each experiment",
        "All published runs of an experiment under one protocol, a row each, changes of the source included, most of "
        "them on different boards. A protocol is told by its sweeps × rounds × samples in a block, by whether every "
        "sweep compiles anew (“a cache a sweep”), and by whether calls are timed one at a time (“isolated”). "
        "Boards run at different clocks, and torch.compile may choose other kernels, so "
        "times and intervals can move apart. The goal: times of 20 µs and more within "
        f"±{per_cent(REPEATED_WITHIN)} of their median over the runs, and no reversed verdict.",
        columns,
        (row(view.at("repeats", number), columns, protocol=Constant((repeat["protocol"],)))
         for number, repeat in (view.value("repeats") or {}).items()),
    )  # fmt: skip


def moved_times(view: DataView) -> Sentence:
    """What of the experiment with most cells out of bounds did not repeat, if anything, while its source stayed."""
    every = view.value("repeats") or {}
    repeats = {number: repeat for number, repeat in every.items() if repeat["sources"] == 1}
    out = {number: repeat["cells"] - repeat["within"] for number, repeat in repeats.items()}
    number = max(out, key=lambda each: out[each], default="")
    if not out.get(number):
        return ()
    at, repeat = view.at("repeats", number), repeats[number]
    return (
        *sentence(at, "Times move more than ratios do. Over {runs} runs of one source of "),
        f"{repeat['experiment']}, ",
        *sentence(at, "{within} of {cells} times stayed within "), f"±{per_cent(REPEATED_WITHIN)} of their median. "
        f"The worst, {repeat['largest_at']}, was off by ", *sentence(at, "{largest_deviation:share}.", share=share),
    )  # fmt: skip


def changed_part(view: DataView) -> Part | None:
    """How many verdicts were not the same in all repeats, a row for each experiment and GPU; None without repeats."""
    columns = (
        named("experiment", "Experiment"), named("gpu", "GPU"), column("protocols"), column("runs"),
        column("comparisons", "Claims at cases"), column("changed_count", "Changed"), column("flip_count", "Reversed"),
    )  # fmt: skip
    places = view.value("changed") or {}
    about = (
        "Over all published runs of an experiment, changes of the source included. Runs are compared with those of the "
        "same protocol; a claim at a case counts once under each."
    )
    left_out = sentence(
        view.at("changed_screenings"),
        " Screenings of the zoo are left out: they take few samples, to find what is to be measured again. Of those "
        "{changed_count} of {comparisons} changed.",
    )
    screened: Sentence = left_out if view.value("changed_screenings", "comparisons") else ()
    rows = (row(view.at("changed", number), columns) for number in places)
    return trust_part("changed", "Which verdicts changed", about, columns, rows, screened) if places else None


def changed_csv(data: Mapping[str, Any]) -> Attachment:
    """Every claim at a case whose verdict was not the same in all repeats, those of screenings too."""
    columns = ("experiment", "gpu", "protocol", "screening", "runs", "claim", "case", "reversed")
    rows = (
        (repeat["experiment"], repeat["gpu"], repeat["protocol"], _yes(repeat["screening"]), repeat["runs"],
         *place.split(" at ", 1), _yes(place in repeat["flips"]))
        for repeat in data["repeats"].values()
        for place in repeat["changed"]
    )  # fmt: skip
    return csv_table(CHANGED_CSV, columns, rows)


def _yes(holds: bool) -> str:
    return "yes" if holds else "no"
