"""What became faster or slower on a board, run after run: a table of all changes, and the last ones in words."""

from collections.abc import Iterator, Mapping, Sequence

from lab.definition.claim_words import claim_sentence
from lab.verdict.alarm import Alarm, Followed
from lab.website.data.judged import Judged
from lab.website.data.verdict_log import followed_cases
from lab.website.pages.labels import case_label
from lab.website.pages.run_links import comparable, finished, verdict_link, view_of
from lab.website.table import Fold, Link, PageTable, TableRow, Words, below, table_row, words

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
