"""What `lab alarms` and its simulation say."""

from collections.abc import Iterator, Sequence

from lab.verdict.alarm import FEWEST_RUNS, Alarm, Followed, Series
from lab.verdict.alarm_simulation import STEP, AlarmRow
from lab.verdict.statistics import per_cent
from lab.website.format import counted, times


def describe_alarms(followed: Sequence[Followed], runs: Sequence[str]) -> Iterator[str]:
    """`runs`: their ids, oldest first."""
    if not followed:
        yield (
            f"{_runs(runs)}: no speed-up in them can be followed; `lab judge {runs[-1]}` says what each claim lacks, "
            "such as sweeps or a quiet machine"
        )
        return
    judged = [each for each in followed if each.past]
    yield (
        f"{_runs(runs)}: {len(followed)} claims at a case on a board, of which {len(judged)} "
        f"have a past of {FEWEST_RUNS} runs"
    )
    for each in followed:
        for alarm in each.alarms:
            yield f"  {alarm.direction}  {_place(each.series)}: {_change(alarm)}"
        if each.suspect:
            yield f"  suspect  {_place(each.series)}: {each.nights[-1].run} deviates; run it once more to know"
    if judged:
        findable = sum(each.past is not None and each.past.step_found <= STEP for each in judged)
        yield f"two runs would show a change of {per_cent(STEP)} in {findable} of these {len(judged)}"


def _runs(runs: Sequence[str]) -> str:
    return f"{counted(len(runs), 'run')}, the newest {runs[-1]}"


def newest_is_slower(followed: Sequence[Followed]) -> bool:
    """Whether the newest run of any case on a board confirmed that it became slower."""
    return any(alarm.is_new and alarm.change < 0 for each in followed for alarm in each.alarms[-1:])


def describe_alarm_row(row: AlarmRow) -> str:
    found, findable = (per_cent(number / row.series, 1) for number in (row.steps_found, row.findable))
    return (
        f"  {row.process:38} {row.false_alarms} false alarms in {row.case_nights} case-nights, {per_cent(STEP)} found "
        f"after two nights: {found:>6} ({findable:>6} with the past known){'  goal missed' if row.missed_goal else ''}"
    )


def _change(alarm: Alarm) -> str:
    step = f"{times(alarm.before)} → {times(alarm.after)} since {alarm.first_run}"
    return f"{step}, confirmed by {alarm.confirmed_by}, against {alarm.past_runs} runs before"


def _place(series: Series) -> str:
    boards = "+".join(each[:6] for each in series.board.split("+"))
    board = f", board {boards}" if boards else ""
    return f"{series.experiment}, {series.claim}, {series.case}{board}"
