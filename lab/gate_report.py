"""What `lab compare` says: lines for a terminal, and a Markdown summary for a pull request."""

from collections.abc import Iterator, Sequence

from lab.verdict.gate import Compared, Outcome, outcome_of, unweighed
from lab.verdict.gate_simulation import GateRow
from lab.verdict.results import RunResult
from lab.verdict.statistics import Speedup, per_cent
from lab.website.format import ratio_interval

WORDS = {
    Outcome.REGRESSION: "slower",
    Outcome.CANNOT_TELL: "cannot tell",
    Outcome.FINE: "not slower",
}
WRONG = "wrong"  # or failed: there is no time to compare
ANSWERS = {
    Outcome.REGRESSION: "a regression",
    Outcome.CANNOT_TELL: "the runs cannot tell",
    Outcome.FINE: "no regression",
}
EXIT_STATUS = {Outcome.FINE: 0, Outcome.REGRESSION: 1, Outcome.CANNOT_TELL: 3}


def describe_gate(older: RunResult, newer: RunResult, compared: Sequence[Compared], limit: float) -> Iterator[str]:
    yield f"{older.plan.run_id} → {newer.plan.run_id}: {ANSWERS[outcome_of(compared)]}, asked for {per_cent(limit, 1)}"
    if not any(each.older for each in compared):
        yield from (f"  {line}" for line in _nothing_compared(older))
    for each in compared:
        place = f"{each.case}  {each.subject} against {each.baseline}, {each.scope}"
        parts = (_word(each), _change(each), each.reason)
        yield f"  {place}: {'  '.join(part for part in parts if part)}"


def markdown(older: RunResult, newer: RunResult, compared: Sequence[Compared], limit: float) -> str:
    """A Markdown table, the worst change first."""
    answer = ANSWERS[outcome_of(compared)]
    machine = newer.machine.gpu or newer.machine.cpu
    head = [
        f"### Kernel evidence: {answer}",
        "",
        f"`{newer.plan.run_id}` against `{older.plan.run_id}` on {machine}; asked for slowdowns of "
        f"{per_cent(limit, 1)}. A time is compared as a ratio to its baseline in the same run.",
        "",
        "| case | subject | before | now | change | answer |",
        "|---|---|---|---|---|---|",
    ]
    if not any(each.older for each in compared):
        head = [*head[:4], *(f"- {line}" for line in _nothing_compared(older))]
    order = (Outcome.REGRESSION, Outcome.CANNOT_TELL, Outcome.FINE)
    rows = [
        f"| {each.case} | {each.subject} vs {each.baseline} ({each.scope}) | {_ratio(each.older)} "
        f"| {_ratio(each.newer)} | {_change(each) or '–'} | {_answer(each)} |"
        for each in sorted(compared, key=lambda each: order.index(each.outcome))
    ]
    return "\n".join([*head, *rows]) + "\n"


def describe_gate_row(row: GateRow) -> str:
    truth = f"slower by {per_cent(row.slowdown, 1)}" if row.slowdown else "unchanged"
    regression, fine = per_cent(row.regressions / row.pairs, 2), per_cent(row.fine / row.pairs, 1)
    said = f"regression {regression:>8}  no regression {fine:>7}"
    return f"  {row.process:38} {row.sweeps} sweeps  {truth:16} {said}{'  goal missed' if row.missed_goal else ''}"


def _nothing_compared(older: RunResult) -> Iterator[str]:
    """Why the older run has no speed-up that a newer one could be compared with."""
    reasons = [f"{name}, {claim}, {case}: {reason}" for name, claim, case, reason in unweighed(older)]
    if not reasons:
        yield f"{older.plan.run_id} holds no claim of a speed-up"
        return
    yield f"no speed-up of {older.plan.run_id} can be compared with; why, case by case:"
    yield from reasons


def _ratio(speedup: Speedup | None) -> str:
    return ratio_interval(speedup) if speedup else "–"


def _answer(each: Compared) -> str:
    return ": ".join(filter(None, (_word(each), each.reason)))


def _word(each: Compared) -> str:
    return WRONG if each.outcome is Outcome.REGRESSION and each.change is None else WORDS[each.outcome]


def _change(each: Compared) -> str:
    if each.change is None:
        return ""
    low, middle, high = (_signed(value) for value in (each.change.low, each.change.slowdown, each.change.high))
    return f"{middle} [{low}, {high}]"


def _signed(slowdown: float) -> str:
    return f"{'+' if slowdown >= 0 else '−'}{abs(100 * slowdown):.1f} %"
