"""How a run ends: with its last record and where its time went, or refused because nothing was measured."""

import time
from collections import Counter
from collections.abc import Callable

from lab.errors import RunError
from lab.evidence.moment import now
from lab.evidence.record import RunFinish
from lab.supervisor.costs import where_time_went
from lab.supervisor.run_state import RunState


def refuse_nothing(state: RunState) -> None:
    """RunError where no cell was measured. The journal is set aside, so that the run can be started again."""
    outcomes = Counter(cell.outcome for cell in state.cells.values())
    if outcomes["measured"]:
        return
    reasons = Counter(cell.reason for cell in state.cells.values())
    often = "; ".join(
        f"{reason or 'no reason'} ({count} cell{'s' if count > 1 else ''})" for reason, count in reasons.most_common(3)
    )
    aside = state.set_aside()
    raise RunError(
        f"{state.directory}: nothing was measured: {often}. What happened is kept in {aside.name}, and the run can be "
        "started again under its name"
    )


def finish(
    state: RunState, *, began: float, ahead_seconds: float, profiling_seconds: float, say: Callable[[str], None]
) -> None:
    """Write the last record. `began` is by time.monotonic; `ahead_seconds` were spent on compiling ahead."""
    wall_seconds = time.monotonic() - began
    spent = [None if state.resumed else round(seconds, 3) for seconds in (wall_seconds, profiling_seconds)]
    state.keep(RunFinish(finished_utc=now(), wall_seconds=spent[0], profiling_seconds=spent[1]))
    for line in where_time_went(
        state.records, wall_seconds=wall_seconds, ahead_seconds=ahead_seconds,
        profiling_seconds=profiling_seconds, resumed=state.resumed,
    ):  # fmt: skip
        say(line)
