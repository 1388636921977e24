"""The lab's error rates where the right answer is known: differences of known size, and a function against itself."""

from lab.verdict.statistics import CONFIDENCE, per_cent
from lab.website.figure import DataView, Sentence, joined, sentence
from lab.website.pages.trust_part import Part, trust_part
from lab.website.table import column, named, row


def power_part(view: DataView) -> Part:
    columns = (
        column("known_ratio", "Known ratio", show=lambda v: f"{v:.2f}×"), column("trials"),
        column("right", "Right verdicts"), column("withheld", "Too noisy to call"),
        column("excluding_one", "Intervals without 1"), column("covering", "Intervals that hold the ratio"),
    )  # fmt: skip
    effects = view.value("power") or {}
    return trust_part(
        "power", "Does it find a difference of known size?",
        "A kernel against itself with 1, 2 or 5 % more work. At 5 % the lab must call it 2 % faster; at 1 % it must "
        "not; at 2 % the truth lies on the threshold, and the interval only has to exclude 1. The goals: 90 % right, "
        "90 % of intervals at 2 % without 1, and 93 % of intervals that hold the known ratio.",
        columns, (row(view.at("power", claim), columns) for claim in effects if effects[claim]["trials"]),
    )  # fmt: skip


def same_part(view: DataView) -> Part:
    columns = (
        named("case", "Case"), column("comparisons"), column("supported", "Called faster"),
        column("excluding_one", "Intervals without 1"),
    )  # fmt: skip
    places: list[tuple[tuple[str, ...], str]] = [
        (("same_by_case", case), case) for case in view.value("same_by_case") or {}
    ]
    totals = [(("same",), "All"), (("controls",), "Controls of all other runs")]
    places += [(path, name) for path, name in totals if places and view.value(*path, "comparisons")]
    return trust_part(
        "same", "Is the same function under two names told apart?",
        "Each session is judged like a run of its own. The goal: at most one called faster, and at most 16 in 200 "
        "intervals without 1.",
        columns, (row(view.at(*path), columns, case=name) for path, name in places),
    )  # fmt: skip


def self_comparison_errors(view: DataView) -> Sentence:
    """How often a function beat itself, in tests and in the controls of all other runs; empty where none was run."""
    places = {"same": "comparisons in tests", "controls": "in the controls of other runs"}
    told = joined(
        (
            sentence(
                view.at(place),
                f"of {{comparisons}} {where}, {{supported}} were called faster (a rate of at most "
                f"{{largest_supported_rate:rate}} with {per_cent(CONFIDENCE)} confidence) and {{excluding_one}} had an "
                "interval without 1",
                rate=lambda rate: per_cent(rate, 1),
            )
            for place, where in places.items()
            if view.value(place, "comparisons")
        ),
        "; ",
    )
    return ("O", str(told[0])[1:], *told[1:], f", where {per_cent(1 - CONFIDENCE)} would be normal.") if told else ()
