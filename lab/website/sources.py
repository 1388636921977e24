"""Digests of files: what is made by code is made anew when the code, or what the project defines, is another."""

import hashlib
from collections.abc import Iterator
from pathlib import Path

from lab.evidence.source import ROOT, project_code
from lab.project import project

# In a wheel the templates travel inside the package.
PACKED = ROOT / "lab" / "site_templates"
TEMPLATES = PACKED if PACKED.is_dir() else ROOT / "site_templates"


def digest_of(*places: str) -> str:
    """Of every file that `places` name, relative to the checkout: folders whole, and patterns.

    In a project of somebody else all of its code stands for any place below `experiments`.
    """
    said = hashlib.sha256()
    for name, path in sorted({pair for place in places for pair in _files(place)}):
        said.update(name.encode() + b"\0" + path.read_bytes() + b"\0")
    return said.hexdigest()


def _files(place: str) -> Iterator[tuple[str, Path]]:
    if place.startswith("experiments") and not project().is_the_labs_own:
        root = project().root
        yield from ((name, root / name) for name in project_code(root))
        return
    root = TEMPLATES.parent if place == TEMPLATES.name else ROOT
    path_named = root / place
    for path in path_named.rglob("*") if path_named.is_dir() else path_named.parent.glob(path_named.name):
        if path.is_file() and "__pycache__" not in path.parts:
            yield path.relative_to(root).as_posix(), path
