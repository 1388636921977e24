"""JSON Schemas (draft 2020-12) of the site's data files, derived from the types of the data: lab.website.data.typed.

An object is closed: it has no properties but those of its type. What describes it is the docstring; what describes a
field stands beside its type, or else is the unit that lab.quantities finds in its name.
"""

import inspect
import json
import re
import types
import typing
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Annotated, Any

from lab.quantities import unit_of
from lab.website.data.judged import LEFT_OUT, json_text
from lab.website.data.overview import Overview
from lab.website.data.published import ExperimentData
from lab.website.data.typed import members
from lab.website.data.zoo import ZooData
from lab.website.files.inventory import ManifestData
from lab.website.outputs import Attachment, PageGroup, SiteContext

Schema = dict[str, Any]
PLAIN: Mapping[Any, Schema] = {
    str: {"type": "string"}, bool: {"type": "boolean"}, int: {"type": "integer", "minimum": 0},
    float: {"type": "number"}, None: {"type": "null"},
}  # fmt: skip


# By file: title, type, and what of it is not there.
DOCUMENTS: Mapping[str, tuple[str, type, tuple[str, ...]]] = {
    "experiment": ("An experiment's results", ExperimentData, ()),
    "verdict": ("An experiment's verdicts in one run", ExperimentData, LEFT_OUT),
    "overview": ("Who is fastest, and all verdicts, counted", Overview, ()),
    "zoo": ("How the lab's kernels stand at shapes of public models", ZooData, ()),
    "manifest": ("Every file of the site", ManifestData, ()),
}


def schema_of(hint: Any) -> Schema:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint in PLAIN:
        return dict(PLAIN[hint])
    if origin is Annotated:
        return schema_of(arguments[0]) | _said(arguments[1])
    if origin is typing.Literal:
        return {"type": "string", "enum": [*arguments]}
    if origin in (typing.Union, types.UnionType):
        return _either([schema_of(each) for each in arguments if each is not types.NoneType], len(arguments))
    if origin in (list, tuple):
        return {"type": "array", "items": schema_of(arguments[0])}
    if origin and issubclass(origin, Mapping):
        return {"type": "object", "additionalProperties": schema_of(arguments[1])}
    if isinstance(hint, type) and issubclass(hint, Enum):
        return {"type": "string", "enum": [each.value for each in hint]}
    return _record(hint)


def _said(about: str | re.Pattern[str]) -> Schema:
    return {"description": about} if isinstance(about, str) else {"pattern": about.pattern}


def _either(shapes: list[Schema], among: int) -> Schema:
    """One of several, or null where there are more than these."""
    if len(shapes) > 1:
        return {"anyOf": shapes}
    (shape,) = shapes
    return shape | {"type": [shape["type"], "null"]} if among > 1 else shape


def _record(kind: type, without: tuple[str, ...] = ()) -> Schema:
    shown = [each for each in members(kind) if each.name not in without]
    about = inspect.getdoc(kind) or ""
    described = {} if about.startswith(f"{kind.__name__}(") else {"description": " ".join(about.split())}
    return {
        **described, "type": "object", "additionalProperties": False,
        "required": sorted(each.name for each in shown if not each.optional),
        "properties": {each.name: _with_unit(each.name, schema_of(each.hint)) for each in shown},
    }  # fmt: skip


def _with_unit(name: str, schema: Schema) -> Schema:
    if "description" in schema or schema.get("type") in ("object", "array", "boolean"):
        return schema
    unit = unit_of(name).about
    return schema | {"description": unit} if unit else schema


def schema(name: str) -> Schema:
    """Of the data files of a kind: a key of DOCUMENTS. Its `$id` is its own name, so that it holds wherever it lies."""
    title, kind, without = DOCUMENTS[name]
    record = _record(kind, without)
    pointer = {"type": "string", "description": "Where this schema lies, from the file."}
    dialect = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": f"{name}.json", "title": title}
    return {**dialect, **record, "properties": {"$schema": pointer, **record["properties"]}}


def schema_files(_: SiteContext) -> Iterator[PageGroup]:
    """schemas/<name>.json: the same whatever was measured."""
    yield PageGroup(name="schemas", shows=(), make=_files)


def _files() -> Iterator[Attachment]:
    for name in DOCUMENTS:
        yield Attachment(path=f"schemas/{name}.json", content=json.dumps(schema(name), indent=1) + "\n")


def data_text(data: Mapping[str, Any], path: str, schema: str) -> str:
    """The text of a data file that lies at `path`, with the way from there to its schema."""
    return with_schema(json_text(data), path, schema)


def with_schema(text: str, path: str, schema: str) -> str:
    """The same of data that are text already."""
    pointer = "../" * path.count("/") + f"schemas/{schema}.json"
    return f'{{\n"$schema":"{pointer}",{text.removeprefix("{")}'
