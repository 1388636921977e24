"""Heads of queries and keys: how they are divided among programs, and checks for the operators that rotate them.

q: (B, Hq, S, D)   k: (B, Hk, S, D), adjacent features, any other strides   cos, sin: (S, R/2) or (B, S, R/2), of the
angles by which pairs of features are turned. A program takes TOKENS positions of HEADS heads, all of q or all of k,
and loads the angles of its positions once. Two layouts of the pairs are in use: `half-split` takes feature i with
i + R/2 (GPT-NeoX, Llama, Qwen), `interleaved` takes 2i with 2i + 1 (the paper, GPT-J).
"""

import math
from collections.abc import Iterable, Iterator, Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor

from lab.kernels.checks import check_adjacent, check_tensor
from lab.kernels.launch import Configuration

LAYOUTS = ("half-split", "interleaved")
LOAD_BYTES = 16  # the widest load of a thread
MOST_UNIT = 16  # elements: more would not make a load wider
MOST_WARPS = 4
FEW_WARPS = 512  # with one load each; four for each multiprocessor of an H100 or H200
SOME_WARPS = 4096  # about half of those that the multiprocessors hold


@triton.jit
def tile_of_heads(
    q_ptr, k_ptr, q_out_ptr, k_out_ptr, cos_ptr, sin_ptr,
    S, cos_batch, cos_token, sin_batch, sin_token,
    q_batch, q_head, q_token, k_batch, k_head, k_token,
    q_out_batch, q_out_head, q_out_token, k_out_batch, k_out_head, k_out_token,
    Q_HEADS: tl.constexpr, K_HEADS: tl.constexpr, UNIT: tl.constexpr, ANGLE_UNIT: tl.constexpr,
    TOKENS: tl.constexpr, HEADS: tl.constexpr, HEADS_FIRST: tl.constexpr, ONE_SEQUENCE: tl.constexpr,
):  # fmt: skip
    """This program's heads: pointers in and out (HEADS, TOKENS, 1), their mask, whether they are queries, and pointers
    to the angles (1, TOKENS, 1) with their mask. Strides are in units of UNIT and of ANGLE_UNIT elements: see
    `unit_of`."""
    Q_GROUPS: tl.constexpr = (Q_HEADS + HEADS - 1) // HEADS
    GROUPS: tl.constexpr = Q_GROUPS + (K_HEADS + HEADS - 1) // HEADS
    tiles = tl.cdiv(S, TOKENS)
    program = tl.program_id(0)
    # Programs that run at the same time take heads that are near in memory.
    if HEADS_FIRST:
        group = program % GROUPS
        tile = program // GROUPS
        batch = tl.zeros((), tl.int64)
        if not ONE_SEQUENCE:  # it saves a division by what is no constant, some 40 instructions of 216
            batch = (tile // tiles).to(tl.int64)
            tile = tile % tiles
    else:
        tile = program % tiles
        group = program // tiles % GROUPS
        batch = (program // tiles // GROUPS).to(tl.int64)
    tokens = tile.to(tl.int64) * TOKENS + tl.arange(0, TOKENS)[None, :, None]
    is_query = group < Q_GROUPS
    heads = tl.where(is_query, Q_HEADS, K_HEADS)
    if is_query:
        first = group * HEADS
        x_ptr, y_ptr = q_ptr + batch * q_batch * UNIT, q_out_ptr + batch * q_out_batch * UNIT
        x_head, x_token, y_head, y_token = q_head, q_token, q_out_head, q_out_token
    else:
        first = (group - Q_GROUPS) * HEADS
        x_ptr, y_ptr = k_ptr + batch * k_batch * UNIT, k_out_ptr + batch * k_out_batch * UNIT
        x_head, x_token, y_head, y_token = k_head, k_token, k_out_head, k_out_token
    head = first.to(tl.int64) + tl.arange(0, HEADS)[:, None, None]
    x = x_ptr + (head * x_head + tokens * x_token) * UNIT
    y = y_ptr + (head * y_head + tokens * y_token) * UNIT
    cos = cos_ptr + (batch * cos_batch + tokens * cos_token) * ANGLE_UNIT
    sin = sin_ptr + (batch * sin_batch + tokens * sin_token) * ANGLE_UNIT
    return x, y, (head < heads) & (tokens < S), is_query, cos, sin, tokens < S


@triton.jit
def load_angles(
    cos, sin, inside,
    HALF: tl.constexpr, PAIRS: tl.constexpr, MASKED: tl.constexpr,
):  # fmt: skip
    """(cos, sin) in float32, PAIRS of each.

    Load them before the heads: the compiler then rearranges the angles among threads, and not the heads, of which
    there are many.
    """
    pairs = tl.arange(0, PAIRS)[None, None, :]
    mask = inside & (pairs < HALF) if MASKED else None
    return tl.load(cos + pairs, mask=mask).to(tl.float32), tl.load(sin + pairs, mask=mask).to(tl.float32)


@triton.jit
def load_pairs(
    starts, inside,
    HALF: tl.constexpr, PAIRS: tl.constexpr, INTERLEAVED: tl.constexpr, MASKED: tl.constexpr,
):  # fmt: skip
    """(first, second) of each pair, in float32; zeros outside the mask."""
    zero = 0.0 if MASKED else None
    if INTERLEAVED:
        features = tl.arange(0, 2 * PAIRS)[None, None, :]
        mask = inside & (features < 2 * HALF) if MASKED else None
        x = tl.load(starts + features, mask=mask, other=zero).to(tl.float32)
        a, b = tl.split(tl.reshape(x, (x.shape[0], x.shape[1], PAIRS, 2)))
    else:
        pairs = tl.arange(0, PAIRS)[None, None, :]
        mask = inside & (pairs < HALF) if MASKED else None
        a = tl.load(starts + pairs, mask=mask, other=zero).to(tl.float32)
        b = tl.load(starts + HALF + pairs, mask=mask, other=zero).to(tl.float32)
    return a, b


@triton.jit
def store_turned(
    a, b, cos, sin, starts, inside,
    HALF: tl.constexpr, PAIRS: tl.constexpr, INTERLEAVED: tl.constexpr, MASKED: tl.constexpr,
):  # fmt: skip
    """Store each pair (a, b) as (a·cos − b·sin, a·sin + b·cos)."""
    first = (a * cos - b * sin).to(starts.dtype.element_ty)
    second = (a * sin + b * cos).to(starts.dtype.element_ty)
    if INTERLEAVED:
        features = tl.arange(0, 2 * PAIRS)[None, None, :]
        mask = inside & (features < 2 * HALF) if MASKED else None
        y = tl.reshape(tl.join(first, second), (a.shape[0], a.shape[1], 2 * PAIRS))
        tl.store(starts + features, y, mask=mask)
    else:
        pairs = tl.arange(0, PAIRS)[None, None, :]
        mask = inside & (pairs < HALF) if MASKED else None
        tl.store(starts + pairs, first, mask=mask)
        tl.store(starts + HALF + pairs, second, mask=mask)


def head_rule(shape: tuple[int, ...], itemsize: int) -> Configuration:
    """TOKENS, HEADS and warps for (B, Hq, Hk, S, R): R features of a head are turned.

    A thread loads 16 bytes of each half of a head, so that a warp reads whole lines of both. Few warps are a program
    each. Above FEW_WARPS a thread takes two heads, one after another with the same angles, and above SOME_WARPS four
    warps are a program where positions fill them, because starting programs takes time: 256 sequences at one position,
    32 + 8 heads of 128 in bfloat16, took 3.6 µs on an H100, in graphs, in programs of one warp with one load, and take
    3.2 with two.
    """
    B, q_heads, k_heads, S, R = shape
    if R < 2:
        raise ValueError(f"a head has {R} features; accepted are 2 or more")
    pairs = triton.next_power_of_2(R // 2)
    warp_pairs = 32 * LOAD_BYTES // itemsize
    warps = B * (q_heads + k_heads) * S * pairs // warp_pairs  # with one load each
    four = warps > SOME_WARPS and S * pairs >= MOST_WARPS * warp_pairs
    num_warps = MOST_WARPS if four else max(1, min(MOST_WARPS, pairs // warp_pairs))
    tokens = max(1, min(triton.next_power_of_2(S), num_warps * warp_pairs // pairs))
    heads = max(1, num_warps * warp_pairs // (tokens * pairs)) * (2 if warps > FEW_WARPS else 1)
    return Configuration.of(TOKENS=tokens, HEADS=heads, num_warps=num_warps)


def head_choices(shape: tuple[int, ...], itemsize: int) -> Iterator[Configuration]:
    """The configurations that a search may try for (B, Hq, Hk, S, R): the rule's, then one to eight loads of each half.

    TOKENS fills the warps exactly or is all of S. Otherwise a thread would need angles that other threads have loaded.
    """
    rule = head_rule(shape, itemsize)
    yield rule
    _, q_heads, k_heads, S, R = shape
    pairs = triton.next_power_of_2(R // 2)
    warp_pairs = 32 * LOAD_BYTES // itemsize
    most_heads = triton.next_power_of_2(max(q_heads, k_heads))
    for num_warps in (1, 2, 4, 8):
        tokens = min(triton.next_power_of_2(S), max(1, num_warps * warp_pairs // pairs))
        for heads in (1, 2, 4, 8, 16, 32):
            loads = tokens * heads * pairs / (num_warps * warp_pairs)
            choice = Configuration.of(TOKENS=tokens, HEADS=heads, num_warps=num_warps)
            if choice != rule and heads <= most_heads and 1 <= loads <= 8:
                yield choice


def _programs(shape: tuple[int, ...], tokens: int, heads: int) -> int:
    B, q_heads, k_heads, S, _ = shape
    programs: int = B * triton.cdiv(S, tokens) * (triton.cdiv(q_heads, heads) + triton.cdiv(k_heads, heads))
    return programs


def head_programs(shape: tuple[int, ...], chosen: Configuration) -> int:
    """How many programs `tile_of_heads` divides (B, Hq, Hk, S, R) among."""
    return _programs(shape, chosen["TOKENS"], chosen["HEADS"])


def ragged(shape: tuple[int, ...], chosen: Configuration) -> bool:
    """Whether some tiles are not full, so that lanes have to be masked."""
    _, q_heads, k_heads, S, R = shape
    half, heads = R // 2, chosen["HEADS"]
    return bool(S % chosen["TOKENS"] or q_heads % heads or k_heads % heads or half != triton.next_power_of_2(half))


def unit_of(tensors: Iterable[Tensor], columns: int) -> int:
    """The largest power of two, up to MOST_UNIT, that divides `columns` and the distance between any two rows.

    Triton knows of an integer only whether 16 divides it. Heads of 72 features then are read one by one, with a warp
    for every half; with strides in units of 4 elements a thread reads 4 at once. A unit that divides all that a thread
    may load at once gives every load the same layout, so that nothing has to be rearranged among threads.
    """
    steps = (step for x in tensors for step, size in zip(x.stride()[:-1], x.shape[:-1], strict=True) if size > 1)
    return math.gcd(MOST_UNIT, columns, *steps)


def angle_strides(angles: Tensor, unit: int = 1) -> tuple[int, int]:
    """(batch, token) strides of (S, R/2), which all sequences share, or of (B, S, R/2), in units of `unit`."""
    batch, token = (0, angles.stride(0)) if angles.dim() == 2 else angles.stride()[:2]
    return batch // unit, token // unit


def check_heads(op: str, **heads: Tensor) -> None:
    """Raise unless all are (B, H, S, D) with adjacent features and equal B, S, D, dtype and device."""
    for name, x in heads.items():
        check_tensor(op, name, x)
        if x.dim() != 4 or x.shape[-1] < 2:
            raise ValueError(f"{op}: {name} has shape {tuple(x.shape)}; accepted is (B, H, S, D) with D from 2")
        check_adjacent(op, name, x)
        if torch.empty_like(x, device="meta").stride(-1) != 1:  # the stride that the result would have
            raise ValueError(
                f"{op}: {name} has strides {x.stride()}, so that heads overlap; accepted are heads of features with "
                "their own memory: call .contiguous() first"
            )
    (first_name, first), *others = heads.items()
    wanted = _all_but_heads(first)
    for name, x in others:
        if (mine := _all_but_heads(x)) != wanted:
            raise ValueError(
                f"{op}: {name} has (B, S, D, dtype, device) {mine}; accepted are those of {first_name}, {wanted}"
            )


def _all_but_heads(x: Tensor) -> tuple[int, int, int, torch.dtype, str]:
    return x.shape[0], x.shape[2], x.shape[3], x.dtype, str(x.device)


def check_angles(op: str, cos: Tensor, sin: Tensor, sizes: Sequence[int], device: torch.device) -> None:
    """Raise unless cos and sin are (S, R/2) or (B, S, R/2) for `sizes` (B, S, D), with R from 2 to D."""
    B, S, D = sizes
    for name, angles in (("cos", cos), ("sin", sin)):
        check_tensor(op, name, angles)
        fits = angles.shape[:-1] in ((S,), (B, S)) and 1 <= angles.shape[-1] <= D // 2
        if not fits or angles.shape != cos.shape:
            raise ValueError(
                f"{op}: {name} has shape {tuple(angles.shape)}; accepted is ({S}, R/2) or ({B}, {S}, R/2) with R from "
                f"2 to {D}, the same for cos and sin"
            )
        check_adjacent(op, name, angles)
        if angles.device != device:
            raise ValueError(f"{op}: {name} is on {angles.device}; accepted is the device of what is turned, {device}")


def check_layout(op: str, layout: str) -> None:
    if layout not in LAYOUTS:
        raise ValueError(f"{op}: layout is {layout!r}; accepted are {list(LAYOUTS)}")
