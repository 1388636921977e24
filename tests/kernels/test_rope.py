import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from accuracy import DTYPES
from torch import Tensor

from lab.kernels.heads import LAYOUTS, head_rule
from lab.kernels.rope import (
    Rope,
    angle_tables,
    rope,
    rope_,
    rope_choices,
    rope_inputs,
    rope_qk,
    rope_qk_,
    rope_qk_choices,
    rope_qk_inputs,
    rope_qk_reference,
    rope_reference,
    rope_traffic,
)

SHAPES = [(2, 3, 5, 8), (1, 6, 17, 64), (1, 2, 3, 96), (2, 5, 1, 128), (1, 1, 40, 2), (1, 2, 7, 33)]
every_layout = pytest.mark.parametrize("layout", LAYOUTS)


def assert_near(y: Tensor, truth: Tensor) -> None:
    """Two products and a sum in float32, rounded once: within an epsilon, of float32's within two."""
    epsilons = 2 if y.dtype == torch.float32 else 1
    allowed = epsilons * torch.finfo(y.dtype).eps * (truth.abs() + 1)
    assert bool(((y.double() - truth).abs() <= allowed).all())


@every_layout
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_it_agrees_with_float64(shape: tuple[int, ...], dtype: torch.dtype, layout: str, device: str) -> None:
    x, cos, sin = rope_inputs(shape, dtype, device, seed=1)
    y = rope(x, cos, sin, layout=layout)
    assert (y.shape, y.dtype) == (x.shape, x.dtype)
    assert_near(y, rope_reference(x, cos, sin, layout))


def test_the_layouts_differ(device: str) -> None:
    x, cos, sin = rope_inputs((1, 1, 5, 8), torch.float32, device, seed=2)
    assert not torch.allclose(rope(x, cos, sin), rope(x, cos, sin, layout="interleaved"))


@every_layout
def test_turning_back_gives_what_was_there(layout: str, device: str) -> None:
    x, cos, sin = rope_inputs((1, 3, 20, 64), torch.float32, device, seed=3)
    there = rope(x, cos, sin, layout=layout)
    torch.testing.assert_close(rope(there, cos, sin, layout=layout, inverse=True), x, atol=1e-6, rtol=1e-6)


