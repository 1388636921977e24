"""Decision records as pages: what was decided, what it rests on, then and now, and what would reverse it."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from lab.website import format
from lab.website.addresses import run_folder, verdict_folder
from lab.website.decisions import (
    GATED,
    WORST_FIRST,
    Decision,
    Freshness,
    Held,
    Review,
    Standing,
    freshness,
    shared_cases,
)
from lab.website.figure import Figure, Ledger, Sentence
from lab.website.files.shown_tables import Cell, shown, shown_table
from lab.website.outputs import Document, Gathered, Output
from lab.website.pages.labels import case_label
from lab.website.wording.markdown import prose_html

# What a record says, in the order of the page, by the headings it may stand under. Those marked are asked of each.
SECTIONS = (
    ("outcome", ("Decision", "Decision outcome"), True),
    ("reversal", ("What would reverse it",), True),
    ("context", ("Context", "Context and problem statement"), True),
    ("drivers", ("Decision drivers", "Drivers"), False),
    ("options", ("Options considered", "Considered options"), True),
    ("consequences", ("Consequences",), True),
)
COLUMNS = (
    "experiment", "claim", "expects", "freshness", "case",
    "verdict_then", "ratio_then", "interval_then", "verdict_now", "ratio_now", "interval_now",
)  # fmt: skip
HEADING = re.compile(r"^## +(.+?) *$", re.MULTILINE)


@dataclass(frozen=True, kw_only=True, slots=True)
class Section:
    """`html` is empty where the record does not say."""

    anchor: str
    title: str
    html: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Value:
    """What one run says of a claim. `href` and `data` are relative to the decision's page; empty where not at hand."""

    status: str
    mark: str
    span: Sentence  # the smallest and the largest ratio over its cases
    digest: str
    href: str
    data: str
    machine: str


@dataclass(frozen=True, kw_only=True, slots=True)
class CaseRow:
    case: str
    href: str
    then: tuple[Figure | None, Figure | None]  # ratio and interval
    then_status: str
    now: tuple[Figure | None, Figure | None]
    now_status: str


