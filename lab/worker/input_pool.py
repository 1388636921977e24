"""The input sets of timed calls, used in turn, each with a hidden shadow copy of what it must contain.

Before every timed call one random stretch of the call's set gets new values, in the set and in its shadow. They are
drawn from the inputs themselves, so their distribution stays the same. A result that was remembered, under any key, is
then wrong if it depends on the values in the stretch; an honest call costs no more.

After a cold call nearly all values of its set change places, so that a remembered result cannot be repaired.
"""

import random
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from lab.definition.experiment import Operator
from lab.worker.tensors import copied, raw, same

STRETCH = 1024  # elements that change together: few lines of any cache
SIGN = 0x80  # of a float8
FRESH_VALUES = 262_138  # one less than a prime: no stretch of values comes again before nearly all others came

FEWEST_MIXED = 64  # elements
BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}  # by the size of an element

Arguments = tuple[Any, ...]


def inputs_of(operator: Operator, shape: tuple[int, ...], dtype: torch.dtype, device: str, seed: int) -> Arguments:
    """What an author's function of inputs makes. TypeError where that is no tuple."""
    made = operator.inputs(shape, dtype, device, seed)
    if not isinstance(made, tuple):
        raise TypeError(f"inputs() returned a {type(made).__name__}; return a tuple, such as (x,)")
    return made


class InputPool:
    """Input sets by index. Profiles see `arguments`; the shadows stay here."""

    def __init__(self, sets: Sequence[Arguments], shuffler: random.Random) -> None:
        self._sets = tuple(sets)
        self._shadows = tuple(copied(arguments) for arguments in sets)
        self._shuffler = shuffler
        targets = [target for shadow in self._shadows if (target := _target(shadow)) is not None]
        self._fresh_values = _negatives(targets, shuffler.getrandbits(62)) if targets else None
        self._drawn = 0
        self._touched: tuple[Tensor, Tensor] | None = None  # the negatives of fresh values, and where they belong

    def __len__(self) -> int:
        return len(self._sets)

    def arguments(self, index: int) -> Arguments:
        return self._sets[index]

    def prepare(self, index: int, restore: bool) -> None:
        """Choose what will change, and change the shadow. `restore`: first undo what an in-place call did."""
        if restore:
            self.mend((index,))
        mine, shadow = _target(self._sets[index]), _target(self._shadows[index])
        if mine is not None and shadow is not None and self._fresh_values is not None:
            stretch = self._draw_stretch(shadow.numel())
            width = stretch.stop - stretch.start
            values = self._fresh_values[self._drawn : self._drawn + width]
            self._drawn = (self._drawn + width) % (len(self._fresh_values) - width + 1)
            _negate(values, _flat(shadow)[stretch])
            self._touched = values, _flat(mine)[stretch]

    def _draw_stretch(self, elements: int) -> slice:
        """At most half of the elements, so that what a call wrote to the others can still be detected."""
        width = min(STRETCH, (elements + 1) // 2)
        # From beyond both ends, so that the first and last elements have their share.
        start = self._shuffler.randrange(1 - width, elements)
        start = min(max(start, 0), elements - width)
        return slice(start, start + width)

    def touch(self, index: int) -> None:
        """Change the set as `prepare` changed its shadow."""
        if self._touched is not None:
            values, stretch = self._touched
            _negate(values, stretch)

    def mix(self, index: int) -> None:
        """Have the two halves of a set, and of its shadow, change places, at a distance that is no number of rows.

        In place, because a new tensor would take the poisoned memory that is meant for the next output. The same in
        both, so that a call's writes to its inputs can still be detected.
        """
        mine, shadow = _target(self._sets[index]), _target(self._shadows[index])
        if mine is not None and shadow is not None and mine.numel() >= FEWEST_MIXED:
            half = mine.numel() // 2
            width = half - self._shuffler.randrange(half // 16)
            start = self._shuffler.randrange(mine.numel() - 2 * width + 1)
            for tensor in (mine, shadow):
                _swap(_flat(tensor)[start : start + 2 * width])

    def pristine(self, index: int) -> Arguments:
        """A copy of what the set holds, if nobody but this pool wrote to it."""
        shadow: Arguments = copied(self._shadows[index])
        return shadow

    def mend(self, indices: Iterable[int]) -> bool:
        """Put the sets right; whether any of them had been written to."""
        written = False
        for index in set(indices):
            for mine, shadow in zip(self._sets[index], self._shadows[index], strict=True):
                if isinstance(mine, Tensor) and not same(mine, shadow):
                    mine.copy_(shadow)
                    written = True
        return written


def copies(sets: Sequence[Arguments], count: int) -> list[Arguments]:
    """`count` sets: the given ones, then copies of them in turn, so that together they outgrow the cache."""
    return [*sets, *(copied(sets[index % len(sets)]) for index in range(len(sets), count))]


def _target(arguments: Arguments) -> Tensor | None:
    """The first floating tensor that holds anything: what an operator works on."""
    floating = (item for item in arguments if isinstance(item, Tensor) and item.is_floating_point() and item.numel())
    return next(floating, None)


def _negatives(targets: Sequence[Tensor], seed: int) -> Tensor:
    """Values of all targets, drawn at random, their signs reversed for `touch` to reverse."""
    generator = torch.Generator(targets[0].device)
    generator.manual_seed(seed)
    share = -(-FRESH_VALUES // len(targets))
    drawn = [
        _flat(target)[torch.randint(target.numel(), (share,), generator=generator, device=target.device)]
        for target in targets
    ]
    fresh_values = torch.cat(drawn)[:FRESH_VALUES]
    _negate(fresh_values, fresh_values)
    return fresh_values


def _negate(values: Tensor, out: Tensor) -> None:
    """Write the values with the other sign. By a kernel: a plain copy might take another engine's time."""
    if values.dtype == torch.uint8:
        torch.bitwise_xor(values, SIGN, out=out)
    else:
        torch.neg(values, out=out)


def _swap(flat: Tensor) -> None:
    """Exchange the first half of the elements for the second, bit by bit."""
    one, other = flat.view(BITS[flat.element_size()]).chunk(2)
    for target in (one, other, one):
        torch.bitwise_xor(one, other, out=target)


def _flat(tensor: Tensor) -> Tensor:
    """A view of its elements in the order in which they lie in memory; of float8 as bytes."""
    axes = sorted(range(tensor.dim()), key=tensor.stride, reverse=True)
    try:
        return raw(tensor.permute(axes).view(-1))
    except RuntimeError:
        raise ValueError(
            f"the operator's inputs must lie in memory without gaps; one of shape {tuple(tensor.shape)} has the "
            f"strides {tensor.stride()}"
        ) from None
