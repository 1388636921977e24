"""Decode attention: one query of each sequence over a cache of keys and values, o = softmax(q · kᵀ · scale) · v.

q, o: (B, Hq, D)   k, v: (B, Hk, S, D), or pages (pages, P, Hk, D) that a table lists for each sequence; float16 or
bfloat16, Hq a multiple of Hk, D from 1 to 256. lengths: how many keys each sequence has. Reading the cache takes most
of the time. So the queries that share a head of keys form the rows of one tile, and the keys of a sequence are split
over as many programs as keep the GPU busy. Each program writes its part of the result in float32 with its log-sum-exp.
A second kernel adds the parts, weighted by their shares of the whole sum, always in the same order. Sums are in
float32; the result is rounded once. A sequence without keys gives zeros. Dao et al., "Flash-Decoding", 2023.

Tried on an H200: splitting costs 3 to 5 % if sequences and heads already give each multiprocessor a program. Looking up
a page in the same iteration as its keys costs 10 to 20 %, because the loads for the next tile then wait for it. One or
two warps, or tiles of 32 keys, gain nothing.

Goal: the speed of PyTorch's cuDNN backend. On an H100 (run h100-decode-2026-11-27) 16 sequences of 8192 with 32 heads
over 8 reach 0.997 of it in single calls and 0.999 in CUDA graphs, which is too near to call; 64 sequences of 4096 with
28 heads over 4 1.005 and 1.009, and one of 131,072 with as many heads 1.020 and 1.013. There they reached 0.988 and
0.989, 0.997 and 1.001, and 1.019 and 0.970 with two programs a multiprocessor (run h100-attention-2026-11-26). On an
H200 only the former rule was published (run h200-attention-2026-11-23).
"""

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from lab.kernels.attention import (
    LOG2_E,
    NARROWEST_DOT,
    check_counts,
    check_heads_of,
    check_together,
    checked_scale,
    dot,
)
from lab.kernels.early import wait_for_previous
from lab.kernels.flash_attention import flash_attention_reference
from lab.kernels.launch import Configuration, Launch, Launches, multiprocessors, nothing
from lab.kernels.traffic import Traffic

MOST_SPLITS = 256
SHORTEST_SPLIT = 64  # keys
SHORT_SPLIT = 2048  # keys, up to which narrower tiles are faster
NEARLY_ALL = 0.85  # of the multiprocessors: with so many busy, keys are not split
SEQUENCE = ("B", "H", "S", "D")
PAGES = ("pages", "P", "H", "D")


