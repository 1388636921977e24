"""Words to write JSON Schemas in: closed records, maps by name, and quantities whose unit their name ends in."""

from collections.abc import Mapping
from typing import Any

Schema = dict[str, Any]

# The end of a name → what a value is given in; the first that fits.
UNITS = (
    ("bytes_per_second", "In bytes a second."), ("flops_per_second", "In floating-point operations a second."),
    ("_seconds_per_cell_and_sweep", "In seconds, of one cell in one sweep."), ("seconds", "In seconds."),
    ("joules_per_sweep", "In joules a sweep."), ("flops_per_byte", "In floating-point operations a byte."),
    ("bytes_per_block", "In bytes a block."), ("bytes", "In bytes."), ("hertz", "In hertz."), ("watts", "In watts."),
    ("celsius", "In degrees Celsius."), ("percent", "In per cent."), ("_share", "As a share of 1."),
    ("ratio", "A ratio, without a unit."), ("registers_per_thread", "Registers a thread."),
    ("_warps", "Warps, on average."), ("_utc", "A moment in UTC, ISO 8601."),
    ("sha256", "A SHA-256, in hexadecimal digits."),
)  # fmt: skip
TEXT: Schema = {"type": "string"}
TRUTH: Schema = {"type": "boolean"}
WHOLE: Schema = {"type": "integer", "minimum": 0}
NUMBER: Schema = {"type": "number"}
SHA256: Schema = {"type": "string", "pattern": "^[0-9a-f]{64}$"}


def record(properties: Mapping[str, Schema], optional: Mapping[str, Schema] | None = None, about: str = "") -> Schema:
    """An object with exactly these properties, the optional ones apart."""
    held = {name: _with_unit(name, schema) for name, schema in {**properties, **(optional or {})}.items()}
    found: Schema = {"type": "object", "additionalProperties": False, "required": sorted(properties)}
    return ({"description": about} if about else {}) | found | {"properties": held}


def by(key: str, schema: Schema, about: str = "") -> Schema:
    """An object of any number of properties, all alike."""
    return {"type": "object", "description": f"By {key}. {about}".rstrip(), "additionalProperties": schema}


def listing(schema: Schema, about: str = "") -> Schema:
    return {"type": "array", "items": schema} | ({"description": about} if about else {})


def all_of(schema: Schema, names: str) -> dict[str, Schema]:
    """The same for every name of a line of names."""
    return dict.fromkeys(names.split(), schema)


def maybe(schema: Schema) -> Schema:
    """Or null, where there is none."""
    if "$ref" in schema:
        return {"anyOf": [schema, {"type": "null"}]}
    return schema | {"type": [schema["type"], "null"]}


def said(schema: Schema, about: str) -> Schema:
    return schema | {"description": about}


def choice(*values: str) -> Schema:
    return {"type": "string", "enum": list(values)}


def ref(name: str) -> Schema:
    return {"$ref": f"#/$defs/{name}"}


def document(name: str, title: str, about: str, body: Schema, defs: Mapping[str, Schema]) -> Schema:
    """A whole schema. Its `$id` is its own name, so that it holds wherever the site is published."""
    pointer = said(TEXT, "Where this schema lies, from the file.")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"{name}.json",
        "title": title,
        **body,
        "description": about,
        "properties": {"$schema": pointer, **body["properties"]},
        **({"$defs": dict(defs)} if defs else {}),
    }


def _with_unit(name: str, schema: Schema) -> Schema:
    if "description" in schema or schema.get("type") in ("object", "array", "boolean"):
        return schema
    unit = next((unit for ending, unit in UNITS if name.endswith(ending)), "")
    return schema | {"description": unit} if unit else schema
