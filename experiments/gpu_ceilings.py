"""How fast can this GPU copy, read and multiply at all? Every other result is compared with these ceilings."""

from dataclasses import replace

import torch
from torch import Tensor

from lab import EDGES, Case, Claim, Experiment, Operator, Profile, in_graph
from lab.kernels.copy import copy, copy_inputs, copy_reference, copy_traffic
from lab.kernels.row_sum import row_sum, row_sum_inputs, row_sum_reference, row_sum_traffic
from lab.kernels.traffic import Traffic


def matmul_inputs(shape: tuple[int, ...], dtype: torch.dtype, device: str, seed: int) -> tuple[Tensor, ...]:
    """(a, b) for shape (M, N, K) of normal data, scaled so that the product has unit variance."""
    M, N, K = shape
    generator = torch.Generator(device).manual_seed(seed)
    a = torch.randn((M, K), dtype=dtype, device=device, generator=generator)
    return a, torch.randn((K, N), dtype=dtype, device=device, generator=generator) / K**0.5


def matmul_reference(a: Tensor, b: Tensor) -> Tensor:
    return a.double() @ b.double()


def matmul_traffic(shape: tuple[int, ...], itemsize: int) -> Traffic:
    """Least work for (M, N, K): read a and b once, write the product once."""
    M, N, K = shape
    return Traffic(read_bytes=(M * K + K * N) * itemsize, written_bytes=M * N * itemsize, flops=2 * M * N * K)


def scaled_matmul_inputs(shape: tuple[int, ...], dtype: torch.dtype, device: str, seed: int) -> tuple[Tensor, ...]:
    """(a, b, scale of a, scale of b): b with adjacent rows, as tensor cores need it; the product has unit variance."""
    M, N, K = shape
    generator = torch.Generator(device).manual_seed(seed)
    a = torch.randn((M, K), device=device, generator=generator).to(dtype)
    b = torch.randn((N, K), device=device, generator=generator).to(dtype).t()
    return a, b, torch.ones((), device=device), torch.full((), K**-0.5, device=device)


def scaled_matmul_reference(a: Tensor, b: Tensor, scale_a: Tensor, scale_b: Tensor) -> Tensor:
    return (a.double() @ b.double()).mul_(scale_a.double() * scale_b.double())


def scaled_matmul_traffic(shape: tuple[int, ...], itemsize: int) -> Traffic:
    """As `matmul_traffic`, with a result of 2 bytes an element."""
    M, N, _ = shape
    return replace(matmul_traffic(shape, itemsize), written_bytes=2 * M * N)


def matmul(a: Tensor, b: Tensor, scale_a: Tensor | None = None, scale_b: Tensor | None = None) -> Tensor:
    if scale_a is None or scale_b is None:
        return torch.matmul(a, b)
    return torch._scaled_mm(a, b, scale_a=scale_a, scale_b=scale_b, out_dtype=torch.bfloat16)


def tf32_matmul(a: Tensor, b: Tensor) -> Tensor:
    """A float32 product that may round its inputs to TF32. The setting is put back after the call."""
    settings = torch.backends.cuda.matmul
    before = settings.fp32_precision
    settings.fp32_precision = "tf32"
    try:
        return torch.matmul(a, b)
    finally:
        settings.fp32_precision = before


# A copy is exact: any error is a defect.
COPY = Operator(
    name="copy", inputs=copy_inputs, reference=copy_reference, traffic=copy_traffic, tolerance=0.5, edges=EDGES
)
READ = Operator(
    name="read",
    inputs=row_sum_inputs,
    reference=row_sum_reference,
    traffic=row_sum_traffic,
    # A sum of 4096 normal numbers has size 64, and so have its partial sums: half an epsilon for each of the few
    # roundings in a thread and between threads. Inputs of another size would need another tolerance.
    tolerance=4,
    scale=64.0,
    standard=lambda x: x.sum(-1),
    edges=tuple(edge for edge in EDGES if edge != "large-scale"),
)
MATMUL = Operator(
    name="matmul",
    inputs=matmul_inputs,
    reference=matmul_reference,
    traffic=matmul_traffic,
    # Half an epsilon for the one rounding. A float32 sum of K terms of size 1/√K errs by about √K · 2⁻²⁴. If the
    # library splits K, each part is rounded too: at most a few parts, of size 1.
    tolerance=2,
)
TF32_MATMUL = replace(
    MATMUL,
    name="matmul-tf32",
    # Each input is cut to 10 bits, by up to 2⁻¹⁰ of its size, so each product errs by up to 2⁻⁹, which is 2¹⁴ epsilons
    # of float32. The errors of K products of size 1/√K add up to a number whose standard deviation is about a fifth of
    # 2⁻⁹ (|sum| + 1). Among 67 million sums some err by almost six of them, hence a quarter more.
    tolerance=1.25 * 2**14,
)
FLOAT8_MATMUL = replace(
    MATMUL,
    inputs=scaled_matmul_inputs,
    reference=scaled_matmul_reference,
    traffic=scaled_matmul_traffic,
    output_dtype="bfloat16",
)

