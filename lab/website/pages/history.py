"""An experiment across published runs: its headline ratios, and each change of a verdict.

Only runs on the GPU model of the run shown stand in one line; all are judged by today's rules.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from types import SimpleNamespace as View

from markupsafe import Markup

from lab.definition.claim_words import claim_sentence
from lab.verdict.alarm import Alarm
from lab.website.charts.lines import Line, Point, timeline_chart
from lab.website.charts.svg import series
from lab.website.data.judged import Judged
from lab.website.data.verdict_log import changes, followed_cases
from lab.website.format import interval, ratio
from lab.website.pages.labels import baseline_title, case_label, profile_title
from lab.website.pages.run_links import comparable, compare_link, elsewhere, finished, named_run, noted_run, view_of
from lab.website.pages.speed_changes import alarms_of, speed_fold
from lab.website.table import (
    Fold,
    Head,
    Link,
    PageTable,
    TableRow,
    VerdictChip,
    Words,
    below,
    table_row,
    tally,
    words,
)
from lab.website.verdict_words import case_word, status_counts, verdict_counts

FEWEST_RUNS = 2  # for a chart
FEWEST_ON_FACE = 4  # runs, for the chart to stand on the page's face


def history_folds(item: Judged, published: Sequence[Judged]) -> Iterator[Fold]:
    """The headlines over all runs, what became faster or slower, and the log of verdicts.

    `published`: every run of the experiment, oldest first.
    """
    runs = comparable(item, published)
    if not runs:
        return
    speeds = followed_cases(runs)
    followed = tuple(_followed(item, runs, alarms_of(speeds, runs)))
    boards = board_names(runs)
    heads = (*words("Run", "Date", "Board"), *(Head(text=f"{each.heading} at {each.case_label}") for each in followed))
    rows = [_row(number, runs, item, followed, boards[number]) for number in range(len(runs))]
    others = tuple(_other(run) for run in elsewhere(item, published))
    yield Fold(
        id="history",
        title="History across published runs",
        lead=(
            "Each headline claim at one case, that of its last change of speed if there was one, through every "
            f"published run on {item.machine_name}; all are judged by today's rules. Software is named where it is not "
            "that of the run before. Runs on other machines, listed below, neither confirm nor contradict these.",
        ),
        panels=tuple(_panels(item, followed, runs, boards)),
        tables=(PageTable(label="Published runs of this experiment", kind="stacks", heads=heads,
                          rows=tuple(reversed(rows))),),
        items=others,
    )  # fmt: skip
    if changed := speed_fold(speeds, runs, boards):
        yield changed
    turns = list(_turns(item, runs, published))
    if turns:
        heads = words("Claim", "Before", "After", "Run", "What else changed in between")
        table = PageTable(label="Log of verdicts", kind="claims stacks", heads=heads, rows=tuple(reversed(turns)))
        lead: Words = (
            "Each time that a claim came out otherwise than in the last run that judged such a case, newest first.",
        )
        yield Fold(id="verdict-log", title="Log of verdicts", lead=lead, tables=(table,))


def chart_on_face(folds: Sequence[Fold]) -> tuple[Fold | None, tuple[Fold, ...]]:
    """The charts of many runs by themselves, and the folds without them; those of few runs stay in their fold."""
    if not folds or not folds[0].panels or len(folds[0].tables[0].rows) < FEWEST_ON_FACE:
        return None, tuple(folds)
    first, *others = folds
    runs = len(first.tables[0].rows)
    chart = Fold(
        id="timeline", title=f"The headlines over {runs} published runs", panels=first.panels,
        lead=("Times as fast. Hollow: on another board than the newest run. All: under More.",),
    )  # fmt: skip
    return chart, (replace(first, panels=()), *others)


def _other(run: Judged) -> Words:
    counts = status_counts([verdict_counts(run)])
    return (f"{run.machine_name}: ", named_run(run), f" of {finished(run)} ", *tally(counts))


def board_names(runs: Sequence[Judged]) -> list[str]:
    """'A', 'B': a letter for each board, by the order in which they were first measured; '?' where it is not known."""
    known = list(dict.fromkeys(run.machine["gpu_id"] for run in runs if run.machine.get("gpu_id")))
    letters = {board: chr(ord("A") + number % 26) for number, board in enumerate(known)}
    return [letters.get(run.machine.get("gpu_id", ""), "?") for run in runs]


def _followed(item: Judged, runs: Sequence[Judged], alarms: Sequence[Alarm]) -> Iterator[View]:
    """Each headline at the case whose speed changed last, or that most runs have a ratio for; of several the one with
    the largest today. `alarms`: oldest first."""
    for name in item.plan.headlines:
        claim = item.plan.claim(name)
        ratios = {
            case: (sum(_ratio(run, name, case) is not None for run in runs), _ratio(item, name, case) or 0.0)
            for case in claim.cases
        }
        changed = [alarm for alarm in alarms if alarm.series.claim == name and alarm.series.case in ratios]
        chosen = changed[-1].series.case if changed else max(claim.cases, key=lambda case: ratios[case])
        turns = {alarm.first_run: alarm.direction for alarm in changed if alarm.series.case == chosen}
        if ratios[chosen][0]:
            heading = f"{profile_title(item, claim.subject)} over {baseline_title(item, claim)}"
            label = case_label(item.plan.case(chosen))
            yield View(claim=name, case=chosen, heading=heading, case_label=label, turns=turns)


def _ratio(run: Judged, claim: str, case: str) -> float | None:
    """Of a claim as it is asked today; None where a run asked something else under its name."""
    verdict = run.data["claims"].get(claim, {}).get("cases", {}).get(case, {})
    value: float | None = verdict.get("ratio")
    return value


def _panels(
    item: Judged, followed: Sequence[View], runs: Sequence[Judged], boards: Sequence[str]
) -> Iterator[tuple[str, Markup]]:
    """A chart of each headline under its name: side by side on a desk, one below the other on a phone."""
    for each in followed:
        points = []
        for number, run in enumerate(runs):
            verdict = run.data["claims"].get(each.claim, {}).get("cases", {}).get(each.case, {})
            if verdict.get("ratio") is not None:
                low, high, asked = verdict["low"], verdict["high"], run.data["claims"][each.claim]["threshold"]
                text = f"{ratio(verdict['ratio'], low, high, asked)} {interval(low, high, asked)}"
                title = f"{run.evidence['run_id']}, {each.heading}: {text}"
                points.append(
                    Point(
                        at=number, value=verdict["ratio"], low=low, high=high, title=title,
                        note=each.turns.get(run.digest, ""), hollow=boards[number] != boards[-1],
                    )
                )  # fmt: skip
        if len(points) >= FEWEST_RUNS:
            style = series(item.plan.claim(each.claim).subject)
            track = Line(label=each.heading, series=style, points=tuple(points))
            yield f"{each.heading} at {each.case_label}", timeline_chart(f"timeline-{each.claim}", track, boards)


def _row(number: int, runs: Sequence[Judged], item: Judged, followed: Sequence[View], board: str) -> TableRow:
    run, view = runs[number], view_of(runs[number])
    name: Words = (f"{number + 1}. ", *noted_run(runs, number, item))
    cells: list[Words] = []
    for each in followed:
        path = ("claims", each.claim, "cases", each.case)
        judged = view.value(*path)
        call = judged and VerdictChip(
            judged["status"], word=case_word(judged, view.value("claims", each.claim, "measure"))
        )
        cells.append((view.ratio(*path), below(view.interval(*path)), below(call)))
    return table_row(name, finished(run), board, *cells)


def _turns(item: Judged, runs: Sequence[Judged], published: Sequence[Judged]) -> Iterator[TableRow]:
    """A claim whose verdict is not what an earlier run said."""
    asked = {claim.name for claim in item.plan.claims}
    by_digest = {run.digest: run for run in runs}
    for change in changes(runs):
        if change.was:
            run = by_digest[change.digest]
            was, now = VerdictChip(change.was, word=change.was_word), VerdictChip(change.now, word=change.now_word)
            link = compare_link(change, published)
            why: Words = (change.attribution, *((". ", Link("Compare the runs", link)) if link else ()))
            text = claim_sentence(run.plan.claim(change.claim))
            claim = Link(text, f"#claim-{change.claim}") if change.claim in asked else text
            where: Words = (named_run(run), below(finished(run)))
            yield table_row(claim, was, now, where, why)
