"""Inputs that no edge names, new in every sweep: a few elements at random places decide the result.

With ordinary inputs a kernel that skips a part of them is still about right, because any part looks like the whole.
With these it is wrong where it skips the elements that count.
"""

from dataclasses import replace
from os import urandom
from typing import Any

import torch
from torch import Tensor

from lab.definition.experiment import Operator

KINDS = ("one element of each row is large", "a short stretch of each row is large")
LARGEST = 4096.0  # far inside float16's range
STRETCH_SHARE = 16  # of a row: one such part is large in the second kind
LOUDNESS = 8.0
FORGIVEN = 4  # times the tolerance
FLOATING = (torch.float16, torch.bfloat16, torch.float32)
Arguments = tuple[Any, ...]


def unannounced_inputs(
    operator: Operator, shape: tuple[int, ...], dtype: torch.dtype, device: str
) -> tuple[str, Arguments] | None:
    """What is unusual about them, and the inputs; None where the operator's first tensor has no rows to choose from."""
    seed = int.from_bytes(urandom(4), "little") >> 1
    arguments = operator.inputs(shape, dtype, device, seed)
    position = next(
        (at for at, item in enumerate(arguments) if isinstance(item, Tensor) and item.is_floating_point()), None
    )
    if position is None or arguments[position].dtype not in FLOATING or arguments[position].dim() < 2:
        return None
    kind = KINDS[seed % len(KINDS)]
    generator = torch.Generator(arguments[position].device)
    generator.manual_seed(seed)
    changed = _localised(arguments[position], kind == KINDS[0], generator)
    return kind, (*arguments[:position], changed, *arguments[position + 1 :])


def forgiving(operator: Operator) -> Operator:
    """The operator with wider tolerances: outliers make honest roundings larger, and an answer without them is off by
    many times the tolerance."""
    if operator.tolerance is not None:
        scale = max(operator.scale, operator.outlier_scale)
        return replace(operator, tolerance=FORGIVEN * operator.tolerance, scale=scale)
    outputs = tuple(replace(output, tolerance=FORGIVEN * output.tolerance) for output in operator.outputs)
    return replace(operator, outputs=outputs)


def change_one(arguments: Arguments) -> None:
    """Make one element large, in place: code that remembers results by address must have checked every element."""
    x = next(item for item in arguments if isinstance(item, Tensor) and item.is_floating_point())
    # Not torch.unravel_index: its first call imports sympy, half a second of every worker.
    x[tuple(int.from_bytes(urandom(8), "little") % size for size in x.shape)] = _deciding(x.shape[-1])


def _deciding(columns: int) -> float:
    """So large an element decides the sum of squares of a row of ordinary ones."""
    return float(min(LARGEST, 4 * columns**0.5))


def _localised(x: Tensor, single: bool, generator: torch.Generator) -> Tensor:
    """x, of which in each row a random element, or a random stretch, is made so large that it decides the row."""
    columns = x.shape[-1]
    width = 1 if single else max(1, columns // STRETCH_SHARE)
    factor = _deciding(columns) if single else LOUDNESS
    starts = torch.randint(columns - width + 1, (*x.shape[:-1], 1), generator=generator, device=x.device)
    places = starts + torch.arange(width, device=x.device)
    values = x.gather(-1, places)
    if single:  # whatever stood there: it must decide
        values = torch.where(values < 0, -1.0, 1.0).to(x.dtype)
    return x.scatter_(-1, places, values * factor)
