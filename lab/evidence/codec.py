"""Frozen values ⇄ plain JSON, unchanged by the trip; and the digest of what they say."""

import dataclasses
import functools
import hashlib
import json
import math
import sys
import types
import typing
from collections.abc import Callable, Hashable, Mapping, Sequence
from itertools import chain
from typing import Any, TypeVar

from lab.errors import RunError
from lab.evidence.samples import PackedRounds

SCHEMA = 13  # of the records, whose history lab/evidence/record.py tells
SHARED = 1 << 15  # values of a kind that are remembered, so that records which say the same share them
PLAIN = frozenset({float, int, str, bool, type(None)})
NUMBERS = (float, int)  # and no bool, which is an int by inheritance alone
LARGEST = sys.float_info.max
SEVERAL = (list, tuple)
T = TypeVar("T")


def added(schema: int, unknown: Any, gathers: Mapping[str, str] | None = None) -> Any:
    """A field that records of an older schema lack; they read as `unknown` and are written without it.

    `gathers`, of a mapping: the fields that it has replaced, and their keys in it. Older records still have these.
    """
    return dataclasses.field(default_factory=lambda: unknown, metadata={"added": schema, "gathers": gathers or {}})


def to_data(value: Any, schema: int = SCHEMA) -> Any:
    """A record, or a plan, as plain JSON types; as an older schema wrote it, where one is named."""
    if type(value) in PLAIN:  # asked first, for nearly all values of a record are
        return value
    if dataclasses.is_dataclass(value):
        return {
            field.name: to_data(getattr(value, field.name), schema)
            for field in dataclasses.fields(value)
            if field.metadata.get("added", 1) <= schema
        }
    if isinstance(value, Mapping):
        return {key: to_data(item, schema) for key, item in value.items()}
    if isinstance(value, list | tuple | PackedRounds):
        return [to_data(item, schema) for item in value]
    return value


def from_data(kind: type[T], data: Any, place: str = "record") -> T:
    """The record of type `kind` in parsed JSON; RunError names the field that does not fit."""
    return typing.cast(T, _decoder(typing.cast(Hashable, kind))(data, place))


def canonical(data: Any) -> str:
    """The one JSON text of `data`: sorted keys, no spaces, no NaN."""
    return json.dumps(data, sort_keys=True, separators=(",", ":"), allow_nan=False)


def digest(data: Any) -> str:
    """SHA-256 of the canonical JSON of `data`."""
    return hashlib.sha256(canonical(data).encode()).hexdigest()


# Where a value stands: the name of the whole, or the place of what holds it with its field or number. It is put into
# words only where something is refused.
Place = str | tuple[Any, str | int]
Decoder = Callable[[Any, Place], Any]  # parsed JSON and its place → a value of the type


@functools.cache
def _decoder(kind: Any) -> Decoder:
    """What reads a value of a type: made once, for a journal holds thousands of the same."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if dataclasses.is_dataclass(kind):
        return _fields_decoder(kind)
    if origin in (typing.Union, types.UnionType):
        some = _decoder(next(a for a in arguments if a is not type(None)))
        if type(None) not in arguments:
            return some
        return lambda data, place: None if data is None else some(data, place)
    if origin is tuple:
        return _tuple_decoder(arguments[0])
    if origin is Sequence:
        return _rounds
    if origin is not None:
        return _mapping_decoder(_decoder(arguments[1]))
    return _number if kind is float else _plain_decoder(kind)


def _tuple_decoder(kind: Any) -> Decoder:
    each, shared = _decoder(kind), _shared()

    def decode(data: Any, place: Place) -> Any:
        if not isinstance(data, SEVERAL):
            _refuse(place, "a list", data)
        if kind in (int, str) and set(map(type, data)) <= {kind}:
            return shared(tuple(data))
        return tuple([each(item, (place, i)) for i, item in enumerate(data)])

    return decode


def _shared() -> Callable[[Any], Any]:
    """Gives back the first of equal values: the million cells of a long run say the same again and again."""
    return functools.lru_cache(maxsize=SHARED)(lambda value: value)


def _rounds(data: Any, place: Place) -> Any:
    """Samples, by the million: packed where all of them are floats, as all but a few are."""
    if isinstance(data, SEVERAL) and set(map(type, data)) <= {*SEVERAL}:
        seconds = list(chain.from_iterable(data))
        if set(map(type, seconds)) <= {float} and math.isfinite(sum(seconds)):
            return PackedRounds(data)
    return _decoder(tuple[tuple[float, ...], ...])(data, place)


def _mapping_decoder(each: Decoder) -> Decoder:
    known: dict[str, Any] = {}  # by what they say to the last digit: 0 and 0.0 are equal, and not written alike

    def decode(data: Any, place: Place) -> Any:
        if not isinstance(data, dict):
            _refuse(place, "an object", data)
        decoded = {str(key): each(item, (place, str(key))) for key, item in data.items()}
        return known.setdefault(repr(decoded), decoded) if len(known) < SHARED else decoded

    return decode


def _number(data: Any, place: Place) -> Any:
    # NaN is not between them, nor is a whole number beyond every float.
    if type(data) not in NUMBERS or not -LARGEST <= data <= LARGEST:
        _refuse(place, "a finite number", data)
    return data  # a whole one stays 3 and does not become 3.0: what was read has the digest of what was written


def _plain_decoder(kind: type) -> Decoder:
    shared = _shared() if kind is str else None

    def decode(data: Any, place: Place) -> Any:
        if type(data) is not kind:
            _refuse(place, f"of type {kind.__name__}", data)
        return shared(data) if shared else data

    return decode


def _fields_decoder(kind: Any) -> Decoder:
    decoders = {name: _decoder(hint) for name, hint in typing.get_type_hints(kind).items()}
    needed = {field.name for field in dataclasses.fields(kind) if "added" not in field.metadata}
    gathering = {f.name: f.metadata["gathers"] for f in dataclasses.fields(kind) if f.metadata.get("gathers")}

    def decode(data: Any, place: Place) -> Any:
        if not isinstance(data, dict):
            _refuse(place, "an object", data)
        for name, replaced in gathering.items():
            data = _gathered(data, name, replaced)
        if data.keys() != decoders.keys():  # of an older record, or of none
            if unknown := data.keys() - decoders.keys():
                raise RunError(f"{_in_words(place)}: unknown field {min(unknown)!r}; accepted are {sorted(decoders)}")
            if missing := needed - data.keys():
                raise RunError(f"{_in_words(place)}: field {min(missing)!r} is missing")
        return kind(**{name: decoders[name](item, (place, name)) for name, item in data.items()})

    return decode


def _gathered(data: Mapping[str, Any], name: str, replaced: Mapping[str, str]) -> Mapping[str, Any]:
    """An older record's single fields as one mapping; what they left empty is not in it."""
    if name in data or not replaced.keys() & data.keys():
        return data
    mapping = {key: data[field] for field, key in replaced.items() if data.get(field)}
    return {field: value for field, value in data.items() if field not in replaced} | {name: mapping}


def _in_words(place: Place) -> str:
    """Such as 'Cell.timings[0].scope'."""
    if isinstance(place, str):
        return place
    whole, part = place
    return f"{_in_words(whole)}[{part}]" if isinstance(part, int) else f"{_in_words(whole)}.{part}"


def _refuse(place: Place, wanted: str, data: Any) -> typing.NoReturn:
    raise RunError(f"{_in_words(place)} is {str(data)[:60]!r}; it must be {wanted}")
