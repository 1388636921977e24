"""Decision records as pages: what was decided, what it rests on, then and now, and what would reverse it."""

import re
from collections.abc import Iterator, Mapping, Sequence
from types import SimpleNamespace as View
from typing import Any

from markdown_it import MarkdownIt

from lab.definition.claim_words import BYTES_WORDS
from lab.website import format
from lab.website.addresses import SITE, verdict_folder
from lab.website.decisions import (
    GATED,
    WORST_FIRST,
    ClaimEvidence,
    Decision,
    Freshness,
    Review,
    Support,
    SupportStanding,
    freshness,
    machines,
    shared_cases,
)
from lab.website.figure import DataView, Figure, Sentence, extremes, joined
from lab.website.outputs import Document, Output, SiteContext
from lab.website.pages.claims import said_together, spoiled_because
from lab.website.pages.labels import case_label, shape_label
from lab.website.pages.pooled_verdicts import NO_TRUST
from lab.website.pages.run_links import run_link
from lab.website.table import (
    Link,
    PageTable,
    TableRow,
    VerdictChip,
    Words,
    below,
    column,
    csv_file,
    csv_table,
    named,
    plain,
    table_row,
)
from lab.website.verdict_words import case_word

# Markdown that somebody wrote → HTML that can be read and followed, and does nothing else.
# To a place of this site, or over the web; never a script, data, a file or another host by its name alone.
HARMLESS = re.compile(r"https?://|(?![/\\]{2})[^:/?#]*(?:[/?#]|$)", re.IGNORECASE)


class _Reader(MarkdownIt):
    def validateLink(self, url: str) -> bool:
        return HARMLESS.match(url) is not None


def prose_html(text: str) -> str:
    """CommonMark without raw HTML, pictures, or links that leave the web."""
    return str(_Reader("commonmark", {"html": False}).disable("image").render(text))


# Where a section of a record stands (first, then the evidence, then, and the rest), the headings it may have, and
# whether it is asked of each record.
SECTIONS = (
    ("first", "outcome", ("Decision", "Decision outcome"), True),
    ("then", "reversal", ("When it would change", "What would reverse it"), True),
    ("rest", "context", ("Context", "Context and problem statement"), True),
    ("rest", "drivers", ("Decision drivers", "Drivers"), False),
    ("rest", "options", ("Options considered", "Considered options"), True),
    ("rest", "consequences", ("Consequences",), True),
)
CASES = (
    named("case", "Case"), named("verdict_then", "When decided"), column("ratio_then", "Ratio and interval"),
    named("verdict_now", "Now"), column("ratio_now", "Ratio and interval"),
)  # fmt: skip
HEADING = re.compile(r"^## +(.+?) *$", re.MULTILINE)


def decision_pages(context: SiteContext) -> Iterator[Output]:
    """decisions/index.html and its table, and a page for each record."""
    rows = decision_rows(context)
    yield Document(path="decisions/index.html", template="decisions.html", view={"rows": rows})
    heads = ("decision", "title", "status", "freshness", "date", "review_by", "claims", "why")
    yield csv_table("decisions/decisions.csv", heads, map(_csv_row, rows))
    by_slug = {row.slug: row for row in rows}
    preview = bool(context.label)
    for decision, rested_on in context.decisions:
        supports = tuple(support_view(standing, preview, context.trust) for standing in rested_on)
        cases = _case_table(supports)
        view = {
            "row": by_slug[decision.slug],
            "decision": decision,
            "machines": machines(rested_on),
            "supersedes": by_slug.get(decision.supersedes),
            "superseded_by": [by_slug[o.slug] for o, _ in context.decisions if o.supersedes == decision.slug],
            "sections": _sections(decision.body),
            "supports": supports,
            "cases": cases if any(each.cases for each in supports) else None,
            "reviews": [_review(review, rested_on, preview) for review in decision.reviewed],
        }
        yield Document(path=f"decisions/{decision.slug}/index.html", template="decision.html", view=view)
        yield csv_file(cases, f"decisions/{decision.slug}/cases.csv")


def _review(review: Review, supports: Sequence[SupportStanding], preview: bool) -> View:
    """A look at the record after it was decided. `href` leads to the run; empty in a preview."""
    reviewed = [(standing.support.expects, seen) for standing in supports if (seen := standing.at(review.evidence))]
    href = run_link(reviewed[0][1].judged) if reviewed and not preview else ""
    expected = [seen.status == expects for expects, seen in reviewed if seen.is_measured]
    return View(review=review, href=href, told=came_out(sum(expected), len(expected)))


def came_out(expected: int, measured: int) -> str:
    """Of the claims that the record rests on: a run may measure few of them."""
    if measured == 1:
        return f"The only claim that this run measured {'came' if expected else 'did not come'} out as expected."
    if not measured:
        return "This run measured none of the claims."
    return f"{expected} of the {measured} claims that this run measured came out as expected."


