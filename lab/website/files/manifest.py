"""manifest.json: the SHA-256 and the size of every file of a site but itself, by path, in their order.

Whoever got a copy of the site can tell by it whether anything was changed, is missing or was added; so can
`sha256sum`, of any one file.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

NAME = "manifest.json"
SCHEMA = 1


@dataclass(frozen=True, slots=True)
class Listed:
    sha256: str
    size_bytes: int


def listed(content: bytes) -> Listed:
    return Listed(hashlib.sha256(content).hexdigest(), len(content))


def read_files(site: Path) -> dict[str, Listed]:
    """Every file that lies there, but the manifest."""
    return {
        name: listed(path.read_bytes())
        for path in site.rglob("*")
        if path.is_file() and (name := path.relative_to(site).as_posix()) != NAME
    }


def manifest_text(files: Mapping[str, Listed]) -> str:
    """One line a file: two manifests can be compared by eye."""
    lines = ",\n".join(
        f'  {json.dumps(name)}: {{"bytes": {found.size_bytes}, "sha256": "{found.sha256}"}}'
        for name, found in sorted(files.items())
    )
    return f'{{\n "$schema": "schemas/manifest.json",\n "schema": {SCHEMA},\n "files": {{\n{lines}\n }}\n}}\n'
