"""RMSNorm and rotary position embedding in one kernel, in the two forms that models have.

`rmsnorm_rope`: x, y: (B, S, H)   w: (H,). The whole row is normalised, y = x / sqrt(mean(x²) + eps) · w, and then each
of its H/D heads is turned by the angles of its position. `qk_norm_rope`: q: (B, Hq, S, D)   k: (B, Hk, S, D)   wq, wk:
(D,). Every head is normalised by itself and then turned (Qwen3 and others). cos, sin: (S, D/2) or (B, S, D/2). All
arithmetic is in float32 and rounded once; the norm is not rounded before it is turned.
Definitions: Zhang and Sennrich, "Root Mean Square Layer Normalization", 2019; Su et al., "RoFormer", 2021.
"""

from collections.abc import Callable, Iterator
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from lab.kernels.checks import check_adjacent, check_tensor, check_vector, checked_eps
from lab.kernels.early import wait_for_previous
from lab.kernels.heads import (
    LOAD_BYTES,
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
from lab.kernels.launch import Configuration, Launch, Launches, as_rows, nothing, result_like
from lab.kernels.library import registered, row_result, traced
from lab.kernels.rmsnorm import rmsnorm_reference
from lab.kernels.rope import angle_tables, rope_qk_inputs, rope_qk_traffic, rope_reference
from lab.kernels.traffic import Traffic
from lab.kernels.tuned import Tuning, by_heads

MAXIMUM_COLUMNS = 32_768  # as many as fit into the registers of one program


@triton.jit
def _rmsnorm_rope_kernel(
    x_ptr, w_ptr, cos_ptr, sin_ptr, y_ptr, eps, M, S, x_stride, cos_batch, cos_token, sin_batch, sin_token,
    D: tl.constexpr, PAIRS: tl.constexpr, H: tl.constexpr, HEADS: tl.constexpr, ROWS: tl.constexpr,
    INTERLEAVED: tl.constexpr, MASKED: tl.constexpr,
):  # fmt: skip
    """ROWS rows a program, each in registers as the pairs of its heads, so that x is read once."""
    wait_for_previous()
    HALF: tl.constexpr = D // 2
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None, None]
    heads = tl.arange(0, HEADS)[None, :, None]
    columns = heads * D
    inside = (rows < M) & (columns < H)
    batch, token = rows // S, rows % S
    cos, sin = load_angles(
        cos_ptr + batch * cos_batch + token * cos_token, sin_ptr + batch * sin_batch + token * sin_token, rows < M,
        HALF, PAIRS, MASKED,
    )  # fmt: skip
    a, b = load_pairs(x_ptr + rows * x_stride + columns, inside, HALF, PAIRS, INTERLEAVED, MASKED)
    wa, wb = load_pairs(w_ptr + columns, columns < H, HALF, PAIRS, INTERLEAVED, MASKED)
    squares = tl.sum(tl.sum(a * a + b * b, axis=2, keep_dims=True), axis=1, keep_dims=True)
    rstd = tl.rsqrt(squares / H + eps)
    store_turned(
        a * rstd * wa, b * rstd * wb, cos, sin, y_ptr + rows * H + columns, inside,
        HALF, PAIRS, INTERLEAVED, MASKED,
    )  # fmt: skip


