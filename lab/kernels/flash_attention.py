"""Flash attention, forward: o = softmax(q · kᵀ · scale) · v. Scores are computed a tile at a time and never stored.

q: (B, Hq, Sq, D)   k, v: (B, Hk, Sk, D)   o: as q   lse: (B, Hq, Sq), float32; q, k, v, o float16 or bfloat16, Hq a
multiple of Hk (head h of q reads head h // (Hq / Hk) of k and v), D from 1 to 256. The query of row i has position
i + Sk − Sq, so that the last query has the position of the last key. Sums are in float32. The softmax weights are
rounded to the dtype of v before they are multiplied with v, and the result is rounded once. A query that sees no key
gives zeros, and −inf as its log-sum-exp. Tri Dao et al., "FlashAttention", 2022; "FlashAttention-2", 2023.

The kernel here takes all calls. It exists for heads of 64, 80, 96, 128 and 256 features, in rows at multiples of 16
elements; other tensors are copied first. On a Hopper GPU `flash_attention_hopper.py` has a faster kernel for most
calls, of any head size, in rows at multiples of 16 bytes. On an H200 that one reaches 700 TFLOP/s (two sequences of
8192, 16 heads of 128 features: 1570 µs in run h200-attention-2026-11-23), the kernel here 500. The kernel here still
computes calls with `prefix`, packed sequences, up to 192 queries, up to 384 if the keys are split, and some of up to
1024 with heads of up to 64 features. With Triton 3.6's own warp specialisation it compiles, but hangs.
"""

import math
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from lab.kernels.attention import (
    LOG2_E,
    Window,
    aligned,
    check_counts,
    check_heads_of,
    check_together,
    checked_scale,
    checked_window,
    dot,
    sizes_of,
    whole_features,
)
from lab.kernels.early import wait_for_previous
from lab.kernels.flash_attention_hopper import HopperLaunch, hopper_choices, hopper_rule, hopper_takes
from lab.kernels.launch import Configuration, Launch, Launches, multiprocessors, nothing
from lab.kernels.traffic import Traffic

COUNTS = ["Sq", "Sk", "left", "right", "heads", "heads_all", "row_tiles", "group", "lse_head", "splits"]
HEADS_AND_TAILS = {64: (64, 0), 80: (64, 16), 96: (64, 32), 128: (128, 0), 256: (256, 0)}  # powers of two
FEWEST_ROWS, FEW_ROWS = 192, 384  # of queries: small tiles are faster up to the first, split keys up to the second
SHORT_ROWS = 1024  # of queries with heads of 64 features: up to here small tiles may be faster too
SHORTEST_SPLIT = 512  # keys of a split: with fewer, adding up the splits costs more than it saves
MOST_SPLITS = 32
CACHED_BYTES = 16 * 2**20  # of keys and values that programs running together may share in the L2 cache


