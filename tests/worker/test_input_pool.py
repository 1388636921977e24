"""Input sets with hidden shadows: one stretch changes before each call, and what a profile wrote is put right."""

import random
from collections.abc import Callable
from itertools import pairwise

import pytest
import torch
from torch import Tensor

from lab.worker.input_pool import STRETCH, InputPool, copies


def ring_of(*shapes: tuple[int, ...], dtype: torch.dtype = torch.float32) -> InputPool:
    sets = [((torch.rand(shape) + 0.5).to(dtype), torch.arange(4)) for shape in shapes]
    return InputPool(sets, random.Random(1))


def changed(before: Tensor, after: Tensor) -> int:
    return int((before != after).sum())


@pytest.mark.parametrize("shape", [(8, 1024), (2, 8, 16), (1, 64), (10_000,), (300,), (5,)])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_one_stretch_of_the_set_gets_other_values_of_the_inputs(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    pool = ring_of(shape, shape, dtype=dtype)
    known = torch.cat([pool.arguments(index)[0].flatten() for index in (0, 1)])
    before = pool.arguments(0)[0].clone()
    pool.prepare(0, restore=False)
    assert changed(before, pool.arguments(0)[0]) == 0, "the set changes only when it is touched"
    pool.touch(0)
    after = pool.arguments(0)[0]
    places = (before != after).flatten().nonzero().flatten()
    assert 1 <= len(places) <= STRETCH
    assert int(places.max() - places.min()) < STRETCH
    assert set(after.flatten().tolist()) <= set(known.tolist())
    assert torch.equal(pool.pristine(0)[0], after)


@pytest.mark.parametrize("shape", [(300,), (3000,), (2, 5000), (40, 64)])
def test_the_stretches_cover_the_whole_input(shape: tuple[int, ...]) -> None:
    pool = ring_of(shape)
    ever = torch.zeros(shape, dtype=torch.bool)
    for _ in range(2000):
        before = pool.arguments(0)[0].clone()
        pool.prepare(0, restore=False)
        pool.touch(0)
        ever |= before != pool.arguments(0)[0]
    assert ever.all()


@pytest.mark.parametrize("shape", [(64, 128), (2, 4096), (1, 64), (20,)])
@pytest.mark.parametrize("answer", [lambda x: x.pow(2).mean(-1), lambda x: x.abs().sum()])
def test_the_answer_changes_also_where_it_does_not_depend_on_signs(
    shape: tuple[int, ...], answer: Callable[[Tensor], Tensor]
) -> None:
    """And never comes back: few long rows have few patterns of signs."""
    pool = InputPool([(torch.randn(shape).reshape(-1, shape[-1]), 3)], random.Random(1))
    answers = []
    for _ in range(300):
        pool.prepare(0, restore=False)
        pool.touch(0)
        answers.append(answer(pool.arguments(0)[0]).clone())
    assert not any(torch.equal(one, other) for one, other in pairwise(answers))
    assert len({tuple(each.flatten().tolist()) for each in answers}) > 290


def test_the_inputs_keep_their_distribution() -> None:
    pool = InputPool([(torch.randn(64, 64) * 3 + 7,)], random.Random(1))
    for _ in range(1000):
        pool.prepare(0, restore=False)
        pool.touch(0)
    x = pool.arguments(0)[0]
    assert float(x.mean()) == pytest.approx(7, abs=0.3)
    assert float(x.std()) == pytest.approx(3, abs=0.3)


def test_nothing_of_an_empty_input_changes_and_the_next_one_is_worked_on() -> None:
    pool = InputPool([(torch.empty(0, 4),)], random.Random(1))
    pool.prepare(0, restore=False)
    pool.touch(0)
    assert not pool.mend((0,))
    pool = InputPool([(torch.empty(0, 4), torch.rand(8))], random.Random(1))
    before = pool.pristine(0)[1]
    pool.prepare(0, restore=False)
    pool.touch(0)
    assert changed(before, pool.arguments(0)[1])


def test_inputs_whose_axes_lie_otherwise_in_memory_change_like_any() -> None:
    pool = InputPool([(torch.rand(48, 64).t(),)], random.Random(1))
    before = pool.pristine(0)[0]
    pool.prepare(0, restore=False)
    pool.touch(0)
    assert 0 < changed(before, pool.arguments(0)[0]) <= STRETCH
    assert torch.equal(pool.pristine(0)[0], pool.arguments(0)[0])
    assert pool.arguments(0)[0].stride() == (1, 64)


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2], ids=str)
@pytest.mark.parametrize("swapped", [False, True], ids=["rows first", "columns first"])
def test_float8_inputs_get_other_values_of_their_own(dtype: torch.dtype, swapped: bool) -> None:
    """Few functions of torch take them; the values, their signs and their places are those of any dtype."""
    x = (torch.rand(64, 48) - 0.3).to(dtype)
    pool = InputPool([(x.t() if swapped else x, torch.ones(()))], random.Random(1))
    known = {*pool.arguments(0)[0].float().flatten().tolist()}
    for _ in range(20):
        before = pool.pristine(0)[0].float()
        pool.prepare(0, restore=False)
        pool.touch(0)
        after = pool.arguments(0)[0]
        assert after.dtype == dtype
        assert 0 < changed(before, after.float()) <= STRETCH
        assert {*after.float().flatten().tolist()} <= known
        assert torch.equal(pool.pristine(0)[0].float(), after.float())
    assert not pool.mend((0,))
    pool.arguments(0)[0][3, 3] = -pool.arguments(0)[0][3, 3].float()
    assert pool.mend((0,))


