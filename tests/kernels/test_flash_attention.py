import math
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from lab.kernels.attention import aligned, whole_features
from lab.kernels.flash_attention import (
    flash_attention,
    flash_attention_choices,
    flash_attention_inputs,
    flash_attention_lse,
    flash_attention_lse_reference,
    flash_attention_packed,
    flash_attention_traffic,
    heads_together,
    plain_configuration,
    plain_rule,
    scores_bytes,
    short_rule,
    split_rule,
)
from lab.kernels.flash_attention_hopper import hopper_rule
from lab.kernels.launch import Configuration

HALVES = (torch.float16, torch.bfloat16)
SMALL = plain_configuration(32, 32, warps=4, stages=3)  # several tiles of rows and keys in small tensors
SIZES = [64, 80, 96, 128, 256]
MASKS: list[dict[str, Any]] = [
    {},
    {"causal": True},
    {"causal": True, "window": (20, None)},
    {"window": (7, 40)},
    {"window": (None, 3)},
    {"window": (0, 0)},
]


def near(o: Tensor, truth: Tensor, v: Tensor) -> None:
    """Each share is rounded to half an epsilon before it meets the values, and the result once more; interpreted, to a
    whole one. A share of the largest value bounds both."""
    allowed = 3 * torch.finfo(v.dtype).eps * v.double().abs().max()
    worst = float((o.double() - truth).abs().max()) if o.numel() else 0.0
    assert worst <= allowed, f"{worst / allowed:.2f} times the allowed error"
    mean = float((o.double() - truth).norm() / truth.norm()) if float(truth.norm()) else 0.0
    assert mean <= 1.5 * torch.finfo(v.dtype).eps


def check(q: Tensor, k: Tensor, v: Tensor, configuration: Configuration | None = SMALL, **mask: Any) -> None:
    o, lse = flash_attention_lse(q, k, v, configuration=configuration, **mask)
    truth, lse_truth = flash_attention_lse_reference(q, k, v, **mask)
    assert (o.shape, o.dtype) == (q.shape, q.dtype)
    assert (lse.shape, lse.dtype) == (q.shape[:3], torch.float32)
    near(o, truth, v)
    torch.testing.assert_close(lse.double(), lse_truth, atol=1e-5, rtol=1e-5)


# Each size with each dtype and each mask, and each dtype with each mask, though not all three with one another.
SIZES_OF_TYPES = [
    (features, dtype, {"causal": True} if (number + of_type) % 2 else {})
    for number, features in enumerate([*SIZES, 1, 7, 16, 33, 100, 192])
    for of_type, dtype in enumerate(HALVES)
]


@pytest.mark.parametrize(("features", "dtype", "mask"), SIZES_OF_TYPES, ids=str)
def test_it_agrees_with_float64_at_any_head_size(
    features: int, dtype: torch.dtype, mask: dict[str, Any], device: str
) -> None:
    check(*flash_attention_inputs((1, 2, 1, 70, features), dtype, device, seed=1), **mask)


@pytest.mark.parametrize("mask", MASKS, ids=str)
@pytest.mark.parametrize("lengths", [(1, 1), (1, 100), (33, 100), (100, 33), (64, 64), (90, 91)], ids=str)
def test_it_agrees_with_float64_at_any_lengths_under_any_mask(
    lengths: tuple[int, int], mask: dict[str, Any], device: str
) -> None:
    check(*flash_attention_inputs((1, 1, 1, *lengths, 32), torch.float16, device, seed=2), **mask)


def test_the_share_of_a_key_that_decides_a_row_is_exact(device: str) -> None:
    """Relative to another key's score its power would be rounded, by half of the result's own rounding and more."""
    q, k, v = flash_attention_inputs((1, 1, 1, 400, 200, 64), torch.float16, device, seed=19)
    q, k = torch.zeros_like(q), torch.zeros_like(k)
    q[..., 0] = 1.0
    k[..., 0] = -100.0
    k[:, :, -1, 0] = 0.0
    k[:, :, 0, 0] = 5.125
    o = flash_attention(q, k, v, scale=1.0).double()
    truth, _ = flash_attention_lse_reference(q, k, v, scale=1.0)
    spacing = torch.finfo(torch.float16).eps * truth.abs().log2().floor().exp2()
    assert bool(((o - truth).abs() <= 0.52 * spacing)[truth.abs() > 0.1].all())


