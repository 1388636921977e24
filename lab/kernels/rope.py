"""Rotary position embedding: turns pairs of features of a head by an angle that grows with the position.

x, y: (B, H, S, D), float16, bfloat16 or float32   cos, sin: (S, R/2), or (B, S, R/2) where sequences are at different
positions, of the same or another float dtype. The first R features of each head are turned, the others copied. A pair
(a, b) becomes (a·c − b·s, a·s + b·c), in float32, rounded once; `heads.py` says which features are a pair.
Definition: Su et al., "RoFormer: Enhanced Transformer with Rotary Position Embedding", 2021.
"""

from collections.abc import Callable, Iterator
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor, nn
from torch.autograd.graph import increment_version

from lab.kernels.checks import GradientNeeded, runs_here
from lab.kernels.early import wait_for_previous
from lab.kernels.heads import (
    angle_strides,
    check_angles,
    check_heads,
    check_layout,
    head_choices,
    head_programs,
    head_rule,
    load_angles,
    load_pairs,
    ragged,
    store_turned,
    tile_of_heads,
    unit_of,
)
from lab.kernels.launch import Configuration, Launch, Launches, nothing
from lab.kernels.library import Trainable, adjacent, registered, traced
from lab.kernels.traffic import Traffic
from lab.kernels.tuned import Tuning, by_heads


@triton.jit
def _rope_kernel(
    q_ptr, k_ptr, q_out_ptr, k_out_ptr, cos_ptr, sin_ptr,
    S, cos_batch, cos_token, sin_batch, sin_token,
    q_batch, q_head, q_token, k_batch, k_head, k_token,
    q_out_batch, q_out_head, q_out_token, k_out_batch, k_out_head, k_out_token,
    D: tl.constexpr, Q_HEADS: tl.constexpr, K_HEADS: tl.constexpr,
    HALF: tl.constexpr, PAIRS: tl.constexpr, PASS: tl.constexpr, UNIT: tl.constexpr, ANGLE_UNIT: tl.constexpr,
    TOKENS: tl.constexpr, HEADS: tl.constexpr, HEADS_FIRST: tl.constexpr, ONE_SEQUENCE: tl.constexpr,
    INTERLEAVED: tl.constexpr, INVERSE: tl.constexpr, MASKED: tl.constexpr,
):  # fmt: skip
    """TOKENS positions of HEADS heads a program. One thread reads and writes a pair, so that in place is safe."""
    wait_for_previous()
    x, y, inside, _, cos_ptrs, sin_ptrs, inside_angles = tile_of_heads(
        q_ptr, k_ptr, q_out_ptr, k_out_ptr, cos_ptr, sin_ptr,
        S, cos_batch, cos_token, sin_batch, sin_token,
        q_batch, q_head, q_token, k_batch, k_head, k_token,
        q_out_batch, q_out_head, q_out_token, k_out_batch, k_out_head, k_out_token,
        Q_HEADS, K_HEADS, UNIT, ANGLE_UNIT, TOKENS, HEADS, HEADS_FIRST, ONE_SEQUENCE,
    )  # fmt: skip
    cos, sin = load_angles(cos_ptrs, sin_ptrs, inside_angles, HALF, PAIRS, MASKED)
    if INVERSE:
        sin = -sin
    a, b = load_pairs(x, inside, HALF, PAIRS, INTERLEAVED, MASKED)
    store_turned(a, b, cos, sin, y, inside, HALF, PAIRS, INTERLEAVED, MASKED)
    if PASS:
        rest = 2 * HALF + tl.arange(0, PASS)[None, None, :]
        mask = inside & (rest < D)
        tl.store(y + rest, tl.load(x + rest, mask=mask), mask=mask)


