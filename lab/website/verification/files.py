"""A published site as `lab verify` finds it: a folder or a zip, its files by its manifest, its runs judged afresh."""

import json
import struct
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from lab.definition.plan_file import load_plan
from lab.errors import EvidenceError, LabError
from lab.evidence import journal
from lab.verdict.judge_run import UNMEASURED
from lab.website.addresses import short
from lab.website.data.promoted import EVIDENCE, NAME, SAMPLES, Evidence, address_of, contents_of, hashes_of
from lab.website.files.inventory import MANIFEST, manifest_text, read_files

FRONT = "index.html"
MOST_UNPACKED_BYTES = 8 << 30  # a site of ten thousand experiments has less
# What Python's zipfile raises of files that are none, or are of kinds that it does not know.
UNPACKING = (
    zipfile.BadZipFile, zlib.error, EOFError, struct.error, RuntimeError, ValueError, OverflowError
)  # fmt: skip
PACKED, ENCRYPTED = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED), 1  # what every reader of zips unpacks


@dataclass(frozen=True, slots=True)
class Mismatch:
    """Where the site says something else than its samples do. `place` is FILE, or FILE#POINTER."""

    place: str
    says: str

    def __str__(self) -> str:
        return f"{self.place}: {self.says}"


@contextmanager
def opened(site: Path) -> Iterator[Path]:
    """The folder of a site, unpacked for the while where it is a zip. EvidenceError where it is neither."""
    if site.is_dir():
        yield _root(site, site)
    elif not site.is_file():
        raise EvidenceError(f"{site}: nothing there; name the folder or the zip of a site")
    else:
        with TemporaryDirectory(prefix="lab-verify-") as scratch:
            try:
                with zipfile.ZipFile(site) as packed:
                    _refuse_unsound(site, packed)
                    packed.extractall(scratch)
            except UNPACKING as problem:
                raise EvidenceError(f"{site}: cannot be unpacked ({problem}); download it again") from None
            except OSError as problem:
                raise EvidenceError(
                    f"{site}: cannot be unpacked into {scratch} ({problem.strerror or problem}); "
                    "TMPDIR names the folder where that happens"
                ) from None
            yield _root(Path(scratch), site)


def _refuse_unsound(site: Path, packed: zipfile.ZipFile) -> None:
    """EvidenceError where a zip is not the same to everybody who unpacks it, or fills the disk."""
    entries = packed.infolist()
    names = [entry.filename for entry in entries]
    if strange := next((name for name in names if not _is_inside(name)), None):
        raise EvidenceError(f"{site}: holds {strange!r}, which leads out of it; ask for a zip of the folder alone")
    if twice := next((name for name, count in Counter(names).items() if count > 1), None):
        raise EvidenceError(f"{site}: holds {twice!r} twice, so that what is read depends on who reads it")
    if other := next((e.filename for e in entries if e.compress_type not in PACKED or e.flag_bits & ENCRYPTED), None):
        raise EvidenceError(f"{site}: holds {other!r} encrypted or packed in a way of its own; accepted is deflate")
    if (size := sum(entry.file_size for entry in entries)) > MOST_UNPACKED_BYTES:
        raise EvidenceError(f"{site}: would unpack to {size:,} bytes, and at most {MOST_UNPACKED_BYTES:,} are accepted")


def _is_inside(name: str) -> bool:
    """Whether a path of a zip stays in the folder where it is unpacked, on every system."""
    return not name.startswith("/") and not {"..", "."} & set(name.split("/")) and not set(":\\\0") & set(name)


def _root(folder: Path, site: Path) -> Path:
    """The folder that holds the front page: itself, or, as zips often have it, the only thing in it.

    EvidenceError where anything lies beside that one, for a reader of the zip may take it for the site.
    """
    if (folder / FRONT).is_file():
        return folder
    entries = sorted(folder.iterdir())
    inner = [path for path in entries if (path / FRONT).is_file()]
    if not inner:
        raise EvidenceError(f"{site}: holds no {FRONT}; name the folder or the zip of a whole site")
    if beside := next((path.name for path in entries if path != inner[0]), ""):
        raise EvidenceError(
            f"{site}: holds {beside!r} beside {inner[0].name!r}, which looks like a site; name the folder of the site, "
            "or a zip with nothing else in it"
        )
    return inner[0]


