"""Checks that the values of a record are possible, such as positive times that a clock can give. Pure."""

import dataclasses
import re
import typing
from collections.abc import Callable, Hashable, Mapping
from datetime import datetime
from functools import cache
from typing import Any

from lab.evidence.record import OUTCOMES, Cell, Counters, Edge, Sustained, Timing

UTC = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
FIRST_YEAR, LAST_YEAR = 2020, 2100
LONGEST_SAMPLE_SECONDS = 3600.0
NEVER_NEGATIVE = ("seconds", "_bytes", "_hertz", "_watts", "_joules", "_bytes_per_second")
# Told by the process of a profile that may have moved its clock: published runs hold such.
MAY_BE_NEGATIVE = ("prepare_seconds",)
ACCEPTED: Mapping[type[Any], tuple[str, ...]] = {
    Cell: OUTCOMES, Edge: ("passed", "wrong", "refused"), Counters: ("measured", "blocked"),
}  # fmt: skip
Check = Callable[[Any], str]


def impossible_value(record: Any) -> str:
    """The first impossible value of a record, with the field's name; empty where all are possible."""
    for name, check in _checks(typing.cast(Hashable, type(record))):
        if wrong := check(getattr(record, name)):
            return f"{type(record).__name__}.{name} is {wrong}"
    return ""


@cache
def _checks(kind: Any) -> tuple[tuple[str, Check], ...]:
    """Of each field that can hold what is impossible."""
    checks = {name: _check(kind, name, hint) for name, hint in typing.get_type_hints(kind).items()}
    return tuple((name, check) for name, check in checks.items() if check)


def _check(kind: type[Any], name: str, hint: Any) -> Check | None:
    if name.endswith("_utc"):
        return _time
    if name == "outcome" and kind in ACCEPTED:
        return lambda value: "" if value in ACCEPTED[kind] else f"{value!r}; accepted are {ACCEPTED[kind]}"
    if kind is Timing and name == "rounds":
        return _samples
    if kind is Sustained and name == "batch_seconds":
        return lambda value: _samples((value,))
    if kind is Timing and name == "calls_per_sample":
        return lambda value: "" if value > 0 else f"{value}; a sample holds at least one call"
    if name.endswith(NEVER_NEGATIVE) and name not in MAY_BE_NEGATIVE:
        return _not_negative
    return _inside if _holds_records(hint) else None


def _holds_records(hint: Any) -> bool:
    return dataclasses.is_dataclass(hint) or any(map(_holds_records, typing.get_args(hint)))


def _time(value: str) -> str:
    try:
        right = UTC.fullmatch(value) and FIRST_YEAR <= datetime.fromisoformat(value).year <= LAST_YEAR
    except ValueError:
        right = False
    return "" if right else f"{value[:40]!r}, which is no time in UTC of the years {FIRST_YEAR} to {LAST_YEAR}"


def _samples(rounds: tuple[tuple[float, ...], ...]) -> str:
    blocks = [block for block in rounds if block]
    if not blocks:
        return ""
    if (least := min(map(min, blocks))) <= 0:
        return f"{least} in a sample; no call takes so little"
    if (most := max(map(max, blocks))) > LONGEST_SAMPLE_SECONDS:
        return f"{most} in a sample; no call may take more than {LONGEST_SAMPLE_SECONDS:.0f} seconds"
    return ""


def _not_negative(value: Any) -> str:
    values = value.values() if isinstance(value, Mapping) else value if isinstance(value, tuple) else (value,)
    for each in values:
        if each is not None and each < 0:
            return f"{each}; it cannot be negative"
    return ""


def _inside(value: Any) -> str:
    """Of a record in a record, or of several: the items of a tuple are all of one type."""
    for each in value if isinstance(value, tuple) else (value,):
        if each is not None and (wrong := impossible_value(each)):
            return wrong
    return ""