@pytest.mark.parametrize(
    ("splits", "mask"), [*((2, mask) for mask in MASKS), (7, {}), (7, {"causal": True, "window": (20, None)})], ids=str
)
def test_parts_of_the_keys_add_up_to_the_whole(splits: int, mask: dict[str, Any], device: str) -> None:
    split = plain_configuration(32, 32, warps=4, stages=3, splits=splits)
    heads = (2, 4, 2) if (splits, mask) == (2, {}) else (1, 2, 1)
    for lengths in ((1, 200), (40, 130), (70, 33)):
        q, k, v = flash_attention_inputs((*heads, *lengths, 80), torch.bfloat16, device, seed=18)
        check(q.transpose(1, 2).contiguous().transpose(1, 2), k, v, configuration=split, **mask)


def test_keys_are_split_where_queries_and_heads_are_too_few_for_the_gpu() -> None:
    assert split_rule((1, 32, 32, 128, 8192, 128), 2)["SPLITS"] > 1
    assert split_rule((1, 1, 1, 1, 100, 128), 2)["SPLITS"] == 1
    assert split_rule((16, 32, 32, 128, 8192, 128), 2)["SPLITS"] == 1


@pytest.mark.parametrize(("q_heads", "k_heads"), [(7, 1), (14, 2), (6, 6), (8, 2)])
def test_groups_of_query_heads_share_the_heads_of_keys(q_heads: int, k_heads: int, device: str) -> None:
    q, k, v = flash_attention_inputs((2, q_heads, k_heads, 40, 16), torch.float16, device, seed=3)
    check(q, k, v, causal=True)
    ratio = q_heads // k_heads
    alone = flash_attention(q, k.repeat_interleave(ratio, 1), v.repeat_interleave(ratio, 1), causal=True)
    assert torch.equal(flash_attention(q, k, v, causal=True), alone)


@pytest.mark.parametrize("mask", [{"causal": True}, {"causal": True, "window": (5, None)}, {}], ids=str)
def test_all_queries_see_the_prefix_of_their_sequence(mask: dict[str, Any], device: str) -> None:
    q, k, v = flash_attention_inputs((4, 2, 1, 50, 90, 32), torch.float16, device, seed=4)
    prefix = torch.tensor([0, 1, 60, 90], dtype=torch.int32, device=device)
    check(q, k, v, prefix=prefix, **mask)


def test_a_query_that_sees_no_key_gives_zeros(device: str) -> None:
    q, k, v = flash_attention_inputs((1, 1, 1, 50, 20, 32), torch.float16, device, seed=5)
    o, lse = flash_attention_lse(q, k, v, causal=True, configuration=SMALL)
    assert o[0, 0, :30].eq(0).all()
    assert lse[0, 0, :30].eq(-math.inf).all()
    assert bool(torch.isfinite(lse[0, 0, 30:]).all())
    empty = k[:, :, :0]
    o, lse = flash_attention_lse(q, empty, empty)
    assert o.eq(0).all()
    assert lse.eq(-math.inf).all()


@pytest.mark.parametrize("mask", [{}, {"causal": True}, {"causal": True, "window": (10, None)}], ids=str)
def test_packed_sequences_are_each_as_if_alone(mask: dict[str, Any], device: str) -> None:
    lengths = [(5, 9), (0, 7), (70, 70), (33, 1), (8, 0)]
    q = torch.randn((sum(a for a, _ in lengths), 6, 32), device=device).half()
    k, v = (torch.randn((sum(b for _, b in lengths), 2, 32), device=device).half() for _ in "kv")
    q_starts, k_starts = (starts([pair[side] for pair in lengths], device) for side in (0, 1))
    o, lse = flash_attention_packed(q, k, v, q_starts, k_starts, 70, configuration=SMALL, **mask)
    assert (o.shape, o.dtype, lse.shape) == (q.shape, q.dtype, (6, len(q)))
    q_from = k_from = 0
    for rows, keys in lengths:
        mine = [
            x[a : a + n].transpose(0, 1)[None] for x, a, n in ((q, q_from, rows), (k, k_from, keys), (v, k_from, keys))
        ]
        truth, lse_truth = flash_attention_lse_reference(*mine, **mask)
        near(o[q_from : q_from + rows].transpose(0, 1)[None], truth, v)
        torch.testing.assert_close(lse[:, q_from : q_from + rows].double(), lse_truth[0], atol=1e-5, rtol=1e-5)
        q_from, k_from = q_from + rows, k_from + keys