@triton.jit
def _qk_norm_rope_kernel(
    q_ptr, k_ptr, q_weight_ptr, k_weight_ptr, q_out_ptr, k_out_ptr, cos_ptr, sin_ptr, eps,
    S, cos_batch, cos_token, sin_batch, sin_token,
    q_batch, q_head, q_token, k_batch, k_head, k_token,
    q_out_batch, q_out_head, q_out_token, k_out_batch, k_out_head, k_out_token,
    D: tl.constexpr, Q_HEADS: tl.constexpr, K_HEADS: tl.constexpr, PAIRS: tl.constexpr,
    UNIT: tl.constexpr, ANGLE_UNIT: tl.constexpr,
    TOKENS: tl.constexpr, HEADS: tl.constexpr, HEADS_FIRST: tl.constexpr, ONE_SEQUENCE: tl.constexpr,
    INTERLEAVED: tl.constexpr, MASKED: tl.constexpr,
):  # fmt: skip
    """TOKENS positions of HEADS heads a program; each head is in the registers of a few neighbouring threads."""
    wait_for_previous()
    HALF: tl.constexpr = D // 2
    x, y, inside, is_query, cos_ptrs, sin_ptrs, inside_angles = tile_of_heads(
        q_ptr, k_ptr, q_out_ptr, k_out_ptr, cos_ptr, sin_ptr,
        S, cos_batch, cos_token, sin_batch, sin_token,
        q_batch, q_head, q_token, k_batch, k_head, k_token,
        q_out_batch, q_out_head, q_out_token, k_out_batch, k_out_head, k_out_token,
        Q_HEADS, K_HEADS, UNIT, ANGLE_UNIT, TOKENS, HEADS, HEADS_FIRST, ONE_SEQUENCE,
    )  # fmt: skip
    cos, sin = load_angles(cos_ptrs, sin_ptrs, inside_angles, HALF, PAIRS, MASKED)
    feature = tl.zeros((1, 1, 1), tl.int32)
    weight = (q_weight_ptr if is_query else k_weight_ptr) + feature
    wa, wb = load_pairs(weight, feature == 0, HALF, PAIRS, INTERLEAVED, MASKED)
    a, b = load_pairs(x, inside, HALF, PAIRS, INTERLEAVED, MASKED)
    rstd = tl.rsqrt(tl.sum(a * a + b * b, axis=2, keep_dims=True) / D + eps)
    store_turned(
        a * rstd * wa, b * rstd * wb, cos, sin, y, inside, HALF, PAIRS, INTERLEAVED, MASKED
    )  # fmt: skip


def rmsnorm_rope(
    x: Tensor, weight: Tensor, cos: Tensor, sin: Tensor, eps: float = 1e-6, *,
    num_heads: int | None = None, layout: str = "half-split", configuration: Configuration | None = None,
) -> Tensor:  # fmt: skip
    """RMSNorm of the rows of `x`, then each head turned by the angles of its position, in one kernel launch.

    x: (B, S, H), any distance between rows, H up to 32,768. weight: (H,), contiguous, of any accepted dtype. cos, sin:
    (S, D/2) or (B, S, D/2), adjacent columns; D is the width of a head, and H a multiple of it. num_heads: where
    given, H must be that many heads. layout: "half-split" or "interleaved". configuration: how to launch, one of
    `rmsnorm_rope_choices`; by default as tuned here, else by rule. Returns a new contiguous tensor of the shape and
    dtype of `x`; no elements give an empty result. Raises TypeError or ValueError naming the argument, what it was and
    what is accepted, and NotImplementedError where a gradient would be needed.
    """
    if configuration is None and traced(x):
        # num_heads is checked when the operator runs: tracing knows only shapes, which do not depend on it.
        y: Tensor = _registered_rows(x, weight, cos, sin, checked_eps("rmsnorm_rope", eps), num_heads or 0, layout)
        return y
    return _rmsnorm_rope(x, weight, cos, sin, eps, num_heads, layout, configuration)


def _rmsnorm_rope(
    x: Tensor, weight: Tensor, cos: Tensor, sin: Tensor, eps: float, num_heads: int | None, layout: str,
    configuration: Configuration | None = None,
) -> Tensor:  # fmt: skip
    launch = _OF_ROWS(x, weight, cos, sin, options=(num_heads, layout, configuration))
    y = result_like(x)
    launch(as_rows(x), weight, cos, sin, y, checked_eps("rmsnorm_rope", eps))
    return y


