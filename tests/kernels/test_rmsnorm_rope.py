import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from accuracy import DTYPES
from torch import Tensor

from lab.kernels.heads import LAYOUTS
from lab.kernels.rmsnorm_rope import (
    qk_norm_rope,
    qk_norm_rope_choices,
    qk_norm_rope_inputs,
    qk_norm_rope_reference,
    qk_norm_rope_traffic,
    rmsnorm_rope,
    rmsnorm_rope_choices,
    rmsnorm_rope_inputs,
    rmsnorm_rope_reference,
    rmsnorm_rope_rule,
    rmsnorm_rope_traffic,
)
from lab.kernels.rope import angle_tables

# (B, S, N, D), N heads of D, and (B, Hq, Hk, S, D)
ROWS = [(2, 3, 4, 16), (1, 5, 3, 8), (1, 7, 1, 96), (3, 1, 3, 2), (2, 17, 8, 80)]
HEADS = [(2, 4, 2, 5, 16), (1, 5, 1, 17, 64), (1, 1, 3, 9, 96), (3, 7, 1, 1, 128), (1, 2, 2, 40, 2)]
every_layout = pytest.mark.parametrize("layout", LAYOUTS)


def assert_near(y: Tensor, truth: Tensor) -> None:
    """All arithmetic in float32 and rounded once, as of a norm."""
    epsilons = 16 if y.dtype == torch.float32 else 1
    allowed = epsilons * torch.finfo(y.dtype).eps * (truth.abs() + 1)
    assert bool(((y.double() - truth).abs() <= allowed).all())


def refused(message: str, kind: type[Exception] = ValueError) -> Any:
    return pytest.raises(kind, match=f"^{re.escape(message)}")


@every_layout
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", ROWS, ids=str)
def test_rows_agree_with_float64(shape: tuple[int, ...], dtype: torch.dtype, layout: str, device: str) -> None:
    inputs = rmsnorm_rope_inputs(shape, dtype, device, seed=1)
    y = rmsnorm_rope(*inputs, layout=layout)
    assert (y.shape, y.dtype) == ((*shape[:2], shape[2] * shape[3]), dtype)
    assert_near(y, rmsnorm_rope_reference(*inputs, layout=layout))


@every_layout
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", HEADS, ids=str)
def test_heads_agree_with_float64(shape: tuple[int, ...], dtype: torch.dtype, layout: str, device: str) -> None:
    inputs = qk_norm_rope_inputs(shape, dtype, device, seed=2)
    actual, truth = qk_norm_rope(*inputs, layout=layout), qk_norm_rope_reference(*inputs, layout=layout)
    for mine, wanted, given in zip(actual, truth, inputs, strict=False):
        assert (mine.shape, mine.dtype, mine.stride()) == (given.shape, dtype, given.stride())
        assert_near(mine, wanted)


def test_queries_and_keys_have_weights_of_their_own(device: str) -> None:
    q, k, q_weight, k_weight, cos, sin = qk_norm_rope_inputs((1, 2, 2, 3, 8), torch.float32, device, seed=3)
    yq, yk = qk_norm_rope(q, q.clone(), q_weight, k_weight, cos, sin)
    assert not torch.allclose(yq, yk)
    assert torch.equal(yk, qk_norm_rope(k, q, q_weight, k_weight, cos, sin)[1])


def test_rows_may_lie_any_distance_apart_and_one_may_stand_for_many(device: str) -> None:
    wide, weight, cos, sin = rmsnorm_rope_inputs((2, 6, 5, 8), torch.float32, device, seed=4)
    for x in (wide[..., :32], wide[:, :1, :32].expand(2, 6, 32), wide[:, ::2, :32]):
        angles = cos[: x.shape[1]], sin[: x.shape[1]]
        assert_near(rmsnorm_rope(x, weight[:32], *angles), rmsnorm_rope_reference(x, weight[:32], *angles))


def test_batch_and_sequence_may_be_swapped_in_memory(device: str) -> None:
    x, weight, cos, sin = rmsnorm_rope_inputs((2, 6, 4, 8), torch.float32, device, seed=5)
    other = x.transpose(0, 1).contiguous().transpose(0, 1)
    y = rmsnorm_rope(other, weight, cos, sin)
    assert y.is_contiguous()
    assert torch.equal(y, rmsnorm_rope(x, weight, cos, sin))