@triton.jit(do_not_specialize=["S", "k_heads", "splits"])
def _decode_attention_kernel(
    q_ptr, k_ptr, v_ptr, o_ptr, lse_ptr, lengths_ptr, table_ptr, scale, S, k_heads, splits,
    q_batch, q_head, k_batch, k_head, k_row, v_batch, v_head, v_row, table_row,
    RATIO: tl.constexpr, PACK: tl.constexpr, D: tl.constexpr, FEATURES: tl.constexpr,
    LENGTHS: tl.constexpr, PAGE: tl.constexpr, WHOLE: tl.constexpr, KEYS: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """Attention of all queries that share a head of keys over one part of the keys: a result and its log-sum-exp."""
    wait_for_previous()
    program = tl.program_id(0)
    split = program % splits
    which = program // splits
    batch = (which // k_heads).to(tl.int64)
    head = (which % k_heads).to(tl.int64)
    length = S
    if LENGTHS:
        length = tl.load(lengths_ptr + batch).to(tl.int32)
    members = tl.arange(0, PACK)
    features = tl.arange(0, FEATURES)
    mine = (members < RATIO)[:, None] & (features < D)[None, :]
    q = tl.load(
        q_ptr + batch * q_batch + (head * RATIO + members)[:, None] * q_head + features[None, :], mask=mine, other=0.0
    )
    if PAGE == 0:
        k_ptr += batch * k_batch
        v_ptr += batch * v_batch
    k_ptr += head * k_head
    v_ptr += head * v_head
    table_ptr += batch * table_row

    tiles = tl.cdiv(length, KEYS)
    each = tl.cdiv(tiles, splits)
    first = tl.minimum(split * each, tiles)
    end = tl.minimum(first + each, tiles)
    whole_end = tl.maximum(tl.minimum(end, length // KEYS), first)
    top = tl.full((PACK,), float("-inf"), tl.float32)
    total = tl.zeros((PACK,), tl.float32)
    acc = tl.zeros((PACK, FEATURES), tl.float32)
    qk_scale = scale * LOG2_E
    page = _pages(table_ptr, first, length, PAGE, KEYS)
    for tile in tl.range(first, whole_end, num_stages=STAGES):
        page_after = _pages(table_ptr, tile + 1, length, PAGE, KEYS)
        acc, top, total = _with_keys(
            acc, top, total, q, k_ptr, v_ptr, page, tile, length, qk_scale, k_batch, k_row, v_batch, v_row,
            D, FEATURES, PAGE, False, KEYS,
        )  # fmt: skip
        page = page_after
    if whole_end < end:
        acc, top, total = _with_keys(
            acc, top, total, q, k_ptr, v_ptr, page, whole_end, length, qk_scale, k_batch, k_row, v_batch, v_row,
            D, FEATURES, PAGE, True, KEYS,
        )  # fmt: skip
    empty = total == 0
    acc = acc * (1 / tl.where(empty, 1.0, total))[:, None]
    heads = (which.to(tl.int64) * RATIO + members) * splits + split
    tl.store(o_ptr + heads[:, None] * D + features[None, :], acc.to(o_ptr.dtype.element_ty), mask=mine)
    if not WHOLE:
        tl.store(lse_ptr + heads, tl.where(empty, float("-inf"), top * qk_scale + tl.log2(total)), mask=members < RATIO)


@triton.jit
def _pages(table_ptr, tile, length, PAGE: tl.constexpr, KEYS: tl.constexpr):
    """The page of a tile of keys, or the page of each of its keys if pages are smaller than tiles.

    Called one tile ahead: loads of keys that depend on a table load in the same iteration cannot be prefetched.
    """
    keys = tile * KEYS + tl.arange(0, KEYS)
    if PAGE == 0:
        page = tile
    elif PAGE % KEYS == 0:
        page = tl.load(table_ptr + tile * KEYS // PAGE, mask=tile * KEYS < length, other=0)
    else:
        page = tl.load(table_ptr + keys // PAGE, mask=keys < length, other=0)
    return page


@triton.jit
def _with_keys(
    acc, top, total, q, k_ptr, v_ptr, page, tile, length, qk_scale, k_batch, k_row, v_batch, v_row,
    D: tl.constexpr, FEATURES: tl.constexpr, PAGE: tl.constexpr, CUT: tl.constexpr, KEYS: tl.constexpr,
):  # fmt: skip
    keys = tile * KEYS + tl.arange(0, KEYS)
    features = tl.arange(0, FEATURES)
    there = keys < length
    if PAGE > 0:
        at = (keys % PAGE).to(tl.int64)
        k_rows = k_ptr + page.to(tl.int64) * k_batch + at * k_row
        v_rows = v_ptr + page.to(tl.int64) * v_batch + at * v_row
    else:
        k_rows = k_ptr + keys.to(tl.int64) * k_row
        v_rows = v_ptr + keys.to(tl.int64) * v_row
    k_at = k_rows[:, None] + features[None, :]
    v_at = v_rows[:, None] + features[None, :]
    if CUT or FEATURES > D:
        mask = there[:, None] & (features < D)[None, :]
        k = tl.load(k_at, mask=mask, other=0.0)
        v = tl.load(v_at, mask=mask, other=0.0)
    else:
        k = tl.load(k_at)
        v = tl.load(v_at)
    scores = dot(q, k.T, tl.zeros((q.shape[0], KEYS), tl.float32))
    if CUT:
        scores = tl.where(there[None, :], scores, float("-inf"))
    higher = tl.maximum(top, tl.max(scores, 1))
    p = tl.exp2(scores * qk_scale - (higher * qk_scale)[:, None])
    shrink = tl.exp2((top - higher) * qk_scale)
    total = total * shrink + tl.sum(p, 1)
    acc = dot(p.to(v.dtype), v, acc * shrink[:, None])
    return acc, higher, total


@triton.jit(do_not_specialize=["splits"])
def _combine_kernel(part_ptr, lse_ptr, o_ptr, splits, D: tl.constexpr, FEATURES: tl.constexpr, SPLITS: tl.constexpr):
    """Adds the parts of a head in the order of the keys, weighted by their shares of the whole sum."""
    wait_for_previous()
    head = tl.program_id(0).to(tl.int64)
    parts = tl.arange(0, SPLITS)
    features = tl.arange(0, FEATURES)
    there = parts < splits
    lse = tl.load(lse_ptr + head * splits + parts, mask=there, other=float("-inf"))
    top = tl.max(lse, 0)
    shares = tl.exp2(lse - tl.where(top == float("-inf"), 0.0, top))
    total = tl.sum(shares, 0)
    mask = there[:, None] & (features < D)[None, :]
    values = tl.load(part_ptr + (head * splits + parts)[:, None] * D + features[None, :], mask=mask, other=0.0)
    o = tl.sum(values * shares[:, None], 0) / tl.where(total == 0, 1.0, total)
    tl.store(o_ptr + head * D + features, o.to(o_ptr.dtype.element_ty), mask=features < D)


def decode_attention(
    q: Tensor, k: Tensor, v: Tensor, lengths: Tensor | None = None, *,
    scale: float | None = None, configuration: Configuration | None = None,
) -> Tensor:  # fmt: skip
    """Attention of one query for each sequence over its cache, in one or two kernel launches, without synchronising.

    q: (B, Hq, D); k, v: (B, Hk, S, D); adjacent features, any other strides. lengths: (B,), int32, on the same device,
    0 to S: how many of its S keys each sequence has, from the first on; by default all. scale: by default 1/√D.
    configuration: how to launch, one of `decode_attention_choices`; if None, by rule. Returns a new contiguous tensor
    of the shape and dtype of `q`. Raises TypeError or ValueError naming the argument, what it was and what is accepted,
    and NotImplementedError where a gradient would be needed.
    """
    if lengths is None:
        launches = _WHOLE(q, k, v, options=(configuration,))
    else:
        launches = _RAGGED(q, k, v, lengths, options=(configuration,))
    factor = checked_scale("decode_attention", scale, q.shape[-1])
    return _run(launches, q, k, v, q if lengths is None else lengths, q, factor)


def decode_attention_paged(
    q: Tensor, k: Tensor, v: Tensor, table: Tensor, lengths: Tensor, *,
    scale: float | None = None, configuration: Configuration | None = None,
) -> Tensor:  # fmt: skip
    """As `decode_attention`, over a cache of pages of P keys: k, v: (pages, P, Hk, D), adjacent features.

    table: (B, most pages of a sequence), int32, contiguous: key i of sequence b is key i % P of page table[b, i // P].
    lengths: (B,), int32, each at most P times the columns of the table. Entries of the table beyond a sequence's length
    are not read.
    """
    launches = _PAGED(q, k, v, table, lengths, options=(configuration,))
    return _run(launches, q, k, v, lengths, table, checked_scale("decode_attention_paged", scale, q.shape[-1]))


def _run(launches: Any, q: Tensor, k: Tensor, v: Tensor, lengths: Tensor, table: Tensor, scale: float) -> Tensor:
    partial, combine, splits = launches
    o = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    if splits == 1:
        partial(q, k, v, o, q, lengths, table, scale)
        return o
    parts = torch.empty((*q.shape[:2], splits, q.shape[2]), dtype=torch.float32, device=q.device)
    lse = torch.empty(parts.shape[:3], dtype=torch.float32, device=q.device)
    partial(q, k, v, parts, lse, lengths, table, scale)
    combine(parts, lse, o)
    return o


def _settle_whole(q: Tensor, k: Tensor, v: Tensor, configuration: Configuration | None) -> Any:
    _check("decode_attention", q, k, v, SEQUENCE)
    steps = (*k.stride()[:3], *v.stride()[:3], 0)
    return _launches(q, k.shape[1], k.shape[2], steps, configuration)


def _settle_ragged(q: Tensor, k: Tensor, v: Tensor, lengths: Tensor, configuration: Configuration | None) -> Any:
    _check("decode_attention", q, k, v, SEQUENCE)
    check_counts("decode_attention", "lengths", lengths, (q.shape[0],), q)
    steps = (*k.stride()[:3], *v.stride()[:3], 0)
    return _launches(q, k.shape[1], k.shape[2], steps, configuration, lengths=True)


def _settle_paged(
    q: Tensor, k: Tensor, v: Tensor, table: Tensor, lengths: Tensor, configuration: Configuration | None
) -> Any:
    op = "decode_attention_paged"
    _check(op, q, k, v, PAGES)
    check_counts(op, "lengths", lengths, (q.shape[0],), q)
    columns = table.shape[-1] if isinstance(table, Tensor) and table.dim() else 0
    check_counts(op, "table", table, (q.shape[0], columns), q)
    page = k.shape[1]
    if page & (page - 1) or not page:
        raise ValueError(f"{op}: k has pages of {page} keys; accepted are powers of two")
    steps = tuple(x.stride(axis) for x in (k, v) for axis in (0, 2, 1))
    return _launches(q, k.shape[2], columns * page, (*steps, columns), configuration, lengths=True, page=page)


_WHOLE = Launches(_settle_whole)
_RAGGED = Launches(_settle_ragged)
_PAGED = Launches(_settle_paged)


def _check(op: str, q: Tensor, k: Tensor, v: Tensor, axes: tuple[str, ...]) -> None:
    check_heads_of(op, "q", q, ("B", "H", "D"))
    check_heads_of(op, "k", k, axes)
    check_heads_of(op, "v", v, axes)
    check_together(op, q, k, v, q.shape[1], k.shape[axes.index("H")])
    if axes is SEQUENCE and k.shape[0] != q.shape[0]:
        raise ValueError(f"{op}: k has {k.shape[0]} sequences; accepted are those of q, {q.shape[0]}")


def _launches(
    q: Tensor, k_heads: int, S: int, steps: tuple[int, ...], configuration: Configuration | None, *,
    lengths: bool = False, page: int = 0,
) -> tuple[Callable[..., Any], Callable[..., Any], int]:  # fmt: skip
    """(launch for the splits, launch that adds them up, number of splits)."""
    B, q_heads, D = q.shape
    if not q.numel():
        return nothing, nothing, 1
    shape = (B, q_heads, k_heads, S, D)
    chosen = configuration or decode_attention_rule(shape, q.itemsize, multiprocessors(q.get_device()), paged=page > 0)
    splits = chosen["SPLITS"]
    ratio = q_heads // k_heads
    features = max(NARROWEST_DOT, triton.next_power_of_2(D))
    partial = Launch(
        _decode_attention_kernel, B * k_heads * splits, q.get_device(), S, k_heads, splits, *q.stride()[:2], *steps,
        early=True, num_warps=chosen.num_warps, num_stages=chosen.num_stages,
        RATIO=ratio, PACK=max(NARROWEST_DOT, triton.next_power_of_2(ratio)), D=D, FEATURES=features,
        LENGTHS=lengths, PAGE=page, WHOLE=splits == 1, KEYS=chosen["KEYS"], STAGES=chosen.num_stages,
    )  # fmt: skip
    if splits == 1:
        return partial, nothing, 1
    combine = Launch(
        _combine_kernel, B * q_heads, q.get_device(), splits, early=True, num_warps=4,
        D=D, FEATURES=features, SPLITS=triton.next_power_of_2(splits),
    )  # fmt: skip
    return partial, combine, splits


def decode_attention_rule(
    shape: tuple[int, ...], itemsize: int, processors: int = 132, *, paged: bool = False
) -> Configuration:
    """How to launch (B, Hq, Hk, S, D) on a GPU with `processors` multiprocessors.

    Keys are split so that each multiprocessor has one program, or if that leaves many idle, two programs each. With two
    from the start, calls in CUDA graphs took 4 to 12 % longer in trials on an H100 and an H200: four sequences of 8192
    keys with 32 heads over 8 went from 56 to 50 µs (cuDNN 53). In single calls with a cold cache most were as fast or 1
    to 3 % faster, and short ones in pages of 128 keys 2 to 6 % slower. Tiles of 128 keys do not fit into registers if
    the features are padded to a power of two.
    """
    B, _, k_heads, S, D = shape[:5]
    programs = B * k_heads
    keys = 64 // triton.cdiv(D, 128)
    if programs > processors:
        wide = programs <= 2 * processors and not paged  # with pages, wide tiles cost 14 % here
        return Configuration.of(KEYS=2 * keys if wide else keys, SPLITS=1, num_warps=4, num_stages=3)
    once, most = processors // programs, min(triton.cdiv(S, SHORTEST_SPLIT), MOST_SPLITS)
    splits = max(1, min(once, most))
    if splits == once and splits < most and splits * programs < NEARLY_ALL * processors:
        return Configuration.of(KEYS=keys, SPLITS=min(2 * processors // programs, most), num_warps=4, num_stages=3)
    if triton.cdiv(S, splits) <= SHORT_SPLIT or D & (D - 1):
        return Configuration.of(KEYS=keys, SPLITS=splits, num_warps=4, num_stages=4)
    return Configuration.of(KEYS=2 * keys, SPLITS=splits, num_warps=4, num_stages=3)


def decode_attention_choices(shape: tuple[int, ...], itemsize: int) -> Iterator[Configuration]:
    """The configurations that a search may try for (B, Hq, Hk, S, D)."""
    B, _, k_heads, S, D = shape[:5]
    yield from dict.fromkeys(
        Configuration.of(
            KEYS=keys, SPLITS=max(1, min(programs // (B * k_heads), triton.cdiv(S, keys), MOST_SPLITS)),
            num_warps=warps, num_stages=stages,
        )
        for keys, warps, stages in product((32, 64, 128), (2, 4, 8), (2, 3, 4)) if keys * D * stages <= 128 * 128 * 3
        for programs in (1, 132, 264, 396, 528)
    )  # fmt: skip


def decode_attention_reference(
    q: Tensor, k: Tensor, v: Tensor, lengths: Tensor | None = None, *, scale: float | None = None
) -> Tensor:
    """The float64 result, on the device of `q`."""
    whole = [k.shape[2]] * q.shape[0]
    parts = [
        flash_attention_reference(
            q[b : b + 1, :, None], k[b : b + 1, :, :length], v[b : b + 1, :, :length], scale=scale
        )
        for b, length in enumerate(whole if lengths is None else lengths.tolist())
    ]
    return torch.cat(parts)[:, :, 0] if parts else torch.empty(q.shape, dtype=torch.float64, device=q.device)


def decode_attention_inputs(
    shape: tuple[int, ...], dtype: torch.dtype, device: str, seed: int
) -> tuple[Tensor, Tensor, Tensor]:
    """(q, k, v) of normal data for shape (B, Hq, Hk, S, D), contiguous."""
    B, q_heads, k_heads, S, D = shape
    generator = torch.Generator(device).manual_seed(seed)
    forms = ((B, q_heads, D), (B, k_heads, S, D), (B, k_heads, S, D))
    q, k, v = (torch.randn(form, dtype=dtype, device=device, generator=generator) for form in forms)
    return q, k, v


def decode_attention_paged_inputs(
    shape: tuple[int, ...], dtype: torch.dtype, device: str, seed: int, *, page: int
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """(q, k, v, table, lengths) for shape (B, Hq, Hk, S, D): pages in random order, all sequences of length S."""
    B, q_heads, k_heads, S, D = shape
    generator = torch.Generator(device).manual_seed(seed)
    columns = triton.cdiv(S, page)
    table = torch.randperm(B * columns, device=device, generator=generator).to(torch.int32).reshape(B, columns)
    forms = ((B, q_heads, D), *((B * columns, page, k_heads, D),) * 2)
    q, k, v = (torch.randn(form, dtype=dtype, device=device, generator=generator) for form in forms)
    return q, k, v, table, torch.full((B,), S, dtype=torch.int32, device=device)


def decode_attention_paged_reference(q: Tensor, k: Tensor, v: Tensor, table: Tensor, lengths: Tensor) -> Tensor:
    """The float64 result of the paged form, on the device of `q`."""
    k, v = (x[table.long()].flatten(1, 2).transpose(1, 2) for x in (k, v))
    return decode_attention_reference(q, k, v, lengths)


def decode_attention_traffic(shape: tuple[int, ...], itemsize: int) -> Traffic:
    """Least work for (B, Hq, Hk, S, D): read q, k and v once, write o; 4·D operations for each score."""
    B, q_heads, k_heads, S, D = shape[:5]
    queries = B * q_heads * D
    return Traffic(
        read_bytes=(queries + 2 * B * k_heads * S * D) * itemsize,
        written_bytes=queries * itemsize,
        flops=4 * queries * S,
    )
