import math
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from lab.kernels.decode_attention import (
    decode_attention,
    decode_attention_choices,
    decode_attention_inputs,
    decode_attention_paged,
    decode_attention_paged_inputs,
    decode_attention_paged_reference,
    decode_attention_reference,
    decode_attention_rule,
    decode_attention_traffic,
)
from lab.kernels.launch import Configuration

HALVES = (torch.float16, torch.bfloat16)


def launch(splits: int, keys: int = 32) -> Configuration:
    return Configuration.of(KEYS=keys, SPLITS=splits, num_warps=4)


def near(o: Tensor, truth: Tensor, q: Tensor) -> None:
    """Shares are rounded before they meet the values, and the result once more; interpreted, towards zero."""
    assert (o.shape, o.dtype) == (q.shape, q.dtype)
    assert o.is_contiguous()
    epsilon = torch.finfo(q.dtype).eps
    assert float((o.double() - truth).abs().max()) <= 3 * epsilon * max(1.0, float(truth.abs().max()))
    assert float((o.double() - truth).norm()) <= 1.5 * epsilon * float(truth.norm())


@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("splits", [1, 3])
@pytest.mark.parametrize("features", [64, 80, 96, 128, 256, 1, 33])
def test_it_agrees_with_float64_at_any_head_size(features: int, splits: int, dtype: torch.dtype, device: str) -> None:
    q, k, v = decode_attention_inputs((2, 4, 2, 101, features), dtype, device, seed=1)
    near(decode_attention(q, k, v, configuration=launch(splits)), decode_attention_reference(q, k, v), q)


@pytest.mark.parametrize(("q_heads", "k_heads"), [(28, 4), (32, 8), (3, 3), (40, 1)])
def test_groups_of_query_heads_share_the_heads_of_keys(q_heads: int, k_heads: int, device: str) -> None:
    q, k, v = decode_attention_inputs((2, q_heads, k_heads, 70, 16), torch.float16, device, seed=2)
    o = decode_attention(q, k, v, configuration=launch(2))
    near(o, decode_attention_reference(q, k, v), q)
    ratio = q_heads // k_heads
    alone = decode_attention(q, k.repeat_interleave(ratio, 1), v.repeat_interleave(ratio, 1), configuration=launch(2))
    assert torch.equal(o, alone)


@pytest.mark.parametrize("splits", [1, 2, 5, 16])
@pytest.mark.parametrize("length", [1, 31, 32, 33, 160, 161])
def test_any_number_of_splits_also_more_than_there_are_tiles(length: int, splits: int, device: str) -> None:
    q, k, v = decode_attention_inputs((1, 2, 1, length, 32), torch.float16, device, seed=3)
    near(decode_attention(q, k, v, configuration=launch(splits)), decode_attention_reference(q, k, v), q)


@pytest.mark.parametrize("splits", [1, 3])
def test_each_sequence_has_a_length_of_its_own(splits: int, device: str) -> None:
    q, k, v = decode_attention_inputs((5, 4, 2, 100, 32), torch.float16, device, seed=4)
    lengths = torch.tensor([100, 1, 32, 0, 67], dtype=torch.int32, device=device)
    for sequence, length in enumerate(lengths.tolist()):  # nothing beyond its length is looked at
        k[sequence, :, length:], v[sequence, :, length:] = math.nan, math.inf
    o = decode_attention(q, k, v, lengths, configuration=launch(splits))
    assert o[3].eq(0).all()
    near(o, decode_attention_reference(q, k, v, lengths), q)