@every_layout
@pytest.mark.parametrize("rotary", [2, 20, 62])
def test_features_beyond_the_rotary_dimension_pass(rotary: int, layout: str, device: str) -> None:
    x, cos, sin = rope_inputs((2, 3, 9, 64), torch.float32, device, seed=4)
    cos, sin = cos[:, : rotary // 2].contiguous(), sin[:, : rotary // 2].contiguous()
    y = rope(x, cos, sin, layout=layout)
    assert torch.equal(y[..., rotary:], x[..., rotary:])
    assert_near(y, rope_reference(x, cos, sin, layout))
    in_place = x.clone()
    assert rope_(in_place, cos, sin, layout=layout) is in_place
    assert torch.equal(in_place, y)


@every_layout
@pytest.mark.parametrize(("q_heads", "k_heads"), [(32, 8), (5, 1), (1, 6)])
def test_queries_and_keys_of_different_head_counts_in_one_call(
    q_heads: int, k_heads: int, layout: str, device: str
) -> None:
    q, cos, sin = rope_inputs((2, q_heads, 7, 16), torch.float16, device, seed=5)
    k, _, _ = rope_inputs((2, k_heads, 7, 16), torch.float16, device, seed=6)
    wanted = rope(q, cos, sin, layout=layout), rope(k, cos, sin, layout=layout)
    actual = rope_qk(q, k, cos, sin, layout=layout)
    assert all(torch.equal(mine, theirs) for mine, theirs in zip(actual, wanted, strict=True))
    rope_qk_(q, k, cos, sin, layout=layout)
    assert all(torch.equal(mine, theirs) for mine, theirs in zip((q, k), wanted, strict=True))


def test_the_inputs_stay_as_they_were(device: str) -> None:
    tensors = rope_inputs((1, 3, 5, 8), torch.float32, device, seed=7)
    before = [tensor.clone() for tensor in tensors]
    rope(*tensors)
    assert all(torch.equal(mine, was) for mine, was in zip(tensors, before, strict=True))


def test_heads_may_follow_tokens_in_memory(device: str) -> None:
    x, cos, sin = rope_inputs((2, 6, 5, 8), torch.float32, device, seed=8)
    other = x.transpose(1, 2).contiguous().transpose(1, 2)
    y = rope(other, cos, sin)
    assert y.stride() == other.stride()
    assert torch.equal(y, rope(x, cos, sin))


def test_heads_may_be_a_part_of_a_wider_tensor(device: str) -> None:
    packed, cos, sin = rope_inputs((1, 9, 5, 24), torch.float32, device, seed=9)
    x = packed[:, 2:7, :, 8:16]
    cos, sin = cos[:, :4].contiguous(), sin[:, :4].contiguous()
    assert_near(rope(x, cos, sin), rope_reference(x, cos, sin))
    before = packed.clone()
    rope_(x, cos, sin)
    before[:, 2:7, :, 8:16] = rope(before[:, 2:7, :, 8:16], cos, sin)
    assert torch.equal(packed, before)


def test_angles_may_be_of_another_type_than_the_heads(device: str) -> None:
    x, _, _ = rope_inputs((1, 2, 9, 16), torch.bfloat16, device, seed=10)
    cos, sin = angle_tables(9, 16, device=device)
    assert cos.dtype == torch.float32
    assert_near(rope(x, cos, sin), rope_reference(x, cos, sin))


@every_layout
def test_each_sequence_may_have_angles_of_its_own(layout: str, device: str) -> None:
    x, cos, sin = rope_inputs((3, 2, 5, 16), torch.float32, device, seed=18)
    cos, sin = (torch.stack([angles, angles.flip(0), angles * 0.5]) for angles in (cos, sin))
    y = rope(x, cos, sin, layout=layout)
    assert_near(y, rope_reference(x, cos, sin, layout))
    for sequence in range(3):
        alone = rope(x[sequence : sequence + 1], cos[sequence], sin[sequence], layout=layout)
        assert torch.equal(y[sequence : sequence + 1], alone)


def test_tables_that_repeat_each_angle_come_as_their_first_half(device: str) -> None:
    x, cos, sin = rope_inputs((1, 2, 5, 16), torch.float32, device, seed=19)
    wide = [torch.cat((angles, angles), dim=-1)[..., :8] for angles in (cos, sin)]
    assert torch.equal(rope(x, *wide), rope(x, cos, sin))


def test_one_head_may_stand_for_many_but_not_in_place(device: str) -> None:
    x, cos, sin = rope_inputs((1, 1, 5, 8), torch.float32, device, seed=20)
    repeated = x.expand(1, 3, 5, 8)
    assert_near(rope(repeated, cos, sin), rope_reference(repeated, cos, sin))
    with refused("rope_: x has strides (40, 0, 8, 1), so that elements share memory; accepted in place are"):
        rope_(repeated, cos, sin)


@pytest.mark.parametrize("strides", [(40, 40, 4, 1), (40, 12, 8, 1)], ids=str)
def test_elements_that_overlap_are_refused_in_place(strides: tuple[int, ...], device: str) -> None:
    _, cos, sin = rope_inputs((1, 2, 5, 8), torch.float32, device, seed=20)
    x = torch.randn(100, device=device).as_strided((1, 2, 5, 8), strides)
    assert_near(rope(x, cos, sin), rope_reference(x, cos, sin))
    with refused(f"rope_: x has strides {strides}, so that elements share memory; accepted in place are"):
        rope_(x, cos, sin)


def test_windows_that_slide_by_one_feature_are_refused(device: str) -> None:
    """A result in their order in memory would have its features apart."""
    x, cos, sin = rope_inputs((1, 2, 5, 8), torch.float32, device, seed=20)
    windows = torch.randn(100, device=device).as_strided(x.shape, (40, 40, 1, 1))
    with refused("rope: x has strides (40, 40, 1, 1), so that heads overlap; accepted are heads of features"):
        rope(windows, cos, sin)
    with refused("rope_qk: k has strides (40, 40, 1, 1), so that heads overlap; accepted are heads of features"):
        rope_qk(x, windows, cos, sin)


@pytest.mark.parametrize("in_place", [rope_, lambda x, cos, sin: rope_qk_(x.clone(), x, cos, sin)], ids=["one", "qk"])
def test_autograd_knows_that_what_it_kept_was_turned_in_place(in_place: Callable[..., Any], device: str) -> None:
    x, cos, sin = rope_inputs((1, 2, 5, 8), torch.float32, device, seed=20)
    weight = torch.ones_like(x, requires_grad=True)
    loss = (weight * x).sum()  # whose gradient is x as it was
    in_place(x, cos, sin)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()
    with torch.inference_mode():
        rope_(x.clone(), cos, sin)


def test_an_unaligned_start_is_read_right(device: str) -> None:
    flat, cos, sin = rope_inputs((1, 1, 13, 16), torch.float16, device, seed=21)
    x = flat.flatten()[1 : 1 + 2 * 6 * 16].view(1, 2, 6, 16)
    assert_near(rope(x, cos[:6], sin[:6]), rope_reference(x, cos[:6], sin[:6]))


@pytest.mark.parametrize("shape", [(0, 2, 3, 8), (1, 0, 3, 8), (1, 2, 0, 8)], ids=str)
def test_no_elements_give_an_empty_result(shape: tuple[int, ...], device: str) -> None:
    assert rope(*rope_inputs(shape, torch.float16, device, seed=11)).shape == shape


def test_nan_stays_in_its_pair(device: str) -> None:
    x, cos, sin = rope_inputs((1, 2, 3, 8), torch.float32, device, seed=12)
    x[0, 1, 2, 1] = float("nan")
    assert rope(x, cos, sin).isnan().nonzero().tolist() == [[0, 1, 2, 1], [0, 1, 2, 5]]


def refused(message: str, kind: type[Exception] = ValueError) -> Any:
    return pytest.raises(kind, match=f"^{re.escape(message)}")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda x, c, s: (x[0], c, s), "rope: x has shape (3, 5, 8); accepted is (B, H, S, D) with D from 2"),
        (lambda x, c, s: (x[..., :1], c, s), "rope: x has shape (1, 3, 5, 1); accepted is (B, H, S, D) with D from 2"),
        (lambda x, c, s: (x, c[:4], s), "rope: cos has shape (4, 4); accepted is (5, R/2) or (1, 5, R/2) with R from"),
        (lambda x, c, s: (x, c, s[:, :3]), "rope: sin has shape (5, 3); accepted is (5, R/2) or (1, 5, R/2) with R"),
        (lambda x, c, s: (x, c.repeat(1, 2), s), "rope: cos has shape (5, 8); accepted is (5, R/2) or (1, 5, R/2)"),
        (lambda x, c, s: (x, c.t().contiguous().t(), s), "rope: cos has stride 5 in its last dimension; accepted is 1"),
        (lambda x, c, s: (x.transpose(2, 3), c, s), "rope: x has stride 8 in its last dimension; accepted is 1"),
    ],
    ids=["shape", "one feature", "positions", "rotary", "doubled", "strides", "features"],
)
def test_what_does_not_fit_is_named(change: Callable[..., Any], message: str, device: str) -> None:
    with refused(message):
        rope(*change(*rope_inputs((1, 3, 5, 8), torch.float32, device, seed=13)))


