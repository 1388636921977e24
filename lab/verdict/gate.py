"""Is something slower in a newer run than in an older one? The rule of `lab compare`. Pure.

It compares speed-ups. Each is a ratio within its run, and its interval, widened as for verdicts, is valid for any board
of the GPU model. A subject that lost two per cent against an unchanged baseline is two per cent slower. If the baseline
changed too, that is hidden, so a gate needs a baseline that does not change.

A test for "slower by the limit or more" would miss every second slowdown of exactly that size, and a test for "slower
at all" would fail for slowdowns that do not matter. So a regression is a significant slowdown of more than half the
limit, and there is none if a slowdown by the limit is ruled out. In between the runs cannot tell.
"""

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from scipy.special import stdtr, stdtrit

from lab.definition.plan import MOST_SWEEPS_ASKED, PlannedClaim
from lab.errors import RunError
from lab.verdict.judge import Status, Verdict
from lab.verdict.results import ExperimentResult, RunResult
from lab.verdict.statistics import Speedup, t_quantile
from lab.verdict.widening import NORMAL_QUANTILE

USUAL_LIMIT = 0.03
SHARE = 0.5  # of the limit: a smaller slowdown is not a regression
# Of chance alone, by whether both runs have all sweeps. `lab simulate --gate` counts what comes of both constants.
ALL_SWEEPS, LEVEL, LEVEL_OF_FEWER = 9, 0.03, 0.025


class Outcome(StrEnum):
    REGRESSION = "regression"
    CANNOT_TELL = "cannot-tell"
    FINE = "no-regression"


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """How much slower a subject is in the newer run: 0.03 is three per cent; `low` and `high` are each one-sided."""

    slowdown: float
    low: float
    high: float
    outcome: Outcome
    sweeps: int  # of each run, with which the answer would probably be clear; 0 where none would


