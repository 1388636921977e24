"""An experiment across published runs: its headline ratios, and each change of a verdict.

Only runs on the GPU model of the run shown stand in one line; all are judged by today's rules.
"""

from collections.abc import Iterator, Mapping, Sequence
from types import SimpleNamespace as View
from typing import Any

from lab.definition.claim_words import claim_sentence
from lab.verdict.alarm import Alarm
from lab.website import format
from lab.website.addresses import pair_folder, run_folder, verdict_folder
from lab.website.charts.lines import Line, Point, timeline_chart
from lab.website.charts.svg import series
from lab.website.data.comparison import RUNS_BEFORE
from lab.website.data.judged import Judged
from lab.website.data.verdict_log import VerdictChange, changes, followed_cases
from lab.website.figure import DataView
from lab.website.format import interval, ratio
from lab.website.pages.labels import case_label
from lab.website.pages.speed_changes import alarms_of, speed_folds
from lab.website.table import Fold, Head, Link, PageTable, Soft, TableRow, VerdictChip, Words, table_row, tally, words
from lab.website.verdict_words import case_word, status_counts, verdict_counts

# Published runs as an earlier or later page names them: which may be compared, when they were, where their data is.


def comparable(item: Judged, published: Sequence[Judged]) -> tuple[Judged, ...]:
    """The runs on the GPU model (or CPU) of the run shown, oldest first."""
    return tuple(run for run in published if run.machine_name == item.machine_name) if item.evidence else ()


def elsewhere(item: Judged, published: Sequence[Judged], root: str) -> tuple[View, ...]:
    return tuple(
        View(
            run_id=run.evidence["run_id"],
            link=verdict_link(run, root),
            date=finished(run),
            machine=run.machine_name,
            counts=status_counts([verdict_counts(run)]),
        )
        for run in reversed(published)
        if run.machine_name != item.machine_name
    )


def other_models(item: Judged, published: Sequence[Judged], root: str) -> tuple[View, ...]:
    """Of each other GPU model (or CPU) the run with the fullest evidence; the newest first."""
    fullest: dict[str, Judged] = {}
    for run in published:
        known = fullest.get(run.machine_name)
        if known is None or run.fullness > known.fullness:
            fullest[run.machine_name] = run
    kept = sorted(fullest.values(), key=lambda run: run.finished_utc)
    return elsewhere(item, kept, root)


def software(run: Judged) -> str:
    names = ("torch", "triton", "driver") if not run.on_cpu else ("torch",)
    return ", ".join(f"{name} {run.machine[name]}" for name in names if run.machine.get(name))


def finished(run: Judged) -> str:
    """The day on which a run ended, or began where it never did."""
    return format.day(run.measured_utc)


def run_link(run: Judged, root: str) -> str:
    return f"{root}{run_folder(run.digest)}/index.html"


def verdict_link(run: Judged, root: str) -> str:
    """What a run said of its experiment, for ever."""
    return f"{root}{verdict_folder(run.digest, run.plan.name)}/index.html"


def verdict_data_file(run: Judged, root: str) -> str:
    """The file with the figures of that page."""
    return f"{root}{verdict_folder(run.digest, run.plan.name)}/data.json"


def compare_link(change: VerdictChange, history: Sequence[Judged], root: str) -> str:
    """The page that compares the two runs between which a verdict changed; empty where they are too far apart for one.

    `history`: runs of the experiment, oldest first.
    """
    places = [run.digest for run in history]
    if places.index(change.digest) - places.index(change.before) > RUNS_BEFORE:
        return ""
    return f"{root}{pair_folder(change.before, change.digest)}/index.html"


FEWEST_RUNS = 2  # for a chart


def history_folds(item: Judged, published: Sequence[Judged], root: str) -> Iterator[Fold]:
    """The headlines over all runs, what became faster or slower, and the log of verdicts.

    `published`: every run of the experiment, oldest first. `root` leads from the page to that of the site.
    """
    runs = comparable(item, published)
    if not runs:
        return
    speeds = followed_cases(runs)
    followed = tuple(_followed(item, runs, alarms_of(speeds, runs)))
    boards = board_names(runs)
    lines = list(_lines(item, followed, runs))
    heads = (*words("Run", "Date", "Board"), *(Head(text=f"{each.heading} at {each.case_label}") for each in followed))
    rows = [_row(number, runs, item, followed, boards[number], root) for number in range(len(runs))]
    others: tuple[Words, ...] = tuple(
        (f"{run.machine}: ", Link(run.run_id, run.link), f" of {run.date} ", *tally(run.counts))
        for run in elsewhere(item, published, root)
    )
    yield Fold(
        id="history",
        title="History across published runs",
        lead=(
            "Each headline claim at one case, that of its last change of speed if there was one, through every "
            f"published run on {item.machine_name}; all are judged by today's rules. Software is named where it is not "
            "that of the run before. Runs on other machines, listed below, neither confirm nor contradict these.",
        ),
        picture=timeline_chart(lines, boards) if lines else None,
        tables=(PageTable(label="Published runs of this experiment", kind="stacks", heads=heads,
                          rows=tuple(reversed(rows))),),
        items=others,
    )  # fmt: skip
    yield from speed_folds(speeds, runs, boards, root)
    turns = list(_turns(item, runs, root))
    if turns:
        heads = words("Claim", "Before", "After", "Run", "What else changed since the run before")
        table = PageTable(label="Log of verdicts", kind="claims stacks", heads=heads, rows=tuple(reversed(turns)))
        lead: Words = ("Each time that a claim came out otherwise than in the run before, newest first.",)
        yield Fold(id="verdict-log", title="Log of verdicts", lead=lead, tables=(table,))


