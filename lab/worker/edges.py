"""Unusual inputs that must come out right too: the ordinary ones, with the tensor that is worked on made unusual."""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from lab.definition.experiment import Operator

SEED = 20_011  # fixed: what an edge asks stays the same from run to run
LARGE_MEAN = {torch.float16: 100.0, torch.bfloat16: 100.0, torch.float32: 1000.0}
LARGE_SCALE = 1e3
TINY_SCALE = 1e-3
LARGEST_ODD = 501
OF_ANOTHER_FORM = ("odd-sizes", "strided")  # not of the case's own sizes and strides
Arguments = tuple[Any, ...]
Change = Callable[[Tensor], Tensor]


def edge_inputs(
    operator: Operator, shape: tuple[int, ...], dtype: torch.dtype, device: str, *, own_form: bool = False
) -> Iterator[tuple[str, Arguments]]:
    """(name, arguments) of each edge that the operator names, made one at a time.

    own_form: only those of the shape and strides given.
    """
    for name in operator.edges:
        if own_form and name in OF_ANOTHER_FORM:
            continue
        if name == "odd-sizes":
            yield name, operator.inputs(tuple(_odd(size) for size in shape), dtype, device, SEED)
        else:
            yield name, _with_first(operator.inputs(shape, dtype, device, SEED), CHANGES[name])


def _odd(size: int) -> int:
    """An odd size of the same kind: neither a power of two nor a multiple of anything that a kernel prefers."""
    return min(size, LARGEST_ODD) - (min(size, LARGEST_ODD) + 1) % 2


def _with_first(arguments: Arguments, change: Change) -> Arguments:
    """The arguments, with the first floating tensor changed."""
    position = next(i for i, item in enumerate(arguments) if isinstance(item, Tensor) and item.is_floating_point())
    return (*arguments[:position], change(arguments[position]), *arguments[position + 1 :])


def _spoiled(value: float) -> Change:
    """A few elements of a few rows replaced: the other rows must not notice."""

    def change(x: Tensor) -> Tensor:
        rows = x.view(-1, x.shape[-1])
        rows[:: max(1, len(rows) // 3), :: max(1, x.shape[-1] // 2)] = value
        return x

    return change


def _strided(x: Tensor) -> Tensor:
    """The same values as rows of a wider buffer."""
    wide = torch.zeros((*x.shape[:-1], 2 * x.shape[-1]), dtype=x.dtype, device=x.device)
    rows = wide[..., : x.shape[-1]]
    rows.copy_(x)
    return rows


CHANGES: dict[str, Change] = {
    "zeros": torch.zeros_like,
    # In float32, because float8 has no arithmetic of its own.
    "large-mean": lambda x: (x.float() + LARGE_MEAN.get(x.dtype, 100.0)).to(x.dtype),
    "large-scale": lambda x: (x.float() * LARGE_SCALE).to(x.dtype),
    "tiny-scale": lambda x: (x.float() * TINY_SCALE).to(x.dtype),
    "nan": _spoiled(float("nan")),
    "inf": _spoiled(float("inf")),
    "strided": _strided,
}
