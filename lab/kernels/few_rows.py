"""Linear layers of few rows, as in decoding, with what surrounds them: norm before, bias, gate and residual sum after.

    joined_linear:      y = [residual +] norm(x) @ [W₁ᵀ W₂ᵀ W₃ᵀ] [+ biases]
    normed_gated_mlp:   y = silu(norm(x) @ gateᵀ) · (norm(x) @ upᵀ)

x: (M, K), up to 64 rows   W: (N, K) each   y: (M, N₁ + N₂ + N₃); float16 or bfloat16, sums in float32, rounded once.
Reading the weights takes nearly all of the time, so each is read once, and everything else is done on the way: every
program sums the squares of x itself, because up to 32 rows a kernel of its own for the norm would take longer. Several
layers on the same x, such as those of queries, keys and values, are one launch. One row is multiplied without the
matrix unit; more rows are padded to 16, 32 or 64.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from lab.kernels.activations import silu
from lab.kernels.checks import check_alike, check_tensor, check_vector, checked_eps
from lab.kernels.early import let_next_begin, wait_for_previous
from lab.kernels.gemm import multiplied
from lab.kernels.gemv import weight_tile
from lab.kernels.launch import Configuration, Launch, Launches, stages_that_fit
from lab.kernels.matmul import check_factors
from lab.kernels.rmsnorm import rmsnorm

MOST_ROWS = 64
MOST_PARTS = 3
MOST_NORMED = 32  # rows that every program normalises; more are normalised before: on an H100 14 µs instead of 23
WIDE = 8192  # outputs from which there are programs enough to fill a GPU several times


@triton.jit
def _part(
    first_row, w0_ptr, w1_ptr, w2_ptr, b0_ptr, b1_ptr, b2_ptr, SECOND: tl.constexpr, THIRD: tl.constexpr,
    BIASED0: tl.constexpr, BIASED1: tl.constexpr, BIASED2: tl.constexpr,
):  # fmt: skip
    """(weight, bias, whether it has one, its first output) of the layer that output `first_row` belongs to."""
    weight = w0_ptr
    bias = b0_ptr
    biased = BIASED0
    start = 0
    if SECOND > 0:
        biased = first_row * 0 + BIASED0 > 0
        start = first_row * 0
        if first_row >= SECOND:
            weight = w1_ptr
            bias = b1_ptr
            biased = first_row * 0 + BIASED1 > 0
            start = first_row * 0 + SECOND
    if THIRD > 0:  # noqa: SIM102  # a constant: with `and`, Triton would make it a condition at run time
        if first_row >= THIRD:
            weight = w2_ptr
            bias = b2_ptr
            biased = first_row * 0 + BIASED2 > 0
            start = first_row * 0 + THIRD
    return weight, bias, biased, start


@triton.jit
def _one_row_kernel(
    x_ptr, norm_ptr, w0_ptr, w1_ptr, w2_ptr, b0_ptr, b1_ptr, b2_ptr, residual_ptr, y_ptr, eps,
    M, N, x_stride, residual_stride,
    K: tl.constexpr, SECOND: tl.constexpr, THIRD: tl.constexpr,
    BIASED0: tl.constexpr, BIASED1: tl.constexpr, BIASED2: tl.constexpr,
    NORM: tl.constexpr, RESIDUAL: tl.constexpr, PAIRED: tl.constexpr,
    BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, AHEAD: tl.constexpr,
):  # fmt: skip
    """BLOCK_N outputs a program. PAIRED: w0 is the gate's weight, w1 the other's. The weights of the first AHEAD
    steps are read before the kernel before this one has finished."""
    let_next_begin()
    WHOLE: tl.constexpr = K % BLOCK_K == 0
    STEPS: tl.constexpr = (K + BLOCK_K - 1) // BLOCK_K
    first = tl.program_id(0) * BLOCK_N
    outputs = first + tl.arange(0, BLOCK_N)
    inside = outputs < N
    inner = tl.arange(0, BLOCK_K)
    weight_ptr, bias_ptr, biased, start = _part(
        first, w0_ptr, w1_ptr, w2_ptr, b0_ptr, b1_ptr, b2_ptr, SECOND, THIRD, BIASED0, BIASED1, BIASED2
    )
    places = (tl.where(inside, outputs, first) - start).to(tl.int64)[:, None] * K + inner[None, :]
    sums = tl.zeros((BLOCK_N, BLOCK_K), tl.float32)
    others = tl.zeros((BLOCK_N, BLOCK_K), tl.float32)
    squares = tl.zeros((BLOCK_K,), tl.float32)
    first_weights = ()
    first_others = ()
    for step in tl.static_range(AHEAD):
        tile = weight_tile(weight_ptr, places, step * BLOCK_K, inner, K, WHOLE)
        first_weights = first_weights + (tile,)  # type: ignore[assignment]  # noqa: RUF005
        if PAIRED:
            tile = weight_tile(w1_ptr, places, step * BLOCK_K, inner, K, WHOLE)
            first_others = first_others + (tile,)  # type: ignore[assignment]  # noqa: RUF005
    wait_for_previous(next_began=True)
    for step in tl.static_range(STEPS):
        at = step * BLOCK_K
        mask = None if WHOLE else at + inner < K
        zero = None if WHOLE else 0.0
        if step >= AHEAD:
            weight = weight_tile(weight_ptr, places, at, inner, K, WHOLE)
            if PAIRED:
                other = weight_tile(w1_ptr, places, at, inner, K, WHOLE)
        else:
            weight = first_weights[step]
            if PAIRED:
                other = first_others[step]
        x = tl.load(x_ptr + at + inner, mask=mask, other=zero).to(tl.float32)
        if NORM:
            squares += x * x
            x *= tl.load(norm_ptr + at + inner, mask=mask, other=zero).to(tl.float32)
        sums += weight.to(tl.float32) * x[None, :]
        if PAIRED:
            others += other.to(tl.float32) * x[None, :]
    y = tl.sum(sums, axis=1)
    if NORM:
        rstd = tl.rsqrt(tl.sum(squares, axis=0) / K + eps)
        y *= rstd
    if PAIRED:
        up = tl.sum(others, axis=1)
        if NORM:
            up *= rstd
        y = silu(y) * up
    if BIASED0 or BIASED1 or BIASED2:
        y += tl.load(bias_ptr + outputs - start, mask=inside & biased, other=0.0).to(tl.float32)
    if RESIDUAL:
        y += tl.load(residual_ptr + outputs, mask=inside, other=0.0).to(tl.float32)
    tl.store(y_ptr + outputs, y.to(y_ptr.dtype.element_ty), mask=inside)


@triton.jit
def _few_rows_kernel(
    x_ptr, norm_ptr, w0_ptr, w1_ptr, w2_ptr, b0_ptr, b1_ptr, b2_ptr, residual_ptr, y_ptr, eps,
    M, N, x_stride, residual_stride,
    K: tl.constexpr, SECOND: tl.constexpr, THIRD: tl.constexpr,
    BIASED0: tl.constexpr, BIASED1: tl.constexpr, BIASED2: tl.constexpr,
    NORM: tl.constexpr, RESIDUAL: tl.constexpr, PAIRED: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, TURNED: tl.constexpr,
):  # fmt: skip
    """All rows of x times BLOCK_N rows of a weight a program. x · norm is rounded for the matrix unit; the factor of a
    row is applied to the finished sums. PAIRED as in `_one_row_kernel`. TURNED: the product is transposed, so that the
    rows of the weight fill the matrix units.
    """
    wait_for_previous()
    WHOLE: tl.constexpr = K % BLOCK_K == 0
    first = tl.program_id(0) * BLOCK_N
    outputs = first + tl.arange(0, BLOCK_N)
    rows = tl.arange(0, BLOCK_M)
    inner = tl.arange(0, BLOCK_K)
    weight_ptr, bias_ptr, biased, start = _part(
        first, w0_ptr, w1_ptr, w2_ptr, b0_ptr, b1_ptr, b2_ptr, SECOND, THIRD, BIASED0, BIASED1, BIASED2
    )
    places = (tl.where(outputs < N, outputs, first) - start).to(tl.int64)[:, None] * K + inner[None, :]
    x_places = (rows % M).to(tl.int64)[:, None] * x_stride + inner[None, :]
    sums = tl.zeros((BLOCK_N, BLOCK_M) if TURNED else (BLOCK_M, BLOCK_N), tl.float32)
    others = tl.zeros((BLOCK_N, BLOCK_M) if TURNED else (BLOCK_M, BLOCK_N), tl.float32)
    squares = tl.zeros((BLOCK_M,), tl.float32)
    for at in range(0, K, BLOCK_K):
        mask = None if WHOLE else at + inner < K
        across = None if WHOLE else (at + inner < K)[None, :]
        zero = None if WHOLE else 0.0
        x = tl.load(x_ptr + at + x_places, mask=across, other=zero)
        weight = weight_tile(weight_ptr, places, at, inner, K, WHOLE)
        if NORM:
            exact = x.to(tl.float32)
            squares += tl.sum(exact * exact, axis=1)
            exact *= tl.load(norm_ptr + at + inner, mask=mask, other=zero).to(tl.float32)[None, :]
            x = exact.to(x.dtype)
        sums = multiplied(weight, x.T, sums) if TURNED else multiplied(x, weight.T, sums)
        if PAIRED:
            other = weight_tile(w1_ptr, places, at, inner, K, WHOLE)
            others = multiplied(other, x.T, others) if TURNED else multiplied(x, other.T, others)
    if TURNED:
        sums, others = sums.T, others.T
    if NORM:
        rstd = tl.rsqrt(squares / K + eps)[:, None]
        sums *= rstd
        if PAIRED:
            others *= rstd
    if PAIRED:
        sums = silu(sums) * others
    columns = outputs < N
    if BIASED0 or BIASED1 or BIASED2:
        sums += tl.load(bias_ptr + outputs - start, mask=columns & biased, other=0.0).to(tl.float32)[None, :]
    inside = (rows < M)[:, None] & columns[None, :]
    if RESIDUAL:
        residual = residual_ptr + rows.to(tl.int64)[:, None] * residual_stride + outputs[None, :]
        sums += tl.load(residual, mask=inside, other=0.0).to(tl.float32)
    place = rows.to(tl.int64)[:, None] * N + outputs[None, :]
    tl.store(y_ptr + place, sums.to(y_ptr.dtype.element_ty), mask=inside)


def joined_linear(
    x: Tensor, weights: Sequence[Tensor], biases: Sequence[Tensor | None] = (), *,
    norm_weight: Tensor | None = None, eps: float = 1e-6, residual: Tensor | None = None,
    constant_weights: bool = False, configuration: Configuration | None = None,
) -> Tensor:  # fmt: skip
    """Up to three linear layers on the same few rows, in one launch: their outputs side by side. The norm of more than
    32 rows takes a launch of its own.

    x: (M, K), M from 1 to 64, adjacent columns. weights: (N, K) each, contiguous; of several, each N but the last a
    multiple of 64. biases: for each weight (N,) or None; by default none. norm_weight: (K,); x is then first normalised
    as by `rmsnorm`. residual: (M, sum of all N), added to the result. All float16 or all bfloat16. constant_weights:
    neither a kernel that may still be running nor the one just before writes the weights, as none writes those of a
    model; on Hopper those for one row may then be read before the kernel before has finished, and with more rows it
    changes nothing. configuration: how to launch; if None, by rule. Returns a new tensor (M, sum of all N). Raises
    TypeError or ValueError naming the argument, what it was and what is accepted, and NotImplementedError where a
    gradient would be needed.
    """
    given = (*biases, *(None,) * (len(weights) - len(biases)))
    return _run(
        "joined_linear", x, tuple(weights), given, norm_weight, eps, residual, False, constant_weights, configuration
    )  # fmt: skip


def normed_gated_mlp(
    x: Tensor, norm_weight: Tensor | None, gate: Tensor, up: Tensor, eps: float = 1e-6, *,
    constant_weights: bool = False, configuration: Configuration | None = None,
) -> Tensor:  # fmt: skip
    """silu(n @ gate.T) * (n @ up.T) in one launch, where n is the RMSNorm of few rows x, or x if `norm_weight` is None.

    gate, up: (F, K), contiguous. Returns a new tensor (M, F). Else as `joined_linear`.
    """
    return _run(
        "normed_gated_mlp", x, (gate, up), (None, None), norm_weight, eps, None, True, constant_weights, configuration
    )


def _run(
    op: str, x: Tensor, weights: tuple[Tensor, ...], biases: tuple[Tensor | None, ...], norm_weight: Tensor | None,
    eps: float, residual: Tensor | None, paired: bool, constant: bool,
    configuration: Configuration | None,
) -> Tensor:  # fmt: skip
    present = tuple(bias is not None for bias in biases)
    given = (norm_weight is not None, residual is not None, paired, constant)
    options = (op, len(weights), present, *given, configuration)
    optional = [tensor for tensor in (*biases, norm_weight, residual) if tensor is not None]
    launch = _LAUNCHES(x, *weights, *optional, options=options)
    outputs = len(weights[0]) if paired else sum(map(len, weights))
    y = torch.empty((x.shape[0], outputs), dtype=x.dtype, device=x.device)
    w = (*weights, *(weights[0],) * (MOST_PARTS - len(weights)))
    b = [x if bias is None else bias for bias in (*biases, *(None,) * (MOST_PARTS - len(biases)))]
    launch(
        x, x if norm_weight is None else norm_weight, *w, *b, x if residual is None else residual, y,
        checked_eps(op, eps),
    )  # fmt: skip
    return y


def _settle(x: Tensor, *tensors_and_options: Any) -> Callable[..., Any]:
    *tensors, op, parts, biased, normed, added, paired, constant, configuration = tensors_and_options
    weights = tensors[:parts]
    optional = iter(tensors[parts:])
    biases = [next(optional) if each else None for each in biased]
    norm_weight, residual = (next(optional) if each else None for each in (normed, added))
    _check(op, x, weights, biases, norm_weight, residual, paired)
    M, K = x.shape
    sizes = [len(weight) for weight in weights]
    N = sizes[0] if paired else sum(sizes)
    apart = normed and not paired and M > MOST_NORMED and configuration is None
    inside = normed and not apart
    chosen = configuration or few_rows_rule((M, N, K), paired=paired, normed=inside)
    ends = [0, 0]
    if not paired:
        ends = [sum(sizes[: number + 1]) if number + 1 < parts else 0 for number in range(MOST_PARTS - 1)]
    if any(end % chosen["BLOCK_N"] for end in ends):
        raise ValueError(f"{op}: weights have {sizes} outputs; accepted are multiples of 64 for all but the last")
    rows = chosen["BLOCK_M"]
    if rows < M:
        raise ValueError(f"{op}: configuration is {chosen}, for {rows} rows; x has {M}")
    ahead = min(chosen["AHEAD"], triton.cdiv(K, chosen["BLOCK_K"])) if constant else 0
    constants = {
        "K": K, "SECOND": ends[0], "THIRD": ends[1],
        **{f"BIASED{number}": bias is not None for number, bias in enumerate([*biases, None, None][:MOST_PARTS])},
        "NORM": inside, "RESIDUAL": added, "PAIRED": paired,
        **({} if rows == 1 else {"BLOCK_M": rows}), "BLOCK_N": chosen["BLOCK_N"], "BLOCK_K": chosen["BLOCK_K"],
        **({"AHEAD": ahead} if rows == 1 else {"TURNED": bool(chosen["TURNED"])}),
    }  # fmt: skip
    step_bytes = (rows + chosen["BLOCK_N"] * (1 + paired) + 1) * chosen["BLOCK_K"] * x.itemsize
    launch = Launch(
        _one_row_kernel if rows == 1 else _few_rows_kernel, triton.cdiv(N, chosen["BLOCK_N"]), x.get_device(),
        M, N, K if apart else x.stride(0), K if residual is None else residual.stride(0),
        num_warps=chosen.num_warps, early=True,
        num_stages=stages_that_fit(chosen.num_stages, step_bytes, x.get_device()), **constants,
    )  # fmt: skip

    def after_norm(x: Tensor, norm_weight: Tensor, *rest: Any) -> None:
        normed = rmsnorm(x, norm_weight, rest[-1])
        launch(normed, normed, *rest)

    return after_norm if apart else launch


_LAUNCHES = Launches(_settle)


def _check(
    op: str, x: Tensor, weights: Sequence[Tensor], biases: Sequence[Tensor | None], norm_weight: Tensor | None,
    residual: Tensor | None, paired: bool,
) -> None:  # fmt: skip
    if not 1 <= len(weights) <= MOST_PARTS:
        raise ValueError(f"{op}: weights are {len(weights)}; accepted are 1 to {MOST_PARTS}")
    if len(biases) != len(weights):
        raise ValueError(
            f"{op}: biases are {len(biases)}; accepted is one, or None, for each of {len(weights)} weights"
        )
    check_tensor(op, "x", x)
    if x.dtype == torch.float32:
        raise TypeError(f"{op}: x has dtype torch.float32; accepted are torch.float16, torch.bfloat16")
    if x.dim() != 2 or not 1 <= x.shape[0] <= MOST_ROWS or not x.shape[1] or (x.shape[1] > 1 and x.stride(1) != 1):
        raise ValueError(
            f"{op}: x has shape {tuple(x.shape)} and strides {x.stride()}; accepted is (M, K) of adjacent columns, "
            f"M from 1 to {MOST_ROWS}"
        )
    names = ("gate", "up") if paired else tuple(f"weights[{number}]" for number in range(len(weights)))
    for name, weight in zip(names, weights, strict=True):
        if isinstance(weight, Tensor) and weight.dim() != 2:
            raise ValueError(f"{op}: {name} has shape {tuple(weight.shape)}; accepted is (N, {x.shape[1]})")
        check_factors(op, x, weight.t() if isinstance(weight, Tensor) else weight, names=("x", f"{name}.t()"))
        if not weight.is_contiguous() or not len(weight):
            raise ValueError(f"{op}: {name} has shape {tuple(weight.shape)} and strides {weight.stride()}; accepted is "
                             "a contiguous tensor of at least one row")  # fmt: skip
    if paired:
        check_alike(op, "up", weights[1], "gate", weights[0])
    for name, weight, bias in zip(names, weights, biases, strict=True):
        if bias is not None:
            check_vector(op, f"the bias of {name}", bias, weight.t())
    if norm_weight is not None:
        check_vector(op, "norm_weight", norm_weight, x)
    if residual is not None:
        check_tensor(op, "residual", residual)
        wanted = (x.shape[0], sum(map(len, weights)))
        if residual.device != x.device:
            raise ValueError(f"{op}: residual is on {residual.device}; accepted is {x.device}, where x is")
        if residual.shape != wanted or residual.dtype != x.dtype or residual.stride(1) != 1:
            raise ValueError(
                f"{op}: residual is {residual.dtype} of shape {tuple(residual.shape)}; accepted is {x.dtype} of "
                f"shape {wanted} with adjacent columns"
            )


def few_rows_configuration(
    rows: int, outputs: int, depth: int, *, warps: int, stages: int = 1, ahead: int = 2, turned: bool = False
) -> Configuration:
    """A configuration: the rows that x is padded to, outputs of a program, elements of each that it loads at a time,
    and how many such steps of constant weights it loads, for one row, before the kernel before it has finished."""
    return Configuration.of(
        BLOCK_M=rows,
        BLOCK_N=outputs,
        BLOCK_K=depth,
        AHEAD=ahead,
        TURNED=int(turned),
        num_warps=warps,
        num_stages=stages,
    )


def few_rows_rule(shape: tuple[int, ...], *, paired: bool = False, normed: bool = False) -> Configuration:
    """For (M, N, K); N is the number of outputs of all layers together, `normed` whether x is normalised.

    One row: a step is loaded ahead; of few outputs there are few programs, so that each takes longer steps by more
    warps. More rows: every program reads all of x, and normalises it, so that with a norm each takes more outputs. More
    than 16 rows, and two weights of many outputs, are multiplied transposed, which fills the matrix units: on an H100,
    64 rows and two weights took 107 µs instead of 160, 16 rows with a norm and 4608 outputs 16 instead of 21.
    """
    M, N, K = shape
    narrow = N < WIDE
    whole = max(16, triton.next_power_of_2(K))
    if M == 1:
        outputs, step = (2, 2048) if narrow and not paired else (2 if paired else 4, 1024)
        step = min(step, whole)
        return few_rows_configuration(1, outputs, step, warps=max(1, step // 256), ahead=1)
    rows = max(16, triton.next_power_of_2(M))
    if paired and rows > 16:
        return few_rows_configuration(rows, 64, min(64, whole), warps=4, stages=2 if rows == 32 else 3, turned=True)
    if rows > 16 or (normed and narrow and not paired):
        depth, stages = (256, 3) if normed else (128, 6)
        return few_rows_configuration(rows, 64, min(depth, whole), warps=4, stages=stages, turned=True)
    if paired and not narrow:
        return few_rows_configuration(rows, 64, min(128, whole), warps=4, stages=2, turned=True)
    if paired:
        return few_rows_configuration(rows, 32, min(256, whole), warps=2, stages=4)
    if not narrow:
        return few_rows_configuration(rows, 64 if normed else 32, min(128, whole), warps=2, stages=4 if normed else 3)
    return few_rows_configuration(rows, 16, min(256, whole), warps=2, stages=4)


def joined_linear_reference(
    x: Tensor, weights: Sequence[Tensor], biases: Sequence[Tensor | None] = (), *,
    norm_weight: Tensor | None = None, eps: float = 1e-6, residual: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The float64 result of `joined_linear`, on the device of `x`."""
    given = (*biases, *(None,) * (len(weights) - len(biases)))
    normed = _normed_reference(x, norm_weight, eps)
    parts = [
        normed @ weight.double().t() + (0.0 if bias is None else bias.double())
        for weight, bias in zip(weights, given, strict=True)
    ]
    joined = torch.cat(parts, -1)
    return joined if residual is None else joined + residual.double()


def normed_gated_mlp_reference(
    x: Tensor, norm_weight: Tensor | None, gate: Tensor, up: Tensor, eps: float = 1e-6
) -> Tensor:
    """The float64 result of `normed_gated_mlp`, on the device of `x`."""
    normed = _normed_reference(x, norm_weight, eps)
    return torch.nn.functional.silu(normed @ gate.double().t()) * (normed @ up.double().t())


def _normed_reference(x: Tensor, norm_weight: Tensor | None, eps: float) -> Tensor:
    exact = x.double()
    if norm_weight is None:
        return exact
    return exact * torch.rsqrt(exact.square().mean(-1, keepdim=True) + eps) * norm_weight.double()
