"""Inputs in which a few elements at random places decide the result, so that no part of a row may be skipped."""

import random
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from experiments.decode_attention import DECODE
from experiments.normalization_fusion import RMSNORM, rmsnorm_fused
from experiments.softmax_fusion import SOFTMAX
from lab.definition.experiment import Case, Output, Profile
from lab.evidence.record import Correctness
from lab.worker.correctness import check_profile
from lab.worker.input_pool import InputPool
from lab.worker.measure import Subject
from lab.worker.profile_checks import ProfileChecks
from lab.worker.unannounced import FORGIVEN, KINDS, forgiving, unannounced_inputs

SHAPE = (16, 8192)


def draws(count: int = 12) -> list[tuple[str, tuple[torch.Tensor, ...]]]:
    inputs = [unannounced_inputs(RMSNORM, SHAPE, torch.float16, "cpu") for _ in range(count)]
    return [each for each in inputs if each]


def test_they_are_new_each_time_and_of_two_kinds() -> None:
    inputs = draws()
    assert {kind for kind, _ in inputs} <= set(KINDS)
    assert not any(torch.equal(inputs[0][1][0], arguments[0]) for _, arguments in inputs[1:])


def test_a_right_function_passes_and_a_mean_of_a_quarter_does_not() -> None:
    def quarter(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        part = x[..., : x.shape[-1] // 4].float()
        return (x * torch.rsqrt(part.pow(2).mean(-1, keepdim=True) + 1e-6) * weight).to(x.dtype)

    for _, arguments in draws(4):
        assert check_profile(RMSNORM, rmsnorm_fused, [arguments], ()).passed
        assert not check_profile(RMSNORM, quarter, [arguments], ()).passed


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.uint8])
def test_operators_without_rows_to_choose_from_are_left_alone(dtype: torch.dtype) -> None:
    from dataclasses import replace

    bytes_only = replace(RMSNORM, inputs=lambda shape, *_: (torch.zeros(shape).to(dtype),))
    assert unannounced_inputs(bytes_only, SHAPE, dtype, "cpu") is None


def test_a_rounding_is_forgiven_in_every_form_of_tolerance() -> None:
    several = replace(RMSNORM, tolerance=None, outputs=(Output(tolerance=2), Output(tolerance=3)))
    assert RMSNORM.tolerance
    assert forgiving(RMSNORM).tolerance == FORGIVEN * RMSNORM.tolerance
    assert [output.tolerance for output in forgiving(several).outputs] == [2 * FORGIVEN, 3 * FORGIVEN]


def test_attention_that_rounds_its_weights_is_right_and_one_that_skips_keys_is_not() -> None:
    """A large query lets few keys decide: results are then 50 times as large as the means that `scale` is for."""

    def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, keys: int) -> torch.Tensor:
        grouped = q.unflatten(1, (k.shape[1], -1)).float()
        scores = grouped @ k[:, :, :keys].float().transpose(-1, -2) * q.shape[-1] ** -0.5
        weights = torch.exp(scores - scores.amax(-1, keepdim=True))
        sums = weights.to(v.dtype).float() @ v[:, :, :keys].float()
        return (sums / weights.sum(-1, keepdim=True)).flatten(1, 2).to(q.dtype)

    small, large = replace(forgiving(DECODE), scale=DECODE.scale, standard=None), forgiving(DECODE)
    q, *others = DECODE.inputs((2, 16, 4, 2048, 128), torch.bfloat16, "cpu", 6)
    q[..., 3] = 45.0
    errors = [check_profile(each, partial(attend, keys=2048), [(q, *others)], ()) for each in (small, large)]
    assert errors[0].worst_tolerance_share > 5 * errors[1].worst_tolerance_share
    assert errors[1].passed
    assert not check_profile(large, partial(attend, keys=1536), [(q, *others)], ()).passed


def test_where_results_stay_small_nothing_more_is_forgiven() -> None:
    assert forgiving(SOFTMAX).scale == SOFTMAX.scale < 1.0
    assert forgiving(DECODE).scale > DECODE.scale


def test_what_leaves_a_part_out_is_wrong_however_much_is_forgiven() -> None:
    def half(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        part = x[..., ::2].float()
        return (x * torch.rsqrt(part.pow(2).mean(-1, keepdim=True) + 1e-6) * weight).to(x.dtype)

    for kind, arguments in draws(8):
        if kind == KINDS[0]:  # half of a loud stretch stands for the whole, and is caught by its finer errors, or not
            arguments[0][...] = torch.where(arguments[0].abs() > 100, 0, arguments[0])
            arguments[0][:, 1] = 300.0
            assert not check_profile(forgiving(RMSNORM), half, [arguments], ()).passed


@pytest.mark.parametrize(("costly", "sweep", "tried"), [(False, 1, True), (True, 0, True), (True, 1, False)])
def test_a_costly_reference_is_asked_for_them_in_the_first_sweep_only(costly: bool, sweep: int, tried: bool) -> None:
    """A profile that is right for ordinary inputs alone is told apart only where they are tried."""

    def forgetful(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return rmsnorm_fused(x.clamp(-8, 8), weight)

    assert checked(forgetful, costly, sweep).passed is not tried


def test_results_that_are_remembered_by_address_are_told_by_one_element() -> None:
    known: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}  # the inputs too, so that no address is given again

    def remembering(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return known.setdefault(x.data_ptr(), (rmsnorm_fused(x, weight), x))[0].clone()

    assert "one element was changed since the call before" in checked(remembering).message


def checked(function: Callable[..., torch.Tensor], costly: bool = False, sweep: int = 0) -> Correctness:
    """What the checks before the timing say of an RMSNorm."""
    case = Case(operator=replace(RMSNORM, costly_reference=costly), shape=SHAPE, dtype="float16")
    context: Any = SimpleNamespace(sweep=sweep, clock=SimpleNamespace(device="cpu"), edges=frozenset())
    pool = InputPool([RMSNORM.inputs(SHAPE, torch.float16, "cpu", seed) for seed in (1, 2)], random.Random(1))
    profile = Profile(name="tried", implementations={RMSNORM.name: lambda: function})
    return ProfileChecks(context, "norms", case, (1, 2)).correctness(profile, Subject(function), pool)