def test_an_unknown_layout_is_named(device: str) -> None:
    with refused("rope: layout is 'neox'; accepted are ['half-split', 'interleaved']"):
        rope(*rope_inputs((1, 3, 5, 8), torch.float32, device, seed=14), layout="neox")


def test_keys_that_do_not_fit_the_queries(device: str) -> None:
    q, cos, sin = rope_inputs((1, 3, 5, 8), torch.float32, device, seed=15)
    with refused("rope_qk: k has (B, S, D, dtype, device) (2, 5, 8, torch.float32, "):
        rope_qk(q, q.repeat(2, 1, 1, 1), cos, sin)


def test_the_least_traffic_is_one_read_and_one_write_and_the_angles() -> None:
    traffic = rope_traffic((1, 32, 8192, 128), itemsize=2)
    assert (traffic.read_bytes, traffic.written_bytes) == (2**26 + 2**21, 2**26)


def test_what_is_no_tensor_and_other_dtypes(device: str) -> None:
    x, cos, sin = rope_inputs((1, 3, 5, 8), torch.float32, device, seed=22)
    with refused("rope: x is a list; accepted is a torch.Tensor", TypeError):
        rope([1.0], cos, sin)  # type: ignore[arg-type]
    with refused("rope: cos has dtype torch.int32; accepted are torch.float16", TypeError):
        rope(x, cos.int(), sin)


