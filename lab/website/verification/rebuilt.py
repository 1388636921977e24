"""The whole site made afresh from runs that were judged anew, and each of its files held against the published one.

Nothing is taken from what earlier builds kept, and nothing is kept: neither the site nor this machine's cache is
believed, and a site that somebody else made leaves no trace in it.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from lab.evidence import journal
from lab.website.addresses import run_folder
from lab.website.build import write_context
from lab.website.data import signature
from lab.website.data.promoted import FILES, NAME, Evidence
from lab.website.data.publication_log import Log
from lab.website.files import inventory
from lab.website.site import BUILDERS, gather
from lab.website.verification.evidence import holds_samples
from lab.website.verification.files import Mismatch, apart

SHOWN, BEFORE = 60, 20  # characters of a line that differs, and of them those that agree


def rebuilt(root: Path, evidence: Sequence[Evidence], decisions: Path, scratch: Path, log: Log = ()) -> Path:
    """The folder of a site of the same runs and for the same address. LabError where it cannot be built."""
    context = gather(evidence, decisions, _address(root), scratch / "kept", log)
    samples = holds_samples(root)  # its pages say so
    # The files of runs are held against their own digests; to compress them again would take longer than all else.
    write_context(
        replace(context, samples=samples, downloads=False), BUILDERS, scratch / "site", scratch / "remembered"
    )
    return scratch / "site"


def _address(root: Path) -> str:
    path = root / inventory.SITEMAP
    return inventory.address_in(path.read_text(encoding="utf-8", errors="replace")) if path.is_file() else ""


def unlike(root: Path, made: Path, evidence: Iterable[Evidence]) -> Iterator[Mismatch]:
    """Where a site is not what was made afresh; data value by value, other files by the first line that differs."""
    present, expected = _files(root), _files(made)
    raw = {f"{run_folder(item.digest)}/{name}" for item in evidence for name in (*FILES, NAME, signature.NAME)}
    raw = {f"{name}.gz" if name.endswith(journal.NAME) else name for name in raw}
    for name in sorted(expected.keys() - present.keys()):
        yield Mismatch(name, "is missing; it follows from the samples")
    for name in sorted(present.keys() - expected.keys() - raw):
        yield Mismatch(name, "is published, and nothing makes it")
    for name in sorted(present.keys() & expected.keys()):
        published, computed = present[name].read_bytes(), expected[name].read_bytes()
        if published != computed:
            yield from _apart(name, published, computed)


def _files(root: Path) -> Mapping[str, Path]:
    """All but the manifest, which lists the files of runs too, and is checked by itself."""
    paths = (path for path in root.rglob("*") if path.is_file() or path.is_symlink())
    return {name: path for path in paths if (name := path.relative_to(root).as_posix()) != inventory.MANIFEST}


def _apart(name: str, published: bytes, computed: bytes) -> Iterator[Mismatch]:
    if name.endswith(".json"):
        try:
            values = list(apart(json.loads(published), json.loads(computed), f"{name}#"))
        except (ValueError, RecursionError) as problem:
            values = [Mismatch(name, f"is damaged: {problem}")]
        yield from values or [Mismatch(name, "has the values that are computed, written otherwise")]
        return
    lines = [content.decode("utf-8", "replace").splitlines() for content in (published, computed)]
    pairs = zip(*lines, strict=False)
    number, pair = next(((at, pair) for at, pair in enumerate(pairs, 1) if pair[0] != pair[1]), (0, ("", "")))
    if not number:
        yield Mismatch(name, f"has {len(lines[0])} lines, computed are {len(lines[1])}, or they end otherwise")
        return
    here = next((at for at, (a, b) in enumerate(zip(*pair, strict=False)) if a != b), min(map(len, pair)))
    start = max(0, here - BEFORE)
    said, instead = (repr(text[start : start + SHOWN]) for text in pair)
    yield Mismatch(f"{name}, line {number}", f"published is {said}, computed {instead}")
