"""Begin a run in its directory, or take up the one that lies there unfinished, if it is still the same run."""

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from lab.definition.plan import Plan
from lab.definition.plan_file import NAME as PLAN_NAME
from lab.definition.plan_file import load_plan, save_plan
from lab.errors import RunError
from lab.evidence import journal
from lab.evidence.codec import SCHEMA, to_data
from lab.evidence.moment import now
from lab.evidence.nvml import gpu_names
from lab.evidence.record import Machine, Record, RunFinish, RunStart, unlike
from lab.evidence.run_name import other_gpus
from lab.evidence.source import head, source_digest, timed_digest
from lab.supervisor.run_state import RunState

# What only a measuring process can tell: torch gives the first two, and sets variables of its own.
TOLD_BY_WORKERS = ("gpu", "cuda", "environment")


def open_run(plan: Plan, directory: Path, several_gpus: bool = False) -> RunState:
    """What is on record in `directory`, at least the run's start. RunError where it may not be continued."""
    path = directory / journal.NAME
    journal.drop_torn_end(path)
    contents = journal.read(path)
    if contents.damages:
        bad = contents.damages[0]
        raise RunError(f"{path}: line {bad.line_number}: {bad.reason}. Use another run id, or restore the file")
    if not contents.records:
        return _begin(plan, directory, several_gpus)
    if any(isinstance(record, RunFinish) for record in contents.records):
        raise RunError(
            f"run {plan.run_id!r} is finished and will not be overwritten: choose another --run-id, "
            f"or look at it in {directory}"
        )
    _refuse_changes(plan, load_plan(directory), contents.records[0], directory, several_gpus)
    return RunState(directory, contents.records)


def refuse_other_machine(state: RunState, machine: Machine, unknown_fields: Collection[str] = ()) -> None:
    """RunError if this is not the machine on which the run began; `unknown_fields` are not compared."""
    changes = unlike(state.machine, machine, unknown_fields, state.several_gpus) if state.machine else []
    if changes:
        raise RunError(
            f"{state.directory}: this is not the machine that the run began on: {'; '.join(changes)}. "
            "Use another run id"
        )


def _begin(plan: Plan, directory: Path, several_gpus: bool) -> RunState:
    if plan.device == "cuda":
        _refuse_name_of_other_gpu(plan.run_id)
    save_plan(plan, directory)
    commit, dirty = head()
    state = RunState(directory, ())
    state.keep(
        RunStart(
            schema=SCHEMA, run_id=plan.run_id, plan_digest=plan.digest, source_digest=source_digest(),
            commit=commit, dirty=dirty, started_utc=now(), several_gpus=several_gpus, timed_digest=timed_digest(),
        )
    )  # fmt: skip
    return state


def _refuse_name_of_other_gpu(run_id: str) -> None:
    gpus = gpu_names()
    if named := other_gpus(run_id, gpus):
        raise RunError(
            f"run id {run_id!r} names the GPU {' and '.join(named)}, and here is {' and '.join(sorted(set(gpus)))}: "
            "choose another --run-id, for a run keeps its name"
        )


def _refuse_changes(plan: Plan, old: Plan, start: Record, directory: Path, several_gpus: bool) -> None:
    if not isinstance(start, RunStart) or start.plan_digest != old.digest:
        raise RunError(f"{directory}: {PLAN_NAME} is not the plan that the journal began with; use another run id")
    if start.schema != SCHEMA:
        raise RunError(
            f"{directory}: this unfinished run was begun by an older version of the lab, with records of schema "
            f"{start.schema}; this one writes schema {SCHEMA} and can read them, but not go on with them. "
            "Use another run id"
        )
    if start.several_gpus is not several_gpus:
        on, asked = ("several GPUs", "one") if start.several_gpus else ("one GPU", "several")
        raise RunError(
            f"{directory}: this unfinished run was begun on {on}, and is to go on with {asked}; "
            "use the --executor and --gpus that it was begun with, or another run id"
        )
    changed = list(_changed_fields("", to_data(old), to_data(plan)))
    if start.source_digest != source_digest():
        changed.append("the measured code")
    if changed:
        raise RunError(
            f"{directory}: the plan differs from the one that this unfinished run began with; changed: "
            f"{', '.join(changed[:5])}. "
            "Use the same options and code to resume it, or another run id"
        )


def _changed_fields(place: str, old: Any, new: Any) -> Iterator[str]:
    if isinstance(old, dict) and isinstance(new, dict):
        for name in sorted(old.keys() | new.keys()):
            yield from _changed_fields(f"{place}.{name}" if place else name, old.get(name), new.get(name))
    elif isinstance(old, list | tuple) and isinstance(new, list | tuple) and len(old) == len(new):
        for index, (before, after) in enumerate(zip(old, new, strict=True)):
            yield from _changed_fields(f"{place}[{index}]", before, after)
    elif old != new:
        yield f"{place} ({str(old)[:40]} → {str(new)[:40]})"
