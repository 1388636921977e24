"""Judging raw samples takes seconds and always comes out the same, so what came out is kept.

By the digest of the evidence, and that of the code that judges: a folder a run, with a list of its experiments and,
of each, the plan and the data as they are published. All of it may be deleted at any time.
"""

import json
import os
import pickle
import shutil
import sys
from collections.abc import Callable, Sequence
from functools import cache, partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

from lab.definition.catalogue import load_audits, load_experiments
from lab.definition.plan import PlannedExperiment
from lab.definition.planning import planned
from lab.definition.publication import Publication
from lab.errors import DefinitionError, LabError
from lab.evidence.codec import digest, from_data, to_data
from lab.project import project
from lab.verdict.validity import study
from lab.website.data.judged import Judged, LazyJudged, judged_run
from lab.website.data.promoted import Evidence, refuse_marked
from lab.website.data.published_trust import trust_data
from lab.website.sources import digest_of
from lab.website.wording.outside import check_claims
from lab.website.wording.references import check_typed, refuse_marks

CACHE = project().cache / "judged"
EVERYTHING = frozenset({"rmsnorm-shape-sweep", "full-validity"})
LIST = "experiments.json"
JUDGING = (
    "lab/verdict", "lab/evidence", "lab/definition", "lab/quantities.py", "lab/website/data/published*.py",
    "lab/website/data/judged_cache.py", "lab/website/data/judged.py", "lab/website/data/typed.py",
    "lab/website/data/zoo_runs.py",
    "lab/website/addresses.py", "lab/website/wording/references.py",
    "lab/profiler/readings.py", "experiments/audits",
    "experiments/breakdowns.py", "experiments/tokens.py",
)  # fmt: skip
PACKAGES = ("numpy", "scipy")  # which compute for it
DEFINING = (
    "experiments/*.py", "experiments/cheats", "lab/definition", "lab/kernels", "lab/evidence/codec.py",
    "lab/website/wording", "lab/website/addresses.py",
)  # fmt: skip


def judged(evidence: Evidence, kept: Path = CACHE) -> tuple[LazyJudged, ...]:
    """The experiments of a published run, in its plan's order, as they are kept; judged now, where nothing is."""
    folder = kept / _rules() / evidence.digest
    try:
        listed = json.loads(_kept(folder / LIST, lambda: _judged(folder, evidence)))
    except ValueError as problem:
        raise _unreadable(folder, problem) from None
    return tuple(
        LazyJudged(
            partial(read_judged, folder / name),
            name=name,
            key=f"{folder.parent.name}/{evidence.digest}/{name}",
            digest=evidence.digest,
            finished_utc=listed["finished_utc"],
            fullness=tuple(known["fullness"]),
            cites=known["cites"],
        )
        for name, known in listed["experiments"].items()
    )


def read_judged(folder: Path) -> Judged:
    """An experiment whose plan and data lie there."""
    try:
        text = (folder / "data.json").read_text(encoding="utf-8")
        planned = json.loads((folder / "plan.json").read_bytes())
        return Judged(plan=from_data(PlannedExperiment, planned), data=json.loads(text), text=text)
    except (OSError, ValueError) as problem:
        raise _unreadable(folder, problem) from None


def definitions(kept: Path = CACHE) -> tuple[PlannedExperiment, ...]:
    """The experiments that the lab defines, with all their cases, where no prose of theirs types in a figure.

    To read the definitions themselves PyTorch and Triton must be loaded, which takes longer than to build a site of
    which nothing has changed.
    """

    def made() -> bytes:
        experiments = load_experiments()
        check_typed(experiments)
        plans = {each.name: planned(each, EVERYTHING) for each in experiments}
        check_claims(list(plans.values()))
        texts = {name: json.dumps(to_data(plan)) for name, plan in plans.items()}
        for name, text in texts.items():
            refuse_marks(text, f"experiment {name}", DefinitionError)
        return f"[{', '.join(texts.values())}]".encode()

    plans = json.loads(of_definitions("definitions", made, kept=kept))
    return tuple(from_data(PlannedExperiment, item) for item in plans)


def audits(kept: Path = CACHE) -> tuple[Publication, ...]:
    """The publications that the lab audits; kept because to read them the definitions are loaded too."""
    pickled = of_definitions("audits", lambda: pickle.dumps(load_audits()), "experiments/audits", kept=kept)
    publications: tuple[Publication, ...] = pickle.loads(pickled)
    return publications


def trust(evidence: Sequence[Evidence], kept: Path = CACHE) -> dict[str, Any]:
    """What published runs, oldest first, say of the lab itself: lab.website.data.published_trust."""

    def made() -> bytes:
        runs = [item.run for item in evidence]
        return json.dumps(trust_data(study(runs), runs)).encode()

    path = kept / _rules() / f"trust-{digest([item.digest for item in evidence])}.json"
    data: dict[str, Any] = json.loads(_kept(path, made))
    return data


def of_definitions(name: str, make: Callable[[], bytes], *more: str, kept: Path = CACHE) -> bytes:
    """What follows from what the lab defines and, where files are named, from those: made where it is not kept."""
    return _kept(kept / f"{name}-{digest_of(*DEFINING, *more)[:16]}", make)


def _kept(path: Path, make: Callable[[], bytes]) -> bytes:
    if not path.is_file():
        _replace(path, make())
    return path.read_bytes()


def _unreadable(folder: Path, problem: Exception) -> LabError:
    return LabError(f"{folder}: what was kept cannot be read ({problem}); delete the folder, and build again")


def _replace(path: Path, content: bytes) -> None:
    """Write it whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}-{os.getpid()}")
    fresh.write_bytes(content)
    fresh.replace(path)


def _judged(folder: Path, evidence: Evidence) -> bytes:
    """Put a run's experiments into the folder; the list of them, which is written when all are there. What was judged
    by other rules goes."""
    for stale in folder.parents[1].glob("*"):
        if stale.is_dir() and stale != folder.parent:
            shutil.rmtree(stale, ignore_errors=True)
    refuse_marked(evidence.directory)
    items = judged_run(evidence.run, evidence.digest, evidence.commit)
    for item in items:
        _replace(folder / item.plan.name / "plan.json", json.dumps(to_data(item.plan)).encode())
        _replace(folder / item.plan.name / "data.json", item.as_json().encode())
    listed = {
        "finished_utc": evidence.run.finished_utc,
        "experiments": {item.plan.name: {"fullness": item.fullness, "cites": item.cites} for item in items},
    }
    return json.dumps(listed).encode()


@cache
def _rules() -> str:
    """A digest of the code that judges, and of what it computes with."""
    return digest([digest_of(*JUDGING), sys.version, *map(version, PACKAGES)])[:16]
