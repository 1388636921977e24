"""Matrix product of float8 tensors with scales: y = (a · a_scale) @ (b · b_scale)ᵀ + bias.

a: (…, K) and b: (N, K), a weight of a linear layer, float8_e4m3fn   y: (…, N), float16, bfloat16 or float32.

| granularity | a_scale | b_scale |
|---|---|---|
| tensor | () | () |
| row | (…, 1) | (N, 1) |
| block | (…, ⌈K / 128⌉): each 128 of a row | (⌈N / 128⌉, ⌈K / 128⌉): each square of 128 |

Scales are float32. Scales of tensors and rows are applied to the finished sums, scales of blocks to the sum over each
128 of K. Hopper's matrix units sum products of float8 with about 14 bits of mantissa, fewer than a float32 has. With
accumulation "fast" they sum over all of K. With "precise", and always for blocks, they sum over 128 of K, and the
ordinary units add those sums up in float32. The sums over 128 still have their error: at K = 528, for results of size
1, its standard deviation is 1.2e-4, a quarter of that of fast sums.
"""

import math
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from lab.kernels.checks import FLOATS, check_tensor, interpreting
from lab.kernels.early import wait_for_previous
from lab.kernels.float8 import LARGEST, SMALLEST_SCALE, magnitude_bits, scale_of, to_float8
from lab.kernels.fp8 import quantize_fp8
from lab.kernels.gemm import Product, by_product
from lab.kernels.gemm_rule import fp8_choices, settle_product
from lab.kernels.launch import Configuration, Launch, Launches, as_rows, nothing
from lab.kernels.traffic import Traffic
from lab.kernels.tuned import Tuning

GRANULARITIES = ("tensor", "row", "block")
ACCUMULATIONS = ("fast", "precise")
BLOCK = 128  # elements of K with one scale; in b, also of N
E4M3 = torch.float8_e4m3fn


@triton.jit
def _quantize_squares_kernel(
    x_ptr, q_ptr, scale_ptr, M, N, x_stride, LARGEST: tl.constexpr, SIDE: tl.constexpr
):  # fmt: skip
    """One square of SIDE × SIDE a program, with one scale."""
    wait_for_previous()
    across = tl.cdiv(N, SIDE)
    rows = tl.program_id(0) // across * SIDE + tl.arange(0, SIDE)[:, None]
    columns = tl.program_id(0) % across * SIDE + tl.arange(0, SIDE)[None, :]
    inside = (rows < M) & (columns < N)
    x = tl.load(x_ptr + rows.to(tl.int64) * x_stride + columns, mask=inside, other=0.0).to(tl.float32)
    scale = scale_of(tl.max(tl.max(magnitude_bits(x), axis=1), axis=0), LARGEST)
    tl.store(scale_ptr + tl.program_id(0), scale)
    q = to_float8(x * tl.div_rn(1.0, scale), q_ptr.dtype.element_ty)
    tl.store(q_ptr + rows.to(tl.int64) * N + columns, q, mask=inside)