def starts(lengths: list[int], device: str) -> Tensor:
    return torch.tensor([0, *torch.tensor(lengths).cumsum(0).tolist()], dtype=torch.int32, device=device)


def test_what_follows_a_packed_sequence_does_not_reach_it(device: str) -> None:
    q, k, v = (torch.randn((40, 1, 16), device=device).half() for _ in "qkv")
    k[20:], v[20:] = math.nan, math.inf
    o, _ = flash_attention_packed(q, k, v, *(starts([20, 20], device),) * 2, 20, configuration=SMALL)
    assert bool(torch.isfinite(o[:20]).all())
    assert o[20:].isnan().all()


def test_heads_may_follow_tokens_in_memory_or_be_a_part_of_a_wider_tensor(device: str) -> None:
    q, k, v = flash_attention_inputs((2, 4, 2, 40, 32), torch.float16, device, seed=6)
    truth = flash_attention(q, k, v, configuration=SMALL)
    other = q.transpose(1, 2).contiguous().transpose(1, 2)
    o = flash_attention(other, k, v, configuration=SMALL)
    assert o.stride() == other.stride()
    assert torch.equal(o, truth)
    packed = torch.randn((2, 40, 3, 8, 32), device=device).half()
    q_part, k_part, v_part = (packed[:, :, part, 1:5].transpose(1, 2) for part in range(3))
    check(q_part, k_part, v_part, causal=True)
    shared = k[:, :1].expand(2, 2, 40, 32)
    check(q, shared, shared)


def test_rows_at_any_distance(device: str) -> None:
    q, k, v = (torch.randn((1, 2, 50, 73), device=device).half()[..., 3:67] for _ in "qkv")
    check(q, k, v, causal=True)
    check(q, k, v, causal=True, prefix=torch.tensor([20], dtype=torch.int32, device=device))


@pytest.mark.parametrize("scale", [1e-3, 0.5, 2])
def test_any_scale(scale: float, device: str) -> None:
    check(*flash_attention_inputs((1, 1, 1, 40, 64), torch.float16, device, seed=7), scale=scale)


@pytest.mark.parametrize("factor", [1e-3, 30.0])
def test_scores_of_any_size(factor: float, device: str) -> None:
    q, k, v = flash_attention_inputs((1, 2, 2, 100, 64), torch.float16, device, seed=8)
    check(q * factor, k, v, causal=True)


def test_growing_scores_are_rescaled(device: str) -> None:
    """Each tile of keys brings a new largest score."""
    q, k, v = flash_attention_inputs((1, 1, 1, 128, 16), torch.float16, device, seed=9)
    k[..., 0] = torch.arange(128, device=device).half() / 2
    q[..., 0] = 1.0
    check(q, k, v)
    check(q, k, v, causal=True)


def test_nan_and_infinity_stay_in_the_rows_that_see_them(device: str) -> None:
    """But for values: a share of zero of an infinite one is no number, in PyTorch as well."""
    q, k, v = flash_attention_inputs((1, 2, 2, 70, 32), torch.float16, device, seed=10)
    q[0, 0, 3] = math.nan
    k[0, 1, 50] = math.nan
    o = flash_attention(q, k, v, causal=True, configuration=SMALL)
    assert o[0, 0, 3].isnan().all()
    assert o[0, 1, 50:].isnan().all()
    o[0, 0, 3], o[0, 1, 50:] = 0, 0
    assert bool(torch.isfinite(o).all())


