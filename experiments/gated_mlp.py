"""How much faster are gate, up and their activation if they are one matrix product?"""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from lab import EDGES, Case, Claim, Experiment, Operator, Profile, in_graph
from lab.kernels.gated_mlp import gated_mlp, gated_mlp_inputs, gated_mlp_reference, gated_mlp_traffic
from lab.kernels.glu import swiglu


def packed_inputs(shape: tuple[int, ...], dtype: torch.dtype, device: str, seed: int) -> tuple[Tensor, Tensor]:
    """(x, weight) for shape (M, F, K): gate and then up in one weight (2F, K)."""
    x, gate, up = gated_mlp_inputs(shape, dtype, device, seed)
    return x, torch.cat((gate, up))


def packed_reference(x: Tensor, weight: Tensor) -> Tensor:
    gate, up = weight.chunk(2)
    return gated_mlp_reference(x, gate, up)


def gated_in_one_kernel(x: Tensor, weight: Tensor) -> Tensor:
    gate, up = weight.chunk(2)
    return gated_mlp(x, gate, up)


def gated_written_out(x: Tensor, weight: Tensor) -> Tensor:
    gate, up = weight.chunk(2)
    return F.silu(F.linear(x, gate)) * F.linear(x, up)


def packed_then_swiglu(x: Tensor, weight: Tensor) -> Tensor:
    """One product with both weights, then the lab's gated unit on its halves."""
    gate, up = F.linear(x, weight).chunk(2, dim=-1)
    return swiglu(gate, up)


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    return torch.compile(function, dynamic=False, mode="max-autotune-no-cudagraphs")


# The separate calls round gate, up, the activation and the result: four roundings of half an epsilon each.
GATED_MLP = Operator(
    name="gated-mlp", inputs=packed_inputs, reference=packed_reference, traffic=gated_mlp_traffic,
    tolerance=2.5, standard=gated_written_out, edges=EDGES,
)  # fmt: skip

ALL_SHAPES = "all-shapes"
QWEN_7B = Case(
    operator=GATED_MLP, shape=(2048, 18_944, 3584), dtype="bfloat16",
    description="2048 tokens through gate and up of Qwen2.5-7B",
)  # fmt: skip
LLAMA_8B = Case(
    operator=GATED_MLP, shape=(4096, 14_336, 4096), dtype="bfloat16", only_with=ALL_SHAPES,
    description="4096 tokens through gate and up of Llama 3 8B",
)  # fmt: skip
SHORT = Case(
    operator=GATED_MLP, shape=(512, 18_944, 3584), dtype="bfloat16", only_with=ALL_SHAPES,
    description="512 tokens through gate and up of Qwen2.5-7B",
)  # fmt: skip
DECODE = Case(
    operator=GATED_MLP, shape=(16, 18_944, 3584), dtype="bfloat16", only_with=ALL_SHAPES,
    description="one decoding step of sixteen sequences in Qwen2.5-7B",
)  # fmt: skip

TORCH_BASELINE = Profile(
    name="torch-baseline",
    title="eager PyTorch",
    technique="F.silu(F.linear(x, gate)) * F.linear(x, up): two products of cuBLAS and two elementwise kernels.",
    hypothesis="Slowest: gate and up are written and read, the activation written and read once more.",
    signal="Four kernels; DRAM bytes of several intermediates above the least.",
    implementations={"gated-mlp": lambda: gated_written_out},
)
PACKED = Profile(
    name="packed-swiglu",
    title="one product, then SwiGLU",
    technique="One product of cuBLAS with both weights, which are packed, then the lab's fused gated unit.",
    hypothesis="What an inference engine does: gate and up are written and read once.",
    signal="Two kernels; DRAM bytes of one intermediate above the least.",
    implementations={"gated-mlp": lambda: packed_then_swiglu},
    devices=("cuda",),
)
TORCH_COMPILE = Profile(
    name="torch-compile",
    title="torch.compile",
    technique="torch.compile of the eager form, dynamic=False, max-autotune without CUDA graphs.",
    hypothesis="Two products, of which one may take the elementwise rest into its epilogue.",
    signal="Two or three kernels.",
    implementations={"gated-mlp": lambda: compiled(gated_written_out)},
    recompiles=True,
)
TRITON = Profile(
    name="triton-gated-mlp",
    title="Triton gated MLP",
    technique=(
        "One kernel: a tile holds 128 columns of the gate and the same 128 of up, so that activation and product "
        "happen in the registers that the sums are in."
    ),
    hypothesis="As fast as the product alone: no intermediate crosses memory.",
    signal="One kernel of the lab's; DRAM bytes near the least, Tensor-pipe use as in matmul-tiling.",
    implementations={"gated-mlp": lambda: gated_in_one_kernel},
    kernels={"gated-mlp": "_gemm_kernel or _hopper_gemm_kernel"},
    devices=("cuda",),
)