def test_a_gradient_that_would_be_lost(device: str) -> None:
    x, cos, sin = rope_inputs((1, 3, 5, 8), torch.float32, device, seed=23)
    with refused("rope_: x requires grad, and this kernel has no backward", NotImplementedError):
        rope_(x.clone().requires_grad_(), cos, sin)
    with refused("rope: cos or sin requires grad", NotImplementedError):
        rope(x, cos.clone().requires_grad_(), sin)


def test_the_gradient_is_turned_back(device: str) -> None:
    x, cos, sin = rope_inputs((1, 2, 3, 8), torch.float32, device, seed=24)
    dy = torch.randn_like(x)
    (dx,) = torch.autograd.grad(rope(x.requires_grad_(), cos, sin), x, dy)
    torch.testing.assert_close(dx, rope_reference(dy, cos, -sin).float())
    q, k = x.detach().clone().requires_grad_(), x.detach()[:, :1].clone().requires_grad_()
    dq, dk = torch.autograd.grad(rope_qk(q, k, cos, sin), (q, k), (dy, dy[:, :1]))
    torch.testing.assert_close(dq, dx)
    torch.testing.assert_close(dk, dx[:, :1])


@every_layout
def test_every_choice_of_launch_gives_the_same_result(layout: str, device: str) -> None:
    q, k, cos, sin = rope_qk_inputs((1, 6, 2, 9, 64), torch.float16, device, seed=24)
    wanted = rope_qk(q, k, cos, sin, layout=layout)
    choices = list(rope_qk_choices((1, 6, 2, 9, 64), 2))
    assert choices
    for configuration in choices[:: max(1, len(choices) // 6)]:
        actual = rope_qk(q, k, cos, sin, layout=layout, configuration=configuration)
        assert all(torch.equal(mine, theirs) for mine, theirs in zip(actual, wanted, strict=True))
    assert list(rope_choices((1, 32, 8192, 128), 2))


@pytest.mark.parametrize(
    ("shape", "itemsize", "tokens", "heads", "warps"),
    [
        ((1, 32, 8, 8192, 128), 2, 16, 2, 4),
        ((1, 32, 8, 8192, 128), 4, 8, 2, 4),
        ((1, 32, 8, 8192, 64), 2, 32, 2, 4),
        ((1, 32, 8, 512, 128), 2, 16, 2, 4),
        ((1, 32, 8, 128, 128), 2, 4, 2, 1),
        ((256, 28, 4, 1, 128), 2, 1, 8, 1),
        ((4096, 28, 4, 1, 64), 2, 1, 16, 1),  # no more heads than one warp takes at one position
        ((64, 28, 4, 1, 128), 2, 1, 4, 1),
        ((1, 28, 4, 1, 128), 2, 1, 4, 1),
    ],
)
def test_the_rule_gives_every_thread_whole_loads(
    shape: tuple[int, ...], itemsize: int, tokens: int, heads: int, warps: int
) -> None:
    chosen = head_rule(shape, itemsize)
    assert (chosen["TOKENS"], chosen["HEADS"], chosen.num_warps) == (tokens, heads, warps)


@every_layout
@pytest.mark.parametrize("rotary", [None, 16])
def test_the_module_turns_by_position(rotary: int | None, layout: str, device: str) -> None:
    module = Rope(32, 20, base=1e6, layout=layout, rotary_dim=rotary, device=device)
    q, k, _, _ = rope_qk_inputs((2, 4, 2, 6, 32), torch.float32, device, seed=25)
    cos, sin = angle_tables(20, rotary or 32, 1e6, device=device)
    wanted = rope_qk_reference(q, k, cos[5:11], sin[5:11], layout)
    for mine, truth in zip(module(q, k, offset=5), wanted, strict=True):
        assert_near(mine, truth)
    one_by_one = [module(q[:, :, [i]], k[:, :, [i]], offset=i)[0] for i in range(6)]
    # Another launch for one position than for six: the compiler may fuse the other product with the sum.
    torch.testing.assert_close(torch.cat(one_by_one, dim=2), module(q, k)[0], rtol=2**-22, atol=2**-22)


def test_the_modules_tables_are_not_part_of_its_state(device: str) -> None:
    module = Rope(8, 4, dtype=torch.float16, device=device)
    assert not module.state_dict()
    assert module.cos.dtype == torch.float16
    assert dict(module.named_buffers()).keys() == {"cos", "sin"}


def test_the_modules_tables_can_be_made_anew(device: str) -> None:
    """As a model needs that was made without memory and then loaded."""
    made = Rope(8, 12, base=500.0, rotary_dim=4, device=device)
    empty = Rope(8, 12, base=500.0, rotary_dim=4, device="meta").to_empty(device=device)
    empty.reset_parameters()
    assert torch.equal(empty.cos, made.cos)
    assert torch.equal(empty.sin, made.sin)
    assert not empty.state_dict()
    assert repr(made) == "Rope(4, max_positions=12, base=500.0, layout='half-split')"


def test_positions_that_the_module_has_no_angles_for_are_refused(device: str) -> None:
    module = Rope(8, 10, device=device)
    q, k, _, _ = rope_qk_inputs((1, 2, 1, 6, 8), torch.float32, device, seed=26)
    with refused("Rope: positions are 5 to 10; accepted are 0 to 9, as the module was made with max_positions=10"):
        module(q, k, offset=5)
    with refused("Rope: positions are -1 to 4; accepted are 0 to 9"):
        module(q, k, offset=-1)


@pytest.mark.parametrize("rotary", [0, 7, 10])
def test_a_rotary_dimension_that_is_odd_or_too_large_is_refused(rotary: int) -> None:
    with refused(f"Rope: rotary_dim is {rotary}; accepted are even numbers from 2 to 8"):
        Rope(8, 10, rotary_dim=rotary)


@pytest.mark.gpu
@every_layout
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(2, 28, 1001, 128), (1, 7, 4096, 64), (1, 3, 77, 80), (3, 32, 1, 256)], ids=str)
def test_on_a_gpu_it_agrees_with_float64(shape: tuple[int, ...], dtype: torch.dtype, layout: str) -> None:
    x, cos, sin = rope_inputs(shape, dtype, "cuda", seed=16)
    assert_near(rope(x, cos, sin, layout=layout), rope_reference(x, cos, sin, layout))


@pytest.mark.gpu
def test_on_a_gpu_a_graph_replays_on_new_data_and_gives_the_same_bits_twice() -> None:
    q, k, cos, sin = rope_qk_inputs((1, 28, 4, 1001, 128), torch.bfloat16, "cuda", seed=27)
    rope_qk(q, k, cos, sin)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = rope_qk(q, k, cos, sin)
    q.copy_(q.flip(1))
    graph.replay()
    again = rope_qk(q, k, cos, sin)
    assert all(torch.equal(mine, theirs) for mine, theirs in zip(captured, again, strict=True))


@pytest.mark.gpu
def test_on_a_gpu_more_than_two_to_the_31_elements_are_addressed_right() -> None:
    last, cos, sin = rope_inputs((1, 1, 4096, 128), torch.float16, "cuda", seed=17)
    x = torch.ones((1, 4100, 4096, 128), dtype=torch.float16, device="cuda")
    x[:, -1:] = last
    rope_(x, cos, sin)
    assert_near(x[:, -1:].clone(), rope_reference(last, cos, sin))