def test_the_inputs_stay_as_they_were_and_the_result_is_new(device: str) -> None:
    tensors = flash_attention_inputs((1, 2, 1, 40, 32), torch.float16, device, seed=11)
    before = [tensor.clone() for tensor in tensors]
    one, two = flash_attention(*tensors), flash_attention(*tensors)
    assert all(torch.equal(mine, was) for mine, was in zip(tensors, before, strict=True))
    assert torch.equal(one, two)
    assert len({x.data_ptr() for x in (one, two, *tensors)}) == 5


@pytest.mark.parametrize("shape", [(0, 2, 1, 5, 16), (1, 2, 1, 0, 5, 16), (1, 0, 0, 5, 16)], ids=str)
def test_nothing_gives_nothing(shape: tuple[int, ...], device: str) -> None:
    q, k, v = flash_attention_inputs(shape, torch.float16, device, seed=12)
    o, lse = flash_attention_lse(q, k, v)
    assert (o.shape, lse.shape) == (q.shape, q.shape[:3])


@pytest.fixture
def heads(device: str) -> tuple[Tensor, Tensor, Tensor]:
    return flash_attention_inputs((2, 4, 2, 8, 16), torch.float16, device, seed=13)


Change = Callable[[Tensor, Tensor, Tensor], tuple[Any, Any, Any]]


