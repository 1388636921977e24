"""JSON Schemas (draft 2020-12) of the JSON files of the site: what a reader's program may rely on."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from lab.website.data.judged import json_text
from lab.website.files.schemas.comparison import COMPARISON
from lab.website.files.schemas.experiment import EXPERIMENT
from lab.website.files.schemas.manifest import MANIFEST
from lab.website.files.schemas.methods import METHODS
from lab.website.files.schemas.overview import OVERVIEW
from lab.website.files.schemas.trust import TRUST
from lab.website.outputs import Attachment, Gathered, Sheaf

SCHEMAS: Mapping[str, Mapping[str, Any]] = {
    "experiment": EXPERIMENT, "comparison": COMPARISON, "overview": OVERVIEW, "trust": TRUST, "methods": METHODS,
    "manifest": MANIFEST,
}  # fmt: skip


def schemas_room(gathered: Gathered) -> Iterator[Sheaf]:
    """schemas/<name>.json: the same whatever was measured."""
    yield Sheaf(name="schemas", shows=(), make=_files)


def _files() -> Iterator[Attachment]:
    for name, schema in SCHEMAS.items():
        yield Attachment(path=f"schemas/{name}.json", content=json.dumps(schema, indent=1) + "\n")


def data_text(data: Mapping[str, Any], path: str, schema: str, indent: int | None = 1) -> str:
    """The text of a data file that lies at `path`, with the way from there to its schema."""
    text = json_text(data) if indent else json.dumps(data, separators=(",", ":")) + "\n"
    return with_schema(text, path, schema)


def with_schema(text: str, path: str, schema: str) -> str:
    """The same of data that are text already."""
    pointer = "../" * path.count("/") + f"schemas/{schema}.json"
    return f'{{\n "$schema": "{pointer}",{text.removeprefix("{")}'