def _csv_row(row: View) -> tuple[Any, ...]:
    why = "; ".join(map(plain, row.why))
    return (row.slug, row.title, row.status, row.freshness, row.date, row.review_by, row.claims, why)


def decision_rows(context: SiteContext) -> tuple[View, ...]:
    """Every decision, the worst freshness first, and last those that nobody follows any more."""
    ordered = sorted(context.decisions, key=lambda pair: (pair[0].closed, WORST_FIRST.index(freshness(pair[1]))))
    return tuple(_row(decision, supports, bool(context.label)) for decision, supports in ordered)


def _row(decision: Decision, supports: Sequence[SupportStanding], preview: bool) -> View:
    state = None if decision.closed else freshness(supports)
    return View(
        slug=decision.slug, title=decision.title, status=decision.status, freshness=state or "",
        date=decision.date.isoformat(), review_by=decision.review_by.isoformat(), claims=len(supports),
        acknowledged=decision.acknowledged if state in GATED else "",  # else there is nothing to acknowledge
        why=_why(supports, state, preview) if state else (), attention=state not in (None, Freshness.FRESH),
    )  # fmt: skip


def _why(supports: Sequence[SupportStanding], state: Freshness, preview: bool) -> tuple[Words, ...]:
    """Claim by claim where somebody has to answer for it; else what they have in common."""
    those = [standing for standing in supports if standing.freshness is state]
    if state in GATED:
        return tuple(_challenge(each, preview) for each in those)
    if state is Freshness.DRIFTED:
        return ((f"{len(those)} of {len(supports)} claims hold at a speed-up other than when it was decided",),)
    return tuple((why,) for why in dict.fromkeys(standing.why for standing in those if standing.why))


def _challenge(standing: SupportStanding, preview: bool) -> Words:
    """The claim, how it came out, and what was measured."""
    measured = _measured(standing, preview)
    return (
        f"{_claimed(standing)} {standing.why[:1].upper()}{standing.why[1:]}",
        *((": ", *measured) if measured else ()), ".",
    )  # fmt: skip


def _measured(standing: SupportStanding, preview: bool) -> Words:
    """'3.362× [3.320, 3.405] at 4097×4095×4093 bf16; 21 % of the case's rounds were …': of the first case that came out
    as the claim did. Nothing where no figure can be pointed at."""
    claim = standing.newer or standing.now
    if standing.freshness is not Freshness.CHALLENGED or claim is None:
        return ()
    folder = _folder(claim, preview) if standing.newer or standing.elsewhere else _page(standing.support)
    cases = claim.data["cases"]
    first = next((case for case, verdict in cases.items() if verdict["status"] == claim.status), None)
    if not folder or first is None or cases[first].get("ratio") is None:
        return ()
    view, at = _view(claim, folder), shape_label(claim.judged.plan.case(first))
    reason = (cases[first]["reason"], *spoiled_because(first, cases[first], view))
    ratio, interval = _ratio(claim, first, folder)
    return (ratio, *((" ", interval) if interval else ()), f" at {at}", *(("; ", *reason) if reason[0] else ()))


def _claimed(standing: SupportStanding) -> str:
    """The sentence of a claim; of one that no evidence is of, its name."""
    evidence = standing.now or standing.then
    return evidence.text if evidence else f"{standing.support.experiment}/{standing.support.claim}:"


def _sections(body: str) -> dict[str, tuple[View, ...]]:
    """What the record says before and after the evidence; empty `html` where it does not say what is asked of each.

    What stands under no heading leads; what stands under other headings follows at the end.
    """
    preface, *parts = HEADING.split(body)
    written = dict(zip(parts[::2], parts[1::2], strict=True))
    placed = {"first": [_section("summary", "", preface)] if preface.strip() else [], "then": [], "rest": []}
    for place, anchor, titles, asked in SECTIONS:
        title = next((title for title in titles if title in written), titles[0])
        if asked or title in written:
            placed[place].append(_section(anchor, title, written.pop(title, "")))
    placed["rest"] += [_section(f"more-{n}", title, text) for n, (title, text) in enumerate(written.items(), start=1)]
    return {place: tuple(sections) for place, sections in placed.items()}


def _section(anchor: str, title: str, text: str) -> View:
    return View(anchor=anchor, title=title, html=prose_html(text.strip()))


def support_view(standing: SupportStanding, preview: bool, trust: Mapping[str, Any] = NO_TRUST) -> View:
    """One claim that a decision rests on: as expected, when decided, and now."""
    support, now, then = standing.support, standing.now, standing.then
    page = _page(support)
    pinned = _folder(then, preview) if then else ""
    here = _folder(now, preview) if now and standing.elsewhere else page
    evidence, both = now or then, (now if here else None, then if pinned else None)
    return View(
        support=support, standing=standing, text=evidence.text if evidence else "",
        href=f"{page}index.html#claim-{support.claim}" if now else "",
        then=_value(then, now, pinned) if then else None,
        now=_value(now, then, here) if now else None,
        elsewhere=_value(standing.elsewhere, None, page) if standing.elsewhere else None,
        cases=_cases(*both, (here, pinned), linked=standing.elsewhere is None),
        measured=_measured(standing, preview),
        since=_since(standing, preview),
        together=said_together(trust, now.judged, now.judged.plan.claim(now.claim)) if now else (),
        unmeasured_since=bool(now and then and now.judged.digest == then.judged.digest and not standing.since),
    )  # fmt: skip