@pytest.mark.parametrize(
    ("change", "kind", "message"),
    [
        (lambda q, k, v: ([1.0], k, v), TypeError, "q is a list; accepted is a torch.Tensor"),
        (lambda q, k, v: (q.float(), k, v), TypeError, "q has dtype torch.float32; accepted are torch.float16 and"),
        (lambda q, k, v: (q, k, v.bfloat16()), ValueError, "v is torch.bfloat16 on "),
        (lambda q, k, v: (q[0], k, v), ValueError, "q has shape (4, 8, 16); accepted is (B, H, S, D)"),
        (lambda q, k, v: (q[..., ::2], k, v), ValueError, "q has stride 2 in its last dimension; accepted is 1"),
        (lambda q, k, v: (q, k[..., :8], v), ValueError, "k has 8 features; accepted are those of q, 16"),
        (
            lambda q, k, v: (q, k, v[:, :, :5]),
            ValueError,
            "v has shape (2, 2, 5, 16); accepted is that of k, (2, 2, 8, 16)",
        ),
        (lambda q, k, v: (q[:, :3], k, v), ValueError, "q has 3 heads; accepted is a multiple of the heads of k, 2"),
        (lambda q, k, v: (q[:1], k, v), ValueError, "k has 2 sequences; accepted are those of q, 1"),
        (lambda q, k, v: (q, k.to("meta"), v), ValueError, "k is on meta; accepted is a CUDA device"),
        (lambda q, k, v: (q.requires_grad_(), k, v), NotImplementedError, "q requires grad"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_what_it_refuses(
    change: Change, kind: type[Exception], message: str, heads: tuple[Tensor, Tensor, Tensor]
) -> None:
    with pytest.raises(kind, match=re.escape(f"flash_attention: {message}")):
        flash_attention(*change(*heads))


def test_what_it_refuses_of_masks(heads: tuple[Tensor, Tensor, Tensor]) -> None:
    for window in ((-1, None), (None, 1.5), 3, (1, 2, 3), (True, None)):
        with pytest.raises(
            ValueError, match=re.escape(f"flash_attention: window is {window!r}; accepted is (left, right)")
        ):
            flash_attention(*heads, window=window)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="whose right side a causal mask forbids"):
        flash_attention(*heads, causal=True, window=(None, 4))
    for scale in (-1.0, 0.0, math.inf, math.nan):
        with pytest.raises(ValueError, match=f"scale is {scale}; accepted are finite numbers above 0"):
            flash_attention(*heads, scale=scale)
    prefix = torch.zeros(2, dtype=torch.int32, device=heads[0].device)
    with pytest.raises(TypeError, match=r"prefix has dtype torch\.int64; accepted is torch\.int32"):
        flash_attention(*heads, prefix=prefix.long())
    with pytest.raises(ValueError, match=re.escape("prefix has shape (1,); accepted is (2,), contiguous")):
        flash_attention(*heads, prefix=prefix[:1])
    with pytest.raises(ValueError, match="prefix is on meta; accepted is the device of q"):
        flash_attention(*heads, prefix=prefix.to("meta"))


def test_what_it_refuses_of_packed_sequences(device: str) -> None:
    q, k, v = (torch.ones((8, 2, 16), dtype=torch.float16, device=device) for _ in "qkv")
    both = starts([4, 4], device)
    with pytest.raises(
        ValueError, match=re.escape("flash_attention_packed: q has shape (1, 8, 2, 16); accepted is (rows, H, D)")
    ):
        flash_attention_packed(q[None], k, v, both, both, 4)
    with pytest.raises(ValueError, match="q_starts has 1 elements; accepted are at least 2"):
        flash_attention_packed(q, k, v, both[:1], both, 4)
    with pytest.raises(ValueError, match=re.escape("k_starts has shape (2,); accepted is (3,)")):
        flash_attention_packed(q, k, v, both, both[:2], 4)
    with pytest.raises(ValueError, match="longest is -1; accepted is an int from 0"):
        flash_attention_packed(q, k, v, both, both, -1)


def test_a_launch_for_a_hopper_gpu_is_refused_where_it_cannot_run(heads: tuple[Tensor, Tensor, Tensor]) -> None:
    wide = [torch.cat([x] * 5, dim=-1) for x in heads]  # 80 features
    with pytest.raises(ValueError, match="for a Hopper GPU and rows"):
        flash_attention(*wide, configuration=hopper_rule((2, 4, 2, 8, 8, 64), 2))


def test_heads_of_other_sizes_are_given_zeros_and_rows_are_moved_apart(device: str) -> None:
    assert [whole_features(D) for D in (1, 64, 65, 80, 96, 97, 128, 129, 256)] == [
        64,
        64,
        80,
        80,
        96,
        128,
        128,
        256,
        256,
    ]
    x = torch.randn((2, 3, 5, 40), device=device)
    whole = aligned(x, 64)
    assert whole.shape == (2, 3, 5, 64)
    assert torch.equal(whole[..., :40], x)
    assert whole[..., 40:].eq(0).all()
    fitting = torch.randn((2, 5, 3, 64), device=device).transpose(1, 2)
    assert aligned(fitting, 64) is fitting
    odd = torch.randn((2, 3, 5, 72), device=device)[..., :64]
    assert aligned(odd, 64) is not odd
    assert torch.equal(aligned(odd, 64), odd)


def test_heads_go_together_as_far_as_the_cache_holds_their_keys() -> None:
    assert heads_together((2, 16, 16, 8192, 8192, 128), 2) == 4
    assert heads_together((1, 28, 4, 65_536, 65_536, 128), 2) == 7
    assert heads_together((1, 2, 2, 64, 64, 64), 2) == 2


@pytest.mark.parametrize(
    "shape", [(1, 28, 4, 8192, 128), (2, 4, 4, 17, 99, 80), (4, 8, 8, 4096, 64), (1, 2, 2, 64, 256)]
)
def test_what_the_rules_say_is_among_the_choices(shape: tuple[int, ...]) -> None:
    choices = list(flash_attention_choices(shape, 2))
    assert plain_rule(shape, 2) in choices
    if shape[-1] in (64, 128, 256):
        assert hopper_rule(shape, 2) in choices
        assert hopper_rule(shape, 2, masked=True) in choices


@pytest.mark.parametrize(
    ("shape", "masked", "warpgroups"),
    [
        ((4, 8, 8, 512, 512, 64), False, 2),  # 128 tiles of 128 rows, 64 of 256
        ((2, 8, 8, 1536, 1536, 64), False, 3),  # 128 tiles of 192 rows, 96 of 256
        ((4, 8, 8, 2048, 2048, 64), False, 4),
        ((1, 16, 16, 2048, 2048, 64), True, 2),
        ((4, 16, 16, 4096, 4096, 64), True, 4),
        ((4, 8, 8, 512, 512, 128), False, 2),
    ],
)
def test_short_rows_and_few_heads_take_smaller_tiles(shape: tuple[int, ...], masked: bool, warpgroups: int) -> None:
    assert hopper_rule(shape, 2, masked=masked)["WARPGROUPS"] == warpgroups


def test_the_shortest_rows_need_no_warps_that_only_load() -> None:
    assert short_rule((4, 8, 8, 256, 256, 64), False, 132) is not None
    assert short_rule((4, 16, 16, 1024, 1024, 64), True, 132) is not None
    assert short_rule((4, 16, 16, 1024, 1024, 64), False, 132) is None
    assert short_rule((4, 8, 8, 256, 4096, 64), False, 132) is None
    assert short_rule((4, 8, 8, 256, 256, 128), False, 132) is None


def test_the_traffic_is_of_the_scores_that_the_mask_leaves() -> None:
    full = flash_attention_traffic((2, 16, 16, 8192, 128), 2)
    assert (full.read_bytes, full.written_bytes) == (3 * 2**26, 2**26)
    assert full.flops == 4 * 128 * 32 * 8192**2
    causal = flash_attention_traffic((2, 16, 16, 8192, 128), 2, causal=True)
    assert causal.flops == 4 * 128 * 32 * 8192 * 8193 // 2
    assert flash_attention_traffic((1, 1, 1, 3, 2, 1), 2, causal=True).flops == 4 * (0 + 1 + 2)
    assert scores_bytes((4, 8, 8, 4096, 64), 2) == 2 * 4 * 8 * 4096**2


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("mask", [*MASKS, {"causal": True, "window": (300, None)}], ids=str)
@pytest.mark.parametrize("features", [40, 64, 80, 96, 128, 200, 256])
def test_on_a_gpu_it_agrees_with_float64_at_odd_lengths(
    features: int, mask: dict[str, Any], dtype: torch.dtype
) -> None:
    for lengths in ((1000, 1000), (333, 1337), (1337, 333)):
        check(
            *flash_attention_inputs((1, 6, 2, *lengths, features), dtype, "cuda", seed=14), configuration=None, **mask
        )


@pytest.mark.gpu
@pytest.mark.parametrize("features", [64, 128, 256])
def test_on_a_hopper_gpu_each_choice_gives_the_truth_and_the_same_bits_twice(features: int) -> None:
    if torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("no Hopper GPU")
    shape = (1, 4, 2, 700, features)
    q, k, v = flash_attention_inputs(shape, torch.bfloat16, "cuda", seed=15)
    for chosen in flash_attention_choices(shape, 2):
        if "WARPGROUPS" in dict(chosen.constants):
            check(q, k, v, configuration=chosen, causal=True)
            assert torch.equal(*(flash_attention(q, k, v, configuration=chosen) for _ in range(2)))


@pytest.mark.gpu
def test_on_a_gpu_growing_scores_are_rescaled() -> None:
    q, k, v = flash_attention_inputs((1, 2, 2, 2048, 128), torch.bfloat16, "cuda", seed=16)
    k[..., 0] = torch.arange(2048, device="cuda").bfloat16() / 8
    q[..., 0] = 4.0
    check(q, k, v, configuration=None)
    check(q, k, v, configuration=None, causal=True)


@pytest.mark.gpu
def test_on_a_gpu_it_can_be_captured_and_takes_no_memory_but_its_results() -> None:
    q, k, v = flash_attention_inputs((2, 8, 2, 4096, 128), torch.bfloat16, "cuda", seed=17)
    wanted = flash_attention(q, k, v, causal=True)  # compiles, which a capture may not
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        o = flash_attention(q, k, v, causal=True)
    graph.replay()
    assert torch.equal(o, wanted)
    del graph, o, wanted
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    flash_attention(q, k, v)
    peak = torch.cuda.max_memory_allocated() - before
    assert peak == q.numel() * 2 + q.shape[0] * q.shape[1] * q.shape[2] * 4
