"""Flash attention on a Hopper GPU: some warps load and others compute.

Two or more warpgroups compute 64 rows each. One warp has the tensor memory accelerator (TMA) copy the keys and values,
which all warpgroups use. The products (wgmma) of a warpgroup run asynchronously while it computes the softmax of the
tile before: exponentials and products take about equally long, and one after the other they reach half of the GPU's
rate. Written in Gluon, which is Triton with explicit layouts and barriers, after Shah et al., "FlashAttention-3", 2024.
`flash_attention.py` says what is computed and which calls use this kernel.

What the machine code of earlier forms showed:
- Waiting for products uses no registers, so the compilers move the wait up, before the softmax that it should follow.
  It stays in place if it has all of the softmax as operands and a branch before it.
- If softmax weights pass that wait as 16-bit values they are packed again afterwards, so they pass it as float32.
- A separate loop for masked tiles costs this packing in both loops, and registers, so there is one loop with a branch
  around the mask.
- Two warpgroups have 240 registers a thread, enough for 128 features and 128 keys; four have 112, enough for 64 each.

Tried on an H200 (two to four warpgroups, TFLOP/s; FlashAttention-4 in the same run: 720 for 128 features, 497 for 64):
- Rescale rows behind a branch, only if the maximum of a row of the warp has grown, and keep each thread's sum of its
  part of a row to the end. If growth below 2^8 is ignored: 128 features 690 → 740, causal 645 → 699, 64 features
  439 → 459. But then the weight of the largest key is not exactly 1 and is rounded like the others: if two keys of a
  row nearly cancel, the error is twice that of other kernels, 3.9 times the tolerance on an H100 instead of about 1.9.
  So rows are rescaled at every growth. This form reaches 700, causal 670, and with 64 features 483, causal 406
  (FlashAttention-4 726, 646, 487 and 403; single calls, run h200-attention-2026-11-23).
- 64 features: four warpgroups of 64 keys 508, three or two of 128 keys 456 and 459. The exponentials take as long as
  the products there, and more warpgroups hide more waiting.
- Warpgroups that take turns at the products: +1 to 7 % with four of them, nothing with two.
- Every fourth or eighth power by a polynomial on the multiply-add units: 3 to 17 % slower, because issue slots are
  scarce.
- A program for each multiprocessor that takes tile after tile: +1 to 3 % without a mask, −7 % under a causal one.
- With three or four warpgroups the compiler of Triton 3.6 still moves some waits before the softmax. With a
  data-dependent trap instead of the branch it waited after each product.
"""

import math
from collections.abc import Iterator
from copy import copy
from itertools import product
from typing import Any

import torch
import triton
from torch import Tensor
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

from lab.kernels.early import wait_for_previous
from lab.kernels.launch import Configuration, Launch, capability, multiprocessors

LOG2_E = gl.constexpr(math.log2(math.e))
LN_2 = gl.constexpr(math.log(2))
COUNTS = ["Sq", "Sk", "left", "right", "row_tiles", "group", "heads_all", "heads", "tiles"]
SHRINK_32 = gl.constexpr(
    "{ .reg .pred p, q; setp.neu.f32 p, $64, 0f3F800000; setp.neu.f32 q, $66, 0f3F800000; or.pred p, p, q; "
    "vote.sync.any.pred p, p, 0xffffffff; "
    + " ".join(f"mov.f32 ${i}, ${i + 32};" for i in range(32))
    + " @!p bra DONE; "
    + " ".join(f"mul.f32 ${i}, ${i}, ${i + 64};" for i in range(32))
    + " DONE: }"
)
SHRINK_32_OPERANDS = gl.constexpr(",".join(["=f"] * 32 + ["f"] * 64))
POWERS = gl.constexpr("; ".join(f"ex2.approx.ftz.f32 ${i}, ${i + 4}" for i in range(4)) + ";")


@gluon.jit
def _exp2(x):
    return gl.inline_asm_elementwise(POWERS, "=f,=f,=f,=f,f,f,f,f", [x], dtype=gl.float32, is_pure=True, pack=4)