def qk_norm_rope(
    q: Tensor, k: Tensor, q_weight: Tensor, k_weight: Tensor, cos: Tensor, sin: Tensor, eps: float = 1e-6, *,
    layout: str = "half-split", configuration: Configuration | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """RMSNorm of every head of `q` and `k`, then turned by the angles of its position, in one kernel launch.

    q: (B, Hq, S, D), k: (B, Hk, S, D), adjacent features, any other strides, D even. q_weight, k_weight: (D,),
    contiguous, of one accepted dtype. cos, sin: (S, D/2) or (B, S, D/2), adjacent columns. configuration: one of
    `qk_norm_rope_choices`. Returns (q, k), two new tensors of the shapes, dtype and order in memory of `q` and `k`.
    Raises as `rmsnorm_rope` does.
    """
    if configuration is None and traced(q):
        checked = checked_eps("qk_norm_rope", eps)
        both: tuple[Tensor, Tensor] = _registered_heads(q, k, q_weight, k_weight, cos, sin, checked, layout)
        return both
    return _qk_norm_rope(q, k, q_weight, k_weight, cos, sin, eps, layout, configuration)


def _qk_norm_rope(
    q: Tensor, k: Tensor, q_weight: Tensor, k_weight: Tensor, cos: Tensor, sin: Tensor, eps: float, layout: str,
    configuration: Configuration | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    launch = _OF_HEADS(q, k, q_weight, k_weight, cos, sin, options=(layout, configuration))
    yq, yk = torch.empty_like(q), torch.empty_like(k)
    launch(q, k, q_weight, k_weight, yq, yk, cos, sin, checked_eps("qk_norm_rope", eps))
    return yq, yk


@registered("rmsnorm_rope", lambda x, *_: row_result(x))
def _registered_rows(
    x: Tensor, weight: Tensor, cos: Tensor, sin: Tensor, eps: float, num_heads: int, layout: str
) -> Tensor:
    return _rmsnorm_rope(x, weight, cos, sin, eps, num_heads or None, layout)


@registered("qk_norm_rope", lambda q, k, *_: (torch.empty_like(q), torch.empty_like(k)))
def _registered_heads(
    q: Tensor, k: Tensor, q_weight: Tensor, k_weight: Tensor, cos: Tensor, sin: Tensor, eps: float, layout: str
) -> tuple[Tensor, Tensor]:
    return _qk_norm_rope(q, k, q_weight, k_weight, cos, sin, eps, layout)


def _settle_rows(
    x: Tensor, weight: Tensor, cos: Tensor, sin: Tensor,
    num_heads: int | None, layout: str, configuration: Configuration | None,
) -> Callable[..., Any]:  # fmt: skip
    op = "rmsnorm_rope"
    check_tensor(op, "x", x)
    if x.dim() != 3 or not 2 <= x.shape[-1] <= MAXIMUM_COLUMNS:
        raise ValueError(
            f"{op}: x has shape {tuple(x.shape)}; accepted is (B, S, H) with H from 2 to {MAXIMUM_COLUMNS}"
        )
    check_adjacent(op, "x", x)
    check_vector(op, "weight", weight, x)
    B, S, H = x.shape
    check_angles(op, cos, sin, (B, S, H), x.device)
    D = 2 * cos.shape[-1]
    if H % D:
        raise ValueError(
            f"{op}: x has {H} columns, which are no whole heads of {D}, twice the columns of cos; accepted are "
            f"multiples of {D}"
        )
    if num_heads is not None and num_heads * D != H:
        raise ValueError(
            f"{op}: num_heads is {num_heads!r}; accepted is {H // D}, as x has {H} columns and cos and sin are for "
            f"heads of {D}"
        )
    check_layout(op, layout)
    if x.numel() == 0:
        return nothing
    rows = x.reshape(-1, H)
    M = len(rows)
    pairs, heads = triton.next_power_of_2(D // 2), triton.next_power_of_2(H // D)
    chosen = configuration or RMSNORM_ROPE_TUNING.choose((B, S, H // D, D), x)
    return Launch(
        _rmsnorm_rope_kernel, triton.cdiv(M, chosen["ROWS"]), x.get_device(),
        M, S, rows.stride(0), *angle_strides(cos), *angle_strides(sin),
        early=True, num_warps=chosen.num_warps, num_stages=chosen.num_stages,
        D=D, PAIRS=pairs, H=H, HEADS=heads, ROWS=chosen["ROWS"], INTERLEAVED=layout == "interleaved",
        MASKED=2 * pairs * heads != H or M % chosen["ROWS"] != 0,
    )  # fmt: skip


def _settle_heads(
    q: Tensor, k: Tensor, q_weight: Tensor, k_weight: Tensor, cos: Tensor, sin: Tensor,
    layout: str, configuration: Configuration | None,
) -> Callable[..., Any]:  # fmt: skip
    op = "qk_norm_rope"
    check_heads(op, q=q, k=k)
    B, q_heads, S, D = q.shape
    k_heads = k.shape[1]
    check_vector(op, "q_weight", q_weight, q)
    check_vector(op, "k_weight", k_weight, k)
    if q_weight.dtype != k_weight.dtype:
        raise ValueError(f"{op}: k_weight has dtype {k_weight.dtype}; accepted is that of q_weight, {q_weight.dtype}")
    check_angles(op, cos, sin, (B, S, D), q.device)
    if 2 * cos.shape[-1] != D:
        raise ValueError(f"{op}: cos has {cos.shape[-1]} columns; accepted is half of D, which is {D}")
    check_layout(op, layout)
    sizes = (B, q_heads, k_heads, S, D)
    if not B * S * (q_heads + k_heads):
        return nothing
    chosen = configuration or QK_NORM_ROPE_TUNING.choose(sizes, q)
    heads = (q, k, *(torch.empty_like(x, device="meta") for x in (q, k)))
    unit, angle_unit = unit_of(heads, D if layout == "interleaved" else D // 2), unit_of((cos, sin), D // 2)
    heads_first = q.stride(1) < q.stride(2)
    return Launch(
        _qk_norm_rope_kernel, head_programs(sizes, chosen), q.get_device(),
        S, *angle_strides(cos, angle_unit), *angle_strides(sin, angle_unit),
        *(step // unit for x in heads for step in x.stride()[:3]),
        early=True, num_warps=chosen.num_warps, num_stages=chosen.num_stages,
        D=D, Q_HEADS=q_heads, K_HEADS=k_heads, PAIRS=triton.next_power_of_2(D // 2), UNIT=unit, ANGLE_UNIT=angle_unit,
        TOKENS=chosen["TOKENS"], HEADS=chosen["HEADS"],
        HEADS_FIRST=heads_first, ONE_SEQUENCE=heads_first and B == 1, INTERLEAVED=layout == "interleaved",
        MASKED=ragged(sizes, chosen),
    )  # fmt: skip


_OF_ROWS = Launches(_settle_rows)
_OF_HEADS = Launches(_settle_heads)


def rmsnorm_rope_rule(shape: tuple[int, ...], itemsize: int) -> Configuration:
    """ROWS and warps for (B, S, N, D): a thread loads 16 bytes of each half of a head, several times for wide rows."""
    block = _lanes(shape)
    rows = max(1, min(16, 1024 // block))
    warp_lanes = 2 * 32 * LOAD_BYTES // itemsize
    most = 32 if block > 16_384 else 16
    return Configuration.of(ROWS=rows, num_warps=max(1, min(most, rows * block // warp_lanes)))


def qk_norm_rope_rule(shape: tuple[int, ...], itemsize: int) -> Configuration:
    """TOKENS, HEADS and warps for (B, Hq, Hk, S, D)."""
    _check_pairs(shape[-1])
    return head_rule(shape, itemsize)


def _check_pairs(features: int) -> None:
    if features < 2 or features % 2:
        raise ValueError(f"a head has {features} features; accepted are even numbers from 2")


def rmsnorm_rope_choices(shape: tuple[int, ...], itemsize: int) -> Iterator[Configuration]:
    """The configurations that a search may try for (B, S, N, D): the rule's, then one to four loads of each half."""
    rule = rmsnorm_rope_rule(shape, itemsize)
    yield rule
    block = _lanes(shape)
    for rows in (1, 2, 4, 8, 16):
        for num_warps in (1, 2, 4, 8, 16, 32):
            loads = rows * block * itemsize / (2 * 32 * LOAD_BYTES * num_warps)
            choice = Configuration.of(ROWS=rows, num_warps=num_warps)
            if choice != rule and rows * block <= max(block, 8_192) and 1 <= loads <= 4:
                yield choice


def _lanes(shape: tuple[int, ...]) -> int:
    """Elements of a row that is padded to (heads, 2, pairs), each a power of two."""
    N, D = shape[2:]
    _check_pairs(D)
    lanes: int = 2 * triton.next_power_of_2(D // 2) * triton.next_power_of_2(N)
    return lanes


def qk_norm_rope_choices(shape: tuple[int, ...], itemsize: int) -> Iterator[Configuration]:
    """The configurations that a search may try for (B, Hq, Hk, S, D)."""
    return head_choices(shape, itemsize)


def _by_heads_of_rows(shape: tuple[int, ...]) -> str:
    """The class of (B, S, N, D): exactly this N and D, and the power of two at or above B · S."""
    B, S, N, D = shape
    return f"{N} heads of {D}, up to {triton.next_power_of_2(B * S)} rows"


RMSNORM_ROPE_TUNING = Tuning(
    "rmsnorm-rope", __name__, rmsnorm_rope_rule, rmsnorm_rope_choices, _by_heads_of_rows, form="BxSxNxD"
)
QK_NORM_ROPE_TUNING = Tuning(
    "qk-norm-rope", __name__, qk_norm_rope_rule, qk_norm_rope_choices, by_heads, form="BxHqxHkxSxD"
)


def rmsnorm_rope_reference(
    x: Tensor, weight: Tensor, cos: Tensor, sin: Tensor, eps: float = 1e-6, *, layout: str = "half-split"
) -> Tensor:
    """The float64 result, on the device of `x`. Same shapes as `rmsnorm_rope`; returns float64."""
    B, S, H = x.shape
    D = 2 * cos.shape[-1]
    heads = rmsnorm_reference(x, weight, eps).view(B, S, H // D, D).transpose(1, 2)
    return rope_reference(heads, cos, sin, layout).transpose(1, 2).reshape(B, S, H)


def qk_norm_rope_reference(
    q: Tensor, k: Tensor, q_weight: Tensor, k_weight: Tensor, cos: Tensor, sin: Tensor, eps: float = 1e-6, *,
    layout: str = "half-split",
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The float64 results of both, on their device."""
    return (
        rope_reference(rmsnorm_reference(q, q_weight, eps), cos, sin, layout),
        rope_reference(rmsnorm_reference(k, k_weight, eps), cos, sin, layout),
    )


def rmsnorm_rope_inputs(shape: tuple[int, ...], dtype: torch.dtype, device: str, seed: int) -> tuple[Tensor, ...]:
    """(x, weight, cos, sin) for shape (B, S, N, D), N heads of D: normal data; tables in the dtype of x as models have
    them."""
    B, S, N, D = shape
    generator = torch.Generator(device).manual_seed(seed)
    x = torch.randn((B, S, N * D), dtype=dtype, device=device, generator=generator)
    weight = 1 + 0.5 * torch.randn((N * D,), dtype=dtype, device=device, generator=generator)
    return x, weight, *angle_tables(S, D, dtype=dtype, device=device)


def qk_norm_rope_inputs(shape: tuple[int, ...], dtype: torch.dtype, device: str, seed: int) -> tuple[Tensor, ...]:
    """(q, k, q_weight, k_weight, cos, sin) for shape (B, Hq, Hk, S, D), q and k as a projection leaves them."""
    q, k, cos, sin = rope_qk_inputs(shape, dtype, device, seed)
    generator = torch.Generator(device).manual_seed(seed + 1)
    q_weight, k_weight = (
        1 + 0.5 * torch.randn((shape[-1],), dtype=dtype, device=device, generator=generator) for _ in range(2)
    )
    return q, k, q_weight, k_weight, cos, sin


def rmsnorm_rope_traffic(shape: tuple[int, ...], itemsize: int) -> Traffic:
    """Least work for (B, S, N, D): read x, w, cos and sin once, write y once; seven operations an element."""
    B, S, N, D = shape
    elements = B * S * N * D
    return Traffic(
        read_bytes=(elements + N * D + S * D) * itemsize, written_bytes=elements * itemsize, flops=7 * elements
    )


def qk_norm_rope_traffic(shape: tuple[int, ...], itemsize: int) -> Traffic:
    """Least work for (B, Hq, Hk, S, D): that of `rope_qk`, and reading both weights; seven operations an element."""
    turned = rope_qk_traffic(shape, itemsize)
    return Traffic(
        read_bytes=turned.read_bytes + 2 * shape[-1] * itemsize,
        written_bytes=turned.written_bytes,
        flops=7 * turned.flops // 3,
    )
