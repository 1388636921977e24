"""Frozen values ⇄ plain JSON, unchanged by the trip; and the digest of what they say."""

import dataclasses
import functools
import hashlib
import json
import math
import types
import typing
from collections.abc import Mapping
from typing import Any, TypeVar

from lab.errors import RunError

SCHEMA = 5  # of the records, whose history lab/evidence/record.py tells
T = TypeVar("T")


def added(schema: int, unknown: Any) -> Any:
    """A field that records of an older schema lack; they read as `unknown` and are written without it."""
    return dataclasses.field(default_factory=lambda: unknown, metadata={"added": schema})


def to_data(value: Any, schema: int = SCHEMA) -> Any:
    """A record, or a plan, as plain JSON types; as an older schema wrote it, where one is named."""
    if dataclasses.is_dataclass(value):
        return {
            field.name: to_data(getattr(value, field.name), schema)
            for field in dataclasses.fields(value)
            if field.metadata.get("added", 1) <= schema
        }
    if isinstance(value, Mapping):
        return {key: to_data(item, schema) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_data(item, schema) for item in value]
    return value


def from_data(kind: type[T], data: Any, place: str = "record") -> T:
    """The record of type `kind` in parsed JSON; RunError names the field that does not fit."""
    return typing.cast(T, _decode(kind, data, place))


def canonical(data: Any) -> str:
    """The one JSON text of `data`: sorted keys, no spaces, no NaN."""
    return json.dumps(data, sort_keys=True, separators=(",", ":"), allow_nan=False)


def digest(data: Any) -> str:
    """SHA-256 of the canonical JSON of `data`."""
    return hashlib.sha256(canonical(data).encode()).hexdigest()


def _decode(kind: Any, data: Any, place: str) -> Any:
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if dataclasses.is_dataclass(kind):
        return _decode_fields(kind, data, place)
    if origin in (typing.Union, types.UnionType):
        if data is None and type(None) in arguments:
            return None
        return _decode(next(a for a in arguments if a is not type(None)), data, place)
    if origin is tuple:
        _expect(isinstance(data, list | tuple), place, "a list", data)
        if arguments[0] is float and all(type(item) is float and math.isfinite(item) for item in data):
            return tuple(data)  # samples, by the million: found right at once
        return tuple(_decode(arguments[0], item, f"{place}[{i}]") for i, item in enumerate(data))
    if origin is not None:
        _expect(isinstance(data, Mapping), place, "an object", data)
        return {str(key): _decode(arguments[1], item, f"{place}.{key}") for key, item in data.items()}
    if kind is float:
        number = isinstance(data, int | float) and not isinstance(data, bool)
        _expect(number and math.isfinite(data), place, "a finite number", data)
        return data  # a whole one stays 3 and does not become 3.0: what was read has the digest of what was written
    _expect(type(data) is kind, place, f"of type {kind.__name__}", data)
    return data


def _decode_fields(kind: Any, data: Any, place: str) -> Any:
    _expect(isinstance(data, Mapping), place, "an object", data)
    hints = _hints(kind)
    if unknown := sorted(set(data) - set(hints)):
        raise RunError(f"{place}: unknown field {unknown[0]!r}; accepted are {sorted(hints)}")
    older = {field.name for field in dataclasses.fields(kind) if "added" in field.metadata}
    if missing := sorted(set(hints) - set(data) - older):
        raise RunError(f"{place}: field {missing[0]!r} is missing")
    return kind(**{name: _decode(hints[name], item, f"{place}.{name}") for name, item in data.items()})


@functools.cache
def _hints(kind: type[Any]) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def _expect(fits: bool, place: str, wanted: str, data: Any) -> None:
    if not fits:
        raise RunError(f"{place} is {str(data)[:60]!r}; it must be {wanted}")
