"""The claims of an experiment: each with its verdict in a line, and case by case."""

from collections.abc import Mapping, Sequence
from types import SimpleNamespace as View
from typing import Any

from lab.definition.claim_words import BYTES_WORDS, claim_sentence
from lab.definition.plan import PlannedClaim
from lab.verdict.excluded_rounds import LARGEST_DROPPED_SHARE
from lab.verdict.judge import READING_ORDER, Status
from lab.verdict.statistics import per_cent
from lab.website import format
from lab.website.addresses import case_address
from lab.website.data.judged import Judged
from lab.website.figure import DataView, Figure, Sentence
from lab.website.pages.labels import case_label, scope_within, shape_label
from lab.website.pages.pooled_verdicts import (
    NO_TRUST,
    differing_pool_sentence,
    pooled_sentence,
    pooled_status,
    together_sentence,
)
from lab.website.table import Constant, Link, PageTable, TableRow, VerdictChip, Words, below, numbers, table_row, words
from lab.website.verdict_words import case_word, claim_mark, claim_word, verdict_word

CASES = (*words("Shape"), *numbers("Ratio", "Interval"), *words("Verdict"))


def claim_view(
    shown: Judged, claim: PlannedClaim, view: DataView, trust: Mapping[str, Any] = NO_TRUST, *, linked: bool = True
) -> View:
    """`linked`: cases have pages beside this one that show the same run."""
    path = ("claims", claim.name)

    cases = [shown.plan.case(name) for name in view.value(*path, "cases")]
    named = shape_label if len({case.op for case in cases}) == 1 else case_label  # two operators may have one shape

    def row(case: str) -> TableRow:
        label = named(shown.plan.case(case))
        first = Link(label, case_address(case)) if linked else label
        place = (trust, shown, claim, case)
        pooled = pooled_sentence(*place) or differing_pool_sentence(*place)
        return table_row(first, *verdict_cells(shown, claim, case, view, pooled))

    unmeasured = view.value(*path, "status") == Status.NO_EVIDENCE
    return View(
        name=claim.name,
        text=claim_sentence(claim),
        status=view.value(*path, "status"),
        mark=claim_mark(view.value(*path)),
        word=claim_word(view.value(*path)),
        measure=claim.measure,
        scope=claim.scope,
        holds=() if unmeasured else _holds(claim, view),
        mean=_mean(claim, view),
        right=_right(claim.expected),
        as_expected=view.value(*path, "status") in (claim.expected or ("supported",)),  # nobody need look at it twice
        together=said_together(trust, shown, claim),
        rows=tuple(map(row, view.value(*path, "cases"))),
    )


def said_together(trust: Mapping[str, Any], shown: Judged, claim: PlannedClaim) -> Sentence:
    """What runs on three boards say together, where that is not the verdict of the run shown: of one case in full."""
    cases = shown.data["claims"][claim.name]["cases"]
    otherwise = [
        case for case, each in cases.items() if pooled_status(trust, shown, claim, case) not in (None, each["status"])
    ]
    if not otherwise:
        return ()
    if len(otherwise) > 1:
        return ("At some cases runs on three boards say otherwise.",)
    said = together_sentence(trust, shown, claim, otherwise[0])
    return (f"{case_label(shown.plan.case(otherwise[0]))}: ", *said) if said and len(cases) > 1 else said


def claims_table(claims: tuple[View, ...], label: str) -> PageTable:
    """A line for each: the claim, its verdict, at how many cases it holds, and the mean of those that were clear."""
    return PageTable(
        label=label,
        kind="claims stacks",
        heads=(*words("Claim", "Verdict"), *numbers("Holds at", "Mean ratio")),
        rows=[
            table_row(
                claim_words(claim),
                (VerdictChip(claim.status, claim.mark, word=claim.word), below(*claim.together)),
                claim.holds,
                claim.mean,
                id=f"claim-{claim.name}",
            )
            for claim in claims
        ],
    )


def claim_words(claim: View) -> Words:
    """Its sentence, and below it what a test of the lab must find."""
    return claim.text, below(claim.right and f"Right: {claim.right}.")