def change_between(older: Speedup, newer: Speedup, limit: float) -> Change:
    """Both widened: see lab/verdict/widening.py. `limit`: 0.03 asks for slowdowns of three per cent."""
    distance = math.log(older.ratio / newer.ratio)
    errors = [_error(speedup) for speedup in (older, newer)]
    error = math.hypot(*errors)
    freedom = _freedom(older, newer)
    level = LEVEL if min(len(speedup.sweep_ratios) for speedup in (older, newer)) >= ALL_SWEEPS else LEVEL_OF_FEWER
    reach = float(stdtrit(freedom, 1 - level)) * error
    wanted = math.log1p(limit)
    if distance > SHARE * wanted and float(stdtr(freedom, -distance / error)) <= level:
        outcome = Outcome.REGRESSION
    else:
        outcome = Outcome.FINE if distance + reach < wanted else Outcome.CANNOT_TELL
    return Change(
        slowdown=math.expm1(distance),
        low=math.expm1(distance - reach),
        high=math.expm1(distance + reach),
        outcome=outcome,
        sweeps=_sweeps_needed(older, newer, wanted) if outcome is Outcome.CANNOT_TELL else 0,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Compared:
    """A claim's subject against its baseline at one case, in both runs. `change` is None where a run has no ratio."""

    experiment: str
    claim: str
    case: str
    subject: str
    baseline: str
    scope: str
    outcome: Outcome
    reason: str
    older: Speedup | None = None
    newer: Speedup | None = None
    change: Change | None = None


def compare_runs(older: RunResult, newer: RunResult, limit: float) -> tuple[Compared, ...]:
    """Every claim of a speed-up, at every case, of which the older run has a ratio, and then those others that are
    wrong in the newer run alone. RunError where machines differ."""
    _refuse_other_machine(older, newer)
    after = {experiment.plan.name: experiment for experiment in newer.experiments}
    compared = [
        _compared(verdict, after.get(experiment.plan.name), experiment.plan.name, claim, case, limit)
        for experiment, claim, case, verdict in older.speedup_verdicts()
        if verdict.weighed and verdict.speedup
    ]
    return (*compared, *_newly_wrong(older, newer, {(each.experiment, each.claim, each.case) for each in compared}))


def unweighed(run: RunResult) -> Iterator[tuple[str, str, str, str]]:
    """Experiment, claim, case and reason of each claim of a speed-up that the run could not weigh."""
    for experiment, claim, case, verdict in run.speedup_verdicts():
        if not verdict.weighed:
            yield experiment.plan.name, claim.name, case, verdict.reason


def outcome_of(compared: Sequence[Compared]) -> Outcome:
    """One regression is enough for REGRESSION; "no regression" needs every comparison."""
    outcomes = {each.outcome for each in compared}
    for outcome in (Outcome.REGRESSION, Outcome.CANNOT_TELL):
        if outcome in outcomes:
            return outcome
    return Outcome.FINE if outcomes else Outcome.CANNOT_TELL


def _compared(
    older: Verdict, after: ExperimentResult | None, experiment: str, claim: PlannedClaim, case: str, limit: float
) -> Compared:
    newer = _verdict_of(after, claim.name, case)
    change = None
    if newer is None:
        outcome, reason = Outcome.CANNOT_TELL, "the newer run does not hold it"
    elif after and _is_wrong(after, claim, case, newer):
        outcome, reason = Outcome.REGRESSION, newer.reason
    elif not (older.speedup and newer.weighed and newer.speedup):
        outcome, reason = Outcome.CANNOT_TELL, f"the newer run has no ratio to compare: {newer.reason}"
    else:
        change = change_between(older.speedup, newer.speedup, limit)
        outcome, reason = change.outcome, _reason(change)
    return Compared(
        experiment=experiment, claim=claim.name, case=case, subject=claim.subject, baseline=claim.baseline,
        scope=claim.scope, outcome=outcome, reason=reason, older=older.speedup,
        newer=newer.speedup if newer else None, change=change,
    )  # fmt: skip


def _newly_wrong(older: RunResult, newer: RunResult, compared: Collection[tuple[str, str, str]]) -> Iterator[Compared]:
    """Of claims and cases of which the older run has no ratio. What was wrong there already did not become so."""
    wrong_before = {
        (experiment.plan.name, claim.subject, case)  # whichever claim said so
        for experiment, claim, case, verdict in older.speedup_verdicts()
        if _is_wrong(experiment, claim, case, verdict)
    }
    for experiment, claim, case, verdict in newer.speedup_verdicts():
        if (experiment.plan.name, claim.name, case) in compared:
            continue
        was_wrong = (experiment.plan.name, claim.subject, case) in wrong_before
        if not was_wrong and _is_wrong(experiment, claim, case, verdict):
            yield Compared(
                experiment=experiment.plan.name, claim=claim.name, case=case, subject=claim.subject,
                baseline=claim.baseline, scope=claim.scope, outcome=Outcome.REGRESSION, reason=verdict.reason,
                newer=verdict.speedup,
            )  # fmt: skip


def _is_wrong(experiment: ExperimentResult, claim: PlannedClaim, case: str, verdict: Verdict) -> bool:
    """Whether a result is wrong, a time not credible, or the subject failed."""
    return verdict.status is Status.REJECTED or experiment.cells[case, claim.subject].outcome == "failed"


def _verdict_of(experiment: ExperimentResult | None, claim: str, case: str) -> Verdict | None:
    claims = experiment.claims if experiment else ()
    return next((each.verdicts.get(case) for each in claims if each.claim.name == claim), None)


def _reason(change: Change) -> str:
    if change.outcome is not Outcome.CANNOT_TELL:
        return ""
    if change.sweeps:
        return f"about {change.sweeps} sweeps in each run would tell"
    return "runs differ by more than this, by board, session, compiler or load: more sweeps will not help"


def _refuse_other_machine(older: RunResult, newer: RunResult) -> None:
    names = [run.machine.gpu if run.machine.device == "cuda" else run.machine.cpu for run in (older, newer)]
    if names[0] != names[1]:
        raise RunError(
            f"{older.plan.run_id} was measured on {names[0]} and {newer.plan.run_id} on {names[1]}: speed-ups of "
            "different models are not held against each other; measure both on one"
        )


def _error(speedup: Speedup) -> float:
    """Standard error of the ratio's logarithm: of its sweeps, of sessions, and of what else its interval takes in."""
    widths = speedup.widths
    assert widths, "a speed-up that holds for its run alone says nothing of another run"
    shared = math.hypot(widths.sessions, widths.draws) / NORMAL_QUANTILE
    return math.hypot(widths.run / _quantile(speedup), shared) + widths.control / NORMAL_QUANTILE


def _quantile(speedup: Speedup) -> float:
    return t_quantile(len(speedup.sweep_ratios) - 1)


def _freedom(older: Speedup, newer: Speedup) -> float:
    """Welch's, of the errors that sweeps show; what sessions differ by is known and adds none."""
    runs = [(speedup.widths.run / _quantile(speedup)) ** 2 for speedup in (older, newer) if speedup.widths]
    whole = sum(_error(speedup) ** 2 for speedup in (older, newer))
    spent = sum(run**2 / (len(speedup.sweep_ratios) - 1) for run, speedup in zip(runs, (older, newer), strict=True))
    return whole**2 / spent


def _sweeps_needed(older: Speedup, newer: Speedup, wanted: float) -> int:
    """So many in each run that a slowdown of the limit stands apart from none; 0 where no number would do it."""
    room = (SHARE * wanted / NORMAL_QUANTILE) ** 2
    fixed = varying = 0.0
    for speedup in (older, newer):
        assert speedup.widths
        sweeps = (speedup.widths.run / _quantile(speedup)) ** 2
        varying += sweeps * len(speedup.sweep_ratios)
        fixed += max(0.0, _error(speedup) ** 2 - sweeps)
    if room <= fixed:
        return 0
    fewest = max(len(older.sweep_ratios), len(newer.sweep_ratios)) + 1
    needed = max(fewest, math.ceil(varying / (room - fixed)))
    return needed if needed <= MOST_SWEEPS_ASKED else 0
