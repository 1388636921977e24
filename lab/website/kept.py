"""Judging raw samples takes seconds and always comes out the same, so what came out is kept.

By the digest of the evidence, and that of the code that judges. All of it may be deleted at any time.
"""

import hashlib
import json
import shutil
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from lab.definition.plan import PlannedExperiment
from lab.evidence.codec import digest, from_data, to_data
from lab.evidence.source import ROOT
from lab.verdict.validity import study
from lab.website.judged import Judged, judged_run
from lab.website.promoted import Evidence
from lab.website.published_trust import trust_data

KEPT = ROOT / ".cache" / "judged"
JUDGING = (
    "lab/verdict", "lab/evidence", "lab/definition", "lab/website/published*.py", "lab/website/rounding.py",
    "lab/website/kept.py", "experiments/audits",
)  # fmt: skip


def judged(evidence: Evidence, kept: Path = KEPT) -> tuple[Judged, ...]:
    """Every experiment of a published run, in its plan's order."""

    def make() -> list[dict[str, Any]]:
        found = judged_run(evidence.run, evidence.digest, evidence.commit)
        return [{"plan": to_data(item.plan), "data": item.data} for item in found]

    held = _kept(kept, f"{evidence.digest}.json", make)
    return tuple(Judged(plan=from_data(PlannedExperiment, item["plan"]), data=item["data"]) for item in held)


def trust(evidence: Sequence[Evidence], kept: Path = KEPT) -> dict[str, Any]:
    """What published runs, oldest first, say of the lab itself: lab.website.published_trust."""

    def make() -> dict[str, Any]:
        runs = [item.run for item in evidence]
        return trust_data(study(runs), runs)

    found: dict[str, Any] = _kept(kept, f"trust-{digest([item.digest for item in evidence])}.json", make)
    return found


def _kept(folder: Path, name: str, make: Callable[[], Any]) -> Any:
    """What `make` returned when it was first asked under this name and by these rules."""
    path = folder / _rules() / name
    if not path.is_file():
        for stale in folder.glob("*"):
            if stale != path.parent:
                shutil.rmtree(stale, ignore_errors=True)
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = path.with_suffix(".part")
        fresh.write_text(json.dumps(make(), separators=(",", ":")), encoding="utf-8")
        fresh.replace(path)
    return json.loads(path.read_text(encoding="utf-8"))


@cache
def _rules() -> str:
    """A digest of the code that judges."""
    said = hashlib.sha256()
    for path in sorted(_sources()):
        said.update(path.relative_to(ROOT).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return said.hexdigest()[:16]


def _sources() -> Iterable[Path]:
    for place in JUDGING:
        found = ROOT / place
        yield from found.rglob("*.py") if found.is_dir() else found.parent.glob(found.name)
