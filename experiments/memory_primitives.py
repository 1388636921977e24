"""Is Triton slower where only memory bandwidth matters: in a copy, a product with a number, a sum?"""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from lab import EDGES, Case, Claim, Experiment, Operator, Profile, in_graph
from lab.kernels.add import add, add_inputs, add_reference, add_traffic
from lab.kernels.copy import copy, copy_inputs, copy_reference, copy_traffic
from lab.kernels.launch import Configuration
from lab.kernels.reduction import reduction, reduction_inputs, reduction_reference, reduction_traffic
from lab.kernels.scale import scale, scale_inputs, scale_reference, scale_traffic


def transposed_inputs(shape: tuple[int, ...], dtype: torch.dtype, device: str, seed: int) -> tuple[Tensor]:
    """(x,) for shape (M, N): the transpose of a contiguous (N, M) matrix of normal data."""
    (x,) = copy_inputs(shape[::-1], dtype, device, seed)
    return (x.permute(*reversed(range(len(shape)))),)


# A copy is exact: any error is a defect.
COPY = Operator(
    name="copy", inputs=copy_inputs, reference=copy_reference, traffic=copy_traffic, tolerance=0.5, edges=EDGES
)
COPY_BLOCK = Operator(
    name="copy-block", inputs=copy_inputs, reference=copy_reference, traffic=copy_traffic, tolerance=0.5, edges=EDGES
)
COPY_TRANSPOSED = Operator(
    name="copy-transposed",
    inputs=transposed_inputs,
    reference=copy_reference,
    traffic=copy_traffic,
    tolerance=0.5,
    edges=EDGES,
)
# One rounding of a float32 product or sum: half an epsilon, or a whole one in Triton's interpreter, which truncates.
SCALE = Operator(
    name="scale",
    inputs=scale_inputs,
    reference=scale_reference,
    traffic=scale_traffic,
    tolerance=1,
    standard=torch.mul,
    edges=EDGES,
)
ADD = Operator(
    name="add",
    inputs=add_inputs,
    reference=add_reference,
    traffic=add_traffic,
    tolerance=1,
    standard=torch.add,
    edges=EDGES,
)
REDUCTION = Operator(
    name="reduction",
    inputs=reduction_inputs,
    reference=reduction_reference,
    traffic=reduction_traffic,
    # The sum of 2²⁸ normal numbers has size 2¹⁴, and so have its partial sums. Atomics add a part for each of 528
    # programs, and each addition errs by up to half an epsilon of the sum: together about seven epsilons, almost never
    # 32. A missing tile is an error of thousands. Inputs of another size would need another tolerance.
    tolerance=32,
    scale=2.0**14,
    output_dtype="float32",
    standard=torch.sum,
    edges=tuple(edge for edge in EDGES if edge != "large-scale"),
)