def rope(
    x: Tensor, cos: Tensor, sin: Tensor, *,
    layout: str = "half-split", inverse: bool = False, configuration: Configuration | None = None,
) -> Tensor:  # fmt: skip
    """`x` with its heads' features turned, in one kernel launch.

    x: (B, H, S, D), adjacent features, any other strides ((B, S, H, D) comes as `x.transpose(1, 2)`). cos, sin:
    (S, R/2) or (B, S, R/2), adjacent columns, R at most D; pass `cos[..., : R // 2]` of tables that repeat each angle,
    as Hugging Face has them. layout: "half-split" or "interleaved". inverse: turn back. configuration: how to
    launch, one of `rope_choices`; by default as tuned here, else by rule. Returns a new tensor of the shape, dtype and
    order in memory of `x`; no elements give an empty result. Raises TypeError or ValueError naming the argument, what
    it was and what is accepted. The gradient of `x` is dy turned back; NotImplementedError if it is needed and a
    configuration given, or if one of `cos` or `sin` is needed, or in place.
    """
    if configuration is None and traced(x):
        y: Tensor = _registered_rope(x, cos, sin, layout, inverse)
        return y
    try:
        return _rope(x, cos, sin, layout, inverse, configuration)
    except GradientNeeded:
        y = _TRAINABLE(configuration, x, cos, sin, layout, inverse)
        return y


def _rope(
    x: Tensor, cos: Tensor, sin: Tensor, layout: str, inverse: bool, configuration: Configuration | None = None
) -> Tensor:
    launch = _OF_ONE(x, cos, sin, options=("rope", layout, inverse, configuration))
    y = torch.empty_like(x)
    launch(x, x, y, y, cos, sin)
    return y


def rope_(
    x: Tensor, cos: Tensor, sin: Tensor, *,
    layout: str = "half-split", inverse: bool = False, configuration: Configuration | None = None,
) -> Tensor:  # fmt: skip
    """As `rope`, in place; returns `x`. ValueError if two elements of `x` share memory."""
    if configuration is None and traced(x):
        _registered_rope_in_place(x, cos, sin, layout, inverse)
    else:
        _rope_in_place(x, cos, sin, layout, inverse, configuration)
        increment_version(x)  # if autograd has saved x for a gradient, it then reports that x was changed
    return x


def _rope_in_place(
    x: Tensor, cos: Tensor, sin: Tensor, layout: str, inverse: bool, configuration: Configuration | None = None
) -> None:
    _OF_ONE(x, cos, sin, options=("rope_", layout, inverse, configuration))(x, x, x, x, cos, sin)


