"""What became faster or slower on a board, run after run: a table of all changes, and the last ones in words."""

from collections.abc import Iterator, Mapping, Sequence

from lab.definition.claim_words import claim_sentence
from lab.verdict.alarm import Alarm, Followed
from lab.website import format
from lab.website.addresses import verdict_folder
from lab.website.data.judged import Judged
from lab.website.figure import DataView
from lab.website.pages.labels import case_label
from lab.website.table import Fold, Link, PageTable, Soft, TableRow, Words, table_row, words

HEADS = words("Claim", "Case", "Board", "Change", "Last run before", "First run after", "Confirmed by")


def alarms_of(followed: Sequence[Followed], runs: Sequence[Judged]) -> list[Alarm]:
    """By the run that first showed the change, oldest first."""
    order = {run.digest: number for number, run in enumerate(runs)}
    return sorted((alarm for each in followed for alarm in each.alarms), key=lambda alarm: order[alarm.first_run])


def speed_folds(
    followed: Sequence[Followed], runs: Sequence[Judged], boards: Sequence[str], root: str
) -> Iterator[Fold]:
    """None before a board has a past. `runs`: those of the experiment on one GPU model, oldest first; `boards`: their
    letters."""
    if not any(each.past or each.alarms for each in followed):
        return
    alarms = alarms_of(followed, runs)
    by_digest = {run.digest: run for run in runs}
    letters = {run.digest: letter for run, letter in zip(runs, boards, strict=True)}
    rows = tuple(_row(alarm, by_digest, letters[alarm.first_run], root) for alarm in reversed(alarms))
    table = PageTable(label="Changes of speed", kind="claims stacks", heads=HEADS, rows=rows)
    lead = (
        "The speed-up left the scatter of the runs before on the same board, and the next run there confirmed it."
        if alarms
        else "No case has left the scatter of its own past in two runs in a row on one board."
    )
    yield Fold(
        id="alarms", title="Faster or slower than before", lead=(lead,), tables=(table,) if alarms else (),
    )  # fmt: skip


def latest_changes(followed: Sequence[Followed], runs: Sequence[Judged], root: str) -> Iterator[Words]:
    """A sentence for each change after which the board has no past yet: what it is compared with from now on."""
    by_digest = {run.digest: run for run in runs}
    for alarm in reversed(alarms_of([each for each in followed if not each.past], runs)):
        before, first = by_digest[alarm.before_run], by_digest[alarm.first_run]
        yield (
            f"{alarm.direction.capitalize()} at {_case(alarm, first)}: ", *_speedup(before, alarm, root), "in ",
            _link(before, alarm, root), ", ", *_speedup(first, alarm, root), "since ", _link(first, alarm, root),
            f" of {_day(first)}. ", Link("All changes", "#alarms"),
        )  # fmt: skip


def _row(alarm: Alarm, runs: Mapping[str, Judged], board: str, root: str) -> TableRow:
    before, first, confirmed = (runs[digest] for digest in (alarm.before_run, alarm.first_run, alarm.confirmed_by))
    text = next(claim_sentence(claim) for claim in confirmed.plan.claims if claim.name == alarm.series.claim)
    speeds = (
        (*_speedup(run, alarm, root), _link(run, alarm, root), Soft((_day(run),))) for run in (before, first, confirmed)
    )
    claim = Link(text, f"#claim-{alarm.series.claim}")
    return table_row(claim, _case(alarm, confirmed), board, alarm.direction, *speeds)


def _speedup(run: Judged, alarm: Alarm, root: str) -> Words:
    """With its interval."""
    view = DataView(run.data, f"{root}{verdict_folder(run.digest, run.plan.name)}/data.json#")
    path = ("claims", alarm.series.claim, "cases", alarm.series.case)
    return tuple(part for figure in (view.ratio(*path), view.interval(*path)) if figure for part in (figure, " "))


def _link(run: Judged, alarm: Alarm, root: str) -> Link:
    """To the run that measured it."""
    place = f"{root}{verdict_folder(run.digest, run.plan.name)}/index.html#claim-{alarm.series.claim}"
    return Link(run.evidence["run_id"], place)


def _case(alarm: Alarm, run: Judged) -> str:
    return next(case_label(case) for case in run.plan.cases if case.name == alarm.series.case)


def _day(run: Judged) -> str:
    return format.day(run.measured_utc)
