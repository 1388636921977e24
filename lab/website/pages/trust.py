"""How far the lab itself can be trusted: repeats, known answers, the threat model, as a page and data."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from lab.verdict.repeatability import CHANGED, FLIPPED, HOLDING, ZERO
from lab.verdict.statistics import CONFIDENCE, per_cent
from lab.verdict.validity import REPEATED_WITHIN
from lab.verdict.widening import DRAW_SPREAD
from lab.website import format
from lab.website.data.judged import json_text
from lab.website.data.publication_log import LOG, gone, head, text_of
from lab.website.figure import DataView, Figure, Sentence
from lab.website.outputs import Attachment, Document, Output, SiteContext
from lab.website.pages.trust_tables import (
    ONE_DRAW,
    canaries_part,
    flush_part,
    instruments_part,
    power_part,
    repeatability_part,
    repeats_part,
    same_part,
    share,
)
from lab.website.table import csv_file

GUARDED = (
    "An implementation runs in the process that times it and can do there whatever Python allows. So the lab does not "
    "trust that process alone. Samples go to a parent process after every block. An audit hook reports who looks at "
    "frames, objects or code of others. Hooks, signal handlers, timers, threads and child processes are checked when "
    "the clock stops. Names in torch, Triton and the measuring code are compared, and process settings are restored. "
    "Which calls are checked is drawn after they ran, and some inputs are never announced."
)
STILL_POSSIBLE = (
    "Code below Python, such as a compiled extension that patches memory, the clock or the driver, goes unnoticed.",
    "The experiment's own module is trusted at import: it defines the inputs and the right answer.",
    "Code that poses as a library by its module's name goes unnoticed when it looks at frames.",
    "With a warm cache or in eager calls only part of an input changes between calls. An implementation that remembers "
    "its last result and updates that part would gain. With a cold cache nearly all values change.",
    "A rival slowed down by worn-out memory or caches is not timed again in a process of its own.",
    "Any result within the operator's tolerance counts as right, however it was computed.",
)


def trust_pages(context: SiteContext) -> Iterator[Output]:
    """trust/index.html, its data and its tables as CSV; a preview of one run has none."""
    if context.trust:
        page = trust_page(context.trust)
        yield Document(path="trust/index.html", template="trust.html", view={**page, "log": _log(context)})
        yield Attachment(path="trust/data.json", content=json_text(context.trust))
        yield from (csv_file(part["table"], f"trust/{part['anchor']}.csv") for part in (*page["face"], *page["folded"]))
    if context.log:
        yield Attachment(path=LOG, content=text_of(context.log))


def trust_page(data: Mapping[str, Any]) -> dict[str, Any]:
    """`data`: of lab.website.data.published_trust."""
    view = DataView(data)
    face = (repeatability_part, power_part)
    folded = (same_part, repeats_part, instruments_part, flush_part, canaries_part)
    return {
        "lede": _lede(view), "missed": missed_goals(view), "errors": self_comparison_errors(view),
        "moved": _moved(view), "clocks": _clocks(view), "changed": tuple(_changed(data)),
        "face": tuple(part for make in face if (part := make(view))["table"].rows),
        "folded": tuple(part for make in folded if (part := make(view))["table"].rows), "guarded": GUARDED,
        "still_possible": STILL_POSSIBLE, "draw_spread": per_cent(DRAW_SPREAD),
    }  # fmt: skip


def _log(context: SiteContext) -> dict[str, Any] | None:
    """The log of publications, and which of them are no longer there; None where no log was kept."""
    if not context.log:
        return None
    missing = gone(context.log, {each.digest for each in context.files})
    dated = tuple((each.run_id, format.minute(each.published_utc), each.digest) for each in missing)
    return {"path": LOG, "head": head(context.log), "gone": dated}


def _lede(view: DataView) -> Sentence:
    flips, repeated = (view.figure("repeated", name) for name in ("flip_count", "comparisons"))
    count, supported = view.figure("same", "comparisons"), view.figure("same", "supported")
    parts: list[Figure | str] = []
    if flips and repeated and repeated.value:
        parts += ["When runs were repeated, ", flips, " of ", repeated,
                  " claims went from “holds” to “does not hold” or back. "]  # fmt: skip
    if count and supported and count.value:
        parts += ["Of ", count, " comparisons of a function with itself, ", supported, " called one side faster."]
    return tuple(parts) or ("No run that tests the lab itself has been published yet.",)


def self_comparison_errors(view: DataView) -> Sentence:
    """How often a function beat itself, in tests and in the controls of all other runs; empty where none was run."""
    parts: list[Figure | str] = []
    for place, where in {"same": " comparisons in tests", "controls": " in the controls of other runs"}.items():
        if view.value(place, "comparisons"):
            count, supported, excluding = (
                view.figure(place, name) or "–" for name in ("comparisons", "supported", "excluding_one")
            )
            rate = view.figure(place, "largest_supported_rate", show=lambda v: per_cent(v, 1)) or "–"
            parts += [
                "; of " if parts else "Of ", count, where, ", ", supported, " were called faster (a rate of at most ",
                rate, f" with {per_cent(CONFIDENCE)} confidence) and ", excluding, " had an interval without 1",
            ]  # fmt: skip
    return (*parts, f", where {per_cent(1 - CONFIDENCE)} would be normal.") if parts else ()


def missed_goals(view: DataView) -> Sentence:
    """Every goal that repeats miss, by GPU model; that none is; nothing where no run was repeated."""
    parts: list[Figure | str] = []
    for number, pairs in (view.value("repeatability") or {}).items():
        for key, goal, missed, said in GOALS:
            if missed(pairs[key]):
                value = view.figure("repeatability", number, key, show=share) or "–"
                who = f"{pairs['gpu']}{f' ({ONE_DRAW})' if pairs['one_draw'] else ''}"
                parts += ["; " if parts else "Goals that are missed: ", f"{said} on {who}: ", value, f", goal {goal}"]
    if parts:
        return (*parts, ".")
    return ("Every goal is met.",) if view.value("repeatability") else ()


def _moved(view: DataView) -> Sentence:
    """What of the repeated experiment with most cells out of bounds did not repeat, if anything."""
    repeats = view.value("repeats") or {}
    out = {number: repeat["cells"] - repeat["within"] for number, repeat in repeats.items()}
    number = max(out, key=lambda each: out[each], default="")
    if not out.get(number):
        return ()
    path = ("repeats", number)
    runs, cells, within = (view.figure(*path, name) or "–" for name in ("runs", "cells", "within"))
    worst = view.figure(*path, "largest_deviation", show=lambda v: per_cent(v, 1)) or "–"
    return (
        "Times move more than ratios do. Over ", runs, f" runs of {repeats[number]['experiment']}, ", within, " of ",
        cells, f" times stayed within ±{per_cent(REPEATED_WITHIN)} of their median. The worst, "
        f"{repeats[number]['largest_at']}, was off by ", worst, ".",
    )  # fmt: skip


def _clocks(view: DataView) -> Sentence:
    """How many claims another clock would put on the other side of their threshold."""
    claims, turned = view.figure("agreement", "claims"), view.figure("agreement", "claims_turned")
    if not claims or not claims.value or not turned:
        return ()
    return (
        "Of ", claims, " claims that do_bench, nvbench or a writing flush timed too, ", turned,
        " fall on the other side of their threshold by that clock. A case's page shows the ratios side by side.",
    )  # fmt: skip


def _changed(data: Mapping[str, Any]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """By experiment and GPU, the claims at cases whose verdict was not the same in all repeats."""
    for repeat in data["repeats"].values():
        if repeat["changed"]:
            yield f"{repeat['experiment']}, {repeat['gpu']}", tuple(repeat["changed"])


# Of pairs of runs: what is counted, the goal, whether it is missed, and that in words.
GOALS: tuple[tuple[str, str, Callable[[float], bool], str], ...] = (
    ("holding_share", f"at least {per_cent(HOLDING)}", lambda share: share < HOLDING, "intervals too narrow"),
    ("zero_share", f"at least {per_cent(ZERO)}", lambda share: share < ZERO, "runs that disagree"),
    ("changed_share", f"at most {per_cent(CHANGED)}", lambda share: share > CHANGED, "changed verdicts"),
    ("flipped", f"{FLIPPED:g}", lambda count: count > FLIPPED, "reversed verdicts"),
)
