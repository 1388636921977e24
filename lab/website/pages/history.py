"""An experiment across published runs: its headline ratios, and each change of a verdict.

Only runs on the GPU model of the run shown stand in one line; all are judged by today's rules.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace as View

from markupsafe import Markup

from lab.definition.claim_words import claim_sentence
from lab.definition.experiment import CEILINGS
from lab.verdict.alarm import Alarm, Followed
from lab.website import format
from lab.website.addresses import SITE, pair_folder, run_folder, verdict_folder
from lab.website.charts.lines import Line, Point, timeline_chart
from lab.website.charts.svg import series
from lab.website.data.comparison import has_page
from lab.website.data.judged import Judged
from lab.website.data.verdict_log import VerdictChange, changes, followed_cases
from lab.website.figure import DataView
from lab.website.format import interval, ratio
from lab.website.pages.labels import baseline_title, case_label, profile_title
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


def comparable(item: Judged, published: Sequence[Judged]) -> tuple[Judged, ...]:
    """The runs on the GPU model (or CPU) of the run shown, oldest first."""
    return tuple(run for run in published if run.machine_name == item.machine_name) if item.evidence else ()


def elsewhere(item: Judged, published: Sequence[Judged]) -> list[Judged]:
    """The runs on other machines, the newest first."""
    return [run for run in reversed(published) if run.machine_name != item.machine_name]


def other_models(item: Judged, published: Sequence[Judged]) -> list[Judged]:
    """Of each other GPU model (or CPU) the run with the fullest evidence; the newest first."""
    fullest: dict[str, Judged] = {}
    for run in published:
        fullest[run.machine_name] = max(fullest.get(run.machine_name, run), run, key=lambda each: each.fullness)
    return elsewhere(item, sorted(fullest.values(), key=lambda run: run.finished_utc))


def software(run: Judged) -> str:
    names = ("torch", "triton", "driver") if not run.on_cpu else ("torch",)
    return ", ".join(f"{name} {run.machine[name]}" for name in names if run.machine.get(name))


def finished(run: Judged) -> str:
    """The day on which a run ended, or began where it never did."""
    return format.day(run.measured_utc)


def run_link(run: Judged) -> str:
    return f"{SITE}{run_folder(run.digest)}/index.html"


def verdict_link(run: Judged) -> str:
    """What a run said of its experiment, for ever."""
    return f"{SITE}{verdict_folder(run.digest, run.plan.name)}/index.html"


def named_run(run: Judged) -> Link:
    """The same by the run's name."""
    return Link(run.evidence["run_id"], verdict_link(run))


def noted_run(runs: Sequence[Judged], number: int, shown: Judged) -> Words:
    """One of several runs, the oldest first: whether a page shows it, and its software, if that of the run before is
    another."""
    run, before = runs[number], runs[number - 1] if number else None
    changed = before is None or software(run) != software(before)
    return named_run(run), below(run.digest == shown.digest and "shown here"), below(changed and software(run))


def view_of(run: Judged) -> DataView:
    """Figures that point into the data of that page."""
    return DataView(run.data, f"{SITE}{verdict_folder(run.digest, run.plan.name)}/data.json#")


def compare_link(change: VerdictChange, history: Sequence[Judged]) -> str:
    """The page that compares the two runs between which a verdict changed; empty where there is none, because they are
    too far apart or share only ceilings.

    `history`: all published runs of the experiment, oldest first.
    """
    if history[0].name == CEILINGS or not has_page(change.before, change.digest, history):
        return ""
    return f"{SITE}{pair_folder(change.before, change.digest)}/index.html"


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
        heads = words("Claim", "Before", "After", "Run", "What else changed since the run before")
        table = PageTable(label="Log of verdicts", kind="claims stacks", heads=heads, rows=tuple(reversed(turns)))
        lead: Words = ("Each time that a claim came out otherwise than in the run before, newest first.",)
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
    """A claim whose verdict is not what the run before said."""
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


# What became faster or slower on a board, run after run: a table of all changes, and the last ones in words.
CHANGES = words("Claim", "Case", "Board", "Change", "Last run before", "First run after", "Confirmed by")


def alarms_of(followed: Sequence[Followed], runs: Sequence[Judged]) -> list[Alarm]:
    """By the run that first showed the change, oldest first."""
    order = {run.digest: number for number, run in enumerate(runs)}
    return sorted((alarm for each in followed for alarm in each.alarms), key=lambda alarm: order[alarm.first_run])


def speed_fold(followed: Sequence[Followed], runs: Sequence[Judged], boards: Sequence[str]) -> Fold | None:
    """None before a board has a past. `runs`: those of the experiment on one GPU model, oldest first; `boards`: their
    letters."""
    if not any(each.past or each.alarms for each in followed):
        return None
    alarms = alarms_of(followed, runs)
    by_digest = {run.digest: run for run in runs}
    letters = {run.digest: letter for run, letter in zip(runs, boards, strict=True)}
    rows = tuple(_alarm_row(alarm, by_digest, letters[alarm.first_run]) for alarm in reversed(alarms))
    table = PageTable(label="Changes of speed", kind="claims stacks", heads=CHANGES, rows=rows)
    lead = (
        "The speed-up left the scatter of the runs before on the same board, and the next run there confirmed it."
        if alarms
        else "No case has left the scatter of its own past in two runs in a row on one board."
    )
    return Fold(id="alarms", title="Faster or slower than before", lead=(lead,), tables=(table,) if alarms else ())


def latest_changes(item: Judged, history: Sequence[Judged]) -> Iterator[Words]:
    """A sentence for each change after which the board has no past yet: what it is compared with from now on."""
    runs = comparable(item, history) if item.digest else ()
    by_digest = {run.digest: run for run in runs}
    for alarm in reversed(alarms_of([each for each in followed_cases(runs) if not each.past], runs)):
        before, first = by_digest[alarm.before_run], by_digest[alarm.first_run]
        yield (
            f"{alarm.direction.capitalize()} at {_case(alarm, first)}: ", *_speedup(before, alarm), "in ",
            _claim_in(before, alarm), ", ", *_speedup(first, alarm), "since ",
            _claim_in(first, alarm), f" of {finished(first)}. ", Link("All changes", "#alarms"),
        )  # fmt: skip


def _alarm_row(alarm: Alarm, runs: Mapping[str, Judged], board: str) -> TableRow:
    three = [runs[digest] for digest in (alarm.before_run, alarm.first_run, alarm.confirmed_by)]
    confirmed = three[-1]
    text = claim_sentence(confirmed.plan.claim(alarm.series.claim))
    speeds = ((*_speedup(run, alarm), _claim_in(run, alarm), below(finished(run))) for run in three)
    claim = Link(text, f"#claim-{alarm.series.claim}")
    return table_row(claim, _case(alarm, confirmed), board, alarm.direction, *speeds)


def _speedup(run: Judged, alarm: Alarm) -> Words:
    """With its interval."""
    view, path = view_of(run), ("claims", alarm.series.claim, "cases", alarm.series.case)
    return tuple(part for figure in (view.ratio(*path), view.interval(*path)) if figure for part in (figure, " "))


def _claim_in(run: Judged, alarm: Alarm) -> Link:
    """To the run that measured it."""
    return Link(run.evidence["run_id"], f"{verdict_link(run)}#claim-{alarm.series.claim}")


def _case(alarm: Alarm, run: Judged) -> str:
    return case_label(run.plan.case(alarm.series.case))
