"""Rotary embedding in CUDA C++: computes the same as `rope` and `rope_qk` for half-split heads, with `cuda/rope.cu`."""

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import triton
from torch import Tensor
from torch.autograd.graph import increment_version

from lab.kernels.cuda_launch import CudaLaunch, check_on_gpu, is_float_beside, vector_width
from lab.kernels.heads import angle_strides, check_angles, check_heads
from lab.kernels.launch import Launches, nothing
from lab.kernels.rope import check_own_memory

MOST_BLOCKS = 65_535  # of a grid's second and third axis
MOST_GROUP_LANES = 64  # threads of a block's third axis
ENOUGH_THREADS = 131_072  # to fill a GPU, if each thread turns two heads


@dataclass(frozen=True, slots=True)
class RopeShape:
    """heads: that a thread turns with the angles in its registers. threads: of a block."""

    heads: int
    threads: int


class _Strides(ctypes.Structure):
    _fields_ = (("batch", ctypes.c_int64), ("head", ctypes.c_int64), ("token", ctypes.c_int64))


class _RopePlan(ctypes.Structure):
    """The same fields, in the same order, as `RopePlan` in cuda/rope.cu."""

    _fields_ = (
        *((name, _Strides) for name in ("q", "k", "q_out", "k_out")),
        *((name, ctypes.c_int64) for name in ("cos_batch", "cos_token", "sin_batch", "sin_token")),
        *(
            (name, ctypes.c_int32)
            for name in (
                "batches", "q_heads", "k_heads", "tokens", "features", "half", "width", "heads", "token_lanes",
                "group_lanes", "heads_are_near", "angles_are_float", "inverse", "in_place",
            )
        ),
    )  # fmt: skip


def rope_cuda(x: Tensor, cos: Tensor, sin: Tensor, *, inverse: bool = False, shape: RopeShape | None = None) -> Tensor:
    """`x` with its heads' features turned, half-split, in one launch of a CUDA C++ kernel.

    x: (B, H, S, D) on a GPU, adjacent features, any other strides. cos, sin: (S, R/2) or (B, S, R/2), of the dtype of x
    or float32. inverse: turn back. shape: how heads are divided among threads; if None, by rule. Returns a new tensor
    of the shape, dtype and order in memory of `x`. Raises as `rope` does, and CompilerMissing or CompilerFailed if nvcc
    cannot compile the kernel.
    """
    launch = _OF_ONE(x, cos, sin, options=("rope_cuda", inverse, shape))
    y = torch.empty_like(x)
    launch(x, x, y, y, cos, sin)
    return y


def rope_qk_cuda(
    q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, *, inverse: bool = False, shape: RopeShape | None = None
) -> tuple[Tensor, Tensor]:
    """`rope_cuda` of queries (B, Hq, S, D) and keys (B, Hk, S, D), in one launch. Returns two new tensors."""
    launch = _OF_BOTH(q, k, cos, sin, options=("rope_qk_cuda", inverse, shape))
    yq, yk = torch.empty_like(q), torch.empty_like(k)
    launch(q, k, yq, yk, cos, sin)
    return yq, yk


def rope_qk_cuda_(
    q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, *, inverse: bool = False, shape: RopeShape | None = None
) -> tuple[Tensor, Tensor]:
    """As `rope_qk_cuda`, in place; returns `q` and `k`. ValueError if two of their elements share memory."""
    _OF_BOTH(q, k, cos, sin, options=("rope_qk_cuda_", inverse, shape))(q, k, q, k, cos, sin)
    increment_version((q, k))
    return q, k


def _settle_one(
    x: Tensor, cos: Tensor, sin: Tensor, op: str, inverse: bool, shape: RopeShape | None
) -> Callable[..., Any]:
    check_heads(op, x=x)
    check_on_gpu(op, x=x)
    return _prepare(x, None, cos, sin, op, inverse, shape)


def _settle_both(
    q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, op: str, inverse: bool, shape: RopeShape | None
) -> Callable[..., Any]:
    check_heads(op, q=q, k=k)
    check_on_gpu(op, q=q, k=k)
    if op.endswith("_"):
        check_own_memory(op, q=q, k=k)
    return _prepare(q, k, cos, sin, op, inverse, shape)


def _prepare(
    q: Tensor, k: Tensor | None, cos: Tensor, sin: Tensor, op: str, inverse: bool, shape: RopeShape | None
) -> Callable[..., Any]:
    B, q_heads, S, D = q.shape
    k_heads = k.shape[1] if k is not None else 0
    check_angles(op, cos, sin, (B, S, D), q.device)
    angles_are_float = is_float_beside(op, "cos", cos, q)
    if sin.dtype != cos.dtype:
        raise ValueError(f"{op}: sin has dtype {sin.dtype}; accepted is that of cos, {cos.dtype}")
    if not B * S * (q_heads + k_heads):
        return nothing
    inputs = (q, q if k is None else k)
    in_place = op.endswith("_")
    outputs = inputs if in_place else tuple(torch.empty_like(x, device="meta") for x in inputs)
    half = cos.shape[-1]
    strides = [step for x in (*inputs, *outputs) for step in x.stride()[:3]]
    angles = (*angle_strides(cos), *angle_strides(sin))
    width = vector_width(*inputs, sizes=(half, *strides))
    if any(table.data_ptr() % 16 for table in (cos, sin)) or any(step * cos.element_size() % 16 for step in angles):
        width = 1
    lanes = triton.cdiv(half, width)
    chosen = shape or _rule(B * S * (q_heads + k_heads) * lanes)
    heads = chosen.heads if width > 1 else 2
    lanes = min(chosen.threads, lanes)
    tokens = min(S, max(1, chosen.threads // lanes))
    groups = triton.cdiv(q_heads, heads) + triton.cdiv(k_heads, heads)
    group_lanes = min(groups, max(1, chosen.threads // (lanes * tokens)), MOST_GROUP_LANES)
    if max(B, triton.cdiv(S, tokens), groups) > MOST_BLOCKS:
        raise ValueError(
            f"{op}: (B, H, S) is {(B, q_heads + k_heads, S)}; accepted are up to {MOST_BLOCKS} sequences and as many "
            f"heads, and {MOST_BLOCKS * tokens} positions"
        )
    plan = _RopePlan(
        *(_Strides(*x.stride()[:3]) for x in (*inputs, *outputs)), *angles, B, q_heads, k_heads, S, D, half, width,
        heads, tokens, group_lanes, q.stride(1) < q.stride(2), angles_are_float, inverse, in_place,
    )  # fmt: skip
    return CudaLaunch("rope", plan, chosen, lanes * tokens * group_lanes, q, tensors=6)


def _rule(vectors: int) -> RopeShape:
    """The shape for so many vectors in all half heads. 64 threads a block were fastest on an H200, for 1 or 2 heads."""
    return RopeShape(heads=2 if vectors >= 2 * ENOUGH_THREADS else 1, threads=64)


_OF_ONE = Launches(_settle_one)
_OF_BOTH = Launches(_settle_both)