def test_heads_may_be_parts_of_a_packed_projection(device: str) -> None:
    _, _, q_weight, k_weight, cos, sin = qk_norm_rope_inputs((2, 4, 2, 5, 16), torch.float32, device, seed=6)
    packed = torch.randn(2, 5, 8, 16, device=device).transpose(1, 2)
    q, k = packed[:, :4], packed[:, 4:6]
    actual = qk_norm_rope(q, k, q_weight, k_weight, cos, sin)
    for mine, truth in zip(actual, qk_norm_rope_reference(q, k, q_weight, k_weight, cos, sin), strict=True):
        assert_near(mine, truth)


def test_an_unaligned_start_is_read_right(device: str) -> None:
    x, weight, cos, sin = rmsnorm_rope_inputs((1, 7, 4, 16), torch.float16, device, seed=7)
    shifted = x.flatten()[3 : 3 + 6 * 64].view(1, 6, 64)
    assert_near(
        rmsnorm_rope(shifted, weight, cos[:6], sin[:6]), rmsnorm_rope_reference(shifted, weight, cos[:6], sin[:6])
    )


def test_weight_and_angles_may_be_of_another_type(device: str) -> None:
    x, weight, _, _ = rmsnorm_rope_inputs((2, 5, 4, 16), torch.bfloat16, device, seed=8)
    cos, sin = angle_tables(5, 16, device=device)
    arguments = x, weight.float(), cos, sin
    assert_near(rmsnorm_rope(*arguments), rmsnorm_rope_reference(*arguments))


def test_each_sequence_may_have_angles_of_its_own(device: str) -> None:
    x, weight, cos, sin = rmsnorm_rope_inputs((2, 5, 4, 8), torch.float32, device, seed=9)
    both = torch.stack((cos, cos.flip(0))), torch.stack((sin, sin.flip(0)))
    assert_near(rmsnorm_rope(x, weight, *both), rmsnorm_rope_reference(x, weight, *both))


def test_squares_beyond_the_range_of_float16_do_not_overflow(device: str) -> None:
    x, weight, cos, sin = rmsnorm_rope_inputs((1, 3, 4, 16), torch.float16, device, seed=10)
    assert_near(rmsnorm_rope(x * 1000, weight, cos, sin), rmsnorm_rope_reference(x * 1000, weight, cos, sin))


def test_the_inputs_stay_as_they_were(device: str) -> None:
    rows = rmsnorm_rope_inputs((1, 3, 4, 16), torch.float32, device, seed=11)
    heads = qk_norm_rope_inputs((1, 3, 1, 5, 16), torch.float32, device, seed=11)
    before = [tensor.clone() for tensor in (*rows, *heads)]
    rmsnorm_rope(*rows)
    qk_norm_rope(*heads)
    assert all(torch.equal(mine, was) for mine, was in zip((*rows, *heads), before, strict=True))


def test_nan_stays_in_its_row_and_in_its_head(device: str) -> None:
    x, weight, cos, sin = rmsnorm_rope_inputs((1, 4, 4, 8), torch.float32, device, seed=12)
    x[0, 1, 5] = float("nan")
    nan = rmsnorm_rope(x, weight, cos, sin).isnan()
    assert nan[0, 1].all()
    assert not nan[0, [0, 2, 3]].any()
    q, k, *rest = qk_norm_rope_inputs((1, 3, 1, 5, 8), torch.float32, device, seed=12)
    q[0, 1, 2, 3] = float("nan")
    yq, yk = qk_norm_rope(q, k, *rest)
    assert yq[0, 1, 2].isnan().all()
    assert int(yq.isnan().sum()) == 8
    assert not yk.isnan().any()


@pytest.mark.parametrize("shape", [(0, 3, 2, 4), (2, 0, 2, 4)], ids=str)
def test_no_elements_give_an_empty_result(shape: tuple[int, ...], device: str) -> None:
    assert rmsnorm_rope(*rmsnorm_rope_inputs(shape, torch.float16, device, seed=13)).shape == (*shape[:2], 8)
    B, S, _, D = shape
    yq, yk = qk_norm_rope(*qk_norm_rope_inputs((B, 3, 1, S, D), torch.float16, device, seed=13))
    assert (yq.shape, yk.shape) == ((B, 3, S, D), (B, 1, S, D))