PROMPTS = (QWEN_7B, LLAMA_8B, SHORT)
BEATS_COMPILE = Claim(
    name="triton-gated-mlp-beats-compile",
    text="The gated MLP in one kernel is at least 1.03 times as fast as torch.compile, on a prompt.",
    subject=TRITON, baseline=TORCH_COMPILE, cases=(QWEN_7B,), threshold=1.03,
)  # fmt: skip
BEATS_PACKED = Claim(
    name="triton-gated-mlp-beats-packed",
    text="The gated MLP in one kernel is at least 2 % faster than one packed product and a fused SwiGLU, on prompts.",
    subject=TRITON, baseline=PACKED, cases=PROMPTS,
)  # fmt: skip
CLAIMS = (
    BEATS_COMPILE,
    BEATS_PACKED,
    in_graph(BEATS_COMPILE),
    in_graph(BEATS_PACKED),
    Claim(
        name="triton-gated-mlp-beats-eager",
        text="The gated MLP in one kernel is at least 1.2 times as fast as eager PyTorch, on prompts.",
        subject=TRITON, baseline=TORCH_BASELINE, cases=PROMPTS, threshold=1.2,
    ),
    Claim(
        name="triton-decode-gated-mlp-keeps-up-with-compile",
        text="In a CUDA graph the gated MLP of a decoding step is at most 5 % behind torch.compile.",
        subject=TRITON, baseline=TORCH_COMPILE, cases=(DECODE,), scope="graph", threshold=0.95,
    ),
    Claim(
        name="triton-gated-mlp-moves-fewer-bytes",
        text="One packed product and a fused SwiGLU move at least 1.2 times the bytes of the gated MLP in one kernel.",
        subject=TRITON, baseline=PACKED, cases=(QWEN_7B,), measure="traffic", threshold=1.2,
    ),
)  # fmt: skip

GATED_MLP_FUSION = Experiment(
    name="gated-mlp",
    title="Gated MLP",
    question="Does it pay to compute gate, up and activation in one matrix product?",
    importance=(
        "In every layer of Llama, Qwen and Mistral two products of the same input are multiplied with one another "
        "behind an activation. As kernels of their own the elementwise part moves three tensors as wide as the MLP and "
        "waits for memory while the matrix units rest. Inside the product it costs a few instructions a result. "
        "The gain is at most its share, and is lost where the fused product is slower than the library's."
    ),
    focus="Kernel fusion",
    cases=(QWEN_7B, LLAMA_8B, SHORT, DECODE),
    profiles=(TORCH_BASELINE, PACKED, TORCH_COMPILE, TRITON),
    claims=CLAIMS,
    headlines=(BEATS_COMPILE, BEATS_PACKED),
    does_not_show=(
        "The backward pass, or any gradient.",
        "The down projection, which stays a product of its own: it needs whole rows of what is computed here, which no "
        "program has.",
        "GELU in place of SiLU, and weights that are not packed: the tests cover them, but no time here.",
        "The speed of a whole model.",
    ),
    metrics={
        "Latency": ("p50 latency", "p95 latency", "speed-up vs each baseline, with interval"),
        "Throughput": ("TFLOP/s", "Tensor-pipe use (profiler)", "DRAM bytes (profiler)"),
        "Validation": ("error against float64", "noise ratio (p95 / p50)"),
    },
    scopes=("device_cold", "graph"),
)
