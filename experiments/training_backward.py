"""How fast are the backward passes of norms, softmax, SwiGLU and RoPE in Triton, beside those that users train with?"""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from lab import EDGES, Case, Claim, Experiment, Operator, Output, Profile, in_graph
from lab.kernels.glu_backward import (
    glu_backward_inputs,
    glu_backward_traffic,
    swiglu_backward,
    swiglu_backward_reference,
)
from lab.kernels.norm_backward import (
    add_rmsnorm_backward,
    add_rmsnorm_backward_inputs,
    add_rmsnorm_backward_reference,
    layernorm_backward,
    layernorm_backward_inputs,
    layernorm_backward_reference,
    norm_backward_traffic,
    rmsnorm_backward,
    rmsnorm_backward_inputs,
    rmsnorm_backward_reference,
)
from lab.kernels.rope import rope, rope_backward_reference, rope_inputs, rope_traffic
from lab.kernels.softmax_backward import (
    softmax_backward,
    softmax_backward_inputs,
    softmax_backward_reference,
    softmax_backward_traffic,
)


def rmsnorm_eager(dy: Tensor, x: Tensor, weight: Tensor, rstd: Tensor) -> tuple[Tensor, Tensor]:
    dx, dw = torch.ops.aten._fused_rms_norm_backward(dy, x, [x.shape[-1]], rstd, weight, [True, True])
    return dx, dw


def add_rmsnorm_eager(dy: Tensor, ds: Tensor, x: Tensor, weight: Tensor, rstd: Tensor) -> tuple[Tensor, Tensor]:
    dx, dw = rmsnorm_eager(dy, x, weight, rstd)
    return dx + ds, dw


