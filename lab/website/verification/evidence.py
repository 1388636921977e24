"""Raw samples that a site publishes → runs, judged again as if nobody had judged them yet."""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from lab.definition import plan
from lab.definition.plan import load_plan
from lab.errors import EvidenceError, LabError
from lab.evidence import journal
from lab.website.addresses import short
from lab.website.data.promoted import NAME, Evidence, address_of
from lab.website.verification.files import UNMEASURED, Difference, apart, read_json

RUNS = "runs"


def load_published(
    root: Path, scratch: Path, differences: list[Difference], say: Callable[[str], None]
) -> tuple[Evidence, ...]:
    """Every run of the site, oldest first; what is wrong with one is added to `differences`.

    EvidenceError where the site holds no run at all.
    """
    folders = sorted(path.parent for path in (root / RUNS).glob(f"*/{NAME}"))
    if not folders:
        raise EvidenceError(f"{root}: no {RUNS}/*/{NAME}: without raw samples nothing can be computed again")
    found = []
    for number, folder in enumerate(folders, start=1):
        say(f"judging run {number} of {len(folders)}: {folder.name}")
        name = folder.relative_to(root).as_posix()
        try:
            evidence, wrong = _load(root, name, scratch / folder.name)
            differences += wrong
            found.append(evidence)
        except LabError as problem:
            differences.append(Difference(name, str(problem).replace(f"{scratch}/", "")))
        except UNMEASURED as problem:
            differences.append(Difference(name, f"cannot be judged ({type(problem).__name__}: {problem})"))
    return tuple(sorted(found, key=lambda item: (item.run.finished_utc, item.run.plan.run_id)))


def _load(root: Path, name: str, unpacked: Path) -> tuple[Evidence, list[Difference]]:
    manifest = read_json(root, f"{name}/{NAME}")
    files = _unpack(root, name, unpacked)
    hashes = {file: hashlib.sha256(content).hexdigest() for file, content in files.items()}
    commit = _text(manifest, "commit", name)
    run_id = load_plan(unpacked).run_id
    # The digest too is computed: what the manifest says may be any text, and is not to become a path.
    evidence = Evidence(directory=unpacked, digest=address_of(run_id, commit, hashes), commit=commit)
    _ = evidence.run  # read and judged here, so that what is wrong with it is said of this run
    return evidence, list(_misaddressed(manifest, hashes, evidence, name))


def _unpack(root: Path, name: str, unpacked: Path) -> Mapping[str, bytes]:
    """Plan and journal of a run, written where the judge reads them."""
    try:
        held = {
            plan.NAME: (root / name / plan.NAME).read_bytes(),
            journal.NAME: journal.content_of(root / name / journal.PACKED),
        }
    except FileNotFoundError as missing:
        raise EvidenceError(f"{Path(str(missing.filename)).name} is missing; publish the site again") from None
    unpacked.mkdir(parents=True)
    for file, content in held.items():
        (unpacked / file).write_bytes(content)
    return held


def _misaddressed(manifest: Any, hashes: Mapping[str, str], evidence: Evidence, name: str) -> Iterator[Difference]:
    """Where the files are not those of the manifest, or the run is not at the address of its digest."""
    told = manifest.get("files")
    for file, computed in hashes.items():
        if not isinstance(told, dict) or told.get(file) != computed:
            yield Difference(f"{name}/{file}", f"is not the file whose SHA-256 {NAME} gives")
    if Path(name).name != short(evidence.digest):
        yield Difference(name, f"is not the address of digest {short(evidence.digest)}…, which its files have")
    right = {"run_id": evidence.run.plan.run_id, "digest": evidence.digest, "commit": evidence.commit, "files": hashes}
    yield from apart(manifest, {"schema": manifest.get("schema"), **right}, f"{name}/{NAME}#")


def _text(manifest: Any, field: str, name: str) -> str:
    if not isinstance(manifest, dict) or not isinstance(manifest.get(field), str):
        raise EvidenceError(f"{name}/{NAME}: holds no {field}; publish the site again")
    return str(manifest[field])