def check_manifest(root: Path) -> Iterator[Mismatch]:
    """Every file against the SHA-256 that the manifest gives for it, and the manifest against all of them."""
    for path in sorted(root.rglob("*")):
        if path.is_symlink() or not (path.is_file() or path.is_dir()):
            yield Mismatch(path.relative_to(root).as_posix(), "is a link or a device, and no file of a site")
    if not (root / MANIFEST).is_file():
        yield Mismatch(MANIFEST, "is missing; it lists every file of a site")
        return
    listed = _told(read_json(root, MANIFEST))
    present = read_files(root)
    wrong = False
    for name in sorted(listed.keys() | present.keys()):
        says = ""
        if name not in present:
            says = f"is missing; {MANIFEST} lists it"
        elif name not in listed:
            says = f"is not listed in {MANIFEST}"
        elif listed[name] != present[name].sha256:
            says = f"is not the file whose SHA-256 {MANIFEST} gives"
        if says:
            wrong = True
            yield Mismatch(name, says)
    if not wrong and (root / MANIFEST).read_bytes() != manifest_text(present).encode():
        yield Mismatch(MANIFEST, "says something else than which files there are, how large, and their SHA-256")


def _told(manifest: Any) -> Mapping[str, str]:
    """SHA-256 by path."""
    files = manifest.get("files") if isinstance(manifest, dict) else None
    if not isinstance(files, dict):
        raise EvidenceError(f"{MANIFEST}: holds no `files`; publish the site again")
    return {name: str(entry.get("sha256") if isinstance(entry, dict) else entry) for name, entry in files.items()}


def read_json(root: Path, name: str) -> Any:
    """A JSON file of the site. EvidenceError where it is missing or damaged."""
    try:
        return json.loads((root / name).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as problem:
        raise EvidenceError(f"{name}: cannot be read ({problem}); publish the site again") from None


def apart(published: Any, computed: Any, place: str) -> Iterator[Mismatch]:
    """Every value in which two JSON documents differ, by its pointer."""
    if isinstance(published, dict) and isinstance(computed, dict):
        for key in sorted(published.keys() | computed.keys()):
            below = f"{place}/{key.replace('~', '~0').replace('/', '~1')}"
            if key not in computed:
                yield Mismatch(below, "is published, and nothing computes it")
            elif key not in published:
                yield Mismatch(below, f"is missing; computed is {_short(computed[key])}")
            else:
                yield from apart(published[key], computed[key], below)
    elif isinstance(published, list) and isinstance(computed, list) and len(published) == len(computed):
        for number, pair in enumerate(zip(published, computed, strict=True)):
            yield from apart(*pair, f"{place}/{number}")
    elif published != computed or isinstance(published, bool) != isinstance(computed, bool):
        yield Mismatch(place, f"published is {_short(published)}, computed {_short(computed)}")


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else f"{text[:77]}…"


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
    root: Path, differences: list[Mismatch], unchecked: list[str], say: Callable[[str], None]
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
            evidence, wrong = _load(root, name, source)
            differences += wrong
            runs.append(evidence)
            if evidence.run.seal and not evidence.run.seal.chained:
                say("  its journal is of an older schema and not chained: a line that is missing leaves no trace")
        except LabError as problem:
            differences.append(Mismatch(name, str(problem).removeprefix(f"{source}: ").replace(f"{root}/", "")))
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


def _load(root: Path, name: str, source: Path) -> tuple[Evidence, list[Mismatch]]:
    manifest = read_json(root, f"{name}/{NAME}")
    hashes, commit = hashes_of(contents_of(source)), _text(manifest, "commit", name)
    # The digest too is computed: what the manifest says may be any text, and is not to become a path.
    digest = address_of(load_plan(source).run_id, commit, hashes)
    evidence = Evidence(directory=source, digest=digest, commit=commit)
    _ = evidence.run  # read and judged here, so that what is wrong with it is said of this run
    damaged = (
        Mismatch(f"{name}/{journal.PACKED}, line {damage.line_number}", damage.reason)
        for damage in evidence.run.damages
    )
    return evidence, [*damaged, *_misaddressed(manifest, hashes, evidence, name)]


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
