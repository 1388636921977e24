"""Which tiles and which division of work are fastest for a matrix product on Hopper, and how near is it to cuBLAS?"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from lab import EDGES, Case, Claim, Experiment, Operator, Profile, in_graph
from lab.kernels.gemm import gemm_configuration
from lab.kernels.launch import Configuration
from lab.kernels.matmul import matmul, matmul_inputs, matmul_magnitudes, matmul_reference, matmul_traffic

# The result is rounded once, by half an epsilon. The float32 sums of K products have size √K, and the matrix units cut
# off their last digits: relative to 1 that is below half an epsilon of bfloat16 up to K = 16,384 (float16: 4096).
# Longer sums, and inputs far from 0, lose more where the result is small. How much depends on the order of addition,
# and the library splits K at some shapes only: its error alone is no measure, and a share of Σ|a·b| is allowed too.
GEMM = Operator(
    name="gemm", inputs=matmul_inputs, reference=matmul_reference, traffic=matmul_traffic,
    tolerance=1.02, standard=torch.mm, summed_magnitudes=matmul_magnitudes, edges=EDGES,
)  # fmt: skip

# The same without other tiles, at shapes for which the rule was not tuned: the default against the library.
MODEL = replace(GEMM, name="gemm-default")
ELSEWHERE = replace(GEMM, name="gemm-elsewhere")

ALL_SHAPES = "all-shapes"


def case(shape: tuple[int, int, int], description: str, operator: Operator = GEMM) -> Case:
    only_with = ALL_SHAPES if operator is ELSEWHERE and shape[0] % 2 == 0 else ""
    return Case(operator=operator, shape=shape, dtype="bfloat16", description=description, only_with=only_with)


LARGE = case((8192, 8192, 8192), "a large square product")
SQUARE = case((4096, 4096, 4096), "a square product of four waves of tiles", MODEL)
GATE = case((2048, 18_944, 3584), "2048 tokens through the gate projection of Qwen2.5-7B: nine waves of 128 × 256")
QUERY = case(
    (2048, 3584, 3584), "2048 tokens through the query projection of Qwen2.5-7B: less than two waves of tiles", MODEL
)  # fmt: skip
LISTED = (LARGE, SQUARE, GATE, QUERY)
OTHERS = tuple(
    case(shape, description, ELSEWHERE)
    for shape, description in (
        ((512, 3584, 18_944), "512 tokens through the down projection of Qwen2.5-7B"),
        ((64, 4096, 11_008), "64 rows: the time of reading the weight"),
        ((3000, 3000, 3000), "no multiple of a tile, and rows that begin between lines of memory"),
        ((4097, 4095, 4093), "rows whose length in bytes is no multiple of 16, which TMA cannot read"),
        ((128, 128, 32_768), "a small result of long sums"),
        ((8192, 128, 8192), "a thin weight"),
        ((100, 8192, 8192), "a hundred rows"),
    )
)


KERNEL = "_gemm_kernel or _hopper_gemm_kernel"


def loader(configuration: Configuration | None) -> Callable[[], Callable[..., Any]]:
    return lambda: lambda a, b: matmul(a, b, configuration=configuration)


def launched(
    name: str, title: str, technique: str, hypothesis: str, configuration: Configuration,
    operators: tuple[str, ...] = ("gemm",),
) -> Profile:  # fmt: skip
    return Profile(
        name=name, title=title, technique=technique, hypothesis=hypothesis,
        signal="Tensor-pipe use as far below that of the default as its time is above.",
        implementations=dict.fromkeys(operators, loader(configuration)),
        kernels=dict.fromkeys(operators, KERNEL),
        devices=("cuda",),
    )  # fmt: skip


CUBLAS = Profile(
    name="torch-matmul",
    title="cuBLAS",
    technique="torch.mm: a kernel of cuBLAS, chosen by its heuristics.",
    hypothesis="The measure of all others: tiles of `128 × 256`, shared by clusters of programs.",
    signal="One kernel of the library; Tensor-pipe use near its peak at the power that the board grants.",
    implementations={"gemm": lambda: torch.mm, "gemm-default": lambda: torch.mm, "gemm-elsewhere": lambda: torch.mm},
)
TRITON = Profile(
    name="triton-matmul",
    title="Triton matmul",
    technique=(
        "The lab's kernel as its rule launches it, persistent and warp-specialised: of a program's warps two copy "
        "tiles and eight multiply, in two groups. Each group has rows of its own of every tile, or whole tiles in "
        "turn. Tiles have as many columns as fit the shape, a multiple of 16."
    ),
    hypothesis="Level with cuBLAS within a few per cent; faster where its tiles leave a wave half empty.",
    signal="One kernel of the lab's, or two where sums are split; Tensor-pipe use within a few per cent of cuBLAS.",
    implementations={"gemm": loader(None), "gemm-default": loader(None), "gemm-elsewhere": loader(None)},
    kernels={"gemm": KERNEL, "gemm-default": KERNEL, "gemm-elsewhere": KERNEL},
    devices=("cuda",),
)
WIDE = launched(
    "tile-128x256", "tile 128 × 256", "The same kernel with the largest tile that leaves room for three stages.",
    "Level where tiles are many; slower where they fill only a part of their last wave.",
    gemm_configuration(128, 256, 64, stages=3, hopper=True), ("gemm", "gemm-default"),
)  # fmt: skip
HIGH = launched(
    "tile-256x128", "tile 256 × 128", "The same kernel with higher tiles: each group of warps multiplies 128 × 128.",
    "Level: as many operations a byte, but two instructions a step where the other has one.",
    gemm_configuration(256, 128, 64, stages=3, hopper=True),
)  # fmt: skip
SMALL = launched(
    "tile-128x128", "tile 128 × 128", "The same kernel with half the tile.",
    "Slower where tiles are many: a third more bytes an operation from shared memory and the cache.",
    gemm_configuration(128, 128, 64, stages=6, hopper=True),
)  # fmt: skip
SHALLOW = launched(
    "two-stages", "two stages", "The same kernel with two pipeline stages instead of three.",
    "Slower: the Tensor Cores wait for memory.",
    gemm_configuration(128, 256, 64, stages=2, hopper=True),
)  # fmt: skip
DEEP = launched(
    "four-stages", "four stages", "The same kernel with four pipeline stages, which leave room for half a tile of y.",
    "A little slower: the second half of a tile's result waits until the first has left shared memory.",
    gemm_configuration(128, 256, 64, stages=4, hopper=True),
)  # fmt: skip
UNGROUPED = launched(
    "ungrouped", "no grouping", "The same kernel with tiles in the order of rows.",
    "Slower where an operand is larger than the cache: programs at work share less of what they read.",
    gemm_configuration(128, 256, 64, stages=3, hopper=True, group=1),
)  # fmt: skip
POINTERS = launched(
    "pointers", "plain Triton", "Plain Triton with pointers: eight warps, each of which copies and multiplies.",
    "A fifth slower or more: loads take instructions, and every warp waits for all others at every step.",
    gemm_configuration(128, 128, 64, stages=3, warps=8),
)  # fmt: skip

KEEPS_UP = Claim(
    name="triton-matmul-keeps-up-with-cublas",
    text="The Triton product is at least 0.95 times as fast as cuBLAS, at large and at model shapes.",
    subject=TRITON, baseline=CUBLAS, cases=LISTED, threshold=0.95,
)  # fmt: skip
REACHES = Claim(
    name="triton-matmul-reaches-cublas-at-nine-waves",
    text="The Triton product is at least as fast as cuBLAS where tiles of 128 × 256 fill nine whole waves.",
    subject=TRITON, baseline=CUBLAS, cases=(GATE,), threshold=1.0,
)  # fmt: skip
CLAIMS = (
    KEEPS_UP,
    REACHES,
    in_graph(KEEPS_UP),
    in_graph(REACHES),
    *(
        Claim(
            name=f"triton-matmul-keeps-up-at-{'x'.join(map(str, each.shape))}",
            text=f"The Triton product is at least 0.9 times as fast as cuBLAS: {each.description}.",
            subject=TRITON, baseline=CUBLAS, cases=(each,), threshold=0.9,
        )
        for each in OTHERS
    ),
    Claim(
        name="divided-warps-beat-plain-triton",
        text="Warp-specialised, the product is at least 1.1 times as fast as in plain Triton where tiles are many.",
        subject=TRITON, baseline=POINTERS, cases=(LARGE, GATE), threshold=1.1,
    ),
    Claim(
        name="fitted-columns-beat-a-power-of-two",
        text="Tiles with columns that fit the shape are at least 2 % faster than 128 × 256, which fill 1.7 waves.",
        subject=TRITON, baseline=WIDE, cases=(QUERY,),
    ),
    Claim(
        name="fitted-columns-keep-up-of-many-tiles",
        text="The rule's tiles are at least as fast, within 2 %, as 128 × 256 where tiles are many.",
        subject=TRITON, baseline=WIDE, cases=(LARGE, SQUARE, GATE), threshold=0.98,
    ),
    Claim(
        name="large-tiles-beat-small",
        text="Tiles of 128 × 256 are at least 2 % faster than tiles of 128 × 128 where there are many.",
        subject=WIDE, baseline=SMALL, cases=(LARGE, GATE),
    ),
    Claim(
        name="three-stages-beat-two",
        text="Three pipeline stages are at least 2 % faster than two.",
        subject=WIDE, baseline=SHALLOW, cases=(LARGE, GATE),
    ),
    Claim(
        name="three-stages-keep-up-with-four",
        text="Three pipeline stages, with room for a whole tile of the result, are at least as fast as four.",
        subject=WIDE, baseline=DEEP, cases=(LARGE, GATE), threshold=1.0,
    ),
    Claim(
        name="grouping-beats-rows",
        text="Tiles in groups of eight rows are at least 2 % faster than in the order of rows.",
        subject=WIDE, baseline=UNGROUPED, cases=(LARGE,),
    ),
    Claim(
        name="wide-tiles-keep-up-with-high",
        text="Tiles of 128 × 256 are at least as fast, within 2 %, as tiles of 256 × 128.",
        subject=WIDE, baseline=HIGH, cases=(LARGE, GATE), threshold=0.98,
    ),
)  # fmt: skip

MATMUL_TILING = Experiment(
    name="matmul-tiling",
    title="Matmul Tiling",
    question="How close does a Triton matrix product come to cuBLAS on Hopper, and which tiles does it take?",
    importance=(
        "Matrix products take most of a model's time, and the library's are hard to reach: what is to be fused with a "
        "product can only win where the product itself does not lose. This experiment takes one kernel apart: the "
        "size of its tiles, its pipeline stages, the order of tiles, and warp specialisation. Tensor-pipe use from the "
        "profiler says which of them feeds the Tensor Cores."
    ),
    focus="Tiling and scheduling",
    cases=(*LISTED, *OTHERS),
    profiles=(CUBLAS, TRITON, WIDE, HIGH, SMALL, SHALLOW, DEEP, UNGROUPED, POINTERS),
    claims=CLAIMS,
    headlines=(KEEPS_UP, REACHES),
    does_not_show=(
        "The backward pass, or any gradient.",
        "torch.compile, which takes cuBLAS or a Triton template: it would be compiled and tuned anew in every sweep.",
        "Products of float16 and of tensor float 32, and operands whose other axis is adjacent: the tests cover them, "
        "but no time here.",
        "Bias and activation in the epilogue: no profile but the lab's has them in the same kernel.",
        "Claims under steady load: a board that multiplies without pause lowers its clock to keep to its power, and "
        "all profiles with it; claims are about spaced calls. The pages of cases tell both rates.",
        "What clusters of programs gain that share what they copy: cuBLAS uses them, the lab's kernel only where rows "
        "do not begin at lines of memory.",
    ),
    metrics={
        "Latency": ("p50 latency", "p95 latency", "speed-up vs each baseline, with interval"),
        "Throughput": ("TFLOP/s", "Tensor-pipe use (profiler)", "DRAM bytes (profiler)"),
        "Validation": ("error against float64", "noise ratio (p95 / p50)"),
    },
    scopes=("device_cold", "graph"),
    sustained=True,
)