def test_inputs_with_gaps_are_refused_with_their_shape_and_strides() -> None:
    with pytest.raises(ValueError, match=r"operator's inputs .* shape \(4, 8\) has the strides \(16, 1\)"):
        InputPool([(torch.zeros(4, 16)[:, :8],)], random.Random(1))


def test_which_stretch_is_drawn_at_random() -> None:
    pool = ring_of((64, 1024))
    rows = set()
    for _ in range(40):
        before = pool.arguments(0)[0].clone()
        pool.prepare(0, restore=False)
        pool.touch(0)
        rows.add(int((before != pool.arguments(0)[0]).any(1).nonzero()[0]))
    assert len(rows) > 20


def test_only_the_set_that_is_asked_for_changes() -> None:
    pool = ring_of((4, 4), (4, 4))
    other = pool.arguments(1)[0].clone()
    pool.prepare(0, restore=False)
    pool.touch(0)
    assert torch.equal(pool.arguments(1)[0], other)


def test_arguments_without_a_floating_tensor_are_left_alone() -> None:
    pool = InputPool([(torch.arange(6), 3)], random.Random(1))
    pool.prepare(0, restore=False)
    pool.touch(0)
    assert torch.equal(pool.arguments(0)[0], torch.arange(6))


def test_a_set_that_was_written_to_is_reported_and_put_right() -> None:
    pool = ring_of((4, 4), (4, 4))
    before = pool.pristine(1)[0]
    assert not pool.mend((0, 1))
    pool.arguments(1)[0].zero_()
    assert pool.mend((0, 1))
    assert torch.equal(pool.arguments(1)[0], before)
    assert not pool.mend((0, 1))


def test_what_an_in_place_call_did_is_undone_before_the_next() -> None:
    pool = ring_of((4, 4))
    pool.arguments(0)[0].mul_(7)
    pool.prepare(0, restore=True)
    pool.touch(0)
    assert torch.equal(pool.arguments(0)[0], pool.pristine(0)[0])


def test_copies_go_round_the_given_sets() -> None:
    sets = [(torch.full((2,), float(number)),) for number in range(3)]
    inputs = copies(sets, 7)
    assert [float(arguments[0][0]) for arguments in inputs] == [0, 1, 2, 0, 1, 2, 0]
    assert len({arguments[0].data_ptr() for arguments in inputs}) == 7
    assert copies(sets, 2) == sets


def test_which_stretch_is_drawn_follows_from_the_seed() -> None:
    def contents(seed: int) -> Tensor:
        pool = InputPool([(torch.arange(4096.0).view(64, 64),)], random.Random(seed))
        for _ in range(5):
            pool.prepare(0, restore=False)
            pool.touch(0)
        return pool.arguments(0)[0]

    assert torch.equal(contents(1), contents(1))
    assert not torch.equal(contents(1), contents(2))


