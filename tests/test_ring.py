"""Input sets with hidden twins: one stretch changes before each call, and what a profile wrote is put right."""

import random

import pytest
import torch
from torch import Tensor

from lab.ring import STRETCH, Ring, copies


def ring_of(*shapes: tuple[int, ...], dtype: torch.dtype = torch.float32) -> Ring:
    sets = [(torch.randn(shape).to(dtype) + 3, torch.arange(4)) for shape in shapes]
    return Ring(sets, random.Random(1))


def changed(before: Tensor, after: Tensor) -> int:
    return int((before != after).sum())


@pytest.mark.parametrize(
    ("shape", "stretch"),
    [((8, 16), 16), ((2, 8, 16), 16), ((1, 64), 64), ((1000,), STRETCH), ((5,), 5), ((1,), 1), ((1, 1), 1)],
)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_one_stretch_of_the_set_changes_its_sign(shape: tuple[int, ...], stretch: int, dtype: torch.dtype) -> None:
    ring = ring_of(shape, dtype=dtype)
    before = ring.arguments(0)[0].clone()
    ring.prepare(0, restore=False)
    assert changed(before, ring.arguments(0)[0]) == 0, "the set changes only when it is touched"
    ring.touch(0)
    after = ring.arguments(0)[0]
    assert changed(before, after) == stretch
    assert torch.equal(before.abs(), after.abs())
    assert torch.equal(ring.pristine(0)[0], after)


def test_which_stretch_is_drawn_at_random() -> None:
    ring = ring_of((64, 4))
    rows = set()
    for _ in range(40):
        before = ring.arguments(0)[0].clone()
        ring.prepare(0, restore=False)
        ring.touch(0)
        rows.add(int((before != ring.arguments(0)[0]).any(1).nonzero()))
    assert len(rows) > 20


def test_only_the_set_that_is_asked_for_changes() -> None:
    ring = ring_of((4, 4), (4, 4))
    other = ring.arguments(1)[0].clone()
    ring.prepare(0, restore=False)
    ring.touch(0)
    assert torch.equal(ring.arguments(1)[0], other)


def test_arguments_without_a_floating_tensor_are_left_alone() -> None:
    ring = Ring([(torch.arange(6), 3)], random.Random(1))
    ring.prepare(0, restore=False)
    ring.touch(0)
    assert torch.equal(ring.arguments(0)[0], torch.arange(6))


def test_a_set_that_was_written_to_is_told_and_put_right() -> None:
    ring = ring_of((4, 4), (4, 4))
    before = ring.pristine(1)[0]
    assert not ring.mend((0, 1))
    ring.arguments(1)[0].zero_()
    assert ring.mend((0, 1))
    assert torch.equal(ring.arguments(1)[0], before)
    assert not ring.mend((0, 1))


def test_what_an_in_place_call_did_is_undone_before_the_next() -> None:
    ring = ring_of((4, 4))
    ring.arguments(0)[0].mul_(7)
    ring.prepare(0, restore=True)
    ring.touch(0)
    assert torch.equal(ring.arguments(0)[0], ring.pristine(0)[0])


def test_copies_go_round_the_given_sets() -> None:
    sets = [(torch.full((2,), float(number)),) for number in range(3)]
    found = copies(sets, 7)
    assert [float(arguments[0][0]) for arguments in found] == [0, 1, 2, 0, 1, 2, 0]
    assert len({arguments[0].data_ptr() for arguments in found}) == 7
    assert copies(sets, 2) == sets