def by_case(claims: tuple[View, ...]) -> PageTable | None:
    """Every verdict, under the claim that it is of."""
    rows: list[TableRow] = []
    for claim in claims:
        scope = (f" ({scope_within(claim.scope)})",) if claim.measure == "speedup" else ()
        rows += [table_row((claim.text, *scope, " "), kind="group"), *claim.rows]
    caption = (
        "The ratio is the baseline's time over the subject's, or that of the bytes which the claim compares. Of the "
        "DRAM traffic of several kernels the interval is the bounds between which the profiler leaves it open.",
    )
    if not rows:
        return None
    return PageTable(
        label="Case by case", kind="claims stacks", labelled=False, heads=CASES, rows=rows, caption=caption
    )


def verdict_cells(
    shown: Judged, claim: PlannedClaim, case: str, view: DataView, pooled: Sentence
) -> tuple[Words, Words, Words]:
    """A claim at a case: its ratio, how sure that is with what all runs say together, and its verdict."""
    path = ("claims", claim.name, "cases", case)
    of_bytes, verdict = claim.measure in BYTES_WORDS, view.value(*path)
    marks = ", ".join(part for part in (verdict["mark"], "CPU evidence" if shown.on_cpu else "") if part)
    chip = VerdictChip(verdict["status"], marks, verdict["reason"], case_word(verdict, claim.measure))
    return (
        (ratio := view.figure(*path, "ratio"), below(ratio and ratio_of(claim))) if of_bytes else (view.ratio(*path),),
        (_bounds(view, *path) if of_bytes else view.interval(*path), below(*pooled)),
        (chip, below(verdict["reason"], *spoiled_because(case, verdict, view))),
    )


def spoiled_because(case: str, verdict: Mapping[str, Any], view: DataView) -> Words:
    """What spoiled too many rounds of a case for a verdict; nothing where there is another reason."""
    control = view.at("controls", case).value
    if verdict["status"] != Status.RERUN_NOISE or (control("spoiled_share") or 0) <= LARGEST_DROPPED_SHARE:
        return ()
    most = Constant((per_cent(LARGEST_DROPPED_SHARE),))
    return (", more than the ", most, f" that a verdict allows: {', '.join(control('spoiled_because'))}")


def _right(expected: Sequence[str]) -> str:
    """The verdicts that are right in a test of the lab: '“does not hold”', 'any but “holds”'."""
    wrong = [status for status in READING_ORDER if status != Status.NO_EVIDENCE and status not in expected]
    if expected and len(wrong) == 1:
        return f"any but “{verdict_word(wrong[0])}”"
    return " or ".join(f"“{verdict_word(each)}”" for each in expected)


def _holds(claim: PlannedClaim, view: DataView) -> Words:
    """'3 of 5', and below it how many are ties."""
    supported, judged, ties = (view.figure("claims", claim.name, name) for name in ("supported", "judged", "ties"))
    return (supported or "0", " of ", judged or "0", below(ties and ties.value and ties, " tied"))


def _mean(claim: PlannedClaim, view: DataView) -> Words:
    """The mean ratio, and of how many cases it is, where not of all."""
    show = format.threshold if claim.measure == "speedup" else format.times
    mean, compared = view.end(claim.name, "geometric_mean", show=show), view.figure("claims", claim.name, "compared")
    if not mean or not compared:
        return ()
    every = compared.value == view.value("claims", claim.name, "judged")
    return (mean, below(ratio_of(claim)), "" if every else below("of ", compared))


def ratio_of(claim: PlannedClaim) -> str:
    """What a ratio of bytes divides by what, larger being better as in a speed-up; empty of a ratio of times."""
    if claim.measure not in BYTES_WORDS:
        return ""
    past = BYTES_WORDS[claim.measure].past
    if claim.baseline:
        return f"bytes that the other {past} / its own"
    return f"{'least bytes' if claim.measure == 'traffic' else 'bytes of results'} / bytes {past}"


def _bounds(view: DataView, *path: str) -> Figure | None:
    """Between which ratios the instrument leaves it open; None where it leaves nothing open."""
    high = view.value(*path, "high")
    if high is None or high == view.value(*path, "low"):
        return None
    return view.figure(*path, "low", show=lambda low: f"{format.times(low)} to {format.times(high)}")
