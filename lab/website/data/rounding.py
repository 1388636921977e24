"""The digits of published data: enough for any reader, few enough that every machine computes the same ones."""

import math
from collections.abc import Mapping
from typing import Any

DIGITS = 7


def rounded(value: Any) -> Any:
    """A float with so many digits, None where it is not finite; of a mapping or a list, each that it holds.

    A threshold was registered and not measured: it stays as it is.
    """
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: each if key == "threshold" else rounded(each) for key, each in value.items()}
    return [rounded(each) for each in value] if isinstance(value, list | tuple) else value


def attributes(value: object, names: str) -> dict[str, Any]:
    """Of any value those of a line of names."""
    return {name: getattr(value, name) for name in names.split()}
