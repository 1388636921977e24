"""Data behind pages as frozen values: a field's name is its key in the data file, its type the shape in the schema.

Results of `lab.verdict` are data as they are. Their public properties are written beside their fields. A field whose
default is None is left out where it is None.
"""

import dataclasses
import math
import re
from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, NamedTuple, TypeVar, get_type_hints

T = TypeVar("T")
ByCase = Annotated[Mapping[str, T], "By case."]
ByClaim = Annotated[Mapping[str, T], "By claim."]
ByProfile = Annotated[Mapping[str, T], "By profile."]
ByScope = Annotated[Mapping[str, T], "By scope."]
Digest = Annotated[str, re.compile("^([0-9a-f]{64})?$")]
DIGITS = 7
# Raised whenever a data file gets another shape: a field more, one less, or one of another type. Schemas are closed, so
# the schema of one number would refuse the data of the other. Up to 10 the data files had the number of the records.
DATA_SCHEMA = 22


class Member(NamedTuple):
    """What is written of a value. One that is `optional` is left out where there is none."""

    name: str
    hint: Any
    optional: bool


@cache
def members(kind: type) -> tuple[Member, ...]:
    """The fields of a dataclass, and its public properties."""
    hints = get_type_hints(kind, include_extras=True)
    fields = (Member(each.name, hints[each.name], each.default is None) for each in dataclasses.fields(kind))
    named = {name: each for base in reversed(kind.__mro__) for name, each in vars(base).items()}
    properties = (
        Member(name, get_type_hints(each.fget)["return"], False)
        for name, each in named.items()
        if isinstance(each, property) and not name.startswith("_")
    )
    return (*fields, *properties)


def plain_json(value: Any) -> Any:
    """Plain JSON values. A float has seven digits, and is None where it is not finite.

    A threshold was registered and not measured: it stays as it is.
    """
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else None
    if isinstance(value, str):
        return str(value)  # an enumeration's too
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        shown = ((each, getattr(value, each.name)) for each in members(type(value)))
        return plain_json({each.name: item for each, item in shown if item is not None or not each.optional})
    if isinstance(value, Mapping):
        return {key: item if key == "threshold" else plain_json(item) for key, item in value.items()}
    return [plain_json(item) for item in value] if isinstance(value, list | tuple) else value


def taken(kind: type[T], *sources: object, **known: Any) -> T:
    """A value of that kind: what is `known` of it, and else what the first source says that has the name."""
    for field in dataclasses.fields(kind):  # type: ignore[arg-type]
        for source in sources:
            if field.name not in known and hasattr(source, field.name):
                known[field.name] = getattr(source, field.name)
    return kind(**known)