def copy_in_blocks(block_bytes: int) -> Callable[[Tensor], Any]:
    """A copy whose programs take `block_bytes` bytes, with enough warps for 16 bytes a thread, at most four."""
    warps = min(4, block_bytes // (16 * 32))
    return partial(copy, configuration=Configuration.of(BLOCK=block_bytes // 4, num_warps=warps))


EXCESS = 1.1  # bytes over the least traffic: passes of the profiler differed by several per cent
GIB_OF_FLOAT32 = (1024, 262_144)
ALL_SHAPES = "all-shapes"
# So large that three sets of inputs for the graphs of all profiles take a third of 80 GB. No case moves more bytes than
# the largest copy that gpu-ceilings measures.
COPY_CASE = Case(
    operator=COPY, shape=GIB_OF_FLOAT32, dtype="float32", description="a copy of 1 GiB, from one run of memory"
)
SCALE_CASE = Case(
    operator=SCALE, shape=GIB_OF_FLOAT32, dtype="float32", description="a product of 1 GiB with one number"
)
ADD_CASE = Case(
    operator=ADD,
    shape=(512, 262_144),
    dtype="float32",
    description="the sum of two tensors of 512 MiB, element by element",
)
REDUCTION_CASE = Case(
    operator=REDUCTION, shape=GIB_OF_FLOAT32, dtype="float32", description="all of 1 GiB summed to one number"
)
TRANSPOSED_CASE = Case(
    operator=COPY_TRANSPOSED, shape=(16_384, 16_384), dtype="float32", only_with=ALL_SHAPES,
    description="a transposed matrix of 1 GiB made contiguous: rows are read, columns are written",
)  # fmt: skip
BLOCK_CASE = Case(
    operator=COPY_BLOCK, shape=(512, 262_144), dtype="float32", only_with=ALL_SHAPES,
    description="a copy of 512 MiB by programs that take more or less of it at a time",
)  # fmt: skip

TORCH = Profile(
    name="torch",
    title="PyTorch",
    technique="x.clone(), x * factor, x + y, x.sum() and x.contiguous(): one call each of what the library ships.",
    hypothesis="At the memory's limit where memory is one run; behind it where a matrix is transposed.",
    signal="One kernel a call, but none for the copy, which the driver makes; DRAM throughput near peak.",
    implementations={
        "copy": lambda: torch.clone,
        "scale": lambda: torch.mul,
        "add": lambda: torch.add,
        "reduction": lambda: torch.sum,
        "copy-transposed": lambda: torch.Tensor.contiguous,
    },
)
TRITON = Profile(
    name="triton",
    title="Triton",
    technique=(
        "One kernel an operator: 16 bytes a thread, programs of 2 KiB. The sum is a tree: each "
        "of 528 programs goes through the tensor in strides, and a second launch adds up what they found."
    ),
    hypothesis="Level with PyTorch on runs of memory, as nothing but memory limits either; ahead on the transpose.",
    signal="The lab's own kernels; DRAM bytes at the least, throughput near peak.",
    implementations={
        "copy": lambda: copy,
        "copy-block": lambda: copy_in_blocks(2048),
        "scale": lambda: scale,
        "add": lambda: add,
        "reduction": lambda: reduction,
        "copy-transposed": lambda: copy,
    },
    kernels={
        "copy": "_copy_kernel",
        "copy-block": "_copy_kernel",
        "scale": "_scale_kernel",
        "add": "_add_kernel",
        "reduction": "_reduction_kernel",
        "copy-transposed": "_copy_strided_kernel",
    },
    devices=("cuda",),
)
TRITON_ATOMIC = Profile(
    name="triton-atomic",
    title="Triton, atomics",
    technique="The sum again, whose programs add what they found to the result itself, set to zero by a launch before.",
    hypothesis="Level with the tree: either way a second, tiny launch; and what differs is whether the order is fixed.",
    signal="The lab's own kernel after a fill of 4 bytes; one DRAM read of the tensor.",
    implementations={"reduction": lambda: partial(reduction, strategy="atomic")},
    kernels={"reduction": "_reduction_kernel"},
    devices=("cuda",),
)


def block_profile(block_bytes: int) -> Profile:
    loads = max(1, block_bytes // (4 * 32 * 16))
    return Profile(
        name=f"triton-block-{block_bytes}",
        title=f"Triton, blocks of {block_bytes // 1024} KiB",
        technique=f"The copy again, in programs that take {block_bytes // 1024} KiB: {loads} × 16 bytes a thread.",
        hypothesis="No faster than `2 KiB`: the loads in flight in all programs fill the memory's queues anyway.",
        signal="The lab's own kernel; the same DRAM bytes.",
        implementations={"copy-block": lambda: copy_in_blocks(block_bytes)},
        kernels={"copy-block": "_copy_kernel"},
        devices=("cuda",),
    )


TRITON_BLOCKS = tuple(block_profile(block_bytes) for block_bytes in (1024, 4096, 8192, 16_384))

KEEPS_UP = Claim(
    name="triton-keeps-up",
    text="Triton copies, scales and adds at most 2 % slower than PyTorch.",
    subject=TRITON, baseline=TORCH, threshold=0.98, cases=(COPY_CASE, SCALE_CASE, ADD_CASE),
)  # fmt: skip
SUM_KEEPS_UP = Claim(
    name="triton-sum-keeps-up",
    text="Triton sum is at most 2 % slower than PyTorch's.",
    subject=TRITON, baseline=TORCH, threshold=0.98, cases=(REDUCTION_CASE,),
)  # fmt: skip
CLAIMS = (
    KEEPS_UP,
    SUM_KEEPS_UP,
    in_graph(KEEPS_UP),
    in_graph(SUM_KEEPS_UP),
    Claim(
        name="tree-keeps-up-with-atomics",
        text="Triton sum by a tree is at most 2 % slower than by atomics.",
        subject=TRITON, baseline=TRITON_ATOMIC, threshold=0.98, cases=(REDUCTION_CASE,),
    ),
    Claim(
        name="triton-transpose-beats-torch",
        text="Triton copies a transposed matrix at least 2 % faster than PyTorch.",
        subject=TRITON, baseline=TORCH, cases=(TRANSPOSED_CASE,),
    ),
    *(
        Claim(
            name=f"small-blocks-keep-up-with-{profile.name.removeprefix('triton-block-')}",
            text=f"Triton copy by 2 KiB is at most 2 % slower than in {profile.title.removeprefix('Triton, ')}.",
            subject=TRITON, baseline=profile, threshold=0.98, cases=(BLOCK_CASE,),
        )
        for profile in TRITON_BLOCKS
    ),
    Claim(
        name="triton-moves-the-least",
        text=f"Triton copy, scale, add and transpose move at most {EXCESS:.2f} times the least bytes.",
        subject=TRITON, baseline=None, threshold=1 / EXCESS, measure="traffic",
        cases=(COPY_CASE, SCALE_CASE, ADD_CASE, TRANSPOSED_CASE),
    ),
)  # fmt: skip

MEMORY_PRIMITIVES = Experiment(
    name="memory-primitives",
    title="Memory Primitives",
    question="Does Triton reach the memory's limit where nothing else counts: in a copy, a product, a sum?",
    importance=(
        "Every kernel that memory bounds is made of loads, a little arithmetic and stores. If a plain copy in Triton "
        "were slower than the driver's, no fused kernel in it could be trusted to show what fusion gains; as far as "
        "they are level, a gap in a larger kernel is that kernel's own. Two choices come with every such kernel, and "
        "are asked here: how much a program takes at a time, and whether the parts of a sum are added in an order that "
        "is always the same, which decides whether it gives the same bits twice."
    ),
    focus="Memory bandwidth",
    cases=(COPY_CASE, SCALE_CASE, ADD_CASE, REDUCTION_CASE, TRANSPOSED_CASE, BLOCK_CASE),
    profiles=(TORCH, TRITON, TRITON_ATOMIC, *TRITON_BLOCKS),
    claims=CLAIMS,
    headlines=(KEEPS_UP, SUM_KEEPS_UP),
    does_not_show=(
        "Small tensors: at `1 GiB` a launch is a thousandth of the time, at `1 MiB` it is most of it.",
        "What a cache would give: every case is many times as large as the L2.",
        "Strided layouts other than a transposed matrix, and matrices whose sides are no powers of two.",
        "How often a sum by atomics differs in its last bits: that it may is known from how it is made.",
    ),
    metrics={
        "Latency": ("p50 latency", "p95 latency", "speed-up vs PyTorch, with interval"),
        "Throughput": ("effective GB/s over the least traffic", "attained share of a copy or read of as many bytes"),
        "Validation": ("error against float64", "noise ratio (p95 / p50)", "DRAM bytes over the least (profiler)"),
    },
    scopes=("device_cold", "graph", "device_dirty"),
)