def fp8_matmul(
    a: Tensor,
    b: Tensor,
    a_scale: Tensor | None = None,
    b_scale: Tensor | None = None,
    bias: Tensor | None = None,
    *,
    granularity: str = "row",
    accumulation: str = "fast",
    dtype: torch.dtype = torch.bfloat16,
    configuration: Configuration | None = None,
) -> Tensor:
    """The product of `a` and the transpose of `b`, as float8 with scales. An operand without a scale is quantised.

    a: (..., K), at least two dimensions, and b: (N, K), both with adjacent k and any distance between rows. Each is
    float8_e4m3fn with its scale, or float16, bfloat16 or float32 without one. `quantize_fp8` quantises the latter, or
    `quantize_squares` if it is b and granularity is "block": one more kernel launch, or two for a whole tensor. A
    NaN or an infinity in such an operand makes NaN all of y that its scale is used for: its row of y if it is in a, its
    column, or with blocks up to 128 columns, if it is in b, and with granularity "tensor" all of y.
    The product takes one launch, or two if K is split. On a Hopper GPU float8 operands with rows that do not begin at
    multiples of 16 bytes are copied first, unless the product is small: one more launch, and as much memory as they.
    granularity: "tensor", "row" or "block"; the module's docstring has the shapes of the scales, which are contiguous.
    accumulation: "fast" or "precise".
    bias: (N,) of `dtype`, contiguous. dtype: of y. configuration: how to launch, one of `fp8_matmul_choices`; by
    default by rule: `lab tune` cannot tune it yet.
    Returns a new contiguous tensor (..., N); no rows or columns give an empty result. Equal calls give equal bits.
    Raises TypeError or ValueError naming the argument, what it was and what is accepted, and
    NotImplementedError where a gradient would be needed.
    """
    if granularity not in GRANULARITIES:
        raise ValueError(f"fp8_matmul: granularity is {granularity!r}; accepted are {list(GRANULARITIES)}")
    if a_scale is None:
        a, a_scale = quantize_left(a, granularity)
    if b_scale is None:
        b, b_scale = quantize_right(b, granularity)
    launches = _LAUNCHES if bias is None else _BIASED
    tensors = (a, b, a_scale, b_scale) if bias is None else (a, b, a_scale, b_scale, bias)
    multiply = launches(*tensors, options=(granularity, accumulation, dtype, configuration))
    y = torch.empty((*a.shape[:-1], b.shape[0]), dtype=dtype, device=a.device)
    multiply(as_rows(a), b.t(), None, y, bias, a_scale, b_scale)
    return y


def quantize_left(a: Tensor, granularity: str) -> tuple[Tensor, Tensor]:
    """(q, scale) of activations (..., K) as `fp8_matmul` takes them."""
    return quantize_fp8(a, "group" if granularity == "block" else granularity, group=BLOCK)


def quantize_right(b: Tensor, granularity: str) -> tuple[Tensor, Tensor]:
    """(q, scale) of a weight (N, K) as `fp8_matmul` takes it."""
    return quantize_squares(b) if granularity == "block" else quantize_fp8(b, granularity)


def quantize_squares(x: Tensor) -> tuple[Tensor, Tensor]:
    """(q, scale) with x ≈ q · scale, one scale for each square of 128 × 128, in one kernel launch.

    x: (M, N), adjacent columns, float16, bfloat16 or float32. Returns q, float8_e4m3fn, of its shape, and scale,
    float32, (ceil(M / 128), ceil(N / 128)), both new and contiguous. The formula of the scale is that of
    `quantize_fp8`, for NaN and infinity too. Raises as `fp8_matmul`.
    """
    check_tensor("quantize_squares", "x", x)
    if x.dim() != 2 or (x.shape[1] > 1 and x.stride(1) != 1):
        raise ValueError(
            f"quantize_squares: x has shape {tuple(x.shape)} and strides {x.stride()}; accepted is (M, N) with "
            "adjacent columns"
        )
    q = torch.empty(x.shape, dtype=E4M3, device=x.device)
    squares = [triton.cdiv(size, BLOCK) for size in x.shape]
    scale = torch.empty(squares, dtype=torch.float32, device=x.device)
    if x.numel():
        launch = Launch(
            _quantize_squares_kernel, math.prod(squares), x.get_device(), *x.shape, x.stride(0),
            early=True, num_warps=8, LARGEST=LARGEST[E4M3], SIDE=BLOCK,
        )  # fmt: skip
        launch(x, q, scale)
    return q, scale


def _prepare(a: Tensor, b: Tensor, a_scale: Tensor, b_scale: Tensor, *options: Any) -> Callable[..., Any]:
    return _settled(a, b, a_scale, b_scale, None, *options)


def _settle_biased(
    a: Tensor, b: Tensor, a_scale: Tensor, b_scale: Tensor, bias: Tensor, *options: Any
) -> Callable[..., Any]:
    return _settled(a, b, a_scale, b_scale, bias, *options)