@pytest.mark.parametrize("num_heads", [None, 4])
def test_the_number_of_heads_may_be_said(num_heads: int | None, device: str) -> None:
    inputs = rmsnorm_rope_inputs((1, 3, 4, 8), torch.float32, device, seed=14)
    assert torch.equal(rmsnorm_rope(*inputs, num_heads=num_heads), rmsnorm_rope(*inputs))


def test_every_choice_of_launch_gives_a_right_result(device: str) -> None:
    rows = rmsnorm_rope_inputs((2, 3, 8, 64), torch.float16, device, seed=15)
    heads = qk_norm_rope_inputs((1, 6, 2, 9, 64), torch.float16, device, seed=15)
    row_choices, choices = (
        list(rmsnorm_rope_choices((2, 3, 8, 64), 2)),
        list(qk_norm_rope_choices((1, 6, 2, 9, 64), 2)),
    )
    assert row_choices
    assert choices
    for configuration in row_choices:
        assert_near(rmsnorm_rope(*rows, configuration=configuration), rmsnorm_rope_reference(*rows))
    for configuration in choices[:: max(1, len(choices) // 6)]:
        actual = qk_norm_rope(*heads, configuration=configuration)
        for mine, truth in zip(actual, qk_norm_rope_reference(*heads), strict=True):
            assert_near(mine, truth)


@pytest.mark.parametrize(
    ("shape", "itemsize", "rows", "warps"),
    [
        ((8, 2048, 64, 64), 2, 1, 8),
        ((1, 4096, 28, 128), 2, 1, 8),
        ((1, 4096, 64, 64), 4, 1, 16),
        ((1, 4096, 4, 64), 2, 4, 2),
        ((1, 1, 256, 128), 2, 1, 32),
    ],
)
def test_the_rule_gives_every_thread_whole_loads(shape: tuple[int, ...], itemsize: int, rows: int, warps: int) -> None:
    chosen = rmsnorm_rope_rule(shape, itemsize)
    assert (chosen["ROWS"], chosen.num_warps) == (rows, warps)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda x, w, c, s: (x[0], w, c, s), "x has shape (3, 32); accepted is (B, S, H) with H from 2 to 32768"),
        (lambda x, w, c, s: (x[..., :1], w[:1], c, s), "x has shape (1, 3, 1); accepted is (B, S, H) with H from 2"),
        (lambda x, w, c, s: (x, w[:31], c, s), "weight has shape (31,); accepted is (32,), the columns of x"),
        (lambda x, w, c, s: (x, w, c[:2], s), "cos has shape (2, 4); accepted is (3, R/2) or (1, 3, R/2)"),
        (lambda x, w, c, s: (x, w, c, s[:, :2]), "sin has shape (3, 2); accepted is (3, R/2) or (1, 3, R/2)"),
        (
            lambda x, w, c, s: (x, w, c[:, :3], s[:, :3]),
            "x has 32 columns, which are no whole heads of 6, twice the columns of cos; accepted are multiples of 6",
        ),
        (lambda x, w, c, s: (x.transpose(1, 2), w[:3], c, s), "x has stride 32 in its last dimension; accepted is 1"),
    ],
    ids=["shape", "one column", "weight", "positions", "sin", "head", "strides"],
)
def test_rows_that_do_not_fit_are_named(change: Callable[..., Any], message: str, device: str) -> None:
    with refused(f"rmsnorm_rope: {message}"):
        rmsnorm_rope(*change(*rmsnorm_rope_inputs((1, 3, 4, 8), torch.float32, device, seed=16)))