def _since(standing: SupportStanding, preview: bool) -> Words:
    """'faster (h100-products-3-2026-11-27, h100-products-2-2026-11-27), too noisy to call (…)': what runs say that
    measured the claim after the one shown, but fewer cases of the experiment. Nothing where there is none."""
    by_word: dict[str, list[Words]] = {}
    for each in standing.since:
        name, folder = each.judged.evidence["run_id"], _folder(each, preview)
        run: Words = (Link(name, f"{folder}index.html#claim-{each.claim}"),) if folder else (name,)
        cut_short = " cut short" if each.judged.evidence["cut_short"] else ""
        by_word.setdefault(each.word, []).append((*run, cut_short))
    return joined(((f"{word} (", *joined(runs, ", "), ")") for word, runs in by_word.items()), "; ")


def _page(support: Support) -> str:
    return f"{SITE}experiments/{support.experiment}/"


def _folder(claim: ClaimEvidence, preview: bool) -> str:
    """Where the verdicts of a published run stand; empty in a preview, which has no other runs."""
    return "" if preview else f"{SITE}{verdict_folder(claim.judged.digest, claim.judged.plan.name)}/"


def _value(claim: ClaimEvidence, other: ClaimEvidence | None, folder: str) -> View:
    """What one run says of a claim; without figures where there is no folder to point into.

    `other`: what it stands beside. `span`: the smallest and the largest ratio over the cases.
    """
    return View(
        claim=claim, span=_span(claim, other, folder) if folder else (),
        href=f"{folder}index.html#claim-{claim.claim}" if folder else "",
    )  # fmt: skip


def _span(claim: ClaimEvidence, other: ClaimEvidence | None, folder: str) -> Sentence:
    """The smallest and the largest ratio, of the cases that both sides could judge where there are two."""
    show = format.times if claim.data["measure"] in BYTES_WORDS else _times
    view, cases = _view(claim, folder), shared_cases(other or claim, claim)
    return extremes(view.end(claim.claim, "cases", case, "ratio", show=show) for case in cases)


def _view(claim: ClaimEvidence, folder: str) -> DataView:
    return DataView(claim.judged.data, f"{folder}data.json#")


def _times(ratio: float) -> str:
    return f"{format.significant(ratio, 3)}×"


def _cases(
    now: ClaimEvidence | None, then: ClaimEvidence | None, folders: tuple[str, str], linked: bool
) -> tuple[TableRow, ...]:
    """Every case of either; in the order of the newer. `linked`: the experiment's page shows the newer."""
    names = dict.fromkeys(case for claim in (now, then) if claim for case in claim.data["cases"])
    # The newer's name for a case wins.
    labels = {each.name: case_label(each) for claim in (then, now) if claim for each in claim.judged.plan.cases}
    rows = []
    for name in names:
        shown = linked and now and name in now.data["cases"]
        address = f"{SITE}experiments/{now.judged.plan.name}/index.html#case-{name}" if shown and now else ""
        sides = zip((then, now), reversed(folders), strict=True)
        cells = (cell for claim, folder in sides for cell in _compared(claim, name, folder))
        rows.append(table_row(Link(labels[name], address) if address else labels[name], *cells))
    return tuple(rows)


def _compared(claim: ClaimEvidence | None, case: str, folder: str) -> tuple[Words, Words]:
    """What a run says of a claim at a case: its verdict, and the ratio with the interval under it."""
    verdict = claim.data["cases"].get(case) if claim else None
    if claim is None or verdict is None:
        return ("–",), (None,)
    chip = VerdictChip(verdict["status"], word=case_word(verdict, claim.data["measure"]))
    ratio, interval = _ratio(claim, case, folder)
    return (chip,), (ratio, below(interval))


def _ratio(claim: ClaimEvidence, case: str, folder: str) -> tuple[Figure | None, Figure | None]:
    """With its interval, which bytes have none of."""
    view, path = _view(claim, folder), ("claims", claim.claim, "cases", case)
    if claim.data["measure"] in BYTES_WORDS:
        return view.figure(*path, "ratio"), None
    return view.ratio(*path), view.interval(*path)


def _case_table(supports: Sequence[View]) -> PageTable:
    """Every claim case by case, as it was when decided and as it is now."""
    titles = (table_row(each.text or each.support.claim, kind="group") for each in supports)
    rows = [row for title, each in zip(titles, supports, strict=True) for row in (title, *each.cases)]
    return PageTable(label="Every claim, case by case", group="claim", heads=CASES, rows=rows)
