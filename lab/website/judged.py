"""What the website knows of an experiment: its plan, and the data behind every page about it.

Judging raw samples takes seconds and always comes out the same, so what was judged is kept, by the digest of the
evidence and that of the code that judges. Pages are made of plan and data alone.
"""

import hashlib
import json
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from lab.definition.plan import PlannedExperiment
from lab.evidence.codec import from_data, to_data
from lab.evidence.source import ROOT
from lab.website.promoted import Evidence
from lab.website.published import experiment_data

KEPT = ROOT / ".cache" / "judged"
JUDGING = ("verdict", "evidence", "definition", "website/published*.py", "website/rounding.py", "website/judged.py")


@dataclass(frozen=True, kw_only=True, slots=True)
class Judged:
    """An experiment as one run's evidence has it, or as nobody has measured it yet."""

    plan: PlannedExperiment
    data: Mapping[str, Any]  # lab.website.published.experiment_data

    @property
    def evidence(self) -> Mapping[str, Any]:
        """Which run, when and how it measured; empty where there is none."""
        return self.data["evidence"] or {}

    @property
    def digest(self) -> str:
        return str(self.evidence.get("digest", ""))

    @property
    def machine(self) -> Mapping[str, Any]:
        """The fields of lab.evidence.record.Machine; empty where there is no run."""
        return self.data["machine"] or {}

    @property
    def on_cpu(self) -> bool:
        return self.machine.get("device") == "cpu"


def judged(evidence: Evidence, kept: Path = KEPT) -> tuple[Judged, ...]:
    """Every experiment of a published run, in its plan's order."""
    path = kept / _rules() / f"{evidence.digest}.json"
    if not path.is_file():
        _keep(path, evidence)
    held = json.loads(path.read_text(encoding="utf-8"))
    return tuple(Judged(plan=from_data(PlannedExperiment, item["plan"]), data=item["data"]) for item in held)


def _keep(path: Path, evidence: Evidence) -> None:
    run = evidence.run
    held = [
        {"plan": to_data(result.plan), "data": experiment_data(result, run, evidence.digest, evidence.commit)}
        for result in run.experiments
    ]
    for stale in path.parents[1].glob("*"):
        if stale != path.parent:
            shutil.rmtree(stale, ignore_errors=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_suffix(".part")
    fresh.write_text(json.dumps(held, separators=(",", ":")), encoding="utf-8")
    fresh.replace(path)


@cache
def _rules() -> str:
    """A digest of the code that judges."""
    said = hashlib.sha256()
    for path in sorted(_sources()):
        said.update(path.relative_to(ROOT).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return said.hexdigest()[:16]


def _sources() -> Iterable[Path]:
    for place in JUDGING:
        found = ROOT / "lab" / place
        yield from found.rglob("*.py") if found.is_dir() else found.parent.glob(found.name)
