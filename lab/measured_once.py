"""A plan as a run that is measured, taken up where it was left, or found finished.

A command that makes several runs goes on with the same words after an interruption between two of them.
"""

from collections.abc import Callable
from pathlib import Path

from lab.definition.plan import Plan
from lab.errors import RunError
from lab.evidence.machine import version
from lab.evidence.source import source_digest
from lab.supervisor.run import run
from lab.verdict.judge_run import load_run
from lab.verdict.results import RunResult

Say = Callable[[str], None]


def measured_once(plan: Plan, runs: Path, say: Say) -> RunResult:
    """One of this very plan, source and Triton that is finished is not measured twice."""
    directory = runs / plan.run_id
    earlier = _finished(directory)
    if earlier is None or (earlier.plan.digest, earlier.start.source_digest, earlier.machine.triton) != (
        plan.digest, source_digest(), version("triton")
    ):  # fmt: skip
        run(plan, directory, say)
        earlier = load_run(directory)
    return earlier


def _finished(directory: Path) -> RunResult | None:
    try:
        run = load_run(directory)
    except RunError:  # none is there yet, or it has hardly begun
        return None
    return run if run.finished_utc else None
