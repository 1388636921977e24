"""How much faster on a CPU is one fused call of PyTorch than the same formula written out?

A first look without a GPU, and a short example of an experiment: two profiles, four operators, one claim for each.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from lab import Case, Claim, Experiment, Operator, Profile
from lab.kernels.layernorm import layernorm_inputs, layernorm_reference, layernorm_traffic
from lab.kernels.rmsnorm import rmsnorm_inputs, rmsnorm_reference, rmsnorm_traffic
from lab.kernels.softmax import softmax_inputs, softmax_reference, softmax_traffic
from lab.kernels.traffic import Traffic


def layernorm_written_out(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    centred = x - x.mean(-1, keepdim=True)
    return centred * torch.rsqrt(centred.pow(2).mean(-1, keepdim=True) + 1e-5) * weight + bias


def layernorm_fused(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return F.layer_norm(x, (x.shape[-1],), weight, bias, 1e-5)


def rmsnorm_written_out(x: Tensor, weight: Tensor) -> Tensor:
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * weight


def rmsnorm_fused(x: Tensor, weight: Tensor) -> Tensor:
    return F.rms_norm(x, (x.shape[-1],), weight, 1e-6)


def softmax_written_out(x: Tensor) -> Tensor:
    powers = torch.exp(x - x.amax(-1, keepdim=True))
    return powers / powers.sum(-1, keepdim=True)


def softmax_fused(x: Tensor) -> Tensor:
    return F.softmax(x, dim=-1)


def gelu_written_out(x: Tensor) -> Tensor:
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x.pow(3))))


def gelu_fused(x: Tensor) -> Tensor:
    return F.gelu(x, approximate="tanh")


def gelu_reference(x: Tensor) -> Tensor:
    """The float64 result, on the device of `x`."""
    return gelu_written_out(x.double())


def gelu_traffic(shape: tuple[int, ...], itemsize: int) -> Traffic:
    """Least work: read x once, write y once; about ten operations an element."""
    size_bytes = math.prod(shape) * itemsize
    return Traffic(read_bytes=size_bytes, written_bytes=size_bytes, flops=10 * math.prod(shape))


# Names different from those of the GPU experiments, which also have edge inputs. A result may differ by some roundings.
LAYERNORM = Operator(
    name="cpu-layernorm", inputs=layernorm_inputs, reference=layernorm_reference, traffic=layernorm_traffic,
    tolerance=16, scale=4.0,
)  # fmt: skip
RMSNORM = Operator(
    name="cpu-rmsnorm", inputs=rmsnorm_inputs, reference=rmsnorm_reference, traffic=rmsnorm_traffic, tolerance=16
)  # fmt: skip
SOFTMAX = Operator(
    name="cpu-softmax", inputs=softmax_inputs, reference=softmax_reference, traffic=softmax_traffic, tolerance=16
)  # fmt: skip
GELU = Operator(
    name="cpu-gelu", inputs=softmax_inputs, reference=gelu_reference, traffic=gelu_traffic, tolerance=16
)  # fmt: skip

LAYERNORM_CASES = (
    Case(operator=LAYERNORM, shape=(32, 768), dtype="float32", description="32 tokens of GPT-2's hidden state"),
    Case(operator=LAYERNORM, shape=(8, 4096), dtype="float32", description="8 tokens of a wide hidden state"),
)
SOFTMAX_CASES = (
    Case(operator=SOFTMAX, shape=(32, 768), dtype="float32", description="the scores of 32 queries against 768 keys"),
    Case(operator=SOFTMAX, shape=(8, 4096), dtype="float32", description="8 queries against 4096 keys"),
)
GELU_CASE = Case(operator=GELU, shape=(8, 3072), dtype="float32", description="8 tokens in GPT-2's feed-forward layer")
RMSNORM_CASE = Case(operator=RMSNORM, shape=(8, 4096), dtype="float32", description="8 tokens of Llama's hidden state")

WRITTEN_OUT = Profile(
    name="torch-baseline",
    title="the formula written out",
    technique="The formula in PyTorch operators, one call each, every intermediate result in memory.",
    hypothesis="Slower: each operator costs a call, and reads and writes the whole tensor again.",
    signal="Time in proportion to the number of operators.",
    implementations={
        LAYERNORM.name: lambda: layernorm_written_out,
        RMSNORM.name: lambda: rmsnorm_written_out,
        SOFTMAX.name: lambda: softmax_written_out,
        GELU.name: lambda: gelu_written_out,
    },
)
FUSED = Profile(
    name="torch-fused",
    title="PyTorch's own call",
    technique="F.layer_norm, F.rms_norm, F.softmax and F.gelu: one call of the library.",
    hypothesis="Faster wherever the library has one loop for all of it.",
    signal="One pass over the tensor.",
    implementations={
        LAYERNORM.name: lambda: layernorm_fused,
        RMSNORM.name: lambda: rmsnorm_fused,
        SOFTMAX.name: lambda: softmax_fused,
        GELU.name: lambda: gelu_fused,
    },
)


def faster(name: str, call: str, cases: tuple[Case, ...]) -> Claim:
    return Claim(
        name=f"fused-{name}-beats-written-out",
        text=f"On a CPU {call} is at least 1.5 times as fast as its formula written out.",
        subject=FUSED, baseline=WRITTEN_OUT, cases=cases, threshold=1.5,
    )  # fmt: skip


LAYERNORM_CLAIM = faster("layernorm", "F.layer_norm", LAYERNORM_CASES)
SOFTMAX_CLAIM = faster("softmax", "F.softmax", SOFTMAX_CASES)
GELU_CLAIM = faster("gelu", "F.gelu", (GELU_CASE,))
RMSNORM_CLAIM = faster("rmsnorm", "F.rms_norm", (RMSNORM_CASE,))

CPU_FUSED_CALLS = Experiment(
    name="cpu-fused-calls",
    title="Fused Calls on a CPU",
    question="How much faster is a fused PyTorch call than its written-out formula on a CPU?",
    importance=(
        "A formula that is written out in operators makes a pass over memory for each of them. Where the library has "
        "one call for all of it, that call may be several times as fast, on a laptop as on a GPU. Whether it is has to "
        "be measured: a call of one name may be nothing but the same operators."
    ),
    focus="Kernel fusion",
    cases=(*LAYERNORM_CASES, *SOFTMAX_CASES, GELU_CASE, RMSNORM_CASE),
    profiles=(WRITTEN_OUT, FUSED),
    claims=(LAYERNORM_CLAIM, SOFTMAX_CLAIM, GELU_CLAIM, RMSNORM_CLAIM),
    headlines=(LAYERNORM_CLAIM, SOFTMAX_CLAIM),
    does_not_show=(
        "Anything of a GPU.",
        "Several threads: the lab measures a CPU with one.",
        "The backward pass, or any gradient.",
    ),
    metrics={
        "Latency": ("p50 latency", "speed-up over the formula written out, with interval"),
        "Validation": ("error against float64", "noise ratio (p95 / p50)"),
    },
    scopes=("device_cold", "device_warm"),
    for_cpu=True,
)