@triton.jit(do_not_specialize=COUNTS)
def _flash_attention_kernel(
    q_ptr, k_ptr, v_ptr, o_ptr, lse_ptr, q_starts_ptr, k_starts_ptr, prefix_ptr, scale,
    Sq, Sk, left, right, heads, heads_all, row_tiles, group, lse_head, splits,
    q_batch, q_head, q_row, k_batch, k_head, k_row, v_batch, v_head, v_row, o_batch, o_head, o_row,
    RATIO: tl.constexpr, HEAD: tl.constexpr, TAIL: tl.constexpr, PACKED: tl.constexpr,
    RIGHT: tl.constexpr, LEFT: tl.constexpr, PREFIX: tl.constexpr,
    ROWS: tl.constexpr, KEYS: tl.constexpr,
):  # fmt: skip
    """ROWS queries of one head a program, KEYS keys at a time. With `splits` a program takes a part of the keys only:
    o is then (B, Hq, Sq, splits, D) and lse (B, Hq, Sq, splits), and `_join_kernel` computes the result from them.

    Within `group` heads the last rows come first: under a causal mask they take longest. The features of a head are
    divided into HEAD and TAIL, so that 80 or 96 features are not padded to 128.
    """
    wait_for_previous()
    program = tl.program_id(0) // splits
    split = tl.program_id(0) % splits
    before = program // (group * row_tiles) * group  # heads of the groups before
    rest = program - before * row_tiles
    members = tl.minimum(group, heads_all - before)
    row_tile = row_tiles - 1 - rest // members
    which = before + rest % members
    batch = (which // heads).to(tl.int64)
    head = which % heads
    if PACKED:
        q_start = tl.load(q_starts_ptr + batch).to(tl.int64)
        k_start = tl.load(k_starts_ptr + batch).to(tl.int64)
        Sq = (tl.load(q_starts_ptr + batch + 1) - q_start).to(tl.int32)
        Sk = (tl.load(k_starts_ptr + batch + 1) - k_start).to(tl.int32)
        if row_tile * ROWS >= Sq:
            return
        q_ptr += q_start * q_row
        k_ptr += k_start * k_row
        v_ptr += k_start * v_row
        o_ptr += q_start * o_row
        lse_ptr += q_start + head.to(tl.int64) * lse_head
    else:
        q_ptr += batch * q_batch
        k_ptr += batch * k_batch
        v_ptr += batch * v_batch
        o_ptr += batch * o_batch
        lse_ptr += which.to(tl.int64) * lse_head
    q_ptr += head.to(tl.int64) * q_head
    k_ptr += (head // RATIO).to(tl.int64) * k_head
    v_ptr += (head // RATIO).to(tl.int64) * v_head
    o_ptr += head.to(tl.int64) * o_head

    first_row = row_tile * ROWS
    rows = first_row + tl.arange(0, ROWS)
    inside = rows < Sq
    features = tl.arange(0, HEAD)[None, :]
    tail = HEAD + tl.arange(0, TAIL)[None, :] if TAIL else features
    q_rows = q_ptr + rows.to(tl.int64)[:, None] * q_row
    q = tl.load(q_rows + features, mask=inside[:, None], other=0.0)
    q_tail = tl.load(q_rows + tail, mask=inside[:, None], other=0.0) if TAIL else q

    offset = Sk - Sq  # the last query sees what the last key's position allows
    first, whole_first = 0, 0
    end, whole_end = tl.cdiv(Sk, KEYS), Sk // KEYS
    if RIGHT:
        end = tl.minimum(end, tl.cdiv(tl.maximum(first_row + ROWS + offset + right, 0), KEYS))
        whole_end = tl.minimum(whole_end, tl.maximum(first_row + offset + right + 1, 0) // KEYS)
    if LEFT:
        first = tl.maximum(first_row + offset - left, 0) // KEYS
        whole_first = tl.cdiv(tl.maximum(first_row + ROWS - 1 + offset - left, 0), KEYS)
    prefix = 0
    if PREFIX:
        prefix = tl.minimum(tl.load(prefix_ptr + batch).to(tl.int32), Sk)
        end = tl.maximum(end, tl.cdiv(prefix, KEYS))
        whole_end = tl.maximum(whole_end, prefix // KEYS)
        if prefix > 0:
            if LEFT:
                whole_end = 0
            first = 0
    each = tl.cdiv(tl.maximum(end - first, 0), splits)
    first = tl.minimum(first + split * each, end)
    end = tl.minimum(first + each, end)
    whole_end = tl.maximum(tl.minimum(whole_end, end), first)
    whole_first = tl.minimum(tl.maximum(whole_first, first), whole_end)

    top = tl.full((ROWS,), float("-inf"), tl.float32)
    total = tl.zeros((ROWS,), tl.float32)
    acc = tl.zeros((ROWS, HEAD), tl.float32)
    acc_tail = tl.zeros((ROWS, TAIL), tl.float32) if TAIL else total
    qk_scale = scale * LOG2_E
    if LEFT:
        acc, acc_tail, top, total = _over_keys(
            acc, acc_tail, top, total, q, q_tail, k_ptr, v_ptr, k_row, v_row,
        rows, Sk, offset, left, right, prefix, qk_scale,
            first, whole_first, HEAD, TAIL, RIGHT, LEFT, PREFIX, True, KEYS,
        )  # fmt: skip
    acc, acc_tail, top, total = _over_keys(
        acc, acc_tail, top, total, q, q_tail, k_ptr, v_ptr, k_row, v_row,
        rows, Sk, offset, left, right, prefix, qk_scale,
        whole_first, whole_end, HEAD, TAIL, RIGHT, LEFT, PREFIX, False, KEYS,
    )  # fmt: skip
    acc, acc_tail, top, total = _over_keys(
        acc, acc_tail, top, total, q, q_tail, k_ptr, v_ptr, k_row, v_row,
        rows, Sk, offset, left, right, prefix, qk_scale,
        whole_end, end, HEAD, TAIL, RIGHT, LEFT, PREFIX, True, KEYS,
    )  # fmt: skip

    no_keys = total == 0
    tl.store(
        lse_ptr + rows * splits + split, tl.where(no_keys, float("-inf"), top * scale + tl.log(total)), mask=inside
    )
    share = 1 / tl.where(no_keys, 1.0, total)
    o_rows = o_ptr + rows.to(tl.int64)[:, None] * o_row + split * (HEAD + TAIL)
    tl.store(o_rows + features, (acc * share[:, None]).to(o_ptr.dtype.element_ty), mask=inside[:, None])
    if TAIL:
        tl.store(o_rows + tail, (acc_tail * share[:, None]).to(o_ptr.dtype.element_ty), mask=inside[:, None])


@triton.jit(do_not_specialize=["splits", "heads", "Sq"])
def _join_kernel(
    parts_ptr, part_lse_ptr, o_ptr, lse_ptr, splits, heads, Sq, o_batch, o_head, o_row,
    D: tl.constexpr, FEATURES: tl.constexpr, SPLITS: tl.constexpr,
):  # fmt: skip
    """One row of the result a program: adds its parts in the order of the keys, weighted by their shares of the sum."""
    wait_for_previous()
    row = tl.program_id(0).to(tl.int64)
    parts = tl.arange(0, SPLITS)
    features = tl.arange(0, FEATURES)
    lse = tl.load(part_lse_ptr + row * splits + parts, mask=parts < splits, other=float("-inf"))
    top = tl.max(lse, 0)
    shares = tl.exp(lse - tl.where(top == float("-inf"), 0.0, top))
    total = tl.sum(shares, 0)
    mask = (parts < splits)[:, None] & (features < D)[None, :]
    values = tl.load(parts_ptr + (row * splits + parts)[:, None] * D + features[None, :], mask=mask, other=0.0)
    empty = total == 0
    o = tl.sum(values * shares[:, None], 0) / tl.where(empty, 1.0, total)
    which = row // Sq
    place = which // heads * o_batch + which % heads * o_head + row % Sq * o_row
    tl.store(o_ptr + place + features, o.to(o_ptr.dtype.element_ty), mask=features < D)
    tl.store(lse_ptr + row, tl.where(empty, float("-inf"), top + tl.log(tl.where(empty, 1.0, total))))


@triton.jit
def _over_keys(
    acc, acc_tail, top, total, q, q_tail, k_ptr, v_ptr, k_row, v_row, rows, Sk, offset, left, right, prefix, qk_scale,
    first, end, HEAD: tl.constexpr, TAIL: tl.constexpr,
    RIGHT: tl.constexpr, LEFT: tl.constexpr, PREFIX: tl.constexpr, CUT: tl.constexpr, KEYS: tl.constexpr,
):  # fmt: skip
    """The running sums after adding the tiles of keys from `first` to `end`. CUT: apply the mask to their scores."""
    features = tl.arange(0, HEAD)[None, :]
    tail = HEAD + tl.arange(0, TAIL)[None, :] if TAIL else features
    for tile in range(first, end):
        keys = tile * KEYS + tl.arange(0, KEYS)
        there = (keys < Sk)[:, None]
        k_rows = k_ptr + keys.to(tl.int64)[:, None] * k_row
        v_rows = v_ptr + keys.to(tl.int64)[:, None] * v_row
        k = _load(k_rows + features, there, CUT)
        scores = dot(q, k.T, tl.zeros((rows.shape[0], KEYS), tl.float32))
        if TAIL:
            scores = dot(q_tail, _load(k_rows + tail, there, CUT).T, scores)
        if CUT:
            visible = _visible(rows, keys, Sk, offset, left, right, prefix, RIGHT, LEFT, PREFIX)
            scores = tl.where(visible, scores, float("-inf"))
        higher = tl.maximum(top, tl.max(scores, 1))
        anchor = higher * qk_scale
        if CUT or LEFT or PREFIX or RIGHT:
            anchor = tl.where(higher == float("-inf"), 0.0, anchor)
        p = tl.exp2(scores * qk_scale - anchor[:, None])
        shrink = tl.exp2(top * qk_scale - anchor)
        total = total * shrink + tl.sum(p, 1)
        acc = acc * shrink[:, None]
        p = p.to(q.dtype)
        acc = dot(p, _load(v_rows + features, there, CUT), acc)
        if TAIL:
            acc_tail = acc_tail * shrink[:, None]
            acc_tail = dot(p, _load(v_rows + tail, there, CUT), acc_tail)
        top = higher
    return acc, acc_tail, top, total


@triton.jit
def _load(pointers, there, CUT: tl.constexpr):
    return tl.load(pointers, mask=there, other=0.0) if CUT else tl.load(pointers)


@triton.jit
def _visible(
    rows, keys, Sk, offset, left, right, prefix, RIGHT: tl.constexpr, LEFT: tl.constexpr, PREFIX: tl.constexpr
):
    """Which keys each row sees: a boolean tile."""
    at = (rows + offset)[:, None]
    inside = (keys < Sk)[None, :]
    near = inside
    if RIGHT:
        near = near & (keys[None, :] <= at + right)
    if LEFT:
        near = near & (keys[None, :] >= at - left)
    if PREFIX:
        near = near | (inside & (keys < prefix)[None, :])
    return near


def flash_attention(
    q: Tensor, k: Tensor, v: Tensor, *,
    causal: bool = False, window: Window = (None, None), prefix: Tensor | None = None, scale: float | None = None,
    configuration: Configuration | None = None,
) -> Tensor:  # fmt: skip
    """Attention of `q` over `k` and `v`, without synchronising.

    One kernel launch, or two if rows and heads are too few to fill the GPU and the keys are split. Tensors that the
    kernel cannot read are copied first, with further launches, and memory for the copies and a second result; the
    module's docstring says which. The faster kernel for Hopper takes no call with `prefix`, nor up to 192 queries.

    q: (B, Hq, Sq, D); k, v: (B, Hk, Sk, D); adjacent features, any other strides ((B, S, H, D) comes as
    `x.transpose(1, 2)`). causal: a query sees the keys up to its own position. window: (left, right), how many keys
    before and after its position a query sees; None for all of them. prefix: (B,), int32, on the same device: keys
    below it are seen by all queries of that sequence, even if the mask hides them. scale: by default 1/√D.
    configuration: how to launch, one of `flash_attention_choices`; if None, by rule. Returns a new tensor of the
    shape, dtype and order in memory of `q`. Raises TypeError or ValueError naming the argument, what it was and what is
    accepted, and NotImplementedError where a gradient would be needed.
    """
    return flash_attention_lse(
        q, k, v, causal=causal, window=window, prefix=prefix, scale=scale, configuration=configuration
    )[0]


def flash_attention_lse(
    q: Tensor, k: Tensor, v: Tensor, *,
    causal: bool = False, window: Window = (None, None), prefix: Tensor | None = None, scale: float | None = None,
    configuration: Configuration | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """(o, lse): as `flash_attention`, with the natural log of each row's sum of exponentials, (B, Hq, Sq), float32."""
    options = ("flash_attention", causal, window, configuration)
    launch = _LAUNCHES(q, k, v, options=options) if prefix is None else _PREFIXED(q, k, v, prefix, options=options)
    o = torch.empty_like(q)
    lse = torch.empty(q.shape[:3], dtype=torch.float32, device=q.device)
    launch(q, k, v, o, lse, checked_scale("flash_attention", scale, q.shape[-1]), prefix)
    return o, lse


def flash_attention_packed(
    q: Tensor, k: Tensor, v: Tensor, q_starts: Tensor, k_starts: Tensor, longest: int, *,
    causal: bool = False, window: Window = (None, None), scale: float | None = None,
    configuration: Configuration | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Attention within each of B sequences of any lengths that follow each other without gaps; (o, lse).

    Always by the kernel of this module, never by the faster one for Hopper, and without splitting the keys.
    q: (rows, Hq, D); k, v: (keys, Hk, D), adjacent features, any other strides. q_starts, k_starts: (B + 1,), int32,
    contiguous, on the same device: where each sequence begins, and where the last one ends. longest: the rows of the
    longest sequence of q, or more; rows of a sequence beyond it are not computed. Other arguments as `flash_attention`.
    Returns o, of the shape and dtype of `q`, and lse, (Hq, rows).
    """
    launch = _PACKED(q, k, v, q_starts, k_starts, options=(longest, causal, window, configuration))
    o = torch.empty_like(q)
    lse = torch.empty((q.shape[1], q.shape[0]), dtype=torch.float32, device=q.device)
    launch(q, k, v, o, lse, q_starts, k_starts, checked_scale("flash_attention", scale, q.shape[-1]))
    return o, lse


def _prepare(
    q: Tensor, k: Tensor, v: Tensor, op: str, causal: bool, window: Window, configuration: Configuration | None
) -> Callable[..., Any]:
    left, right = _check(op, q, k, v, causal, window)
    if not q.numel():
        return nothing
    sizes = (q.shape[0], q.shape[1], k.shape[1], q.shape[2], k.shape[2], q.shape[3])
    o = torch.empty_like(q, device="meta")
    fits = hopper_takes(q, k, v, o)
    chosen = configuration or _rule(sizes, q, fits, right is not None)
    if "WARPGROUPS" in dict(chosen.constants):
        if not fits:
            raise ValueError(
                f"{op}: configuration is {chosen}, for a Hopper GPU and rows at multiples of 16 bytes; accepted here "
                "are those with ROWS"
            )
        hopper = HopperLaunch(q, k, v, o, left, right, heads_together(sizes, q.itemsize), chosen)
        return lambda q, k, v, o, lse, scale, prefix: hopper(q, k, v, o, lse, scale)
    if not _all_aligned(q, k, v):
        return partial(_by_way_of_copies, causal=causal, window=window, configuration=configuration)
    if chosen["SPLITS"] > 1:
        return _split_launch(q, k, v, o, sizes, left, right, chosen)
    launch = _launch(q, sizes, left, right, chosen, (q, k, v, o), prefixed=False)
    return lambda q, k, v, o, lse, scale, prefix: launch(q, k, v, o, lse, q, q, q, scale)


def _rule(sizes: tuple[int, ...], q: Tensor, fits: bool, masked: bool) -> Configuration:
    """fits: the kernel for Hopper can run. masked: later keys are hidden."""
    processors = multiprocessors(q.get_device())
    plain = split_rule(sizes, q.itemsize, processors)
    rows = sizes[3]
    if not fits or rows <= FEWEST_ROWS or (rows <= FEW_ROWS and plain["SPLITS"] > 1):
        return plain
    return short_rule(sizes, masked, processors) or hopper_rule(sizes, q.itemsize, masked=masked, processors=processors)


def _split_launch(
    q: Tensor, k: Tensor, v: Tensor, o: Tensor,
    sizes: tuple[int, ...], left: int | None, right: int | None, chosen: Configuration,
) -> Callable[..., Any]:  # fmt: skip
    """The launches of a call whose keys are split: the parts in float32, then their sum."""
    B, q_heads, _, Sq, _, D = sizes
    splits = chosen["SPLITS"]
    parts_like = torch.empty((B, q_heads, Sq, splits, D), dtype=torch.float32, device="meta")
    launch = _launch(q, sizes, left, right, chosen, (q, k, v, parts_like[:, :, :, 0]), prefixed=False)
    join = Launch(
        _join_kernel, B * q_heads * Sq, q.get_device(), splits, q_heads, Sq, *o.stride()[:3], num_warps=1,
        early=True, D=D, FEATURES=triton.next_power_of_2(D), SPLITS=triton.next_power_of_2(splits),
    )  # fmt: skip

    def both(q: Tensor, k: Tensor, v: Tensor, o: Tensor, lse: Tensor, scale: float, prefix: Tensor | None) -> None:
        parts = torch.empty(parts_like.shape, dtype=torch.float32, device=q.device)
        part_lse = torch.empty(parts_like.shape[:4], dtype=torch.float32, device=q.device)
        launch(q, k, v, parts, part_lse, q, q, q, scale)
        join(parts, part_lse, o, lse)

    return both


def _settle_prefixed(
    q: Tensor, k: Tensor, v: Tensor, prefix: Tensor,
    op: str, causal: bool, window: Window, configuration: Configuration | None,
) -> Callable[..., Any]:  # fmt: skip
    left, right = _check(op, q, k, v, causal, window)
    check_counts(op, "prefix", prefix, (q.shape[0],), q)
    if not q.numel():
        return nothing
    if not _all_aligned(q, k, v):
        return partial(_by_way_of_copies, causal=causal, window=window, configuration=configuration)
    sizes = (q.shape[0], q.shape[1], k.shape[1], q.shape[2], k.shape[2], q.shape[3])
    o = torch.empty_like(q, device="meta")
    chosen = configuration or plain_rule(sizes, q.itemsize)
    launch = _launch(q, sizes, left, right, chosen, (q, k, v, o), prefixed=True)
    return lambda q, k, v, o, lse, scale, prefix: launch(q, k, v, o, lse, q, q, prefix, scale)


def _settle_packed(
    q: Tensor, k: Tensor, v: Tensor, q_starts: Tensor, k_starts: Tensor,
    longest: int, causal: bool, window: Window, configuration: Configuration | None,
) -> Callable[..., Any]:  # fmt: skip
    op = "flash_attention_packed"
    for name, x in (("q", q), ("k", k), ("v", v)):
        check_heads_of(op, name, x, ("rows", "H", "D"))
    check_together(op, q, k, v, q.shape[1], k.shape[1])
    left, right = checked_window(op, causal, window)
    sequences = q_starts.numel() - 1 if isinstance(q_starts, Tensor) else 0
    if sequences < 1:
        raise ValueError(f"{op}: q_starts has {sequences + 1} elements; accepted are at least 2, (B + 1,)")
    check_counts(op, "q_starts", q_starts, (sequences + 1,), q)
    check_counts(op, "k_starts", k_starts, (sequences + 1,), q)
    if not isinstance(longest, int) or longest < 0:
        raise ValueError(f"{op}: longest is {longest!r}; accepted is an int from 0")
    if not q.numel() or not longest:
        return nothing
    if not _all_aligned(q, k, v):
        return partial(
            _packed_by_way_of_copies, longest=longest, causal=causal, window=window, configuration=configuration
        )
    o = torch.empty_like(q, device="meta")
    sizes = (sequences, q.shape[1], k.shape[1], longest, max(1, k.shape[0] // sequences), q.shape[2])
    chosen = configuration or plain_rule(sizes, q.itemsize)
    as_batch = tuple(x.transpose(0, 1)[None] for x in (q, k, v, o))
    launch = _launch(q, sizes, left, right, chosen, as_batch, prefixed=False, packed_rows=q.shape[0])
    return lambda q, k, v, o, lse, q_starts, k_starts, scale: launch(q, k, v, o, lse, q_starts, k_starts, q, scale)


def _all_aligned(*tensors: Tensor) -> bool:
    return all(aligned(x, whole_features(x.shape[-1])) is x for x in tensors)


def _by_way_of_copies(
    q: Tensor, k: Tensor, v: Tensor, o: Tensor, lse: Tensor, scale: float, prefix: Tensor | None, **how: Any
) -> None:
    """The launch for tensors with features or rows that the kernels do not support: on copies.

    Loading single elements instead takes several times as long as copying, and ended with an error of the GPU.
    """
    whole_q, whole_k, whole_v = (aligned(x, whole_features(x.shape[-1])) for x in (q, k, v))
    whole_o, whole_lse = flash_attention_lse(whole_q, whole_k, whole_v, prefix=prefix, scale=scale, **how)
    o.copy_(whole_o[..., : q.shape[-1]])
    lse.copy_(whole_lse)


def _packed_by_way_of_copies(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    o: Tensor,
    lse: Tensor,
    q_starts: Tensor,
    k_starts: Tensor,
    scale: float,
    **how: Any,
) -> None:
    whole_q, whole_k, whole_v = (aligned(x, whole_features(x.shape[-1])) for x in (q, k, v))
    whole_o, whole_lse = flash_attention_packed(whole_q, whole_k, whole_v, q_starts, k_starts, scale=scale, **how)
    o.copy_(whole_o[..., : q.shape[-1]])
    lse.copy_(whole_lse)


_LAUNCHES = Launches(_prepare)
_PREFIXED = Launches(_settle_prefixed)
_PACKED = Launches(_settle_packed)


def _launch(
    first: Tensor, sizes: tuple[int, ...], left: int | None, right: int | None, chosen: Configuration,
    tensors: tuple[Tensor, ...], *, prefixed: bool, packed_rows: int = 0,
) -> Launch:  # fmt: skip
    """The launch of `_flash_attention_kernel` for (B, Hq, Hk, Sq, Sk, D), for tensors with these strides."""
    B, q_heads, k_heads, Sq, Sk, D = sizes
    row_tiles = triton.cdiv(Sq, chosen["ROWS"])
    splits = 1 if packed_rows or prefixed else chosen["SPLITS"]
    return Launch(
        _flash_attention_kernel, row_tiles * B * q_heads * splits, first.get_device(),
        Sq, Sk, left or 0, right or 0, q_heads, B * q_heads, row_tiles, heads_together(sizes, first.itemsize),
        (packed_rows or Sq) * splits, splits, *(step for x in tensors for step in x.stride()[:3]),
        early=True, num_warps=chosen.num_warps, num_stages=chosen.num_stages,
        RATIO=q_heads // k_heads, HEAD=HEADS_AND_TAILS[D][0], TAIL=HEADS_AND_TAILS[D][1], PACKED=packed_rows > 0,
        RIGHT=right is not None, LEFT=left is not None, PREFIX=prefixed, ROWS=chosen["ROWS"], KEYS=chosen["KEYS"],
    )  # fmt: skip


def heads_together(sizes: tuple[int, ...], itemsize: int) -> int:
    """Heads of q whose programs run at the same time: those that share keys, and more while the keys and values of all
    fit into the cache."""
    B, q_heads, k_heads, _, Sk, D = sizes
    sharing = q_heads // k_heads
    fitting = CACHED_BYTES // max(1, 2 * Sk * D * itemsize)
    return min(B * q_heads, sharing * max(1, fitting))


def _check(op: str, q: Tensor, k: Tensor, v: Tensor, causal: bool, window: Window) -> Window:
    for name, x in (("q", q), ("k", k), ("v", v)):
        check_heads_of(op, name, x, ("B", "H", "S", "D"))
    check_together(op, q, k, v, q.shape[1], k.shape[1])
    if q.shape[0] != k.shape[0]:
        raise ValueError(f"{op}: k has {k.shape[0]} sequences; accepted are those of q, {q.shape[0]}")
    return checked_window(op, causal, window)


def plain_rule(shape: tuple[int, ...], itemsize: int) -> Configuration:
    """Rows and keys of a tile of `_flash_attention_kernel`: the fastest of a sweep on an H200."""
    _, _, _, Sq, _, D = sizes_of(shape)
    D = whole_features(D)
    if D > 128:
        return plain_configuration(128, 64, warps=8, stages=2)
    if D == 96 or Sq <= FEW_ROWS:
        return plain_configuration(64, 64, warps=4, stages=3)
    return plain_configuration(128, 64, warps=4 if D == 80 else 8, stages=3)


def plain_configuration(rows: int, keys: int, *, warps: int, stages: int, splits: int = 1) -> Configuration:
    """A configuration of `_flash_attention_kernel`: rows and keys of a tile, and the programs that share the keys."""
    return Configuration.of(ROWS=rows, KEYS=keys, SPLITS=splits, num_warps=warps, num_stages=stages)


def short_rule(shape: tuple[int, ...], masked: bool, processors: int) -> Configuration | None:
    """For short rows of heads of up to 64 features on a Hopper GPU: tiles of 64 rows where these beat the kernel with
    warps that only load. masked: later keys are hidden.

    Measured on an H200, with the other kernel's best form in brackets: 4 × 8 heads of 256 9.0 µs (9.9), 8 heads of 1024
    15.8 (16.5); causal, 128 heads of 512 25.6 (28.9), 64 of 1024 35.9 (37.9), 32 of 1024 24.8 (23.7).
    """
    B, q_heads, _, Sq, Sk, D = shape
    tiles = B * q_heads * triton.cdiv(Sq, 64)
    if D > 64 or max(Sq, Sk) > SHORT_ROWS:
        return None
    many = tiles > 4 * processors  # two stages leave room for more programs a multiprocessor
    if tiles <= processors or (masked and (Sq < SHORT_ROWS or many)):
        return plain_configuration(64, 64, warps=4, stages=2 if many else 3)
    return None


def split_rule(shape: tuple[int, ...], itemsize: int, processors: int = 132) -> Configuration:
    """As `plain_rule`, but if rows and heads are too few to fill the GPU, the keys are split over as many programs as
    it has room for.

    Measured on an H100 with 128 queries of 32 heads over 8192 keys: tiles of 128 rows, one program a multiprocessor,
    59 µs; tiles of 64 rows, two programs a multiprocessor, 64 µs; twice as many splits 70 and 74 µs; no splits 96 µs;
    PyTorch's flash backend 69 µs.
    """
    B, q_heads, _, Sq, Sk, D = sizes_of(shape)
    heads = B * q_heads
    most = max(1, min(Sk // SHORTEST_SPLIT, MOST_SPLITS))
    high = processors // max(1, heads * triton.cdiv(Sq, 128))
    if Sq > 64 and 64 < D <= 128 and min(high, most) > 1:
        return plain_configuration(128, 64, warps=8, stages=3, splits=min(high, most))
    plain = plain_rule(shape, itemsize)
    splits = 2 * processors // max(1, heads * triton.cdiv(Sq, plain["ROWS"]))
    return plain_configuration(
        plain["ROWS"], plain["KEYS"], warps=plain.num_warps, stages=plain.num_stages, splits=max(1, min(splits, most))
    )


def flash_attention_choices(shape: tuple[int, ...], itemsize: int) -> Iterator[Configuration]:
    """The configurations that a search may try for (B, Hq, Hk, S, D) or (B, Hq, Hk, Sq, Sk, D)."""
    *_, D = shape
    yield from hopper_choices(shape)
    for rows, keys, warps, stages in product((64, 128), (32, 64, 128), (4, 8), (2, 3)):
        if keys * D * stages <= 128 * 256:
            for splits in sorted({1, split_rule(shape, itemsize)["SPLITS"]}):
                yield plain_configuration(rows, keys, warps=warps, stages=stages, splits=splits)


def flash_attention_reference(
    q: Tensor, k: Tensor, v: Tensor, *,
    causal: bool = False, window: Window = (None, None), prefix: Tensor | None = None, scale: float | None = None,
) -> Tensor:  # fmt: skip
    """The float64 result, on the device of `q`; one head at a time, so that the scores fit in memory."""
    return flash_attention_lse_reference(q, k, v, causal=causal, window=window, prefix=prefix, scale=scale)[0]


def flash_attention_lse_reference(
    q: Tensor, k: Tensor, v: Tensor, *,
    causal: bool = False, window: Window = (None, None), prefix: Tensor | None = None, scale: float | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """As `flash_attention_reference`, with the log-sum-exp of each row."""
    B, q_heads, Sq, D = q.shape
    left, right = checked_window("flash_attention", causal, window)
    o = torch.empty(q.shape, dtype=torch.float64, device=q.device)
    lse = torch.empty(q.shape[:3], dtype=torch.float64, device=q.device)
    at = torch.arange(Sq, device=q.device)[:, None] + k.shape[2] - Sq
    keys = torch.arange(k.shape[2], device=q.device)[None]
    for batch in range(B):
        hidden = torch.zeros((Sq, k.shape[2]), dtype=torch.bool, device=q.device)
        if right is not None:
            hidden |= keys > at + right
        if left is not None:
            hidden |= keys < at - left
        if prefix is not None:
            hidden &= keys >= prefix[batch]
        for head in range(q_heads):
            its = head * k.shape[1] // q_heads
            scores = q[batch, head].double() @ k[batch, its].double().T
            scores.mul_(1 / math.sqrt(D) if scale is None else scale).masked_fill_(hidden, -math.inf)
            lse[batch, head] = total = scores.logsumexp(-1)
            scores.sub_(total.masked_fill(total == -math.inf, 0)[:, None]).exp_()
            o[batch, head] = scores @ v[batch, its].double()
    return o, lse


def flash_attention_inputs(
    shape: tuple[int, ...], dtype: torch.dtype, device: str, seed: int
) -> tuple[Tensor, Tensor, Tensor]:
    """(q, k, v) of normal data for shape (B, Hq, Hk, S, D) or (B, Hq, Hk, Sq, Sk, D), contiguous."""
    B, q_heads, k_heads, Sq, Sk, D = sizes_of(shape)
    generator = torch.Generator(device).manual_seed(seed)
    forms = ((B, q_heads, Sq, D), (B, k_heads, Sk, D), (B, k_heads, Sk, D))
    q, k, v = (torch.randn(form, dtype=dtype, device=device, generator=generator) for form in forms)
    return q, k, v


def flash_attention_traffic(shape: tuple[int, ...], itemsize: int, *, causal: bool = False) -> Traffic:
    """Least work for (B, Hq, Hk, S, D) or (B, Hq, Hk, Sq, Sk, D): read q, k and v once, write o once; 4·D operations
    for each score that the mask leaves, in two products. Exponentials do not count, as is usual."""
    B, q_heads, k_heads, Sq, Sk, D = sizes_of(shape)
    queries, keys = B * q_heads * Sq * D, B * k_heads * Sk * D
    scores = Sq * Sk
    if causal:
        scores = sum(min(Sk, max(0, row + Sk - Sq + 1)) for row in range(Sq))
    return Traffic(
        read_bytes=(queries + 2 * keys) * itemsize,
        written_bytes=queries * itemsize,
        flops=4 * D * B * q_heads * scores,
    )


def scores_bytes(shape: tuple[int, ...], itemsize: int) -> int:
    """Bytes of all scores, B · Hq · Sq · Sk elements, which flash attention never stores."""
    B, q_heads, _, Sq, Sk, _ = sizes_of(shape)
    return B * q_heads * Sq * Sk * itemsize
