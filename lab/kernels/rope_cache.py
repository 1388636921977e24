"""Turns the queries and keys of one new token a sequence, and writes its keys and values into a cache, in one launch.

qkv: (B, (Hq + 2·Hk) · D), what the layers of queries, keys and values give   q: (B, Hq, D)
keys, values: (B, Hk, S, D)
lengths: (B,), int32, how many keys each sequence has with the new one, which is written at its last place. The rotation
is the half-split one of `rope`, in float32, rounded once. No length is read by the host, so a CUDA graph can hold it.
"""

from collections.abc import Callable
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from lab.kernels.attention import check_counts
from lab.kernels.checks import check_tensor
from lab.kernels.early import wait_for_previous
from lab.kernels.launch import Launch, Launches, nothing


@triton.jit
def _rope_cache_kernel(
    qkv_ptr, cos_ptr, sin_ptr, lengths_ptr, q_ptr, keys_ptr, values_ptr, counter_ptr,
    q_heads, k_heads, qkv_row, cos_row, sin_row, k_batch, k_head, k_token, v_batch, v_head, v_token,
    COUNTED: tl.constexpr, D: tl.constexpr, HALF: tl.constexpr, PAIRS: tl.constexpr,
):  # fmt: skip
    """One head a program: of the queries, then of the keys, then of the values."""
    wait_for_previous()
    heads = q_heads + 2 * k_heads
    program = tl.program_id(0)
    batch = (program // heads).to(tl.int64)
    head = (program % heads).to(tl.int64)  # heads of a long cache are far apart
    pairs = tl.arange(0, PAIRS)
    inside = pairs < HALF
    length = tl.load(lengths_ptr + batch)
    x = qkv_ptr + batch * qkv_row + head * D + pairs
    a = tl.load(x, mask=inside, other=0.0)
    b = tl.load(x + HALF, mask=inside, other=0.0)
    slot = (length - 1).to(tl.int64)
    if head >= q_heads + k_heads:
        y = values_ptr + batch * v_batch + (head - q_heads - k_heads) * v_head + slot * v_token + pairs
        tl.store(y, a, mask=inside)
        tl.store(y + HALF, b, mask=inside)
    else:
        cos = tl.load(cos_ptr + batch * cos_row + pairs, mask=inside, other=0.0).to(tl.float32)
        sin = tl.load(sin_ptr + batch * sin_row + pairs, mask=inside, other=0.0).to(tl.float32)
        first = a.to(tl.float32) * cos - b.to(tl.float32) * sin
        second = b.to(tl.float32) * cos + a.to(tl.float32) * sin
        z = q_ptr + (batch * q_heads + head) * D + pairs
        if head >= q_heads:
            z = keys_ptr + batch * k_batch + (head - q_heads) * k_head + slot * k_token + pairs
        tl.store(z, first.to(a.dtype), mask=inside)
        tl.store(z + HALF, second.to(a.dtype), mask=inside)
    if COUNTED:  # noqa: SIM102  # a constant, unlike the other
        if program == 0:
            tl.store(counter_ptr, length.to(counter_ptr.dtype.element_ty))


def rope_into_cache(
    qkv: Tensor, cos: Tensor, sin: Tensor, lengths: Tensor, keys: Tensor, values: Tensor, counter: Tensor | None = None
) -> Tensor:
    """The turned queries (B, Hq, D), while keys and values of the new token go to place lengths − 1 of the cache.

    qkv: (B, (Hq + 2·Hk)·D), contiguous. keys, values: (B, Hk, S, D), adjacent features, any other strides, of the dtype
    of qkv. cos, sin: (1 or B, R) with R at least D/2, of which the first D/2 columns are used; adjacent columns.
    lengths: (B,), int32, from 1 to S, which is not checked. counter: an integer tensor of one element, which gets the
    length of the first sequence. Raises TypeError or ValueError naming the argument, what it was and what is accepted.
    """
    given = (qkv, cos, sin, lengths, keys, values)
    launch = _LAUNCHES(*given) if counter is None else _COUNTED(*given, counter)
    B, D = qkv.shape[0], keys.shape[-1]
    q = torch.empty((B, qkv.shape[1] // D - 2 * keys.shape[1], D), dtype=qkv.dtype, device=qkv.device)
    launch(qkv, cos, sin, lengths, q, keys, values, lengths if counter is None else counter)
    return q


def _settle(
    qkv: Tensor, cos: Tensor, sin: Tensor, lengths: Tensor, keys: Tensor, values: Tensor, counter: Tensor | None = None
) -> Callable[..., Any]:
    op = "rope_into_cache"
    for name, tensor in (("qkv", qkv), ("cos", cos), ("sin", sin), ("keys", keys), ("values", values)):
        check_tensor(op, name, tensor)
    if qkv.dim() != 2 or not qkv.is_contiguous():
        raise ValueError(f"{op}: qkv has shape {tuple(qkv.shape)}; accepted is (B, (Hq + 2·Hk)·D), contiguous")
    B = qkv.shape[0]
    check_counts(op, "lengths", lengths, (B,), qkv)
    if keys.shape != values.shape or keys.dim() != 4 or keys.shape[0] != B or keys.shape[-1] % 2:
        raise ValueError(
            f"{op}: keys are {tuple(keys.shape)} and values {tuple(values.shape)}; accepted are two of (B, Hk, S, D), "
            f"B {B} and D even"
        )
    k_heads, D = keys.shape[1], keys.shape[3]
    q_heads = qkv.shape[1] // D - 2 * k_heads
    if qkv.shape[1] % D or q_heads < 1:
        raise ValueError(f"{op}: qkv has {qkv.shape[1]} columns; accepted is (Hq + 2·{k_heads})·{D}, Hq at least 1")
    for name, tensor in (("keys", keys), ("values", values)):
        if (tensor.dtype, tensor.device) != (qkv.dtype, qkv.device) or tensor.stride(3) != 1:
            raise ValueError(
                f"{op}: {name} is {tensor.dtype} on {tensor.device} with strides {tensor.stride()}; accepted is "
                f"{qkv.dtype} on {qkv.device} with adjacent features"
            )
    for name, tensor in (("cos", cos), ("sin", sin)):
        if tensor.dim() != 2 or tensor.shape[0] not in (1, B) or tensor.shape[1] < D // 2 or tensor.stride(1) != 1:
            raise ValueError(f"{op}: {name} has shape {tuple(tensor.shape)}; accepted is (1 or {B}, {D // 2} or more)")
    if counter is not None and (counter.numel() != 1 or counter.is_floating_point() or counter.device != qkv.device):
        raise ValueError(f"{op}: counter is {counter.dtype} of shape {tuple(counter.shape)}; accepted is one integer")
    if not B:
        return nothing
    rows = [0 if tensor.shape[0] == 1 else tensor.stride(0) for tensor in (cos, sin)]
    return Launch(
        _rope_cache_kernel, B * (q_heads + 2 * k_heads), qkv.get_device(), q_heads, k_heads, qkv.stride(0), *rows,
        *keys.stride()[:3], *values.stride()[:3], num_warps=1, early=True,
        COUNTED=counter is not None, D=D, HALF=D // 2, PAIRS=triton.next_power_of_2(D // 2),
    )  # fmt: skip


_LAUNCHES = Launches(_settle)
_COUNTED = Launches(_settle)


def rope_into_cache_reference(
    qkv: Tensor, cos: Tensor, sin: Tensor, lengths: Tensor, keys: Tensor, values: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """(q, keys, values) in float64: the cache as it is after the call; the arguments stay as they were."""
    B, k_heads, _, D = keys.shape
    heads = qkv.double().view(B, -1, D)
    c, s = (table.double()[:, None, : D // 2] for table in (cos, sin))
    a, b = heads[..., : D // 2], heads[..., D // 2 :]
    turned = torch.cat((a * c - b * s, b * c + a * s), -1)
    q_heads = heads.shape[1] - 2 * k_heads
    new_keys, new_values = keys.double(), values.double()
    for batch, length in enumerate(lengths.tolist()):
        new_keys[batch, :, length - 1] = turned[batch, q_heads : q_heads + k_heads]
        new_values[batch, :, length - 1] = heads[batch, q_heads + k_heads :]
    return turned[:, :q_heads], new_keys, new_values