def test_a_wrong_number_of_heads_is_named(device: str) -> None:
    inputs = rmsnorm_rope_inputs((1, 3, 4, 8), torch.float32, device, seed=17)
    with refused("rmsnorm_rope: num_heads is 8; accepted is 4, as x has 32 columns and cos and sin are for heads of 8"):
        rmsnorm_rope(*inputs, num_heads=8)
    with refused("rmsnorm_rope: layout is 'neox'; accepted are ['half-split', 'interleaved']"):
        rmsnorm_rope(*inputs, layout="neox")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda q, k, v, w, c, s: (q[0], k, v, w, c, s), "q has shape (3, 5, 8); accepted is (B, H, S, D)"),
        (lambda q, k, v, w, c, s: (q, k[:, :, :4], v, w, c, s), "k has (B, S, D, dtype, device) (1, 4, 8, "),
        (lambda q, k, v, w, c, s: (q, k, v[:4], w, c, s), "q_weight has shape (4,); accepted is (8,)"),
        (lambda q, k, v, w, c, s: (q, k, v, w[:4], c, s), "k_weight has shape (4,); accepted is (8,)"),
        (
            lambda q, k, v, w, c, s: (q, k, v, w.half(), c, s),
            "k_weight has dtype torch.float16; accepted is that of q_weight, torch.float32",
        ),
        (
            lambda q, k, v, w, c, s: (q, k, v, w, c[:, :3], s[:, :3]),
            "cos has 3 columns; accepted is half of D, which is 8",
        ),
    ],
    ids=["shape", "keys", "q weight", "k weight", "weight types", "columns"],
)
def test_heads_that_do_not_fit_are_named(change: Callable[..., Any], message: str, device: str) -> None:
    with refused(f"qk_norm_rope: {message}"):
        qk_norm_rope(*change(*qk_norm_rope_inputs((1, 3, 1, 5, 8), torch.float32, device, seed=18)))


def test_a_gradient_that_would_be_lost(device: str) -> None:
    x, weight, cos, sin = rmsnorm_rope_inputs((1, 3, 4, 8), torch.float32, device, seed=19)
    with refused("rmsnorm_rope: weight requires grad, and this kernel has no backward", NotImplementedError):
        rmsnorm_rope(x, weight.requires_grad_(), cos, sin)


def test_the_least_traffic_is_one_read_and_one_write() -> None:
    rows = rmsnorm_rope_traffic((8, 2048, 64, 64), itemsize=2)
    assert rows.read_bytes == 2 * (8 * 2048 * 4096 + 4096 + 2048 * 64)
    assert rows.written_bytes == 2 * 8 * 2048 * 4096
    heads = qk_norm_rope_traffic((1, 32, 8, 4096, 128), itemsize=2)
    assert heads.read_bytes == 2 * (40 * 4096 * 128 + 4096 * 128 + 256)
    assert heads.flops == 7 * 40 * 4096 * 128


@pytest.mark.gpu
@every_layout
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(2, 1001, 64, 64), (1, 513, 28, 128), (1, 77, 128, 128), (1, 9, 256, 128)], ids=str)
def test_on_a_gpu_rows_agree_with_float64(shape: tuple[int, ...], dtype: torch.dtype, layout: str) -> None:
    inputs = rmsnorm_rope_inputs(shape, dtype, "cuda", seed=20)
    assert_near(rmsnorm_rope(*inputs, layout=layout), rmsnorm_rope_reference(*inputs, layout=layout))


@pytest.mark.gpu
@every_layout
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(2, 28, 4, 1001, 128), (1, 7, 1, 4096, 64), (3, 32, 8, 1, 256)], ids=str)
def test_on_a_gpu_heads_agree_with_float64(shape: tuple[int, ...], dtype: torch.dtype, layout: str) -> None:
    inputs = qk_norm_rope_inputs(shape, dtype, "cuda", seed=21)
    actual, truth = qk_norm_rope(*inputs, layout=layout), qk_norm_rope_reference(*inputs, layout=layout)
    for mine, wanted in zip(actual, truth, strict=True):
        assert_near(mine, wanted)


@pytest.mark.gpu
def test_on_a_gpu_a_graph_replays_on_new_data_and_gives_the_same_bits_twice() -> None:
    x, *rest = rmsnorm_rope_inputs((2, 1001, 64, 64), torch.float16, "cuda", seed=22)
    rmsnorm_rope(x, *rest)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = rmsnorm_rope(x, *rest)
    x.copy_(x.flip(1))
    graph.replay()
    assert torch.equal(captured, rmsnorm_rope(x, *rest))


@pytest.mark.gpu
def test_on_a_gpu_more_than_two_to_the_31_elements_are_addressed_right() -> None:
    last, weight, cos, sin = rmsnorm_rope_inputs((1, 1024, 64, 64), torch.float16, "cuda", seed=23)
    x = torch.ones((513, 1024, 4096), dtype=torch.float16, device="cuda")
    x[-1:] = last
    y = rmsnorm_rope(x, weight, cos, sin)[-1:].clone()
    assert_near(y, rmsnorm_rope_reference(last, weight, cos, sin))