def layernorm_eager(
    dy: Tensor, x: Tensor, weight: Tensor, bias: Tensor, mean: Tensor, rstd: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    wanted = [True, True, True]
    dx, dw, db = torch.ops.aten.native_layer_norm_backward(dy, x, [x.shape[-1]], mean, rstd, weight, bias, wanted)
    return dx, dw, db


def softmax_eager(dy: Tensor, y: Tensor) -> Tensor:
    dx: Tensor = torch.ops.aten._softmax_backward_data(dy, y, -1, y.dtype)
    return dx


def swiglu_eager(dy: Tensor, gate: Tensor, up: Tensor) -> tuple[Tensor, Tensor]:
    return torch.ops.aten.silu_backward(dy * up, gate), dy * F.silu(gate)


def rope_eager(dy: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    half = cos.shape[-1]
    a, b, passed = dy[..., :half], dy[..., half : 2 * half], dy[..., 2 * half :]
    return torch.cat((a * cos + b * sin, b * cos - a * sin, passed), dim=-1)


# Each operator allows twice the error of PyTorch's own backward pass on the same inputs. Its own tolerance besides:
# dx and ds have one rounding of what is worth an epsilon for each of up to three products before it. dw and db add up
# thousands of rows, so a column's sum may be near 0 and its terms not: libraries round each x̂, or each program's
# share, to the storage dtype first.
GRADIENT = Output(tolerance=3)
COLUMN_SUMS = Output(tolerance=3, scale=32.0)
# dy is made unusual. A large dy would also enlarge what libraries round before they add or subtract.
ROW_EDGES = ("zeros", "tiny-scale", "nan", "odd-sizes", "strided")

RMSNORM = Operator(
    name="rmsnorm-backward",
    inputs=rmsnorm_backward_inputs,
    reference=lambda dy, x, weight, rstd: rmsnorm_backward_reference(dy, x, weight),
    traffic=norm_backward_traffic,
    outputs=(GRADIENT, COLUMN_SUMS),
    standard=rmsnorm_eager,
    edges=ROW_EDGES,
)
ADD_RMSNORM = Operator(
    name="add-rmsnorm-backward",
    inputs=add_rmsnorm_backward_inputs,
    reference=lambda dy, ds, x, weight, rstd: add_rmsnorm_backward_reference(dy, ds, x, weight),
    traffic=lambda shape, itemsize: norm_backward_traffic(shape, itemsize, added=True),
    outputs=(GRADIENT, COLUMN_SUMS),
    standard=add_rmsnorm_eager,
    edges=ROW_EDGES,
)
LAYERNORM = Operator(
    name="layernorm-backward",
    inputs=layernorm_backward_inputs,
    reference=lambda dy, x, weight, bias, mean, rstd: layernorm_backward_reference(dy, x, weight),
    traffic=lambda shape, itemsize: norm_backward_traffic(shape, itemsize, biased=True),
    outputs=(GRADIENT, COLUMN_SUMS, COLUMN_SUMS),
    standard=layernorm_eager,
    edges=ROW_EDGES,
)
SOFTMAX = Operator(
    name="softmax-backward",
    inputs=softmax_backward_inputs,
    reference=softmax_backward_reference,
    traffic=softmax_backward_traffic,
    # The scale is that of a probability in a row of thousands.
    tolerance=2,
    scale=2**-12,
    standard=softmax_eager,
    edges=(*ROW_EDGES, "inf"),
)
SWIGLU = Operator(
    name="swiglu-backward",
    inputs=glu_backward_inputs,
    reference=swiglu_backward_reference,
    traffic=glu_backward_traffic,
    # PyTorch rounds twice. The scale is for the place where the derivative of silu passes 0.
    tolerance=1.5,
    scale=2**-7,
    standard=swiglu_eager,
    edges=EDGES,
)
ROPE = Operator(
    name="rope-backward",
    inputs=rope_inputs,
    reference=rope_backward_reference,
    traffic=rope_traffic,
    tolerance=3,  # PyTorch's operators round both products and their sum
    standard=rope_eager,
    edges=EDGES,
)

ALL_SHAPES = "all-shapes"
RMSNORM_CASE = Case(
    operator=RMSNORM, shape=(8192, 4096), dtype="bfloat16",
    description="RMSNorm of Llama 3 8B over 8192 tokens, backward",
)  # fmt: skip
ADD_RMSNORM_CASE = Case(
    operator=ADD_RMSNORM, shape=(8192, 4096), dtype="bfloat16",
    description="residual add and RMSNorm of Llama 3 8B over 8192 tokens, backward",
)  # fmt: skip
LAYERNORM_CASE = Case(
    operator=LAYERNORM, shape=(8192, 4096), dtype="bfloat16",
    description="LayerNorm over 8192 tokens, backward",
)  # fmt: skip
SOFTMAX_CASE = Case(
    operator=SOFTMAX, shape=(8192, 4096), dtype="bfloat16",
    description="softmax of 8192 rows, backward",
)  # fmt: skip
SWIGLU_CASE = Case(
    operator=SWIGLU, shape=(8192, 14_336), dtype="bfloat16",
    description="8192 tokens through the gated unit of Llama 3 8B, backward",
)  # fmt: skip
ROPE_CASE = Case(
    operator=ROPE, shape=(2, 32, 4096, 128), dtype="bfloat16",
    description="queries of a Llama 3 8B layer, two sequences of 4096 tokens, backward",
)  # fmt: skip
OTHER_RMSNORM_CASES = tuple(
    Case(operator=RMSNORM, shape=shape, dtype="bfloat16", only_with=ALL_SHAPES, description=f"{words}, backward")
    for shape, words in (
        ((16_384, 2048), "RMSNorm of many narrow rows"),
        ((8192, 5120), "RMSNorm of Llama 2 13B over 8192 tokens"),
        ((4096, 8192), "RMSNorm of Llama 3 70B over 4096 tokens"),
    )
)
WIDE_CASE = Case(
    operator=RMSNORM, shape=(2048, 16_384), dtype="bfloat16", only_with=ALL_SHAPES,
    description="RMSNorm of Llama 3 405B over 2048 tokens, backward: rows whose sums do not fit into registers",
)  # fmt: skip
GPT2_CASE = Case(
    operator=LAYERNORM, shape=(32_768, 768), dtype="bfloat16", only_with=ALL_SHAPES,
    description="LayerNorm of GPT-2 over 32768 tokens, backward",
)  # fmt: skip
WIDE_SOFTMAX_CASE = Case(
    operator=SOFTMAX, shape=(4096, 16_384), dtype="bfloat16", only_with=ALL_SHAPES,
    description="softmax of 4096 wide rows, backward",
)  # fmt: skip
NORM_CASES = (RMSNORM_CASE, ADD_RMSNORM_CASE, LAYERNORM_CASE)
CASES = (*NORM_CASES, SOFTMAX_CASE, SWIGLU_CASE, ROPE_CASE)


def load_compiled(function: Callable[..., Any]) -> Callable[[], Callable[..., Any]]:
    return lambda: torch.compile(function, dynamic=False, mode="max-autotune-no-cudagraphs")


def _liger_rmsnorm(*, in_place: bool) -> Callable[..., Any]:
    import torch.distributed.tensor  # noqa: F401  # Liger uses it without importing it
    from liger_kernel.ops.rms_norm import _CASTING_MODE_LLAMA, rms_norm_backward
    from liger_kernel.ops.utils import calculate_settings

    def backward(dy: Tensor, x: Tensor, weight: Tensor, rstd: Tensor) -> tuple[Tensor, Tensor]:
        block, num_warps = calculate_settings(x.shape[1])
        mode = _CASTING_MODE_LLAMA.value
        if not in_place:
            dy = dy.contiguous()  # as its autograd function does
        dx, dw = rms_norm_backward(dy, x, weight, rstd.view(-1), 0.0, mode, block, num_warps, in_place, None)[:2]
        return dx, dw

    return backward


def load_liger_rmsnorm() -> Callable[..., Any]:
    return _liger_rmsnorm(in_place=False)


def load_liger_rmsnorm_in_place() -> Callable[..., Any]:
    return _liger_rmsnorm(in_place=True)


def load_liger_add_rmsnorm() -> Callable[..., Any]:
    import torch.distributed.tensor  # noqa: F401  # as above
    from liger_kernel.ops.fused_add_rms_norm import _CASTING_MODE_LLAMA, fused_add_rms_norm_backward
    from liger_kernel.ops.utils import calculate_settings

    def backward(dy: Tensor, ds: Tensor, x: Tensor, weight: Tensor, rstd: Tensor) -> tuple[Tensor, Tensor]:
        block, num_warps = calculate_settings(x.shape[1])
        dx, _, dw = fused_add_rms_norm_backward(
            dy.contiguous(), ds, x, weight, rstd.view(-1), 0.0, _CASTING_MODE_LLAMA.value, block, num_warps, False, None
        )
        return dx, dw

    return backward


def load_liger_layernorm() -> Callable[..., Any]:
    from liger_kernel.ops.layer_norm import layer_norm_backward

    def backward(
        dy: Tensor, x: Tensor, weight: Tensor, bias: Tensor, mean: Tensor, rstd: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        dx, dw, db = layer_norm_backward(dy.contiguous(), x, weight, bias, mean.view(-1), rstd.view(-1))
        return dx, dw, db

    return backward


def load_liger_softmax() -> Callable[..., Any]:
    from liger_kernel.ops.softmax import _softmax_backward
    from liger_kernel.ops.utils import calculate_settings

    return lambda dy, y: _softmax_backward(dy, y, *calculate_settings(y.shape[-1]), False)


def load_liger_swiglu() -> Callable[..., Any]:
    from liger_kernel.ops.swiglu import swiglu_backward as liger_backward

    def backward(dy: Tensor, gate: Tensor, up: Tensor) -> tuple[Tensor, Tensor]:
        dgate, dup = liger_backward(gate, up, dy.contiguous())
        return dgate, dup

    return backward


def load_quack_rmsnorm() -> Callable[..., Any]:
    from quack.rmsnorm import rmsnorm_bwd

    return lambda dy, x, weight, rstd: rmsnorm_bwd(x, weight, dy, rstd.view(-1))[:2]


def load_quack_add_rmsnorm() -> Callable[..., Any]:
    from quack.rmsnorm import rmsnorm_bwd

    return lambda dy, ds, x, weight, rstd: rmsnorm_bwd(
        x, weight, dy, rstd.view(-1), dresidual_out=ds, has_residual=True
    )[:2]


def load_quack_softmax() -> Callable[..., Any]:
    from quack.softmax import softmax_bwd

    return lambda dy, y: softmax_bwd(dy, y)


TORCH_EAGER = Profile(
    name="torch-eager",
    title="PyTorch's own backward",
    technique=(
        "The operators that PyTorch's autograd calls for the backward pass of F.rms_norm, F.layer_norm, softmax and "
        "F.silu; the rest is written out."
    ),
    hypothesis="What training without further packages does: several kernels, so the tensors are read again.",
    signal="Two kernels or more, and more DRAM bytes than the least traffic.",
    implementations={
        "rmsnorm-backward": lambda: rmsnorm_eager,
        "add-rmsnorm-backward": lambda: add_rmsnorm_eager,
        "layernorm-backward": lambda: layernorm_eager,
        "softmax-backward": lambda: softmax_eager,
        "swiglu-backward": lambda: swiglu_eager,
        "rope-backward": lambda: rope_eager,
    },
    devices=("cuda",),
)
TORCH_COMPILE = Profile(
    name="torch-compile",
    title="torch.compile",
    technique="torch.compile of the same operators, dynamic=False and max-autotune: kernels made for this shape.",
    hypothesis="Near the memory's limit where each row is for itself; behind where dw needs sums down the columns.",
    signal="One generated kernel for dx, and others for sums of columns.",
    implementations={
        "rmsnorm-backward": load_compiled(rmsnorm_eager),
        "add-rmsnorm-backward": load_compiled(add_rmsnorm_eager),
        "layernorm-backward": load_compiled(layernorm_eager),
        "softmax-backward": load_compiled(softmax_eager),
        "swiglu-backward": load_compiled(swiglu_eager),
        "rope-backward": load_compiled(rope_eager),
    },
    devices=("cuda",),
    recompiles=True,
)
LIGER = Profile(
    name="liger",
    title="Liger",
    technique="The Triton backward passes of the Liger library, as published, with new memory for their results.",
    hypothesis="Behind in norms: one program a multiprocessor, which waits for each row before it loads the next.",
    signal="One kernel of Liger's, and PyTorch's sum of the programs' shares of dw.",
    implementations={
        "rmsnorm-backward": load_liger_rmsnorm,
        "add-rmsnorm-backward": load_liger_add_rmsnorm,
        "layernorm-backward": load_liger_layernorm,
        "softmax-backward": load_liger_softmax,
    },
    devices=("cuda",),
    package="liger_kernel",
)
LIGER_IN_PLACE = Profile(
    name="liger-in-place",
    title="Liger, in place",
    technique=(
        "The same library's backward passes that write dx over dy, or both gradients over gate and up, as its modules "
        "do by default."
    ),
    hypothesis="Saves memory, and the traffic stays the same.",
    signal="One kernel of Liger's, whose results are its inputs.",
    implementations={"rmsnorm-backward": load_liger_rmsnorm_in_place, "swiglu-backward": load_liger_swiglu},
    devices=("cuda",),
    package="liger_kernel",
    in_place=True,
)
QUACK = Profile(
    name="quack",
    title="QuACK",
    technique="The CuTe backward passes of the QuACK library, as published: loads of the next rows run ahead.",
    hypothesis="The strongest rival for norms: the same plan as ours, but PyTorch adds up the shares of dw.",
    signal="One kernel of QuACK's, and PyTorch's sum and conversion of dw.",
    implementations={
        "rmsnorm-backward": load_quack_rmsnorm,
        "add-rmsnorm-backward": load_quack_add_rmsnorm,
        "softmax-backward": load_quack_softmax,
    },
    devices=("cuda",),
    package="quack",
)
TRITON = Profile(
    name="triton",
    title="Triton",
    technique=(
        "For norms one kernel that keeps its sums for dw in registers while it goes through rows, with the loads of "
        "the next ones in flight, and a small kernel that adds up the programs' shares; one kernel for everything else."
    ),
    hypothesis="Bound by the least traffic: every tensor read or written once.",
    signal="The lab's own kernels; DRAM bytes near the least traffic.",
    implementations={
        "rmsnorm-backward": lambda: lambda dy, x, weight, rstd: rmsnorm_backward(dy, x, weight),
        "add-rmsnorm-backward": lambda: lambda dy, ds, x, weight, rstd: add_rmsnorm_backward(dy, ds, x, weight),
        "layernorm-backward": lambda: lambda dy, x, weight, bias, mean, rstd: layernorm_backward(dy, x, weight),
        "softmax-backward": lambda: softmax_backward,
        "swiglu-backward": lambda: swiglu_backward,
        "rope-backward": lambda: lambda dy, cos, sin: rope(dy, cos, sin, inverse=True),
    },
    kernels={
        "rmsnorm-backward": "_norm_backward_kernel or _norm_columns_kernel",
        "add-rmsnorm-backward": "_norm_backward_kernel or _norm_columns_kernel",
        "layernorm-backward": "_norm_backward_kernel or _norm_columns_kernel",
        "softmax-backward": "_softmax_backward_kernel or _softmax_backward_wide_kernel",
        "swiglu-backward": "_glu_backward_kernel",
        "rope-backward": "_rope_kernel",
    },
    devices=("cuda",),
)

KEEPS_UP = 0.98  # at most 2 % slower, which is rarely worth maintaining another kernel

BEATS_EAGER = Claim(
    name="triton-backward-beats-torch",
    text="Triton's backward passes are at least 2 % faster than PyTorch's own.",
    subject=TRITON, baseline=TORCH_EAGER, cases=CASES,
)  # fmt: skip
KEEPS_UP_WITH_COMPILE = Claim(
    name="triton-backward-keeps-up-with-compile",
    text="Triton's backward passes are at most 2 % slower than torch.compile.",
    subject=TRITON, baseline=TORCH_COMPILE, cases=CASES, threshold=KEEPS_UP,
)  # fmt: skip
KEEPS_UP_WITH_LIGER = Claim(
    name="triton-backward-keeps-up-with-liger",
    text="Triton's backward passes are at most 2 % slower than Liger.",
    subject=TRITON, baseline=LIGER, cases=(*NORM_CASES, SOFTMAX_CASE), threshold=KEEPS_UP,
)  # fmt: skip
KEEPS_UP_WITH_LIGER_IN_PLACE = Claim(
    name="triton-backward-keeps-up-with-liger-in-place",
    text="Triton's backward passes of RMSNorm and SwiGLU are at most 2 % slower than Liger in place.",
    subject=TRITON, baseline=LIGER_IN_PLACE, cases=(RMSNORM_CASE, SWIGLU_CASE), threshold=KEEPS_UP,
)  # fmt: skip
KEEPS_UP_WITH_QUACK = Claim(
    name="triton-backward-keeps-up-with-quack",
    text="Triton's backward passes of RMSNorm, add-RMSNorm and softmax are at most 2 % slower than QuACK.",
    subject=TRITON, baseline=QUACK, cases=(RMSNORM_CASE, ADD_RMSNORM_CASE, SOFTMAX_CASE), threshold=KEEPS_UP,
)  # fmt: skip
NORMS_BEAT_COMPILE = Claim(
    name="triton-norm-backward-beats-compile",
    text="Triton's backward passes of norms are at least 2 % faster than torch.compile.",
    subject=TRITON, baseline=TORCH_COMPILE, cases=NORM_CASES,
)  # fmt: skip
NORMS_BEAT_QUACK = Claim(
    name="triton-norm-backward-beats-quack",
    text="Triton's backward passes of RMSNorm, with and without an add, are at least 2 % faster than QuACK.",
    subject=TRITON, baseline=QUACK, cases=(RMSNORM_CASE, ADD_RMSNORM_CASE),
)  # fmt: skip
USUAL = (
    BEATS_EAGER,
    KEEPS_UP_WITH_COMPILE,
    KEEPS_UP_WITH_LIGER,
    KEEPS_UP_WITH_LIGER_IN_PLACE,
    KEEPS_UP_WITH_QUACK,
    NORMS_BEAT_COMPILE,
    NORMS_BEAT_QUACK,
)
CLAIMS = (
    *USUAL,
    *map(in_graph, USUAL),
    *(
        Claim(
            name=f"triton-other-norm-backward-keeps-up-with-{rival.name}",
            text=f"Triton's backward passes of RMSNorm at other widths are at most 2 % slower than {rival.title}.",
            subject=TRITON, baseline=rival, cases=OTHER_RMSNORM_CASES, threshold=KEEPS_UP,
        )
        for rival in (TORCH_COMPILE, QUACK)
    ),
    Claim(
        name="triton-wide-norm-backward-keeps-up-with-quack",
        text="Triton's backward pass of RMSNorm of rows of 16,384 is at most 2 % slower than QuACK.",
        subject=TRITON, baseline=QUACK, cases=(WIDE_CASE,), threshold=KEEPS_UP,
    ),
    Claim(
        name="triton-narrow-layernorm-backward-beats-compile",
        text="Triton's backward pass of LayerNorm of rows of 768 is at least 2 % faster than torch.compile.",
        subject=TRITON, baseline=TORCH_COMPILE, cases=(GPT2_CASE,),
    ),
    Claim(
        name="triton-wide-softmax-backward-keeps-up-with-liger",
        text="Triton's backward pass of softmax of rows of 16,384 is at most 2 % slower than Liger.",
        subject=TRITON, baseline=LIGER, cases=(WIDE_SOFTMAX_CASE,), threshold=KEEPS_UP,
    ),
)  # fmt: skip

TRAINING_BACKWARD = Experiment(
    name="training-backward",
    title="Backward Passes",
    question="How fast are backward passes of norms, softmax, SwiGLU and RoPE in Triton, and faster than whose?",
    importance=(
        "Training calls every one of these operators backward as often as forward, and the backward pass moves more "
        "memory: it reads the gradient and what was saved, and writes a gradient for each input. A norm also adds up "
        "its weight's gradient over all rows, across the direction in which rows are worked on, which costs a "
        "straightforward implementation another pass over its inputs. Libraries and compilers solve that with "
        "different success."
    ),
    focus="Training",
    cases=(*CASES, *OTHER_RMSNORM_CASES, WIDE_CASE, GPT2_CASE, WIDE_SOFTMAX_CASE),
    profiles=(TORCH_EAGER, TORCH_COMPILE, LIGER, LIGER_IN_PLACE, QUACK, TRITON),
    claims=CLAIMS,
    headlines=(BEATS_EAGER, KEEPS_UP_WITH_COMPILE, KEEPS_UP_WITH_LIGER, KEEPS_UP_WITH_QUACK),
    does_not_show=(
        "The forward pass, or a whole training step: matrix products and attention take most of it.",
        "What autograd itself costs on the host: every claim is about GPU time.",
        "Saving statistics: the lab's norms compute mean and variance again from x, and every rival is given what its "
        "own forward pass would have saved.",
        "A weight of another dtype than the rows, as in training with float32 weights.",
    ),
    metrics={
        "Latency": ("p50 latency", "p95 latency", "speed-up vs each baseline, with interval"),
        "Throughput": ("effective GB/s over the least traffic", "DRAM throughput and bytes (profiler)"),
        "Validation": ("error against float64", "noise ratio (p95 / p50)", "achieved occupancy (profiler)"),
    },
    scopes=("device_cold", "graph"),
)
