"""plan.json: the plan of a run on disk."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

from lab.definition.experiment import SLUG, SLUG_RULE
from lab.definition.plan import Plan
from lab.errors import RunError
from lab.evidence.codec import SCHEMA, from_data, to_data

NAME = "plan.json"


def save_plan(plan: Plan, directory: Path) -> None:
    """Write the plan atomically and sync it to disk, before the journal begins."""
    text = json.dumps(to_data(plan, plan.schema), indent=1, sort_keys=True, ensure_ascii=False) + "\n"
    scratch = directory / f".{NAME}"
    with scratch.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    scratch.replace(directory / NAME)


def load_plan(directory: Path) -> Plan:
    """The plan of a run directory. RunError if there is none or it does not fit the schema."""
    path = directory / NAME
    if not path.is_file():
        raise RunError(f"{directory}: no {NAME} there; a run directory is what `lab run` writes under runs/")
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as problem:
        raise RunError(f"{path}: not valid JSON ({problem})") from None
    schema = data.get("schema") if isinstance(data, dict) else None
    if type(schema) is not int or schema not in range(1, SCHEMA + 1):
        raise RunError(f"{path}: schema {schema!r}; this version of the lab reads schemas 1 to {SCHEMA}")
    try:
        plan = from_data(Plan, data, str(path))
    except RecursionError:
        raise RunError(f"{path}: is nested too deeply to be a plan") from None
    for name in _names(plan):
        if not SLUG.fullmatch(name):
            raise RunError(f"{path}: the name {name!r} is not a plain slug; accepted are {SLUG_RULE}")
    return plan


def _names(plan: Plan) -> Iterator[str]:
    """The names that become parts of addresses and paths."""
    yield plan.run_id
    for experiment in plan.experiments:
        yield experiment.name
        yield from (case.name for case in experiment.cases)
        yield from (profile.name for profile in experiment.profiles)
        yield from (claim.name for claim in experiment.claims)
