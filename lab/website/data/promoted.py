"""Runs promoted for publication: immutable, addressed by digest, bound to the commit that was measured."""

import hashlib
import json
import re
import shutil
import socket
import tempfile
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from lab.definition import plan
from lab.errors import EvidenceError, RunError
from lab.evidence import journal
from lab.evidence.codec import SCHEMA, digest
from lab.evidence.source import ROOT, commit_of
from lab.verdict.results import RunResult, load_run
from lab.website.wording.references import refuse_marks

EVIDENCE = ROOT / "experiments" / "evidence"
NAME = "evidence.json"
FILES = (plan.NAME, journal.NAME)
PRIVATE = re.compile(r"/(?:home|root|Users)/[\w.-]+|/tmp/[\w.-]+")


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """A published run: where it lies, what it is addressed by, and which commit it measured."""

    directory: Path
    digest: str
    commit: str

    @cached_property
    def run(self) -> RunResult:
        """Its result, judged when it is first asked for, which takes seconds."""
        return load_run(self.directory)


@dataclass(frozen=True, kw_only=True, slots=True)
class Promotion:
    """What `promote` did; `withdraw` undoes it where the site then fails to build."""

    directory: Path
    digest: str
    commit: str
    fresh: bool

    def withdraw(self) -> None:
        if self.fresh:
            shutil.rmtree(self.directory)


def promote(directory: Path, evidence: Path = EVIDENCE, root: Path = ROOT) -> Promotion:
    """Copy a finished run into the evidence folder.

    EvidenceError where it is unfinished, damaged, measured from a source that no commit has, holds a
    private path or name, or would replace other evidence of that run id.
    """
    run = load_run(directory)
    _refuse_unfit(run, directory)
    commit = commit_of(run.start.source_digest, root)
    contents = _contents(directory)
    hashes = _hashes(contents)
    address = address_of(run.plan.run_id, commit, hashes)
    target = evidence / run.plan.run_id
    if target.exists():
        if _manifest(target)["digest"] == address:
            return Promotion(directory=target, digest=address, commit=commit, fresh=False)
        raise EvidenceError(f"{target}: holds other evidence under this run id; evidence is never replaced")
    manifest = {"schema": SCHEMA, "run_id": run.plan.run_id, "digest": address, "commit": commit, "files": hashes}
    evidence.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=evidence, prefix=".promoting-") as scratch:
        whole = Path(scratch) / "evidence"
        whole.mkdir()
        (whole / plan.NAME).write_bytes(contents[plan.NAME])
        (whole / journal.PACKED).write_bytes(journal.packed(contents[journal.NAME]))
        (whole / NAME).write_text(json.dumps(manifest, indent=1, sort_keys=True) + "\n")
        whole.rename(target)
    return Promotion(directory=target, digest=address, commit=commit, fresh=True)


def load_evidence(evidence: Path = EVIDENCE) -> tuple[Evidence, ...]:
    """All published runs, by name. EvidenceError where a file is not what was published."""
    return tuple(_load(path.parent) for path in sorted(evidence.glob(f"*/{NAME}")))


def _load(directory: Path) -> Evidence:
    manifest = _manifest(directory)
    hashes = _hashes(_contents(directory))
    if altered := [name for name in FILES if manifest["files"].get(name) != hashes[name]]:
        raise EvidenceError(f"{directory / altered[0]}: is not the file that was published; restore it from git")
    if address_of(str(manifest["run_id"]), str(manifest["commit"]), hashes) != manifest["digest"]:
        raise EvidenceError(f"{directory / NAME}: its digest is not that of what it lists; restore it from git")
    return Evidence(directory=directory, digest=manifest["digest"], commit=manifest["commit"])


def refuse_marked(directory: Path) -> None:
    """EvidenceError where a run holds a character by which this website marks figures."""
    for name, content in _contents(directory).items():
        refuse_marks(content.decode(), str(directory / name), EvidenceError)


def _refuse_unfit(run: RunResult, directory: Path) -> None:
    if not run.finished_utc:
        raise EvidenceError(
            f"{directory}: the run is unfinished; the command that began it resumes it, "
            "and `lab finish` ends it where it cannot go on"
        )
    if run.damages:
        bad = run.damages[0]
        raise EvidenceError(f"{directory}: journal line {bad.line_number} is damaged: {bad.reason}")
    refuse_marked(directory)
    for name, content in _contents(directory).items():
        text = content.decode()
        host = socket.gethostname()
        found = PRIVATE.search(text) or (re.search(rf"\b{re.escape(host)}\b", text) if len(host) > 4 else None)
        if found:
            raise EvidenceError(f"{directory / name}: holds {found[0]!r}, which is private to the machine")


def _manifest(directory: Path) -> dict[str, Any]:
    path = directory / NAME
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as problem:
        raise EvidenceError(f"{path}: cannot be read ({problem}); restore it from git") from None
    if not isinstance(manifest, dict) or manifest.get("schema") not in range(1, SCHEMA + 1):
        raise EvidenceError(f"{path}: is not a manifest of schemas 1 to {SCHEMA}")
    return manifest


def address_of(run_id: str, commit: str, hashes: dict[str, str]) -> str:
    """The digest that evidence is addressed by: of its files, its run id and the commit that was measured."""
    return digest({"run_id": run_id, "commit": commit, "files": hashes})


def _contents(directory: Path) -> dict[str, bytes]:
    """Plan and journal of a run, the journal unpacked. EvidenceError where one is missing or cannot be read."""
    path = journal.find(directory)
    try:
        if path is None:
            raise EvidenceError(f"{directory}: holds no {journal.NAME} and no {journal.PACKED}; restore it from git")
        return {plan.NAME: (directory / plan.NAME).read_bytes(), journal.NAME: journal.content_of(path)}
    except (OSError, RunError) as problem:
        raise EvidenceError(f"{directory}: cannot be read ({problem}); restore it from git") from None


def _hashes(contents: dict[str, bytes]) -> dict[str, str]:
    return {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}
