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
from lab.website.data.promoted import FILES, NAME, Evidence
from lab.website.files import manifest, sitemap
from lab.website.incremental import write_parts
from lab.website.parts import Parts
from lab.website.site import ROOMS, gather
from lab.website.verification.files import Difference, apart

SHOWN, BEFORE = 60, 20  # characters of a line that differs, and of them those that agree


def rebuilt(root: Path, evidence: Sequence[Evidence], decisions: Path, scratch: Path) -> Path:
    """The folder of a site of the same runs and for the same address. LabError where it cannot be built."""
    gathered, current, published = gather(evidence, decisions, _address(root), scratch / "kept")
    # The files of runs are held against their own digests; to compress them again would take longer than all else.
    parts = Parts(replace(gathered, downloads=False), ROOMS, current, published)
    write_parts(parts, scratch / "site", scratch / "remembered")
    return scratch / "site"


def _address(root: Path) -> str:
    path = root / sitemap.NAME
    return sitemap.address_in(path.read_text(encoding="utf-8", errors="replace")) if path.is_file() else ""


def unlike(root: Path, made: Path, evidence: Iterable[Evidence]) -> Iterator[Difference]:
    """Where a site is not what was made afresh; data value by value, other files by the first line that differs."""
    found, expected = _files(root), _files(made)
    raw = {f"{run_folder(item.digest)}/{name}" for item in evidence for name in (*FILES, NAME)}
    raw = {f"{name}.gz" if name.endswith(journal.NAME) else name for name in raw}
    for name in sorted(expected.keys() - found.keys()):
        yield Difference(name, "is missing; it follows from the samples")
    for name in sorted(found.keys() - expected.keys() - raw):
        yield Difference(name, "is published, and nothing makes it")
    for name in sorted(found.keys() & expected.keys()):
        published, computed = found[name].read_bytes(), expected[name].read_bytes()
        if published != computed:
            yield from _apart(name, published, computed)


def _files(root: Path) -> Mapping[str, Path]:
    """All but the manifest, which lists the files of runs too, and is checked by itself."""
    paths = (path for path in root.rglob("*") if path.is_file() or path.is_symlink())
    return {name: path for path in paths if (name := path.relative_to(root).as_posix()) != manifest.NAME}


def _apart(name: str, published: bytes, computed: bytes) -> Iterator[Difference]:
    if name.endswith(".json"):
        try:
            values = list(apart(json.loads(published), json.loads(computed), f"{name}#"))
        except (ValueError, RecursionError) as problem:
            values = [Difference(name, f"is damaged: {problem}")]
        yield from values or [Difference(name, "has the values that are computed, written otherwise")]
        return
    lines = [content.decode("utf-8", "replace").splitlines() for content in (published, computed)]
    pairs = zip(*lines, strict=False)
    number, pair = next(((at, pair) for at, pair in enumerate(pairs, 1) if pair[0] != pair[1]), (0, ("", "")))
    if not number:
        yield Difference(name, f"has {len(lines[0])} lines, computed are {len(lines[1])}, or they end otherwise")
        return
    here = next((at for at, (a, b) in enumerate(zip(*pair, strict=False)) if a != b), min(map(len, pair)))
    start = max(0, here - BEFORE)
    said, instead = (repr(text[start : start + SHOWN]) for text in pair)
    yield Difference(f"{name}, line {number}", f"published is {said}, computed {instead}")