@gluon.jit
def _tile(index, row_tiles, group, heads_all, heads):
    """(batch, head, row tile). Within `group` heads the last row tiles come first: a causal mask makes them longest."""
    before = index // (group * row_tiles) * group
    rest = index - before * row_tiles
    members = gl.minimum(group, heads_all - before)
    row = rest // members
    which = before + rest - row * members
    batch = which // heads
    return batch, which - batch * heads, row_tiles - 1 - row


@gluon.jit
def _range(
    row, offset, Sk, left, right,
    ROWS: gl.constexpr, KEYS: gl.constexpr, RIGHT: gl.constexpr, LEFT: gl.constexpr,
):  # fmt: skip
    """(first, end) key tile of a row tile; at least one tile."""
    end = gl.cdiv(Sk, KEYS)
    if RIGHT:
        end = gl.minimum(end, gl.cdiv((row + 1) * ROWS + offset + right, KEYS))
    first = 0
    if LEFT:
        first = gl.maximum(first, (row * ROWS + offset - left) // KEYS)
    end = gl.maximum(end, 1)
    return gl.minimum(first, end - 1), end


@gluon.jit
def _load(
    inputs, buffers, counts,
    RATIO: gl.constexpr, WARPGROUPS: gl.constexpr, KEYS: gl.constexpr, STAGES: gl.constexpr,
    RIGHT: gl.constexpr, LEFT: gl.constexpr,
):  # fmt: skip
    """The loading warp: the queries of each tile, then keys and values from the last tile to the first."""
    wait_for_previous()
    q_desc, k_desc, v_desc = inputs
    q_smem, k_smem, v_smem, q_full, q_empty, k_full, k_empty, v_full, v_empty, _ = buffers
    Sq, Sk, left, right, row_tiles, group, heads_all, heads, tiles = counts
    count = 0
    turn = 0
    for index in range(gl.program_id(0), tiles, gl.num_programs(0)):
        batch, head, row = _tile(index, row_tiles, group, heads_all, heads)
        first, end = _range(row, Sk - Sq, Sk, left, right, 64 * WARPGROUPS, KEYS, RIGHT, LEFT)
        mbarrier.wait(q_empty, (turn & 1) ^ 1)
        mbarrier.expect(q_full, WARPGROUPS * q_desc.block_type.nbytes)
        for part in gl.static_range(WARPGROUPS):
            tma.async_copy_global_to_shared(
                q_desc, [batch, head, row * 64 * WARPGROUPS + part * 64, 0], q_full, q_smem.index(part)
            )
        kv_head = head // RATIO
        for n in range(end - 1, first - 1, -1):
            stage = count % STAGES
            phase = (count // STAGES) & 1
            mbarrier.wait(k_empty.index(stage), phase ^ 1)
            mbarrier.expect(k_full.index(stage), k_desc.block_type.nbytes)
            tma.async_copy_global_to_shared(
                k_desc, [batch, kv_head, n * KEYS, 0], k_full.index(stage), k_smem.index(stage)
            )
            mbarrier.wait(v_empty.index(stage), phase ^ 1)
            mbarrier.expect(v_full.index(stage), v_desc.block_type.nbytes)
            tma.async_copy_global_to_shared(
                v_desc, [batch, kv_head, n * KEYS, 0], v_full.index(stage), v_smem.index(stage)
            )
            count += 1
        turn += 1  # noqa: SIM113  # Triton knows no enumerate


@gluon.jit
def _masked(s, n, rows, offset, Sk, left, right, KEYS: gl.constexpr, RIGHT: gl.constexpr, LEFT: gl.constexpr):
    keys = n * KEYS + gl.arange(0, KEYS, layout=gl.SliceLayout(0, s.type.layout))
    seen = (keys < Sk)[None, :]
    if RIGHT:
        seen = seen & (keys[None, :] <= (rows + (offset + right))[:, None])
    if LEFT:
        seen = seen & (keys[None, :] >= (rows + (offset - left))[:, None])
    return gl.where(seen, s, float("-inf"))


@gluon.jit
def _softmax(s, top, qk_scale, MASKED: gl.constexpr):
    """Softmax weights relative to the largest score so far: the weight of that key is 1, which is exact."""
    higher = gl.maximum(top, gl.max(s, axis=1))
    grown = higher > top
    anchor = higher * qk_scale
    if MASKED:
        anchor = gl.where(higher == float("-inf"), 0.0, anchor)
    p = _exp2(s * qk_scale - anchor[:, None])
    shrink = gl.where(grown, gl.exp2(top * qk_scale - anchor), 1.0)
    return p, higher, shrink


@gluon.jit
def _sums(p):
    """The sum of each thread's part of a row, (64, 4). The four threads of a row add their sums up at the end."""
    return gl.sum(gl.sum(gl.reshape(p, [64, p.shape[1] // 8, 4, 2]), axis=3), axis=1)


@gluon.jit
def _shrunk(o, shrink):
    """The rows of `o` times their factors. Most often all factors are 1, and a branch skips the products."""
    factors = gl.convert_layout(shrink, gl.SliceLayout(1, o.type.layout))[:, None]
    o, factors = gl.broadcast(o, factors)
    return gl.inline_asm_elementwise(
        SHRINK_32, SHRINK_32_OPERANDS, [o, factors], dtype=gl.float32, is_pure=False, pack=32
    )


@gluon.jit
def _step(
    q, buffers, count, n, cut, o, p, top, total,
    rows, offset, Sk, left, right, qk_scale,
    WHICH: gl.constexpr, WARPGROUPS: gl.constexpr, KEYS: gl.constexpr, STAGES: gl.constexpr,
    RIGHT: gl.constexpr, LEFT: gl.constexpr, TURNS: gl.constexpr,
    S_LAYOUT: gl.constexpr, P_LAYOUT: gl.constexpr,
):  # fmt: skip
    """Key tile n. Products run during the softmax: start the product for the scores of this tile and that with the
    values of the tile before, and wait for the second only after the softmax of these scores."""
    _, k_smem, v_smem, _, _, k_full, k_empty, v_full, v_empty, order = buffers
    D: gl.constexpr = o.shape[1]
    stage = count % STAGES
    mbarrier.wait(k_full.index(stage), (count // STAGES) & 1)
    if TURNS:
        mbarrier.wait(order.index(WHICH), (count & 1) ^ (WHICH == 0))
    zero = gl.zeros([64, KEYS], gl.float32, S_LAYOUT)
    k = k_smem.index(stage).reshape([KEYS, D]).permute([1, 0])
    s_begun = warpgroup_mma(q, k, zero, use_acc=False, is_async=True)
    before = (count - 1) % STAGES
    mbarrier.wait(v_full.index(before), ((count - 1) // STAGES) & 1)
    o_begun = warpgroup_mma(p, v_smem.index(before).reshape([KEYS, D]), o, is_async=True)
    if TURNS:
        mbarrier.arrive(order.index((WHICH + 1) % WARPGROUPS), count=1)
    s, o, p = warpgroup_mma_wait(1, deps=[s_begun, o_begun, p])
    mbarrier.arrive(k_empty.index(stage), count=1)
    if (RIGHT or LEFT) and cut:
        s = _masked(s, n, rows, offset, Sk, left, right, KEYS, RIGHT, LEFT)
    p_next, top, shrink = _softmax(s, top, qk_scale, RIGHT or LEFT)
    total = total * gl.convert_layout(shrink, gl.SliceLayout(1, total.type.layout))[:, None] + _sums(p_next)
    # The wait has all of the softmax as operands and a branch before it; else the compilers would move it up.
    mbarrier.wait(v_full.index(before), ((count - 1) // STAGES) & 1)
    o, p, p_next, total, shrink = warpgroup_mma_wait(0, deps=[o, p, p_next, total, shrink])
    mbarrier.arrive(v_empty.index(before), count=1)
    o = _shrunk(o, shrink)
    return o, gl.convert_layout(p_next.to(q.dtype), P_LAYOUT), top, total


@gluon.jit
def _compute(
    results, buffers, counts, qk_scale,
    WHICH: gl.constexpr, WARPGROUPS: gl.constexpr, KEYS: gl.constexpr, D: gl.constexpr, STAGES: gl.constexpr,
    RIGHT: gl.constexpr, LEFT: gl.constexpr, RAGGED: gl.constexpr, TURNS: gl.constexpr,
):  # fmt: skip
    """A computing warpgroup: 64 rows of each tile."""
    wait_for_previous()
    o_desc, lse_ptr = results
    q_smem, k_smem, v_smem, q_full, q_empty, k_full, k_empty, v_full, v_empty, order = buffers
    Sq, Sk, left, right, row_tiles, group, heads_all, heads, tiles = counts
    S_LAYOUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, KEYS, 16])
    O_LAYOUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, D, 16])
    P_LAYOUT: gl.constexpr = gl.DotOperandLayout(0, O_LAYOUT, 2)
    ROW: gl.constexpr = gl.SliceLayout(1, S_LAYOUT)
    ROWS: gl.constexpr = 64 * WARPGROUPS
    q = q_smem.index(WHICH).reshape([64, D])
    offset = Sk - Sq
    count = 0
    turn = 0
    for index in range(gl.program_id(0), tiles, gl.num_programs(0)):
        batch, head, row = _tile(index, row_tiles, group, heads_all, heads)
        first, end = _range(row, offset, Sk, left, right, ROWS, KEYS, RIGHT, LEFT)
        first_row = row * ROWS + WHICH * 64
        rows = first_row + gl.arange(0, 64, layout=ROW)
        mbarrier.wait(q_full, turn & 1)
        mine = end
        if RIGHT:
            # Key tiles that the mask hides from these rows but not from those of another warpgroup.
            mine = gl.maximum(gl.minimum(end, gl.cdiv(first_row + 64 + offset + right, KEYS)), first + 1)
            for _ in range(end - mine):
                stage = count % STAGES
                phase = (count // STAGES) & 1
                mbarrier.wait(k_full.index(stage), phase)
                mbarrier.arrive(k_empty.index(stage), count=1)
                if TURNS:
                    mbarrier.wait(order.index(WHICH), (count & 1) ^ (WHICH == 0))
                    mbarrier.arrive(order.index((WHICH + 1) % WARPGROUPS), count=1)
                mbarrier.wait(v_full.index(stage), phase)
                mbarrier.arrive(v_empty.index(stage), count=1)
                count += 1
        # The first key tile: nothing to add yet.
        stage = count % STAGES
        mbarrier.wait(k_full.index(stage), (count // STAGES) & 1)
        if TURNS:
            mbarrier.wait(order.index(WHICH), (count & 1) ^ (WHICH == 0))
        zero = gl.zeros([64, KEYS], gl.float32, S_LAYOUT)
        k = k_smem.index(stage).reshape([KEYS, D]).permute([1, 0])
        s_begun = warpgroup_mma(q, k, zero, use_acc=False, is_async=True)
        if TURNS:
            mbarrier.arrive(order.index((WHICH + 1) % WARPGROUPS), count=1)
        s = warpgroup_mma_wait(0, deps=[s_begun])
        mbarrier.arrive(k_empty.index(stage), count=1)
        if RIGHT or LEFT or RAGGED:
            s = _masked(s, mine - 1, rows, offset, Sk, left, right, KEYS, RIGHT, LEFT)
        top = gl.full([64], float("-inf"), gl.float32, ROW)
        p_first, top, _ = _softmax(s, top, qk_scale, RIGHT or LEFT or RAGGED)
        total = _sums(p_first)
        p = gl.convert_layout(p_first.to(q.dtype), P_LAYOUT)
        o = gl.zeros([64, D], gl.float32, O_LAYOUT)
        count += 1
        # The causal mask cuts tiles on the right, the window on the left; tiles between need no mask.
        whole_end = mine - 1
        if RIGHT:
            whole_end = gl.maximum(gl.minimum(mine - 1, (first_row + offset + right + 1) // KEYS), first)
        whole_first = first
        if LEFT:
            whole_first = gl.minimum(whole_end, gl.maximum(first, gl.cdiv(first_row + 63 + offset - left, KEYS)))
        for n in range(mine - 2, first - 1, -1):
            cut = (n >= whole_end) | (n < whole_first)
            o, p, top, total = _step(
                q, buffers, count, n, cut, o, p, top, total,
                rows, offset, Sk, left, right, qk_scale,
                WHICH, WARPGROUPS, KEYS, STAGES, RIGHT, LEFT, TURNS, S_LAYOUT, P_LAYOUT,
            )  # fmt: skip
            count += 1
        last = (count - 1) % STAGES
        mbarrier.wait(v_full.index(last), ((count - 1) // STAGES) & 1)
        o_begun = warpgroup_mma(p, v_smem.index(last).reshape([KEYS, D]), o, is_async=True)
        sums = gl.convert_layout(gl.sum(total, axis=1), ROW)
        empty = sums == 0.0
        lse = gl.where(empty, float("-inf"), (top * qk_scale + gl.log2(sums)) * LN_2)
        share = 1.0 / gl.where(empty, 1.0, sums)
        inside = rows < Sq
        lse_at = (batch * heads + head).to(gl.int64) * Sq + rows
        gl.store(lse_ptr + lse_at, lse, mask=inside)
        o, p = warpgroup_mma_wait(0, deps=[o_begun, p])
        mbarrier.arrive(v_empty.index(last), count=1)
        o = o * gl.convert_layout(share, gl.SliceLayout(1, O_LAYOUT))[:, None]
        q.store(o.to(q.dtype))  # the queries are no longer needed, and their memory has the size of the result
        fence_async_shared()
        tma.async_copy_shared_to_global(o_desc, [batch, head, first_row, 0], q_smem.index(WHICH))
        tma.store_wait(0)
        mbarrier.arrive(q_empty, count=1)
        turn += 1  # noqa: SIM113  # Triton knows no enumerate


@gluon.jit(do_not_specialize=COUNTS)
def _flash_attention_hopper_kernel(
    q_desc, k_desc, v_desc, o_desc, lse_ptr, scale,
    Sq, Sk, left, right, row_tiles, group, heads_all, heads, tiles,
    RATIO: gl.constexpr, WARPGROUPS: gl.constexpr, KEYS: gl.constexpr, D: gl.constexpr, STAGES: gl.constexpr,
    RIGHT: gl.constexpr, LEFT: gl.constexpr, RAGGED: gl.constexpr, TURNS: gl.constexpr,
):  # fmt: skip
    """WARPGROUPS warpgroups a program, which compute 64 rows each, and one warp that loads for all."""
    q_smem = gl.allocate_shared_memory(q_desc.dtype, [WARPGROUPS, 1, 1, 64, D], q_desc.layout)
    k_smem = gl.allocate_shared_memory(k_desc.dtype, [STAGES, 1, 1, KEYS, D], k_desc.layout)
    v_smem = gl.allocate_shared_memory(v_desc.dtype, [STAGES, 1, 1, KEYS, D], v_desc.layout)
    BARRIER: gl.constexpr = mbarrier.MBarrierLayout()
    q_full = gl.allocate_shared_memory(gl.int64, [1], BARRIER)
    q_empty = gl.allocate_shared_memory(gl.int64, [1], BARRIER)
    k_full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], BARRIER)
    k_empty = gl.allocate_shared_memory(gl.int64, [STAGES, 1], BARRIER)
    v_full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], BARRIER)
    v_empty = gl.allocate_shared_memory(gl.int64, [STAGES, 1], BARRIER)
    order = gl.allocate_shared_memory(gl.int64, [WARPGROUPS, 1], BARRIER)
    mbarrier.init(q_full, count=1)
    mbarrier.init(q_empty, count=WARPGROUPS)
    for stage in gl.static_range(STAGES):
        mbarrier.init(k_full.index(stage), count=1)
        mbarrier.init(k_empty.index(stage), count=WARPGROUPS)
        mbarrier.init(v_full.index(stage), count=1)
        mbarrier.init(v_empty.index(stage), count=WARPGROUPS)
    for part in gl.static_range(WARPGROUPS):
        mbarrier.init(order.index(part), count=1)
    fence_async_shared()
    buffers = (q_smem, k_smem, v_smem, q_full, q_empty, k_full, k_empty, v_full, v_empty, order)
    counts = (Sq, Sk, left, right, row_tiles, group, heads_all, heads, tiles)
    results = (o_desc, lse_ptr)
    inputs = (q_desc, k_desc, v_desc)
    qk_scale = scale * LOG2_E
    if WARPGROUPS == 2:
        gl.warp_specialize(
            [
                (_compute, (results, buffers, counts, qk_scale, 0, 2, KEYS, D, STAGES, RIGHT, LEFT, RAGGED, TURNS)),
                (_compute, (results, buffers, counts, qk_scale, 1, 2, KEYS, D, STAGES, RIGHT, LEFT, RAGGED, TURNS)),
                (_load, (inputs, buffers, counts, RATIO, 2, KEYS, STAGES, RIGHT, LEFT)),
            ],
            [4, 1],
            [240, 24],
        )  # fmt: skip
    elif WARPGROUPS == 3:
        gl.warp_specialize(
            [
                (_compute, (results, buffers, counts, qk_scale, 0, 3, KEYS, D, STAGES, RIGHT, LEFT, RAGGED, TURNS)),
                (_compute, (results, buffers, counts, qk_scale, 1, 3, KEYS, D, STAGES, RIGHT, LEFT, RAGGED, TURNS)),
                (_compute, (results, buffers, counts, qk_scale, 2, 3, KEYS, D, STAGES, RIGHT, LEFT, RAGGED, TURNS)),
                (_load, (inputs, buffers, counts, RATIO, 3, KEYS, STAGES, RIGHT, LEFT)),
            ],
            [4, 4, 1],
            [160, 160, 24],
        )  # fmt: skip
    else:
        gl.warp_specialize(
            [
                (_compute, (results, buffers, counts, qk_scale, 0, 4, KEYS, D, STAGES, RIGHT, LEFT, RAGGED, TURNS)),
                (_compute, (results, buffers, counts, qk_scale, 1, 4, KEYS, D, STAGES, RIGHT, LEFT, RAGGED, TURNS)),
                (_compute, (results, buffers, counts, qk_scale, 2, 4, KEYS, D, STAGES, RIGHT, LEFT, RAGGED, TURNS)),
                (_compute, (results, buffers, counts, qk_scale, 3, 4, KEYS, D, STAGES, RIGHT, LEFT, RAGGED, TURNS)),
                (_load, (inputs, buffers, counts, RATIO, 4, KEYS, STAGES, RIGHT, LEFT)),
            ],
            [4, 4, 4, 1],
            [112, 112, 112, 24],
        )  # fmt: skip


FEATURES = (64, 128, 256)  # of a head
# For heads of 64 features: warpgroups, keys of a tile, stages, and TFLOP/s on an H200 with all multiprocessors busy.
NARROW_FORMS = ((4, 64, 6, 508), (3, 128, 2, 456), (2, 128, 2, 459))
TMA_BYTES = 16  # addresses and strides must be multiples of it
WARPS = 4  # of the first warpgroup; the kernel itself says how many more it has
DTYPES = {torch.float16: gl.float16, torch.bfloat16: gl.bfloat16}


class HopperLaunch(Launch):
    """The launch of `_flash_attention_hopper_kernel`; called with q, k, v, o (B, H, S, D), lse and the scale."""

    __slots__ = ("_descriptors",)

    def __init__(
        self, q: Tensor, k: Tensor, v: Tensor, o: Tensor,
        left: int | None, right: int | None, group: int, chosen: Configuration,
    ) -> None:  # fmt: skip
        B, q_heads, Sq, D = q.shape
        k_heads, Sk = k.shape[1:3]
        warpgroups, keys = chosen["WARPGROUPS"], chosen["KEYS"]
        row_tiles = triton.cdiv(Sq, 64 * warpgroups)
        tiles = row_tiles * B * q_heads
        # Tiles of equal length are assigned in advance, so that a program loads the next tile while it computes.
        programs = tiles if right is not None else min(tiles, multiprocessors(q.get_device()))
        self._descriptors = [_descriptor(x, rows) for x, rows in ((q, 64), (k, keys), (v, keys), (o, 64))]
        super().__init__(
            _flash_attention_hopper_kernel, programs, q.get_device(),
            Sq, Sk, left or 0, right or 0, row_tiles, group, B * q_heads, q_heads, tiles, num_warps=WARPS,
            early=True,
            RATIO=q_heads // k_heads, WARPGROUPS=warpgroups, KEYS=keys, D=padded_features(D), STAGES=chosen.num_stages,
            RIGHT=right is not None, LEFT=left is not None, RAGGED=Sk % keys != 0,
            TURNS=bool(chosen["TURNS"]),
        )  # fmt: skip

    def __call__(self, *arguments: Any) -> None:
        described = []
        for descriptor, tensor in zip(self._descriptors, arguments, strict=False):
            mine = copy(descriptor)  # making a new one would cost more than the launch
            mine.base = tensor
            described.append(mine)
        super().__call__(*described, *arguments[len(described) :])


def _descriptor(x: Tensor, rows: int) -> TensorDescriptor:
    """The descriptor with which TMA copies `rows` rows of one head of (B, H, S, D), without an address. TMA fills
    missing features with zeros when it reads, and skips them when it writes."""
    block = [1, 1, rows, padded_features(x.shape[-1])]
    layout = gl.NVMMASharedLayout.get_default_for(block, DTYPES[x.dtype])
    steps = [step if size > 1 else x.shape[-1] for size, step in zip(x.shape, x.stride(), strict=True)]
    descriptor = TensorDescriptor(torch.empty(0, dtype=x.dtype), list(x.shape), [*steps[:3], 1], block, layout)
    descriptor.base = None
    return descriptor


def hopper_takes(q: Tensor, k: Tensor, v: Tensor, o: Tensor) -> bool:
    """Whether `_flash_attention_hopper_kernel` can run: on a Hopper GPU, with at least one key, and strides for TMA."""
    if capability(q.get_device()) != (9, 0):
        return False
    return k.shape[2] > 0 and all(_copyable(x) for x in (q, k, v, o))


def padded_features(D: int) -> int:
    """The head size that the kernel uses for D features."""
    return next(size for size in FEATURES if size >= D)


def _copyable(x: Tensor) -> bool:
    """Whether TMA can copy rows of `x`. A tensor without memory (meta) counts as aligned."""
    steps = [step for size, step in zip(x.shape[:3], x.stride()[:3], strict=True) if size > 1]
    aligned = x.is_meta or x.data_ptr() % TMA_BYTES == 0
    return aligned and all(step > 0 and step * x.itemsize % TMA_BYTES == 0 for step in steps)


def hopper_rule(shape: tuple[int, ...], itemsize: int, *, masked: bool = False, processors: int = 132) -> Configuration:
    """How to launch (B, Hq, Hk, Sq, Sk, D), by sweeps on an H200. More warpgroups compute faster, fewer have smaller
    tiles, of which more run at once: with few heads or short rows that decides. masked: later keys are hidden."""
    D = shape[-1]
    if D > 64:
        return Configuration.of(WARPGROUPS=2, KEYS=128 if D <= 128 else 64, TURNS=1, num_warps=WARPS, num_stages=2)
    # Three warpgroups under a causal mask took up to 1.7 times as long as four or two.
    fitting = [form for form in NARROW_FORMS if not (masked and form[0] == 3)]
    warpgroups, keys, stages, _ = min(fitting, key=lambda form: _narrow_time(form, shape, masked, processors))
    return Configuration.of(WARPGROUPS=warpgroups, KEYS=keys, TURNS=1, num_warps=WARPS, num_stages=stages)


def _narrow_time(form: tuple[int, ...], shape: tuple[int, ...], masked: bool, processors: int) -> float:
    """The estimated time of heads of 64 features, in any unit: that of the waves of tiles. A causal mask leaves half of
    the keys on average: then that of the longest tile, or of the average multiprocessor if that is longer."""
    B, q_heads, _, rows, *_ = shape
    warpgroups, _, _, rate = form
    tiles = B * q_heads * triton.cdiv(rows, 64 * warpgroups)
    waves: float = max(1.0, tiles / processors / 2) if masked else triton.cdiv(tiles, processors)
    return waves * warpgroups / rate


def hopper_choices(shape: tuple[int, ...]) -> Iterator[Configuration]:
    """The configurations that a search may try for (B, Hq, Hk, Sq, Sk, D): all that have enough registers."""
    forms = {64: (*(form[:3] for form in NARROW_FORMS), (4, 64, 4)), 128: ((2, 128, 2), (2, 64, 4)), 256: ((2, 64, 2),)}
    for (warpgroups, keys, stages), turns in product(forms[padded_features(shape[-1])], (0, 1)):
        yield Configuration.of(WARPGROUPS=warpgroups, KEYS=keys, TURNS=turns, num_warps=WARPS, num_stages=stages)