def board_names(runs: Sequence[Judged]) -> list[str]:
    """'A', 'B': a letter for each board, by the order in which they were first measured; '?' where it is not known."""
    known = list(dict.fromkeys(run.machine["gpu_id"] for run in runs if run.machine.get("gpu_id")))
    letters = {board: chr(ord("A") + number % 26) for number, board in enumerate(known)}
    return [letters.get(run.machine.get("gpu_id", ""), "?") for run in runs]


def _followed(item: Judged, runs: Sequence[Judged], alarms: Sequence[Alarm]) -> Iterator[View]:
    """Each headline at the case whose speed changed last, or that most runs have a ratio for; of several the one with
    the largest today. `alarms`: oldest first."""
    claims = {claim.name: claim for claim in item.plan.claims}
    cases = {case.name: case for case in item.plan.cases}
    titles = {profile.name: profile.title for profile in item.plan.profiles}
    for name in item.plan.headlines:
        claim = claims[name]
        ratios = {
            case: (sum(_ratio(run, name, case) is not None for run in runs), _ratio(item, name, case) or 0.0)
            for case in claim.cases
        }
        changed = [alarm for alarm in alarms if alarm.series.claim == name and alarm.series.case in ratios]
        chosen = changed[-1].series.case if changed else max(claim.cases, key=lambda case: ratios[case])
        turns = {alarm.first_run: alarm.direction for alarm in changed if alarm.series.case == chosen}
        if ratios[chosen][0]:
            heading = f"{titles[claim.subject]} over {titles[claim.baseline] if claim.baseline else 'the least'}"
            yield View(claim=name, case=chosen, heading=heading, case_label=case_label(cases[chosen]), turns=turns)


def _ratio(run: Judged, claim: str, case: str) -> float | None:
    """Of a claim as it is asked today; None where a run asked something else under its name."""
    verdict = run.data["claims"].get(claim, {}).get("cases", {}).get(case, {})
    value: float | None = verdict.get("ratio")
    return value


def _lines(item: Judged, followed: Sequence[View], runs: Sequence[Judged]) -> Iterator[Line]:
    subjects = {claim.name: claim.subject for claim in item.plan.claims}
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
                        note=each.turns.get(run.digest, ""),
                    )
                )  # fmt: skip
        if len(points) >= FEWEST_RUNS:
            yield Line(label=each.heading, series=series(subjects[each.claim]), points=tuple(points))


def _row(
    number: int, runs: Sequence[Judged], item: Judged, followed: Sequence[View], board: str, root: str
) -> TableRow:  # fmt: skip
    run, before = runs[number], runs[number - 1] if number else None
    view = DataView(run.data, f"{verdict_data_file(run, root)}#")
    notes = ["shown here"] if run.digest == item.digest else []
    notes += [software(run)] if before is None or software(run) != software(before) else []
    name: Words = (f"{number + 1}. ", Link(run.evidence["run_id"], verdict_link(run, root)), *map(_soft, notes))
    cells: list[Words] = []
    for each in followed:
        path = ("claims", each.claim, "cases", each.case)
        judged, interval_figure = view.value(*path), view.interval(*path)
        below = (
            *((Soft((interval_figure,)),) if interval_figure else ()),
            *((Soft((_call(run, each.claim, judged),)),) if judged else ()),
        )
        cells.append((view.ratio(*path), *below))
    return table_row(name, finished(run), board, *cells)


def _call(run: Judged, claim: str, judged: Mapping[str, Any]) -> VerdictChip:
    return VerdictChip(judged["status"], word=case_word(judged, run.data["claims"][claim]["measure"]))


def _soft(note: str) -> Soft:
    return Soft((note,))


def _turns(item: Judged, runs: Sequence[Judged], root: str) -> Iterator[TableRow]:
    """A claim whose verdict is not what the run before said."""
    asked = {claim.name for claim in item.plan.claims}
    by_digest = {run.digest: run for run in runs}
    for change in changes(runs):
        if change.was:
            run = by_digest[change.digest]
            was, now = VerdictChip(change.was, word=change.was_word), VerdictChip(change.now, word=change.now_word)
            link = compare_link(change, runs, root)
            why: Words = (change.attribution, *((". ", Link("Compare the runs", link)) if link else ()))
            text = next(claim_sentence(claim) for claim in run.plan.claims if claim.name == change.claim)
            claim = Link(text, f"#claim-{change.claim}") if change.claim in asked else text
            where: Words = (Link(run.evidence["run_id"], verdict_link(run, root)), _soft(finished(run)))
            yield table_row(claim, was, now, where, why)
