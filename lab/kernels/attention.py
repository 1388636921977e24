"""Shared by the attention operators: checks of queries, keys and values, and the head sizes that kernels exist for."""

import math
from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor

from lab.kernels.checks import check_adjacent, check_tensor, interpreting

HALVES = (torch.float16, torch.bfloat16)
HEAD_SIZES = (64, 80, 96, 128, 256)
MOST_FEATURES = HEAD_SIZES[-1]
NARROWEST_DOT = 16  # features: the least that tl.dot accepts
LOG2_E = tl.constexpr(math.log2(math.e))
WIDENED = tl.constexpr(interpreting())  # Triton's interpreter multiplies the bits of a bfloat16 as an integer
Window = tuple[int | None, int | None]


@triton.jit
def dot(a, b, sums):
    """sums + a · b, in float32."""
    if WIDENED:
        return tl.dot(a.to(tl.float32), b.to(tl.float32), sums, input_precision="ieee")
    return tl.dot(a, b, sums)


def sizes_of(shape: Sequence[int]) -> tuple[int, int, int, int, int, int]:
    """(B, Hq, Hk, Sq, Sk, D), from that or from (B, Hq, Hk, S, D) with Sq = Sk = S."""
    B, q_heads, k_heads, *lengths, D = shape
    return B, q_heads, k_heads, lengths[0], lengths[-1], D


def whole_features(D: int) -> int:
    """The smallest head size, of those that kernels exist for, that holds D features."""
    return next(size for size in HEAD_SIZES if size >= D)


def aligned(x: Tensor, features: int) -> Tensor:
    """`x` padded with zeros to `features` features, its rows at multiples of 16 elements; `x` itself if it is so."""
    if (
        x.shape[-1] == features
        and x.data_ptr() % 16 == 0
        and all(step % 16 == 0 for size, step in zip(x.shape[:-1], x.stride()[:-1], strict=True) if size > 1)
    ):
        return x
    whole = x.new_zeros((*x.shape[:-1], features))
    whole[..., : x.shape[-1]] = x
    return whole


def checked_scale(op: str, scale: float | None, features: int) -> float:
    """`scale` as a float, or 1/√features if it is None. ValueError unless it is a finite number above 0."""
    if scale is None:
        return 1 / math.sqrt(features)
    if not isinstance(scale, (float, int)) or not 0 < scale < math.inf:
        raise ValueError(f"{op}: scale is {scale!r}; accepted are finite numbers above 0")
    return float(scale)


def check_heads_of(op: str, name: str, x: Tensor, axes: Sequence[str]) -> None:
    """Raise unless `x` is of 16-bit floats on a GPU, with as many axes as `axes` names and adjacent features."""
    check_tensor(op, name, x)
    if x.dtype not in HALVES:
        raise TypeError(f"{op}: {name} has dtype {x.dtype}; accepted are torch.float16 and torch.bfloat16")
    if x.dim() != len(axes):
        raise ValueError(f"{op}: {name} has shape {tuple(x.shape)}; accepted is ({', '.join(axes)})")
    check_adjacent(op, name, x)
    if not 1 <= x.shape[-1] <= MOST_FEATURES:
        raise ValueError(f"{op}: {name} has {x.shape[-1]} features; accepted are 1 to {MOST_FEATURES}")


def check_together(op: str, q: Tensor, k: Tensor, v: Tensor, q_heads: int, k_heads: int) -> None:
    """Raise unless k and v have one shape, the dtype, device and features of q, and k_heads divides q_heads."""
    for name, x in (("k", k), ("v", v)):
        if (x.dtype, x.device) != (q.dtype, q.device):
            raise ValueError(
                f"{op}: {name} is {x.dtype} on {x.device}; "
                f"accepted is the dtype and device of q, {q.dtype} on {q.device}"
            )
        if x.shape[-1] != q.shape[-1]:
            raise ValueError(f"{op}: {name} has {x.shape[-1]} features; accepted are those of q, {q.shape[-1]}")
    if k.shape != v.shape:
        raise ValueError(f"{op}: v has shape {tuple(v.shape)}; accepted is that of k, {tuple(k.shape)}")
    if q_heads and (not k_heads or q_heads % k_heads):
        raise ValueError(f"{op}: q has {q_heads} heads; accepted is a multiple of the heads of k, {k_heads}")


def checked_window(op: str, causal: bool, window: Window) -> Window:
    """How many keys (before, after) its own position a query sees; None means all. ValueError for anything else."""
    if not isinstance(window, tuple) or len(window) != 2 or not all(_is_side(side) for side in window):
        raise ValueError(f"{op}: window is {window!r}; accepted is (left, right), each an int from 0 or None")
    left, right = window
    if causal and right:
        raise ValueError(f"{op}: window is {window}, whose right side a causal mask forbids; accepted are 0 and None")
    return left, 0 if causal else right


def _is_side(side: object) -> bool:
    return side is None or (isinstance(side, int) and not isinstance(side, bool) and 0 <= side < 2**30)


def check_counts(op: str, name: str, counts: Tensor, shape: tuple[int, ...], model: Tensor) -> None:
    """Raise unless `counts` is a contiguous int32 tensor of shape `shape` on the device of `model`."""
    if not isinstance(counts, Tensor):
        raise TypeError(f"{op}: {name} is a {type(counts).__name__}; accepted is a torch.Tensor")
    if counts.dtype != torch.int32:
        raise TypeError(f"{op}: {name} has dtype {counts.dtype}; accepted is torch.int32")
    if counts.shape != shape or not counts.is_contiguous():
        raise ValueError(f"{op}: {name} has shape {tuple(counts.shape)}; accepted is {shape}, contiguous")
    if counts.device != model.device:
        raise ValueError(f"{op}: {name} is on {counts.device}; accepted is the device of q, {model.device}")