@dataclass(frozen=True, kw_only=True, slots=True)
class SupportView:
    """One claim that a decision rests on: as expected, when decided, and now."""

    experiment: str
    claim: str
    text: str
    href: str  # empty where no experiment makes the claim any more
    expects: str
    pinned: str  # the beginning of the digest, or empty
    then: Value | None
    now: Value | None
    elsewhere: Value | None  # what the experiment's page shows, where that is of another GPU model
    freshness: str
    why: str
    cases: tuple[CaseRow, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class DecisionRow:
    """A decision in a list."""

    slug: str
    number: str
    title: str
    status: str
    freshness: str  # empty where it is closed: nobody follows it any more
    date: str
    review_by: str
    claims: int
    acknowledged: str
    why: tuple[str, ...]  # what of its claims is not as it was
    attention: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class ReviewView:
    """A look at the record after it was decided. `href` leads to the run; empty in a preview."""

    date: str
    says: str
    evidence: str
    href: str
    standing: str  # how many of its claims were as expected then


@dataclass(frozen=True, kw_only=True, slots=True)
class DecisionPage:
    row: DecisionRow
    deciders: str
    machines: tuple[str, ...]  # what its evidence was measured on
    software: tuple[tuple[str, str], ...]
    supersedes: DecisionRow | None
    superseded_by: tuple[DecisionRow, ...]
    sections: tuple[Section, ...]
    supports: tuple[SupportView, ...]
    reviews: tuple[ReviewView, ...]  # the oldest first


def decision_pages(gathered: Gathered) -> Iterator[Output]:
    """decisions/index.html and its table, and a page for each record."""
    rows = decision_rows(gathered)
    yield Document(path="decisions/index.html", template="decisions.html", view={"rows": rows})
    yield shown_table(
        "decisions/decisions.csv",
        ("decision", "title", "status", "freshness", "date", "review_by", "claims", "why"),
        ((r.slug, r.title, r.status, r.freshness, r.date, r.review_by, r.claims, "; ".join(r.why)) for r in rows),
    )
    by_slug = {row.slug: row for row in rows}
    for decision, found in gathered.decisions:
        page = DecisionPage(
            row=by_slug[decision.slug],
            deciders=", ".join(decision.deciders),
            machines=_machines(found),
            software=tuple(decision.software.items()),
            supersedes=by_slug.get(decision.supersedes),
            superseded_by=tuple(
                by_slug[other.slug] for other, _ in gathered.decisions if other.supersedes == decision.slug
            ),
            sections=_sections(decision.body),
            supports=tuple(support_view(standing, preview=bool(gathered.label)) for standing in found),
            reviews=tuple(_review(review, found, preview=bool(gathered.label)) for review in decision.reviewed),
        )
        yield Document(path=f"decisions/{decision.slug}/index.html", template="decision.html", view={"decision": page})
        cells = (_cells(support, row) for support in page.supports for row in support.cases)
        yield shown_table(f"decisions/{decision.slug}/cases.csv", COLUMNS, cells)


def _machines(found: Sequence[Standing]) -> tuple[str, ...]:
    held = [standing.last or standing.now for standing in found]
    return tuple(dict.fromkeys(each.judged.machine_name for each in held if each and each.judged.machine_name))


def _review(review: Review, found: Sequence[Standing], preview: bool) -> ReviewView:
    held = [(standing.support.expects, seen) for standing in found if (seen := standing.at(review.evidence))]
    expected = sum(seen.status == expects for expects, seen in held)
    return ReviewView(
        date=review.date.isoformat(),
        says=review.says,
        evidence=review.evidence[:12],
        href=f"../../{run_folder(held[0][1].judged.digest)}/index.html" if held and not preview else "",
        standing=f"{expected} of {len(found)} claims came out as expected",
    )


def _cells(support: SupportView, row: CaseRow) -> tuple[Cell, ...]:
    claim = support.experiment, support.claim, support.expects, support.freshness, row.case
    (ratio_then, then), (ratio_now, now) = row.then, row.now
    return *claim, row.then_status, ratio_then, shown(then), row.now_status, ratio_now, shown(now)


def decision_rows(gathered: Gathered) -> tuple[DecisionRow, ...]:
    """Every decision, the worst freshness first, and last those that nobody follows any more."""
    ordered = sorted(gathered.decisions, key=lambda pair: (pair[0].closed, WORST_FIRST.index(freshness(pair[1]))))
    return tuple(_row(decision, found) for decision, found in ordered)


def _row(decision: Decision, found: Sequence[Standing]) -> DecisionRow:
    state = None if decision.closed else freshness(found)
    return DecisionRow(
        slug=decision.slug,
        number=decision.slug.partition("-")[0],
        title=decision.title,
        status=decision.status,
        freshness=state or "",
        date=decision.date.isoformat(),
        review_by=decision.review_by.isoformat(),
        claims=len(found),
        acknowledged=decision.acknowledged if state in GATED else "",  # else there is nothing to acknowledge
        why=_why(found, state) if state else (),
        attention=state not in (None, Freshness.FRESH),
    )


def _why(found: Sequence[Standing], state: Freshness) -> tuple[str, ...]:
    """Claim by claim where somebody has to answer for it; else what they have in common."""
    those = [standing for standing in found if standing.freshness is state]
    if state in GATED:
        return tuple(f"{s.support.experiment}/{s.support.claim} {s.why}" for s in those)
    if state is Freshness.DRIFTED:
        return (f"{len(those)} of {len(found)} claims: the verdict holds, at another value than when it was decided",)
    return tuple(dict.fromkeys(standing.why for standing in those if standing.why))


def _sections(body: str) -> tuple[Section, ...]:
    """In the order of the page; what stands under other headings follows, and what stands under none leads."""
    preface, *parts = HEADING.split(body)
    written = dict(zip(parts[::2], parts[1::2], strict=True))
    found = [Section(anchor="summary", title="", html=prose_html(preface.strip()))] if preface.strip() else []
    for anchor, titles, asked in SECTIONS:
        title = next((title for title in titles if title in written), titles[0])
        if asked or title in written:
            found.append(Section(anchor=anchor, title=title, html=prose_html(written.pop(title, "").strip())))
    found += [
        Section(anchor=f"more-{number}", title=title, html=prose_html(text.strip()))
        for number, (title, text) in enumerate(written.items(), start=1)
    ]
    return tuple(found)


def support_view(standing: Standing, preview: bool) -> SupportView:
    support, now, then = standing.support, standing.now, standing.then
    page = f"../../experiments/{support.experiment}/"
    pinned = _folder(then, preview) if then else ""
    here = _folder(now, preview) if now and standing.elsewhere else page
    held = now or then
    return SupportView(
        experiment=support.experiment,
        claim=support.claim,
        text=held.text if held else "",
        href=f"{page}index.html#claim-{support.claim}" if now else "",
        expects=support.expects,
        pinned=support.evidence[:12],
        then=_value(then, now, pinned) if then else None,
        now=_value(now, then, here) if now else None,
        elsewhere=_value(standing.elsewhere, None, page) if standing.elsewhere else None,
        freshness=standing.freshness,
        why=standing.why,
        cases=_cases(now if here else None, then if pinned else None, linked=standing.elsewhere is None),
    )


def _folder(held: Held, preview: bool) -> str:
    """Where the verdicts of a published run stand; empty in a preview, which has no other runs."""
    return "" if preview else f"../../{verdict_folder(held.judged.digest, held.judged.plan.name)}/"


def _value(held: Held, other: Held | None, folder: str) -> Value:
    """Without figures where there is no folder to point into. `other`: what it stands beside."""
    return Value(
        status=held.status,
        mark=held.data["mark"],
        span=_span(held, other) if folder else (),
        digest=held.judged.digest[:12],
        href=f"{folder}index.html#claim-{held.claim}" if folder else "",
        data=f"{folder}data.json" if folder else "",
        machine=held.judged.machine_name,
    )


def _span(held: Held, other: Held | None) -> Sentence:
    """The smallest and the largest ratio, of the cases that both sides could judge where there are two."""
    ratios = {case: found["ratio"] for case in _compared_cases(held, other) if (found := held.data["cases"][case])}
    if not ratios:
        return ()
    least, most = (_end(held, pick(ratios, key=lambda case: ratios[case])) for pick in (min, max))
    return (least,) if least.text == most.text else (least, " to ", most)


def _compared_cases(held: Held, other: Held | None) -> tuple[str, ...]:
    return shared_cases(other or held, held)


def _end(held: Held, case: str) -> Figure:
    show = format.times if held.data["measure"] == "traffic" else _thousandths
    found = Ledger(held.judged.data).end(held.claim, "cases", case, "ratio", show=show)
    assert found is not None, "a case that was judged has a ratio"
    return found


def _thousandths(ratio: float) -> str:
    return f"{ratio:.3f}×"


def _cases(now: Held | None, then: Held | None, linked: bool) -> tuple[CaseRow, ...]:
    """Every case of either; in the order of the newer. `linked`: the experiment's page shows the newer."""
    names = dict.fromkeys(case for held in (now, then) if held for case in held.data["cases"])
    labels = {
        case.name: case_label(case) for held in (then, now) if held for case in held.judged.plan.cases
    }  # the newer's name for a case wins
    return tuple(
        CaseRow(
            case=labels[name],
            href=f"../../experiments/{now.judged.plan.name}/index.html#case-{name}"
            if linked and now and name in now.data["cases"]
            else "",
            then=_compared(then, name),
            then_status=_status(then, name),
            now=_compared(now, name),
            now_status=_status(now, name),
        )
        for name in names
    )


def _compared(held: Held | None, case: str) -> tuple[Figure | None, Figure | None]:
    if held is None or held.data["cases"].get(case, {}).get("ratio") is None:
        return None, None
    ledger, path = Ledger(held.judged.data), ("claims", held.claim, "cases", case)
    if held.data["measure"] == "traffic":
        return ledger.figure(*path, "ratio", show=format.times), None
    return ledger.ratio(*path), ledger.interval(*path)


def _status(held: Held | None, case: str) -> str:
    found: Mapping[str, str] = held.data["cases"].get(case, {}) if held else {}
    return found.get("status", "")