def _settled(
    a: Tensor, b: Tensor, a_scale: Tensor, b_scale: Tensor, bias: Tensor | None,
    granularity: str, accumulation: str, dtype: torch.dtype, configuration: Configuration | None,
) -> Callable[..., Any]:  # fmt: skip
    _check(a, b, dtype, accumulation)
    strides = _check_scales(a, b, a_scale, b_scale, granularity)
    if bias is not None:
        check_tensor("fp8_matmul", "bias", bias)
        if bias.shape != (len(b),) or bias.dtype != dtype or not bias.is_contiguous():
            raise ValueError(
                f"fp8_matmul: bias is {bias.dtype} of shape {tuple(bias.shape)}; accepted is {dtype} of ({len(b)},), "
                "contiguous"
            )
    if math.prod(a.shape[:-1]) * len(b) == 0:
        return nothing
    rows = as_rows(a)
    rows = rows if rows.dim() == 2 else rows.view(-1, a.shape[-1])
    blocks = granularity == "block"
    product = Product(
        rows, b.t(), dtype, bias=bias is not None, row_scale=not blocks, column_scale=not blocks,
        precise=blocks or accumulation == "precise", columns_per_scale=BLOCK if blocks else 0,
        row_scale_stride=strides[0], column_scale_stride=strides[1],
    )  # fmt: skip
    tuning = fp8_matmul_tuning(granularity, accumulation)
    return settle_product(product, configuration or tuning.choose(product.shape, a))


def _check(a: Tensor, b: Tensor, dtype: torch.dtype, accumulation: str) -> None:
    for name, tensor in (("a", a), ("b", b)):
        if not isinstance(tensor, Tensor):
            raise TypeError(f"fp8_matmul: {name} is a {type(tensor).__name__}; accepted is a torch.Tensor")
        if tensor.dtype != E4M3:
            raise TypeError(f"fp8_matmul: {name} has a scale and dtype {tensor.dtype}; accepted is {E4M3}")
        if not tensor.is_cuda and not (tensor.is_cpu and interpreting()):
            raise ValueError(f"fp8_matmul: {name} is on {tensor.device}; accepted is a CUDA device")
        if tensor.dim() and tensor.shape[-1] > 1 and tensor.stride(-1) != 1:
            raise ValueError(f"fp8_matmul: {name} has stride {tensor.stride(-1)} in its last dimension; accepted is 1")
    if a.dim() < 2 or b.dim() != 2 or a.shape[-1] != b.shape[1]:
        raise ValueError(
            f"fp8_matmul: a has shape {tuple(a.shape)} and b {tuple(b.shape)}; accepted are (..., M, K) and (N, K)"
        )
    if a.device != b.device:
        raise ValueError(f"fp8_matmul: b is on {b.device}; accepted is the device of a, {a.device}")
    if dtype not in FLOATS:
        raise TypeError(f"fp8_matmul: dtype is {dtype}; accepted are {', '.join(map(str, FLOATS))}")
    if accumulation not in ACCUMULATIONS:
        raise ValueError(f"fp8_matmul: accumulation is {accumulation!r}; accepted are {list(ACCUMULATIONS)}")


def _check_scales(a: Tensor, b: Tensor, a_scale: Tensor, b_scale: Tensor, granularity: str) -> tuple[int, int]:
    """(stride of a_scale, stride of b_scale), in elements from row to row, or from square to square for blocks of b."""
    K, N = a.shape[-1], len(b)
    groups = triton.cdiv(K, BLOCK)
    accepted = {
        "tensor": ((), ()),
        "row": ((*a.shape[:-1], 1), (N, 1)),
        "block": ((*a.shape[:-1], groups), (triton.cdiv(N, BLOCK), groups)),
    }[granularity]
    for name, scale, shape in (("a_scale", a_scale, accepted[0]), ("b_scale", b_scale, accepted[1])):
        check_tensor("fp8_matmul", name, scale)
        if scale.shape != shape or scale.dtype != torch.float32 or not scale.is_contiguous():
            raise ValueError(
                f"fp8_matmul: {name} is {scale.dtype} of shape {tuple(scale.shape)}; accepted for granularity "
                f"{granularity!r} is torch.float32 of {shape}, contiguous"
            )
        if scale.device != a.device:
            raise ValueError(f"fp8_matmul: {name} is on {scale.device}; accepted is the device of a, {a.device}")
    return {"tensor": (0, 0), "row": (1, 1), "block": (groups, groups)}[granularity]


_LAUNCHES = Launches(_prepare)
_BIASED = Launches(_settle_biased)


def fp8_matmul_choices(
    shape: tuple[int, ...], itemsize: int, granularity: str = "row", accumulation: str = "fast"
) -> Iterator[Configuration]:
    """The configurations that a search may try for (M, N, K)."""
    return fp8_choices(shape, itemsize, accumulation == "precise" or granularity == "block", granularity == "block")


