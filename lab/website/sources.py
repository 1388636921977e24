"""Digests of files of the checkout: what is made by code is made anew when the code is another."""

import hashlib
from collections.abc import Iterator
from pathlib import Path

from lab.evidence.source import ROOT


def digest_of(*places: str) -> str:
    """Of every file that `places` name, relative to the checkout: folders whole, and patterns."""
    said = hashlib.sha256()
    for path in sorted({path for place in places for path in _files(place)}):
        said.update(path.relative_to(ROOT).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return said.hexdigest()


def _files(place: str) -> Iterator[Path]:
    found = ROOT / place
    for path in found.rglob("*") if found.is_dir() else found.parent.glob(found.name):
        if path.is_file() and "__pycache__" not in path.parts:
            yield path