ROW = 262_144  # float32 elements: 1 MiB
# The largest cases take about 26 GiB at their peak: input sets with their shadow copies, outputs of the graphs of two
# profiles and the control, float64 references. On a GPU with less memory they fail, and the others are measured.
LADDER_MIB = (2, 4, 8, 16, 32, 64, 128, 256, 512, 2048)
READ_MIB = (64, 512, 2048)
COPY_CASES = tuple(
    Case(
        operator=COPY, shape=(moved // 2, ROW), dtype="float32",
        description=f"a copy that reads {moved // 2} MiB and writes as much",
    )
    for moved in LADDER_MIB
)  # fmt: skip
READ_CASES = tuple(
    Case(
        operator=READ, shape=(size * 64, 4096), dtype="float32",
        description=f"the sums of rows of 16 KiB: {size} MiB read and next to nothing written",
    )
    for size in READ_MIB
)  # fmt: skip
MATMUL_CASES = tuple(
    Case(operator=operator, shape=(8192, 8192, 8192), dtype=dtype, description=description)
    for operator, dtype, description in (
        (MATMUL, "float16", "a large matrix product in half precision"),
        (MATMUL, "bfloat16", "a large matrix product in bfloat16"),
        (FLOAT8_MATMUL, "float8_e4m3fn", "a large matrix product of float8, scaled by tensor, with a bfloat16 result"),
        (TF32_MATMUL, "float32", "a large matrix product of float32 that is cut to TF32"),
    )
)

TORCH_COPY = Profile(
    name="torch-copy",
    title="driver's copy",
    technique="x.clone(): PyTorch leaves a contiguous tensor to the driver, which copies it on the device.",
    hypothesis="The copy that nobody has to write, and as fast as any.",
    signal="None: the driver's copy is no kernel that a profiler could count.",
    implementations={"copy": lambda: torch.clone},
    devices=("cuda",),
)
TRITON_COPY = Profile(
    name="triton-copy",
    title="Triton copy",
    technique="One Triton kernel; each thread moves 16 bytes, and many small programs keep the memory busy.",
    hypothesis="Level with the driver, so that a Triton kernel needs no excuse for being slower than a copy.",
    signal="The lab's own kernel; one read and one write of the tensor, DRAM throughput near peak on the larger sizes.",
    implementations={"copy": lambda: copy},
    kernels={"copy": "_copy_kernel"},
    devices=("cuda",),
)
TORCH_SUM = Profile(
    name="torch-sum",
    title="PyTorch row sum",
    technique="x.sum(-1): PyTorch's reduction.",
    hypothesis="Bound by reading the tensor once.",
    signal="One kernel; DRAM reads near peak, next to no writes.",
    implementations={"read": lambda: lambda x: x.sum(-1)},
    devices=("cuda",),
)
TRITON_SUM = Profile(
    name="triton-sum",
    title="Triton row sum",
    technique="One Triton kernel; a program reads a whole row at once and sums it in registers.",
    hypothesis="Bound by reading the tensor once, level with PyTorch's reduction or ahead of it.",
    signal="The lab's own kernel; DRAM reads near peak, next to no writes.",
    implementations={"read": lambda: row_sum},
    kernels={"read": "_row_sum_kernel"},
    devices=("cuda",),
)
CUBLAS = Profile(
    name="cublas",
    title="cuBLAS",
    technique="torch.matmul, and for float8 torch._scaled_mm: NVIDIA's library chooses the kernel.",
    hypothesis="As near to the tensor cores' peak as the power limit lets anyone come on random numbers.",
    signal="One kernel, its tensor pipe active nearly all the time, DRAM far from its peak.",
    implementations={"matmul": lambda: matmul, "matmul-tf32": lambda: tf32_matmul},
    devices=("cuda",),
)

COPY_KEEPS_UP = Claim(
    name="triton-copy-keeps-up",
    text="Triton copy is at most 2 % slower than the driver's, from 64 MiB on.",
    subject=TRITON_COPY, baseline=TORCH_COPY, threshold=0.98,
    cases=tuple(case for case, moved in zip(COPY_CASES, LADDER_MIB, strict=True) if moved >= 64),
)  # fmt: skip
SUM_KEEPS_UP = Claim(
    name="triton-sum-keeps-up",
    text="Triton row sum is at most 2 % slower than PyTorch's.",
    subject=TRITON_SUM, baseline=TORCH_SUM, threshold=0.98, cases=READ_CASES,
)  # fmt: skip

GPU_CEILINGS = Experiment(
    name="gpu-ceilings",
    title="GPU Ceilings",
    question="How fast can this GPU copy, read and multiply at all?",
    importance=(
        "A kernel is as good as it is near to what the hardware allows, and a datasheet does not say what that is: no "
        "program reaches the peaks printed there, small copies are slower than large ones, and a GPU at its power "
        "limit multiplies more slowly than one that idles. So every run on a GPU measures its ceilings itself, by the "
        "protocol of all other cells: copies over a ladder of sizes, reads, and the largest rates of its matrix units."
    ),
    focus="Hardware limits",
    cases=COPY_CASES + READ_CASES + MATMUL_CASES,
    profiles=(TORCH_COPY, TRITON_COPY, TORCH_SUM, TRITON_SUM, CUBLAS),
    claims=(COPY_KEEPS_UP, SUM_KEEPS_UP, in_graph(COPY_KEEPS_UP), in_graph(SUM_KEEPS_UP)),
    headlines=(COPY_KEEPS_UP, SUM_KEEPS_UP),
    does_not_show=(
        "What another GPU of the same model reaches: clocks, power limits and memory differ from board to board.",
        "The fastest product that this GPU could compute: the rates are those of one library at one size, on random "
        "numbers, at the clock that the power limit leaves.",
        "What a kernel can reach that reads several times as much as it writes: a copy writes as much as it reads, a "
        "row sum next to nothing.",
        "Float8 products that add up in fewer bits for speed, sparse products, and transfers to the host or between "
        "GPUs.",
    ),
    metrics={
        "Memory": ("copy bandwidth by size", "read bandwidth by size"),
        "Arithmetic": ("dense matrix rate of float16, bfloat16, float8 and TF32",),
        "Validation": ("error against float64", "noise ratio (p95 / p50)"),
    },
    scopes=("device_cold", "device_warm", "graph"),
)
