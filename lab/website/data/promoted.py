"""Runs promoted for publication: immutable, addressed by digest, bound to the commit that was measured."""

import hashlib
import json
import re
import shutil
import socket
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from lab.definition import plan_file
from lab.definition.prose import missing_prose
from lab.errors import EvidenceError, RunError
from lab.evidence import journal
from lab.evidence.codec import SCHEMA, digest, from_data, to_data
from lab.evidence.moment import now
from lab.evidence.source import NoRepository, commit_of
from lab.project import project
from lab.verdict.judge_run import load_run
from lab.verdict.results import RunResult
from lab.website.addresses import run_folder
from lab.website.data import publication_log, signature
from lab.website.wording.references import refuse_marks

# The files of a run as a reader downloads them: as they lie among the evidence, the journal compressed.
SAMPLES = (plan_file.NAME, journal.PACKED)
EVIDENCE = project().evidence
NAME = "evidence.json"
SCHEMAS = range(1, SCHEMA + 1)
FILES = (plan_file.NAME, journal.NAME)
PRIVATE = re.compile(r"/(?:home|root|Users)/[\w.-]+|/tmp/[\w.-]+")


@dataclass(frozen=True, kw_only=True, slots=True)
class Manifest:
    """What evidence.json says of a published run; `files` by name their SHA-256."""

    schema: int
    run_id: str
    digest: str
    commit: str
    files: Mapping[str, str]


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

    @property
    def signature(self) -> bytes:
        """Empty where nobody signed it."""
        path = self.directory / signature.SIGNATURE
        return path.read_bytes() if path.is_file() else b""

    def files(self, samples: bool) -> Iterator[tuple[str, bytes]]:
        """Path in the site and content of what it is addressed by, and with `samples` of what was measured."""
        folder = run_folder(self.digest)
        for name in (NAME, *(SAMPLES if samples else ())):
            yield f"{folder}/{name}", (self.directory / name).read_bytes()
        if signed := self.signature:
            yield f"{folder}/{signature.SIGNATURE}", signed


@dataclass(frozen=True, kw_only=True, slots=True)
class Promotion:
    """What `promote` did; `withdraw` undoes it where the site then fails to build."""

    directory: Path
    digest: str
    commit: str
    fresh: bool
    noted: bool = False  # whether it was added to the log of publications
    signed: bool = False  # whether it was signed now

    def withdraw(self) -> None:
        if self.noted:
            publication_log.take_back(self.directory.parent / publication_log.NAME, self.digest)
        if self.signed:
            (self.directory / signature.SIGNATURE).unlink()
        if self.fresh:
            shutil.rmtree(self.directory)


def promote(directory: Path, evidence: Path = EVIDENCE, root: Path | None = None, key: Path | None = None) -> Promotion:
    """Copy a finished run into the evidence folder; sign it, where an SSH key is named.

    EvidenceError where it is unfinished, damaged, measured from a source that no commit has, holds a
    private path or name, or would replace other evidence of that run id. Where there is no git repository
    the commit stays empty.
    """
    run = load_run(directory)
    _refuse_unfit(run, directory)
    try:
        commit = commit_of(run.start.source_digest, root)
    except NoRepository:
        commit = ""  # its pages say that it is not known, and its source is told by its digest alone
    contents = contents_of(directory)
    hashes = hashes_of(contents)
    address = address_of(run.plan.run_id, commit, hashes)
    target = evidence / run.plan.run_id
    if target.exists():
        if _manifest(target).digest == address:
            return _noted(Promotion(directory=target, digest=address, commit=commit, fresh=False), run, key)
        raise EvidenceError(f"{target}: holds other evidence under this run id; evidence is never replaced")
    manifest = Manifest(schema=SCHEMA, run_id=run.plan.run_id, digest=address, commit=commit, files=hashes)
    evidence.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=evidence, prefix=".promoting-") as scratch:
        whole = Path(scratch) / "evidence"
        whole.mkdir()
        (whole / plan_file.NAME).write_bytes(contents[plan_file.NAME])
        (whole / journal.PACKED).write_bytes(journal.packed(contents[journal.NAME]))
        (whole / NAME).write_text(json.dumps(to_data(manifest), indent=1, sort_keys=True) + "\n")
        whole.rename(target)
    return _noted(Promotion(directory=target, digest=address, commit=commit, fresh=True), run, key)