def _rule(shape: tuple[int, ...], itemsize: int, granularity: str, accumulation: str) -> Configuration:
    return next(iter(fp8_matmul_choices(shape, itemsize, granularity, accumulation)))


@cache
def fp8_matmul_tuning(granularity: str = "row", accumulation: str = "fast") -> Tuning:
    return Tuning(
        f"fp8-matmul-{granularity}-{accumulation}", __name__,
        partial(_rule, granularity=granularity, accumulation=accumulation),
        partial(fp8_matmul_choices, granularity=granularity, accumulation=accumulation),
        by_product, form="MxNxK",
    )  # fmt: skip


def dequantized(q: Tensor, scale: Tensor, square: int = 1) -> Tensor:
    """q · scale in float64, whatever the granularity; `square`: how many rows share a scale of blocks."""
    if scale.dim() == 0 or (scale.shape[-1] == 1 and scale.shape[:-1] == q.shape[:-1]):
        return q.double() * scale.double()
    wide = scale.double().repeat_interleave(BLOCK, -1)[..., : q.shape[-1]]
    return q.double() * wide.repeat_interleave(square, 0)[: len(q)]


def fp8_matmul_reference(
    a: Tensor, b: Tensor, a_scale: Tensor, b_scale: Tensor, bias: Tensor | None = None, *, granularity: str = "row"
) -> Tensor:
    """The float64 product of the dequantised operands, on the device of `a`."""
    square = BLOCK if granularity == "block" else 1
    y = dequantized(a, a_scale) @ dequantized(b, b_scale, square).t()
    return y if bias is None else y + bias.double()


def fp8_matmul_inputs(
    shape: tuple[int, ...], dtype: torch.dtype, device: str, seed: int, granularity: str = "row"
) -> tuple[Tensor, ...]:
    """(a, b, a_scale, b_scale) for (M, N, K): normal data of `dtype`, quantised with PyTorch."""
    a, b = fp8_matmul_sources(shape, dtype, device, seed)
    (qa, a_scale), (qb, b_scale) = _by_pytorch(a, granularity, 1), _by_pytorch(b, granularity, BLOCK)
    return qa, qb, a_scale, b_scale


def fp8_matmul_sources(shape: tuple[int, ...], dtype: torch.dtype, device: str, seed: int) -> tuple[Tensor, Tensor]:
    """(a, b) for (M, N, K) of normal data, b scaled so that y has unit variance."""
    M, N, K = shape
    generator = torch.Generator(device).manual_seed(seed)
    a = torch.randn((M, K), dtype=dtype, device=device, generator=generator)
    return a, torch.randn((N, K), dtype=dtype, device=device, generator=generator) * K**-0.5


def _by_pytorch(x: Tensor, granularity: str, square: int) -> tuple[Tensor, Tensor]:
    """(q, scale) by the formula of `quantize_fp8`."""
    rows, columns = x.shape
    wide = x.float()
    if granularity == "tensor":
        parts, axes = wide, [0, 1]
    elif granularity == "row":
        parts, axes = wide, [1]
    else:
        filled = torch.nn.functional.pad(wide, (0, -columns % BLOCK, 0, -rows % square))
        parts, axes = filled.unflatten(1, (-1, BLOCK)).unflatten(0, (-1, square)), [1, 3]
    scale = (parts.abs().amax(axes, keepdim=True) / LARGEST[E4M3]).clamp(min=SMALLEST_SCALE)
    q = (parts / scale).clamp(-LARGEST[E4M3], LARGEST[E4M3]).to(E4M3)
    if granularity == "block":
        return q.flatten(2, 3).flatten(0, 1)[:rows, :columns].contiguous(), scale[:, 0, :, 0].contiguous()
    return q, scale.reshape(()) if granularity == "tensor" else scale


def fp8_matmul_traffic(shape: tuple[int, ...], itemsize: int) -> Traffic:
    """Least work for (M, N, K): read a and b once, one byte an element, write y once, two bytes an element. Scales do
    not count: they are four bytes a row, or for blocks 1/32 of the bytes of a."""
    M, N, K = shape
    return Traffic(read_bytes=M * K + N * K, written_bytes=2 * M * N, flops=2 * M * N * K)