def rope_qk(
    q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, *,
    layout: str = "half-split", inverse: bool = False, configuration: Configuration | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """`rope` of queries (B, Hq, S, D) and keys (B, Hk, S, D), for any Hq and Hk, in one kernel launch.

    configuration: one of `rope_qk_choices`. Returns (q, k) turned, two new tensors.
    """
    if configuration is None and traced(q):
        both: tuple[Tensor, Tensor] = _registered_qk(q, k, cos, sin, layout, inverse)
        return both
    try:
        return _rope_qk(q, k, cos, sin, layout, inverse, configuration)
    except GradientNeeded:
        both = _TRAINABLE_QK(configuration, q, k, cos, sin, layout, inverse)
        return both


def _rope_qk(
    q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, layout: str, inverse: bool,
    configuration: Configuration | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    launch = _OF_BOTH(q, k, cos, sin, options=("rope_qk", layout, inverse, configuration))
    yq, yk = torch.empty_like(q), torch.empty_like(k)
    launch(q, k, yq, yk, cos, sin)
    return yq, yk


def rope_qk_(
    q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, *,
    layout: str = "half-split", inverse: bool = False, configuration: Configuration | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """As `rope_qk`, in place; returns `q` and `k`. ValueError if two of their elements share memory."""
    if configuration is None and traced(q):
        _registered_qk_in_place(q, k, cos, sin, layout, inverse)
    else:
        _rope_qk_in_place(q, k, cos, sin, layout, inverse, configuration)
        increment_version((q, k))
    return q, k


def _rope_qk_in_place(
    q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, layout: str, inverse: bool,
    configuration: Configuration | None = None,
) -> None:  # fmt: skip
    _OF_BOTH(q, k, cos, sin, options=("rope_qk_", layout, inverse, configuration))(q, k, q, k, cos, sin)


@registered("rope", lambda x, *_: torch.empty_like(x))
def _registered_rope(x: Tensor, cos: Tensor, sin: Tensor, layout: str, inverse: bool) -> Tensor:
    return _rope(x, cos, sin, layout, inverse)


@registered("rope_", lambda *_: None, mutates=("x",))
def _registered_rope_in_place(x: Tensor, cos: Tensor, sin: Tensor, layout: str, inverse: bool) -> None:
    _rope_in_place(x, cos, sin, layout, inverse)


@registered("rope_qk", lambda q, k, *_: (torch.empty_like(q), torch.empty_like(k)))
def _registered_qk(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, layout: str, inverse: bool) -> tuple[Tensor, Tensor]:
    return _rope_qk(q, k, cos, sin, layout, inverse)


@registered("rope_qk_", lambda *_: None, mutates=("q", "k"))
def _registered_qk_in_place(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, layout: str, inverse: bool) -> None:
    _rope_qk_in_place(q, k, cos, sin, layout, inverse)


def _save(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    *heads, cos, sin, ctx.layout, ctx.inverse = inputs
    if any(ctx.needs_input_grad[len(heads) : len(heads) + 2]):
        raise NotImplementedError(
            "rope: cos or sin requires grad, and only the heads have gradients; detach the tables"
        )
    ctx.save_for_backward(cos, sin)


def _backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
    dx = rope(adjacent(dy), *ctx.saved_tensors, layout=ctx.layout, inverse=not ctx.inverse)
    return dx, None, None, None, None


def _backward_qk(ctx: Any, dq: Tensor, dk: Tensor) -> tuple[Tensor | None, ...]:
    both = rope_qk(adjacent(dq), adjacent(dk), *ctx.saved_tensors, layout=ctx.layout, inverse=not ctx.inverse)
    return *both, None, None, None, None


_TRAINABLE = Trainable(_registered_rope, _rope, _save, _backward)
_TRAINABLE_QK = Trainable(_registered_qk, _rope_qk, _save, _backward_qk)


def _settle_one(
    x: Tensor, cos: Tensor, sin: Tensor, op: str, layout: str, inverse: bool, configuration: Configuration | None
) -> Callable[..., Any]:
    check_heads(op, x=x)
    if op == "rope_":
        check_own_memory(op, x=x)
    return _prepare(x, None, cos, sin, op, layout, inverse, configuration)


def _settle_both(
    q: Tensor, k: Tensor, cos: Tensor, sin: Tensor,
    op: str, layout: str, inverse: bool, configuration: Configuration | None,
) -> Callable[..., Any]:  # fmt: skip
    check_heads(op, q=q, k=k)
    if op == "rope_qk_":
        check_own_memory(op, q=q, k=k)
    return _prepare(q, k, cos, sin, op, layout, inverse, configuration)


def check_own_memory(op: str, **heads: Tensor) -> None:
    for name, x in heads.items():
        reach = 0  # offset of the last element of the axes so far; the next stride must be larger
        shared = False
        for step, size in sorted(zip(x.stride(), x.shape, strict=True)):
            if size > 1:
                shared |= step <= reach
                reach += step * (size - 1)
        if shared and x.numel():
            raise ValueError(
                f"{op}: {name} has strides {x.stride()}, so that elements share memory; accepted in place are "
                "elements with their own: call .contiguous() first"
            )


def _prepare(
    q: Tensor, k: Tensor | None, cos: Tensor, sin: Tensor,
    op: str, layout: str, inverse: bool, configuration: Configuration | None,
) -> Callable[..., Any]:  # fmt: skip
    B, q_heads, S, D = q.shape
    k_heads = k.shape[1] if k is not None else 0
    check_angles(op, cos, sin, (B, S, D), q.device)
    check_layout(op, layout)
    half = cos.shape[-1]
    sizes = (B, q_heads, k_heads, S, 2 * half)
    if not B * S * (q_heads + k_heads):
        return nothing
    in_place = op.endswith("_")
    inputs = (q, q if k is None else k)
    outputs = inputs if in_place else tuple(torch.empty_like(x, device="meta") for x in inputs)
    if k is None:
        chosen = configuration or ROPE_TUNING.choose((B, q_heads, S, 2 * half), q)
    else:
        chosen = configuration or ROPE_QK_TUNING.choose(sizes, q)
    # What is not turned is copied by loads as wide as its heads allow.
    unit = unit_of((*inputs, *outputs), half if 2 * half == D and layout == "half-split" else 2 * half)
    angle_unit = unit_of((cos, sin), half)
    heads_first = q.stride(1) < q.stride(2)
    return Launch(
        _rope_kernel, head_programs(sizes, chosen), q.get_device(),
        S, *angle_strides(cos, angle_unit), *angle_strides(sin, angle_unit),
        *(step // unit for x in (*inputs, *outputs) for step in x.stride()[:3]),
        early=True, num_warps=chosen.num_warps, num_stages=chosen.num_stages,
        D=D, Q_HEADS=q_heads, K_HEADS=k_heads, HALF=half, PAIRS=triton.next_power_of_2(half),
        PASS=0 if in_place or 2 * half == D else triton.next_power_of_2(D - 2 * half),
        UNIT=unit, ANGLE_UNIT=angle_unit,
        TOKENS=chosen["TOKENS"], HEADS=chosen["HEADS"], HEADS_FIRST=heads_first, ONE_SEQUENCE=heads_first and B == 1,
        INTERLEAVED=layout == "interleaved", INVERSE=inverse, MASKED=ragged(sizes, chosen),
    )  # fmt: skip


_OF_ONE = Launches(_settle_one)
_OF_BOTH = Launches(_settle_both)


class Rope(nn.Module):
    """Rotary embedding of a model's queries and keys: has the tables, and calls `rope_qk` with the rows it needs.

    head_dim: D. max_positions: rows of the tables. base: theta of the rates base^(−2i/R). rotary_dim: R, by default D.
    dtype: of the tables; float32 has exact angles at large positions, 16-bit types do not. The tables are buffers: they
    move and change dtype with the module, and are not in its state dict. Where no kernel runs, as on a CPU, the module
    uses PyTorch's own operators.
    """

    cos: Tensor
    sin: Tensor

    def __init__(
        self, head_dim: int, max_positions: int, base: float = 10_000.0, *,
        layout: str = "half-split", rotary_dim: int | None = None, dtype: torch.dtype = torch.float32,
        device: torch.device | str | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        rotary_dim = head_dim if rotary_dim is None else rotary_dim
        check_layout("Rope", layout)
        if rotary_dim % 2 or not 2 <= rotary_dim <= head_dim:
            raise ValueError(f"Rope: rotary_dim is {rotary_dim}; accepted are even numbers from 2 to {head_dim}")
        self.layout = layout
        self.max_positions = max_positions
        self.base = base
        self.rotary_dim = rotary_dim
        cos, sin = angle_tables(max_positions, rotary_dim, base, dtype=dtype, device=device)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)

    def reset_parameters(self) -> None:
        """Compute the tables again. Needed after `to_empty`, because they are in no state dict."""
        cos, sin = angle_tables(
            self.max_positions, self.rotary_dim, self.base, dtype=self.cos.dtype, device=self.cos.device
        )
        self.cos, self.sin = cos, sin

    def extra_repr(self) -> str:
        return f"{self.rotary_dim}, max_positions={self.max_positions}, base={self.base}, layout={self.layout!r}"

    def forward(self, q: Tensor, k: Tensor, offset: int = 0) -> tuple[Tensor, Tensor]:
        """(q, k) turned, new tensors. q: (B, Hq, S, D), k: (B, Hk, S, D), at positions offset to offset + S − 1."""
        end = offset + q.shape[-2]
        if offset < 0 or end > self.max_positions:
            raise ValueError(
                f"Rope: positions are {offset} to {end - 1}; accepted are 0 to {self.max_positions - 1}, as the module "
                f"was made with max_positions={self.max_positions}"
            )
        cos, sin = self.cos[offset:end], self.sin[offset:end]
        if not runs_here(q):
            return _turned_by_torch(q, cos, sin, self.layout), _turned_by_torch(k, cos, sin, self.layout)
        return rope_qk(q, k, cos, sin, layout=self.layout)


def _turned_by_torch(x: Tensor, cos: Tensor, sin: Tensor, layout: str) -> Tensor:
    """As `rope`, with PyTorch's own operators, where no kernel runs."""
    return _turned(x.float(), cos.float(), sin.float(), layout).to(x.dtype)


def angle_tables(
    positions: int, rotary_dim: int, base: float = 10_000.0, *,
    dtype: torch.dtype = torch.float32, device: torch.device | str | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """(cos, sin), each (positions, R/2), of the angles position · base^(−2i/R); computed in float64."""
    rates = base ** (-torch.arange(0, rotary_dim, 2, dtype=torch.float64, device=device) / rotary_dim)
    angles = torch.arange(positions, dtype=torch.float64, device=device)[:, None] * rates
    return angles.cos().to(dtype), angles.sin().to(dtype)


def rope_rule(shape: tuple[int, ...], itemsize: int) -> Configuration:
    """TOKENS, HEADS and warps for (B, H, S, R)."""
    B, H, S, R = shape
    return head_rule((B, H, 0, S, R), itemsize)


def rope_qk_rule(shape: tuple[int, ...], itemsize: int) -> Configuration:
    """TOKENS, HEADS and warps for (B, Hq, Hk, S, R)."""
    return head_rule(shape, itemsize)


def rope_choices(shape: tuple[int, ...], itemsize: int) -> Iterator[Configuration]:
    """The configurations that a search may try for (B, H, S, D)."""
    B, H, S, D = shape
    return head_choices((B, H, 0, S, D), itemsize)


def rope_qk_choices(shape: tuple[int, ...], itemsize: int) -> Iterator[Configuration]:
    """The configurations that a search may try for (B, Hq, Hk, S, D)."""
    return head_choices(shape, itemsize)


# A tuned configuration is also used in place, and for both layouts.
ROPE_TUNING = Tuning("rope", __name__, rope_rule, rope_choices, by_heads, form="BxHxSxD")
ROPE_QK_TUNING = Tuning("rope-qk", __name__, rope_qk_rule, rope_qk_choices, by_heads, form="BxHqxHkxSxD")


def rope_reference(x: Tensor, cos: Tensor, sin: Tensor, layout: str = "half-split") -> Tensor:
    """The float64 result, on the device of `x`. Same shapes as `rope`; returns float64."""
    return _turned(x.double(), cos.double(), sin.double(), layout)


def _turned(x: Tensor, c: Tensor, s: Tensor, layout: str) -> Tensor:
    half = c.shape[-1]
    c, s = (c, s) if c.dim() == 2 else (c[:, None], s[:, None])
    turned, passed = x[..., : 2 * half], x[..., 2 * half :]
    a, b = (turned[..., ::2], turned[..., 1::2]) if layout == "interleaved" else turned.split(half, dim=-1)
    pair = (a * c - b * s, a * s + b * c)
    y = torch.stack(pair, dim=-1).flatten(-2) if layout == "interleaved" else torch.cat(pair, dim=-1)
    return torch.cat((y, passed), dim=-1)


def rope_backward_reference(dy: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """The float64 gradient of x, on the device of `dy`: dy turned back."""
    return rope_reference(dy, cos, -sin)


def rope_qk_reference(
    q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, layout: str = "half-split"
) -> tuple[Tensor, Tensor]:
    """The float64 results of both, on their device."""
    return rope_reference(q, cos, sin, layout), rope_reference(k, cos, sin, layout)


def rope_inputs(shape: tuple[int, ...], dtype: torch.dtype, device: str, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """(x, cos, sin) for shape (B, H, S, D): normal data; tables for all of D, in the dtype of x, as in models."""
    S, D = shape[2:]
    generator = torch.Generator(device).manual_seed(seed)
    x = torch.randn(shape, dtype=dtype, device=device, generator=generator)
    return x, *angle_tables(S, D // 2 * 2, dtype=dtype, device=device)


def rope_qk_inputs(
    shape: tuple[int, ...], dtype: torch.dtype, device: str, seed: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """(q, k, cos, sin) for shape (B, Hq, Hk, S, D). In memory, heads are inside tokens, as a projection writes them."""
    B, q_heads, k_heads, S, D = shape
    generator = torch.Generator(device).manual_seed(seed)
    q, k = (
        torch.randn((B, S, heads, D), dtype=dtype, device=device, generator=generator).transpose(1, 2)
        for heads in (q_heads, k_heads)
    )
    return q, k, *angle_tables(S, D // 2 * 2, dtype=dtype, device=device)


def rope_traffic(shape: tuple[int, ...], itemsize: int) -> Traffic:
    """Least work for (B, H, S, D): read x, cos and sin once, write y once; three operations an element."""
    B, H, S, D = shape
    return rope_qk_traffic((B, H, 0, S, D), itemsize)


def rope_qk_traffic(shape: tuple[int, ...], itemsize: int) -> Traffic:
    """Least work for (B, Hq, Hk, S, D): as for `rope`, with the angles read once for both."""
    B, q_heads, k_heads, S, D = shape
    elements = B * (q_heads + k_heads) * S * D
    angles = 2 * S * (D // 2)
    return Traffic(read_bytes=(elements + angles) * itemsize, written_bytes=elements * itemsize, flops=3 * elements)