@pytest.mark.parametrize("page", [8, 16, 64, 128])
@pytest.mark.parametrize("splits", [1, 3])
def test_a_cache_of_pages_in_any_order(splits: int, page: int, device: str) -> None:
    q, k, v, table, lengths = decode_attention_paged_inputs((3, 4, 2, 256, 32), torch.float16, device, 5, page=page)
    lengths[1], lengths[2] = 77, 0
    table[1, -(-77 // page) :] = 2**30  # what the table holds beyond a length is not read
    o = decode_attention_paged(q, k, v, table, lengths, configuration=launch(splits))
    table[1, -(-77 // page) :] = 0
    near(o, decode_attention_paged_reference(q, k, v, table, lengths), q)


def test_a_cache_of_pages_gives_what_the_same_keys_in_a_row_give(device: str) -> None:
    q, k, v, table, lengths = decode_attention_paged_inputs((2, 4, 2, 96, 32), torch.float16, device, 6, page=16)
    rows = [x[table.long()].flatten(1, 2).transpose(1, 2) for x in (k, v)]
    paged = decode_attention_paged(q, k, v, table, lengths, configuration=launch(2))
    assert torch.equal(paged, decode_attention(q, *rows, configuration=launch(2)))


def test_caches_of_any_strides(device: str) -> None:
    q, k, v = decode_attention_inputs((2, 4, 2, 50, 32), torch.float16, device, seed=7)
    wanted = decode_attention(q, k, v)
    other = [x.transpose(1, 2).contiguous().transpose(1, 2) for x in (k, v)]
    assert torch.equal(decode_attention(q, *other), wanted)
    wide = torch.zeros((2, 8, 32), dtype=torch.float16, device=device)
    wide[:, ::2] = q
    assert torch.equal(decode_attention(wide[:, ::2], k, v), wanted)


@pytest.mark.parametrize("splits", [1, 4])
def test_large_scores_and_a_largest_one_in_the_last_tile(splits: int, device: str) -> None:
    q, k, v = decode_attention_inputs((1, 2, 1, 128, 32), torch.float16, device, seed=8)
    k[..., 0] = torch.arange(128, device=device).half()
    q[..., 0] = 4.0
    o = decode_attention(q, k, v, configuration=launch(splits))
    near(o, decode_attention_reference(q, k, v), q)


def test_scale_and_the_same_bits_twice(device: str) -> None:
    q, k, v = decode_attention_inputs((1, 2, 1, 100, 32), torch.float16, device, seed=9)
    o = decode_attention(q, k, v, scale=0.3, configuration=launch(3))
    near(o, decode_attention_reference(q, k, v, scale=0.3), q)
    assert torch.equal(o, decode_attention(q, k, v, scale=0.3, configuration=launch(3)))


@pytest.mark.parametrize("shape", [(0, 2, 1, 5, 16), (1, 0, 0, 5, 16)], ids=str)
def test_nothing_gives_nothing(shape: tuple[int, ...], device: str) -> None:
    q, k, v = decode_attention_inputs(shape, torch.float16, device, seed=10)
    assert decode_attention(q, k, v).shape == q.shape


def test_no_keys_give_zeros(device: str) -> None:
    q, k, v = decode_attention_inputs((2, 2, 1, 0, 16), torch.float16, device, seed=11)
    assert decode_attention(q, k, v).eq(0).all()


@pytest.fixture
def cache(device: str) -> tuple[Tensor, Tensor, Tensor]:
    return decode_attention_inputs((2, 4, 2, 8, 16), torch.float16, device, seed=12)


@pytest.mark.parametrize(
    ("change", "kind", "message"),
    [
        (lambda q, k, v: ([1.0], k, v), TypeError, "q is a list; accepted is a torch.Tensor"),
        (lambda q, k, v: (q.float(), k, v), TypeError, "q has dtype torch.float32; accepted are torch.float16 and"),
        (lambda q, k, v: (q[:, :, None], k, v), ValueError, "q has shape (2, 4, 1, 16); accepted is (B, H, D)"),
        (lambda q, k, v: (q, k[0], v), ValueError, "k has shape (2, 8, 16); accepted is (B, H, S, D)"),
        (lambda q, k, v: (q, k, v[:, :, :5]), ValueError, "v has shape (2, 2, 5, 16); accepted is that of k"),
        (lambda q, k, v: (q[:, :3], k, v), ValueError, "q has 3 heads; accepted is a multiple of the heads of k, 2"),
        (lambda q, k, v: (q[:1], k, v), ValueError, "k has 2 sequences; accepted are those of q, 1"),
        (lambda q, k, v: (q, k, v, torch.ones(2)), TypeError, "lengths has dtype torch.float32; accepted is"),
        (lambda q, k, v: (q, k, v, torch.ones(3).int()), ValueError, "lengths has shape (3,); accepted is (2,)"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)  # fmt: skip
def test_what_it_refuses(
    change: Callable[..., tuple[Any, ...]], kind: type[Exception], message: str, cache: tuple[Tensor, Tensor, Tensor]
) -> None:
    with pytest.raises(kind, match=re.escape(f"decode_attention: {message}")):
        decode_attention(*change(*cache))


def test_what_it_refuses_of_pages(device: str) -> None:
    q, k, v, table, lengths = decode_attention_paged_inputs((2, 4, 2, 64, 16), torch.float16, device, 13, page=16)
    with pytest.raises(
        TypeError, match=r"decode_attention_paged: table has dtype torch\.int64; accepted is torch\.int32"
    ):
        decode_attention_paged(q, k, v, table.long(), lengths)
    with pytest.raises(ValueError, match=re.escape("table has shape (1, 4); accepted is (2, 4), contiguous")):
        decode_attention_paged(q, k, v, table[:1], lengths)
    with pytest.raises(ValueError, match="k has pages of 12 keys; accepted are powers of two"):
        decode_attention_paged(q, k[:, :12], v[:, :12], table, lengths)


@pytest.mark.parametrize(
    ("shape", "splits"),
    [
        ((16, 32, 8, 8192, 128), 1),  # 128 programs: a second kernel costs more than four idle multiprocessors
        ((1, 28, 4, 131_072, 128), 33),  # one program a multiprocessor: two took longer in graphs
        ((64, 28, 4, 4096, 128), 1),
        ((1, 32, 8, 64, 128), 1),
        ((1, 32, 8, 512, 128), 8),  # none has fewer than 64 keys
        ((16, 28, 4, 1024, 128), 2),
        ((24, 28, 4, 1024, 128), 2),  # one would leave a quarter of the GPU idle
        ((12, 28, 4, 4096, 128), 5),  # and so would two of these
        ((1, 8, 1, 262_144, 128), 132),
    ],
)
def test_the_rule_splits_as_far_as_the_gpu_is_filled(shape: tuple[int, ...], splits: int) -> None:
    chosen = decode_attention_rule(shape, 2)
    assert chosen["SPLITS"] == splits


@pytest.mark.parametrize("shape", [(16, 32, 8, 8192, 128), (1, 28, 4, 131_072, 256), (3, 2, 2, 7, 64)])
def test_the_choices_differ_and_fit(shape: tuple[int, ...]) -> None:
    choices = list(decode_attention_choices(shape, 2))
    assert len(set(choices)) == len(choices)
    assert decode_attention_rule(shape, 2) in choices
    assert all(2 * chosen["KEYS"] * shape[-1] * 2 * chosen.num_stages <= 227 * 1024 for chosen in choices)


def test_the_traffic_is_one_read_of_the_cache() -> None:
    traffic = decode_attention_traffic((16, 32, 8, 8192, 128), 2)
    assert traffic.read_bytes == 2 * (16 * 32 * 128 + 2 * 16 * 8 * 8192 * 128)
    assert traffic.written_bytes == 2 * 16 * 32 * 128
    assert traffic.flops == 4 * 16 * 32 * 8192 * 128


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize(
    "shape",
    [(3, 28, 4, 5000, 128), (1, 32, 8, 70_001, 64), (7, 8, 8, 999, 80), (2, 16, 2, 3000, 256), (2, 6, 2, 700, 33)],
)
def test_on_a_gpu_it_agrees_with_float64(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    q, k, v = decode_attention_inputs(shape, dtype, "cuda", seed=14)
    o = decode_attention(q, k, v)
    near(o, decode_attention_reference(q, k, v), q)
    assert torch.equal(o, decode_attention(q, k, v))
    lengths = torch.randint(0, shape[3] + 1, shape[:1], dtype=torch.int32, device="cuda")
    near(decode_attention(q, k, v, lengths), decode_attention_reference(q, k, v, lengths), q)


@pytest.mark.gpu
@pytest.mark.parametrize("page", [16, 64, 256])
def test_on_a_gpu_pages_agree_with_float64(page: int) -> None:
    q, k, v, table, lengths = decode_attention_paged_inputs(
        (4, 28, 4, 4096, 128), torch.bfloat16, "cuda", 15, page=page
    )
    lengths[1] = 1234
    o = decode_attention_paged(q, k, v, table, lengths)
    near(o, decode_attention_paged_reference(q, k, v, table, lengths), q)


@pytest.mark.gpu
def test_on_a_gpu_it_can_be_captured() -> None:
    q, k, v = decode_attention_inputs((2, 28, 4, 20_000, 128), torch.bfloat16, "cuda", seed=16)
    wanted = decode_attention(q, k, v)  # compiles, which a capture may not
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        o = decode_attention(q, k, v)
    graph.replay()
    assert torch.equal(o, wanted)