def _noted(done: Promotion, run: RunResult, key: Path | None) -> Promotion:
    """Signed, and in the log of publications; as before where it cannot be signed."""
    try:
        if key:
            signed = signature.sign((done.directory / NAME).read_bytes(), key)
            (done.directory / signature.SIGNATURE).write_bytes(signed)
        added = publication_log.add(
            done.directory.parent / publication_log.NAME,
            published_utc=now(), run_id=run.plan.run_id, digest=done.digest, commit=done.commit,
        )  # fmt: skip
    except BaseException:
        done.withdraw()
        raise
    return replace(done, noted=added, signed=key is not None)


def load_evidence(evidence: Path = EVIDENCE) -> tuple[Evidence, ...]:
    """All published runs, by name. EvidenceError where a file is not what was published."""
    return tuple(_load(path.parent) for path in sorted(evidence.glob(f"*/{NAME}")))


def _load(directory: Path) -> Evidence:
    manifest = _manifest(directory)
    hashes = hashes_of(contents_of(directory))
    if altered := [name for name in FILES if manifest.files.get(name) != hashes[name]]:
        raise EvidenceError(f"{directory / altered[0]}: is not the file that was published; restore it from git")
    if address_of(manifest.run_id, manifest.commit, hashes) != manifest.digest:
        raise EvidenceError(f"{directory / NAME}: its digest is not that of what it lists; restore it from git")
    return Evidence(directory=directory, digest=manifest.digest, commit=manifest.commit)


def refuse_marked(directory: Path) -> None:
    """EvidenceError where a run holds a character by which this website marks figures."""
    for name, content in contents_of(directory).items():
        refuse_marks(content.decode(), str(directory / name), EvidenceError)


def _refuse_unfit(run: RunResult, directory: Path) -> None:
    if run.damages:
        bad = run.damages[0]
        raise EvidenceError(f"{directory}: journal line {bad.line_number} is damaged: {bad.reason}")
    if not run.finished_utc:
        raise EvidenceError(
            f"{directory}: the run is unfinished; the command that began it resumes it, "
            "and `lab finish` ends it where it cannot go on"
        )
    path = journal.find(directory)
    if path and path.stat().st_size > journal.MOST_BYTES:
        raise EvidenceError(
            f"{path}: has {path.stat().st_size:,} bytes, and a journal of at most {journal.MOST_BYTES:,} can be "
            "published; measure its experiments in several runs"
        )
    if lacking := [(e.plan.name, missing) for e in run.experiments for missing in missing_prose(e.plan)]:
        from lab.definition.catalogue import file_of  # which loads the definitions

        listed = "\n".join(f"{file_of(name)}: {name}: {missing}" for name, missing in lacking)
        raise EvidenceError(
            f"{directory}: the run was registered without words that its pages need. Write them, commit, and measure "
            f"again: what is published is what was registered before measuring\n{listed}"
        )
    refuse_marked(directory)
    for name, content in contents_of(directory).items():
        text = content.decode()
        host = socket.gethostname()
        private = PRIVATE.search(text) or (re.search(rf"\b{re.escape(host)}\b", text) if len(host) > 4 else None)
        if private:
            raise EvidenceError(f"{directory / name}: holds {private[0]!r}, which is private to the machine")


def _manifest(directory: Path) -> Manifest:
    path = directory / NAME
    try:
        manifest = from_data(Manifest, json.loads(path.read_text(encoding="utf-8")), NAME)
    except (OSError, ValueError, RecursionError, RunError) as problem:
        raise EvidenceError(f"{path}: cannot be read ({problem}); restore it from git") from None
    if manifest.schema not in SCHEMAS:
        raise EvidenceError(f"{path}: is not a manifest of schemas 1 to {SCHEMA}")
    return manifest


def address_of(run_id: str, commit: str, hashes: dict[str, str]) -> str:
    """The digest that evidence is addressed by: of its files, its run id and the commit that was measured."""
    return digest({"run_id": run_id, "commit": commit, "files": hashes})


def contents_of(directory: Path) -> dict[str, bytes]:
    """Plan and journal of a run, the journal unpacked. EvidenceError where one is missing or cannot be read."""
    path = journal.find(directory)
    try:
        if path is None:
            raise EvidenceError(f"{directory}: holds no {journal.NAME} and no {journal.PACKED}; restore it from git")
        return {plan_file.NAME: (directory / plan_file.NAME).read_bytes(), journal.NAME: journal.content_of(path)}
    except (OSError, RunError) as problem:
        raise EvidenceError(f"{directory}: cannot be read ({problem}); restore it from git") from None


def hashes_of(contents: dict[str, bytes]) -> dict[str, str]:
    return {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}
