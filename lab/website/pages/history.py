"""An experiment across published runs: its headline ratios, and each change of a verdict with what else had changed.

Only runs on the GPU model of the run shown stand in one line; all are judged by today's rules.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lab.definition.asked import claim_sentence
from lab.website.charts.timeline import Held, Line, TimelineChart, timeline_chart
from lab.website.data.judged import Judged
from lab.website.data.verdict_log import changes
from lab.website.figure import Figure, Ledger
from lab.website.format import interval as format_interval
from lab.website.format import ratio as format_ratio
from lab.website.pages.labels import case_label, series
from lab.website.pages.past import Elsewhere, comparable, elsewhere, finished, software, source, verdict_link

FEWEST_RUNS = 2  # for a chart


@dataclass(frozen=True, kw_only=True, slots=True)
class Followed:
    """A headline claim at the one case by which it is followed from run to run."""

    claim: str
    case: str
    heading: str
    case_label: str


@dataclass(frozen=True, kw_only=True, slots=True)
class PastClaim:
    ratio: Figure | None
    interval: Figure | None
    status: str  # at that case; empty where the run did not judge it


@dataclass(frozen=True, kw_only=True, slots=True)
class PastRun:
    """One published run. `data` is the file of its figures, `number` its place in time."""

    number: int
    run_id: str
    link: str
    date: str
    software: str
    changed: bool  # other software than the run before it
    current: bool
    data: str
    claims: tuple[PastClaim, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Turn:
    """A claim whose verdict is not what the run before said."""

    claim: str
    text: str
    current: bool  # the claim is still asked
    before: str
    after: str
    run_id: str
    link: str
    date: str
    why: str


@dataclass(frozen=True, kw_only=True, slots=True)
class HistorySection:
    followed: tuple[Followed, ...]
    chart: TimelineChart | None
    rows: tuple[PastRun, ...]  # newest first
    elsewhere: tuple[Elsewhere, ...]
    turns: tuple[Turn, ...]  # newest first


def history_section(item: Judged, published: Sequence[Judged], root: str) -> HistorySection | None:
    """`published`: every published run of the experiment, oldest first; None where there is none.

    `root` leads from the page to that of the site.
    """
    runs = comparable(item, published)
    if not runs:
        return None
    followed = tuple(_followed(item, runs))
    return HistorySection(
        followed=followed,
        chart=_chart(item, followed, runs),
        rows=tuple(reversed([_row(number, runs, item, followed, root) for number in range(len(runs))])),
        elsewhere=elsewhere(item, published, root),
        turns=tuple(reversed(list(_turns(item, runs, root)))),
    )


def _followed(item: Judged, runs: Sequence[Judged]) -> Iterator[Followed]:
    """Each headline at the case that most runs have a ratio for; of several the one with the largest today."""
    claims = {claim.name: claim for claim in item.plan.claims}
    cases = {case.name: case for case in item.plan.cases}
    titles = {profile.name: profile.title for profile in item.plan.profiles}
    for name in item.plan.headlines:
        claim = claims[name]
        found = {
            case: (sum(_ratio(run, name, case) is not None for run in runs), _ratio(item, name, case) or 0.0)
            for case in claim.cases
        }
        chosen = max(claim.cases, key=lambda case: found[case])
        if found[chosen][0]:
            baseline = titles[claim.baseline] if claim.baseline else "the least"
            yield Followed(
                claim=name,
                case=chosen,
                heading=f"{titles[claim.subject]} over {baseline}",
                case_label=case_label(cases[chosen]),
            )


def _ratio(run: Judged, claim: str, case: str) -> float | None:
    """Of a claim as it is asked today; None where a run asked something else under its name."""
    held = run.data["claims"].get(claim, {}).get("cases", {}).get(case, {})
    ratio: float | None = held.get("ratio")
    return ratio


def _chart(item: Judged, followed: Sequence[Followed], runs: Sequence[Judged]) -> TimelineChart | None:
    subjects = {claim.name: claim.subject for claim in item.plan.claims}
    lines = []
    for each in followed:
        points = []
        for number, run in enumerate(runs):
            held = run.data["claims"].get(each.claim, {}).get("cases", {}).get(each.case, {})
            if held.get("ratio") is not None:
                low, high, asked = held["low"], held["high"], run.data["claims"][each.claim]["threshold"]
                told = f"{format_ratio(held['ratio'], low, high, asked)} {format_interval(low, high, asked)}"
                points.append(
                    Held(
                        run=number, ratio=held["ratio"], low=low, high=high,
                        title=f"{run.evidence['run_id']}, {each.heading}: {told}",
                    )
                )  # fmt: skip
        if len(points) >= FEWEST_RUNS:
            lines.append(Line(label=each.heading, series=series(subjects[each.claim]), points=tuple(points)))
    return timeline_chart(lines, [str(number + 1) for number in range(len(runs))]) if lines else None


def _row(number: int, runs: Sequence[Judged], item: Judged, followed: Sequence[Followed], root: str) -> PastRun:
    run = runs[number]
    ledger = Ledger(run.data)
    return PastRun(
        number=number + 1,
        run_id=run.evidence["run_id"],
        link=verdict_link(run, root),
        date=finished(run),
        software=software(run),
        changed=number > 0 and software(run) != software(runs[number - 1]),
        current=run.digest == item.digest,
        data=source(run, root),
        claims=tuple(
            PastClaim(
                ratio=ledger.ratio("claims", each.claim, "cases", each.case),
                interval=ledger.interval("claims", each.claim, "cases", each.case),
                status=ledger.value("claims", each.claim, "cases", each.case, "status") or "",
            )
            for each in followed
        ),
    )


def _turns(item: Judged, runs: Sequence[Judged], root: str) -> Iterator[Turn]:
    asked = {claim.name for claim in item.plan.claims}
    by_digest = {run.digest: run for run in runs}
    for change in changes(runs):
        if change.was:
            run = by_digest[change.digest]
            yield Turn(
                claim=change.claim,
                text=next(claim_sentence(claim) for claim in run.plan.claims if claim.name == change.claim),
                current=change.claim in asked,
                before=change.was,
                after=change.now,
                run_id=run.evidence["run_id"],
                link=verdict_link(run, root),
                date=finished(run),
                why=change.attribution,
            )