@pytest.mark.parametrize("shape", [(6000,), (3, 4), (2, 3, 4), (1, 5), (5, 1), (1,), ()])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_a_set_agrees_with_its_twin_after_many_touches(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    pool = ring_of(shape, shape, dtype=dtype)
    for number in range(20):
        pool.prepare(number % 2, restore=number % 3 == 0)
        pool.touch(number % 2)
        assert torch.equal(pool.pristine(number % 2)[0], pool.arguments(number % 2)[0])
    assert not pool.mend(range(2))


def test_the_first_floating_argument_changes_and_no_other() -> None:
    numbers, values, weights = torch.arange(4), torch.rand(4, 4), torch.rand(4)
    before = [x.clone() for x in (numbers, values, weights)]
    pool = InputPool([(numbers, values, weights, 1e-6)], random.Random(1))
    pool.prepare(0, restore=False)
    pool.touch(0)
    after = (numbers, values, weights)
    assert [torch.equal(x, was) for x, was in zip(after, before, strict=True)] == [True, False, True]
    assert pool.arguments(0)[3] == 1e-6


def test_what_was_written_is_put_right_in_any_argument_and_asked_for_set_only() -> None:
    pool = InputPool([(torch.ones(4, 4), torch.ones(4), torch.arange(4)) for _ in range(3)], random.Random(1))
    pool.arguments(2)[1][3] = 9.0
    pool.arguments(0)[2][0] = 7
    assert not pool.mend((1,))
    assert pool.mend((0,))
    assert not pool.mend((0, 1))
    assert pool.mend((2,))
    assert torch.equal(pool.arguments(2)[1], torch.ones(4))
    assert torch.equal(pool.arguments(0)[2], torch.arange(4))


def test_nan_that_a_call_left_behind_is_put_right() -> None:
    pool = ring_of((4, 4))
    pool.arguments(0)[0].fill_(float("nan"))
    assert pool.mend((0,))
    assert torch.equal(pool.arguments(0)[0], pool.pristine(0)[0])


def test_preparing_without_restoring_leaves_what_was_written_to_be_found() -> None:
    pool = ring_of((4, 4))
    pool.arguments(0)[0].mul_(7)
    pool.prepare(0, restore=False)
    pool.touch(0)
    assert pool.mend((0,))


def test_the_inputs_stay_where_they_are_in_memory() -> None:
    """A captured call holds addresses."""
    pool = ring_of((4, 4))
    address = pool.arguments(0)[0].data_ptr()
    pool.arguments(0)[0].zero_()
    pool.prepare(0, restore=True)
    pool.touch(0)
    assert pool.arguments(0)[0].data_ptr() == address


def test_pristine_inputs_are_out_of_a_calls_reach() -> None:
    pool = ring_of((4, 4))
    before = pool.pristine(0)[0].clone()
    pool.pristine(0)[0].zero_()
    pool.arguments(0)[0].zero_()
    assert torch.equal(pool.pristine(0)[0], before)


def test_nan_among_the_inputs_is_nothing_that_a_call_wrote() -> None:
    pool = InputPool([(torch.tensor([1.0, float("nan")]), torch.tensor([float("nan")]))], random.Random(1))
    assert not pool.mend((0,))


def test_pristine_inputs_and_copies_lie_in_memory_as_the_inputs_do() -> None:
    sets = [(torch.rand(8, 4).t(), torch.zeros(4, 16)[:, :8])]
    strides = [(1, 4), (16, 1)]  # gaps are welcome where nothing is to change
    assert [item.stride() for item in InputPool(sets, random.Random(1)).pristine(0)] == strides
    assert [item.stride() for item in copies(sets, 2)[1]] == strides


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64, torch.float8_e5m2], ids=str)
def test_after_a_cold_call_nearly_all_values_change_places(dtype: torch.dtype) -> None:
    pool = InputPool([(torch.rand(64, 128).to(dtype), 3)], random.Random(1))
    before = pool.pristine(0)[0].double()
    pool.mix(0)
    after = pool.arguments(0)[0].double()
    assert changed(before, after) > (0.5 if dtype is torch.float8_e5m2 else 0.8) * before.numel()
    assert torch.equal(before.flatten().sort().values, after.flatten().sort().values)
    assert torch.equal(pool.pristine(0)[0].double(), after)


def test_what_a_call_wrote_to_its_input_is_found_after_mixing_too() -> None:
    pool = ring_of((64, 128))
    pool.arguments(0)[0][3, 5] = 77.0
    pool.mix(0)
    assert pool.mend((0,))
    assert torch.equal(pool.arguments(0)[0], pool.pristine(0)[0])
