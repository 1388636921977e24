"""Raw samples that a site publishes → runs, judged again as if nobody had judged them yet."""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from lab.definition import plan
from lab.definition.plan import load_plan
from lab.errors import EvidenceError, LabError
from lab.evidence import journal
from lab.website.addresses import short
from lab.website.data.promoted import EVIDENCE, NAME, SAMPLES, Evidence, address_of
from lab.website.verification.files import UNMEASURED, Mismatch, apart, read_json

RUNS = "runs"


def holds_samples(root: Path) -> bool:
    """Whether a site holds samples of any run. One that is committed leaves them in the repository."""
    return any(next((root / RUNS).glob(f"*/{name}"), None) for name in SAMPLES)


def stated_digests(root: Path) -> set[str]:
    """The digests of its runs as a site gives them: all that is known of a run whose samples are nowhere."""
    digests = set()
    for path in (root / RUNS).glob(f"*/{NAME}"):
        with suppress(EvidenceError):  # which `load_published` has named
            digests.add(_text(read_json(path.parent, NAME), "digest", path.parent.name))
    return digests


def load_published(
    root: Path, scratch: Path, differences: list[Mismatch], unchecked: list[str], say: Callable[[str], None]
) -> tuple[Evidence, ...]:
    """Every run of the site, oldest first; what is wrong with one is added to `differences`, and to `unchecked` runs
    whose samples are nowhere.

    EvidenceError where the site holds no run at all.
    """
    folders = sorted(path.parent for path in (root / RUNS).glob(f"*/{NAME}"))
    if not folders:
        raise EvidenceError(f"{root}: no {RUNS}/*/{NAME}: without raw samples nothing can be computed again")
    own_samples = holds_samples(root)
    runs, elsewhere = [], {} if own_samples else _repository(root)
    for number, folder in enumerate(folders, start=1):
        say(f"judging run {number} of {len(folders)}: {folder.name}")
        name = folder.relative_to(root).as_posix()
        source = folder if own_samples else elsewhere.get(folder.name)
        if source is None:
            unchecked.append(f"{name}: its samples are neither in the site nor in experiments/evidence/")
            continue
        try:
            evidence, wrong = _load(root, name, source, scratch / folder.name)
            differences += wrong
            runs.append(evidence)
            if evidence.run.seal and not evidence.run.seal.chained:
                say("  its journal is of an older schema and not chained: a line that is missing leaves no trace")
        except LabError as problem:
            differences.append(Mismatch(name, str(problem).replace(f"{scratch}/", "")))
        except UNMEASURED as problem:
            differences.append(Mismatch(name, f"cannot be judged ({type(problem).__name__}: {problem})"))
    return tuple(sorted(runs, key=lambda item: (item.run.finished_utc, item.run.plan.run_id)))


def _repository(root: Path) -> dict[str, Path]:
    """Where the samples of runs lie in the repository, by the folders of their pages."""
    folders_by_address: dict[str, Path] = {}
    for evidence in (EVIDENCE, root.parent / "experiments" / "evidence"):
        for path in evidence.glob(f"*/{NAME}"):
            folders_by_address[short(str(read_json(path.parent, NAME).get("digest")))] = path.parent
    return folders_by_address


def _load(root: Path, name: str, source: Path, unpacked: Path) -> tuple[Evidence, list[Mismatch]]:
    manifest = read_json(root, f"{name}/{NAME}")
    files = _unpack(source, unpacked)
    hashes = {file: hashlib.sha256(content).hexdigest() for file, content in files.items()}
    commit = _text(manifest, "commit", name)
    run_id = load_plan(unpacked).run_id
    # The digest too is computed: what the manifest says may be any text, and is not to become a path.
    evidence = Evidence(directory=unpacked, digest=address_of(run_id, commit, hashes), commit=commit)
    _ = evidence.run  # read and judged here, so that what is wrong with it is said of this run
    damaged = (
        Mismatch(f"{name}/{journal.PACKED}, line {damage.line_number}", damage.reason)
        for damage in evidence.run.damages
    )
    return evidence, [*damaged, *_misaddressed(manifest, hashes, evidence, name)]


def _unpack(source: Path, unpacked: Path) -> Mapping[str, bytes]:
    """Plan and journal of a run, written where the judge reads them."""
    try:
        files = {
            plan.NAME: (source / plan.NAME).read_bytes(),
            journal.NAME: journal.content_of(source / journal.PACKED),
        }
    except FileNotFoundError as missing:
        raise EvidenceError(f"{Path(str(missing.filename)).name} is missing; publish the site again") from None
    unpacked.mkdir(parents=True)
    for file, content in files.items():
        (unpacked / file).write_bytes(content)
    return files


def _misaddressed(manifest: Any, hashes: Mapping[str, str], evidence: Evidence, name: str) -> Iterator[Mismatch]:
    """Where the files are not those of the manifest, or the run is not at the address of its digest."""
    listed_files = manifest.get("files")
    for file, computed in hashes.items():
        if not isinstance(listed_files, dict) or listed_files.get(file) != computed:
            yield Mismatch(f"{name}/{file}", f"is not the file whose SHA-256 {NAME} gives")
    if Path(name).name != short(evidence.digest):
        yield Mismatch(name, f"is not the address of digest {short(evidence.digest)}…, which its files have")
    right = {"run_id": evidence.run.plan.run_id, "digest": evidence.digest, "commit": evidence.commit, "files": hashes}
    yield from apart(manifest, {"schema": manifest.get("schema"), **right}, f"{name}/{NAME}#")


def _text(manifest: Any, field: str, name: str) -> str:
    if not isinstance(manifest, dict) or not isinstance(manifest.get(field), str):
        raise EvidenceError(f"{name}/{NAME}: holds no {field}; publish the site again")
    return str(manifest[field])
