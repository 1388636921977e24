"""The claims of an experiment: each with its verdict in a line, and case by case."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from types import SimpleNamespace as View
from typing import Any

from lab.definition.claim_words import claim_sentence
from lab.definition.experiment import MEASURES
from lab.definition.plan import PlannedClaim
from lab.verdict.judge import READING_ORDER, Status
from lab.website import format
from lab.website.data.judged import Judged
from lab.website.figure import DataView, Figure, Sentence
from lab.website.pages.contest import case_address
from lab.website.pages.labels import shape_label
from lab.website.table import Code, Link, PageTable, Soft, TableRow, VerdictChip, Words, numbers, table_row, words
from lab.website.verdict_words import case_word, claim_word, verdict_word

# All runs of unchanged code taken together, beside the verdict of the newest, in words.
DATA = "trust/data.json"  # from the root of the site


def pooled_sentence(trust: Mapping[str, Any], item: Judged, claim: PlannedClaim, case: str, root: str = "") -> Sentence:
    """'3 runs on 3 boards: 1.18× [1.16, 1.20]', into `DATA`; nothing where the run shown is not one of three or more.

    `trust`: lab.website.data.published_trust; empty in a preview. `root` leads from the page to that of the site.
    """
    path = ("pooled", item.plan.name, item.machine.get("gpu", ""), claim.name, case)
    view = DataView(trust, f"{root}{DATA}#").at(*path)
    if item.evidence.get("run_id") not in (view.value("runs") or ()):
        return ()
    low, high, asked = view.value("low"), view.value("high"), item.data["claims"][claim.name]["threshold"]
    parts = (
        view.figure("run_count"), " runs on ", view.figure("boards"),
        f" board{'s' if view.value('boards') != 1 else ''}: ",
        view.figure("ratio", show=lambda value: format.ratio(value, low, high, asked)), " ",
        view.figure("low", show=lambda value: format.interval(value, high, asked)),
    )  # fmt: skip
    return tuple(part for part in parts if part)


def pooled_of(trust: Mapping[str, Any], experiment: str) -> dict[str, Any]:
    """The part of `trust` that the pages of one experiment show."""
    pooled = trust.get("pooled", {}).get(experiment)
    return {"pooled": {experiment: pooled}} if pooled else {}


NO_TRUST: Mapping[str, Any] = MappingProxyType({})
ROOT = "../../"  # from an experiment's page to the site's root
TIMES = (
    *words("Shape"), *numbers("Subject, µs", "Baseline, µs", "Speed-up", "Interval", "Noise"), *words("Verdict")
)  # fmt: skip
TRAFFIC = (
    *words("Shape"),
    *numbers("Subject counted, MB", "with all its result, MB", "Baseline, MB", "Ratio", "Bounds"),
    *words("Verdict"),
)
MEMORY = (*words("Shape"), *numbers("Subject, MB", "Baseline, MB", "Ratio"), *words("Verdict"))
# By the measure of a claim: the heads of its rows, and what is said of them all.
CASE_BY_CASE = {
    "speedup": (
        TIMES, "Speed-up is the baseline's time over the subject's. Noise is the larger p95 over p50 of the two.",
    ),
    "traffic": (
        TRAFFIC,
        "Bytes that one call moves to and from DRAM, counted by the profiler in a pass of its own. “With all its "
        "result” adds what is still in the cache when the count ends. Of several kernels the ratio lies within bounds.",
    ),
    "memory": (
        MEMORY, "The most memory that one call allocates beyond its inputs, its results included, by torch's count.",
    ),
}  # fmt: skip


def claim_view(
    shown: Judged, claim: PlannedClaim, view: DataView, trust: Mapping[str, Any] = NO_TRUST, *, linked: bool = True
) -> View:
    """`linked`: cases have pages beside this one that show the same run."""
    path = ("claims", claim.name)
    cells = {"speedup": _times, "traffic": _traffic, "memory": _memory}[claim.measure]

    def row(case: str) -> TableRow:
        at, label = (*path, "cases", case), shape_label(next(each for each in shown.plan.cases if each.name == case))
        first = Link(label, case_address(case)) if linked else label
        call = _call(view, at, shown.on_cpu, claim.measure)
        return table_row(first, *cells(shown, claim, case, view, trust), call)

    unmeasured = view.value(*path, "status") == Status.NO_EVIDENCE
    return View(
        name=claim.name,
        text=claim_sentence(claim),
        status=view.value(*path, "status"),
        mark=view.value(*path, "mark"),
        word=claim_word(view.value(*path)),
        measure=claim.measure,
        scope=claim.scope,
        holds=() if unmeasured else _holds(claim, view),
        mean=_mean(claim, view),
        right=_right(claim.expected),
        as_expected=view.value(*path, "status") in (claim.expected or ("supported",)),  # nobody need look at it twice
        rows=tuple(map(row, view.value(*path, "cases"))),
    )


def claims_table(claims: tuple[View, ...], label: str) -> PageTable:
    """A line for each: the claim, its verdict, at how many cases it holds, and the mean of those that were clear."""
    return PageTable(
        label=label,
        kind="claims stacks",
        heads=(*words("Claim", "Verdict"), *numbers("Holds at", "Mean ratio")),
        rows=[
            table_row(
                claim_words(claim),
                VerdictChip(claim.status, claim.mark, word=claim.word),
                claim.holds,
                claim.mean,
                id=f"claim-{claim.name}",
            )
            for claim in claims
        ],
    )


def claim_words(claim: View) -> Words:
    """Its sentence, and below it what a test of the lab must find."""
    return (claim.text, Soft((f"Right: {claim.right}.",))) if claim.right else (claim.text,)


def by_case(claims: tuple[View, ...]) -> tuple[PageTable, ...]:
    """Every verdict, under the claim that it is of: a table for each measure."""
    return tuple(table for measure in MEASURES if (table := _by_case(claims, measure)))


def _by_case(claims: tuple[View, ...], measure: str) -> PageTable | None:
    heads, caption = CASE_BY_CASE[measure]
    rows: list[TableRow] = []
    for claim in claims:
        if claim.measure == measure:
            scope = (" ", Code(claim.scope)) if measure == "speedup" else ()
            rows += [table_row((claim.text, *scope, " "), kind="group"), *claim.rows]
    return PageTable(label="Case by case", heads=heads, rows=rows, caption=(caption,)) if rows else None


def _right(expected: Sequence[str]) -> str:
    """The verdicts that are right in a test of the lab: '“does not hold”', 'any but “holds”'."""
    wrong = [status for status in READING_ORDER if status != Status.NO_EVIDENCE and status not in expected]
    if expected and len(wrong) == 1:
        return f"any but “{verdict_word(wrong[0])}”"
    return " or ".join(f"“{verdict_word(each)}”" for each in expected)


def _holds(claim: PlannedClaim, view: DataView) -> Words:
    """'3 of 5', and below it how many are ties."""
    supported, judged, ties = (view.figure("claims", claim.name, name) for name in ("supported", "judged", "ties"))
    return (supported or "0", " of ", judged or "0", *((Soft((ties, " tied")),) if ties and ties.value else ()))


def _mean(claim: PlannedClaim, view: DataView) -> Words:
    """The mean ratio, and of how many cases it is, where not of all."""
    show = format.threshold if claim.measure == "speedup" else format.times
    mean, compared = view.end(claim.name, "geometric_mean", show=show), view.figure("claims", claim.name, "compared")
    if not mean or not compared:
        return ()
    every = compared.value == view.value("claims", claim.name, "judged")
    return (mean,) if every else (mean, Soft(("of ", compared)))


Cells = tuple[Any, ...]  # between the case and the verdict


def _times(shown: Judged, claim: PlannedClaim, case_name: str, view: DataView, trust: Mapping[str, Any]) -> Cells:
    path = ("claims", claim.name, "cases", case_name)

    def timed(profile: str) -> tuple[str, ...]:
        return "cells", case_name, profile, "scopes", claim.scope

    noisier = max(
        (claim.subject, claim.baseline), key=lambda profile: view.value(*timed(profile), "noise_ratio") or 0.0
    )
    pooled = pooled_sentence(trust, shown, claim, case_name, ROOT)
    return (
        view.figure(*timed(claim.subject), "p50_seconds"),
        view.figure(*timed(claim.baseline), "p50_seconds"),
        view.ratio(*path),
        (view.interval(*path), *((Soft(pooled),) if pooled else ())),
        view.figure(*timed(noisier), "noise_ratio"),
    )


def _traffic(shown: Judged, claim: PlannedClaim, case_name: str, view: DataView, _: Mapping[str, Any]) -> Cells:
    path = ("claims", claim.name, "cases", case_name)
    return (
        view.figure("cells", case_name, claim.subject, "counters", "dram_bytes"),
        *(view.figure(*path, name) for name in ("subject_bytes", "baseline_bytes", "ratio")),
        _bounds(view, *path),
    )


def _memory(shown: Judged, claim: PlannedClaim, case_name: str, view: DataView, _: Mapping[str, Any]) -> Cells:
    path = ("claims", claim.name, "cases", case_name)
    return tuple(view.figure(*path, name) for name in ("subject_bytes", "baseline_bytes", "ratio"))


def _call(view: DataView, path: tuple[str, ...], on_cpu: bool, measure: str) -> tuple[VerdictChip | Soft, ...]:
    mark, reason = view.value(*path, "mark"), view.value(*path, "reason")
    marks = ", ".join(part for part in (mark, "CPU evidence" if on_cpu else "") if part)
    call = VerdictChip(view.value(*path, "status"), marks, reason, case_word(view.value(*path), measure))
    return (call, Soft((reason,))) if reason else (call,)


def _bounds(view: DataView, *path: str) -> Figure | None:
    """Between which ratios the instrument leaves it open; None where it leaves nothing open."""
    high = view.value(*path, "high")
    if high is None or high == view.value(*path, "low"):
        return None
    return view.figure(*path, "low", show=lambda low: f"{format.times(low)} to {format.times(high)}")
