"""The audited publications: copied without a slip, every known defect found, and nothing found in sound rows."""

from collections.abc import Iterable
from itertools import product

import pytest

from experiments.audits import AUDITS
from experiments.audits.cuda_kernel_lab import CUDA_KERNEL_LAB
from experiments.audits.cuda_kernels import CUDA_KERNELS
from experiments.audits.diy_flash_attention import DIY_FLASH_ATTENTION
from experiments.audits.operators import layernorm, rmsnorm, rope, swiglu
from experiments.audits.triton_fused_ops import TRITON_FUSED_OPS
from experiments.headline_tables import wide_angle_traffic
from lab.definition.publication import Publication, Row
from lab.kernels.glu import glu_traffic
from lab.kernels.layernorm import layernorm_traffic
from lab.kernels.rmsnorm import rmsnorm_traffic
from lab.verdict.audit.rules import audit

A10G, MAY, JUNE = "A10G, 2026-05-21", "H200, 2026-05-23", "H200, 2026-06-11"
DECODE, WAVES = "A10G, decode step with profiles", "H200, matrix products"
AGAIN, PROJECTION = "Triton against CUDA C++", "RMSNorm fused with a projection"
SWEEPS = {"RMSNorm": "RMSNorm by hidden size", "RoPE": "RoPE by sequence", "SwiGLU": "SwiGLU by FFN dimension"}
MODES = (
    "naive-eager", "fused-eager", "naive-graph", "fused-graph", "fused-piecewise-graph",
    "fused-piecewise-graph-same-stream",
)  # fmt: skip
HIDDEN, SEQUENCES, WIDTHS = (
    (896, 1536, 2048, 3072, 4096),
    (512, 1024, 2048, 4096, 8192),
    (4096, 8192, 11008, 14336, 18944),
)
SIZES = {"RMSNorm": HIDDEN, "RoPE": SEQUENCES, "SwiGLU": WIDTHS}
BOTH, ALL = ("PyTorch", "Triton"), ("PyTorch", "Triton", "CUDA C++")
SMALL = ("rmsnorm 512×1024", "rmsnorm 1024×2048", "rmsnorm 2048×4096")
LARGE = ("rmsnorm 4096×4096", "rmsnorm 4096×8192")
SOFTMAX, COPY, ADD = "softmax 4096×1024", "copy 16777216", "vector_add 16777216"

Place = tuple[str, str]


def of(table: str, names: Iterable[object], profiles: Iterable[str] = ("Triton",)) -> set[Place]:
    """The rows of a table with these names, by each of these implementations."""
    return {(table, f"{name}, {profile}") for name, profile in product(names, profiles)}


def typed(names: Iterable[str], *dtypes: str) -> list[str]:
    return [f"{name} {dtype}" for name, dtype in product(names, dtypes)]


def swept(operator: str, sizes: Iterable[int], profiles: Iterable[str] = ("Triton",), table: str = "") -> set[Place]:
    return of(table or SWEEPS[operator], [f"{operator} {size}" for size in sizes], profiles)


F16, F32, EACH = ("float16",), ("float32",), ("float16", "float32")

# Rule → where it must fire. After each, the defect that it stands for.
EXPECTED: dict[str, dict[str, set[Place]]] = {
    CUDA_KERNEL_LAB.slug: {
        # The weight is counted once a row: more bytes than the memory can move.
        "above-memory-peak": {
            *of(A10G, typed(["layernorm 4096×4096"], *EACH), BOTH),
            *of(A10G, ["rmsnorm 4096×8192 float16", "rmsnorm 4096×4096 float32"]),
            *of(JUNE, ["layernorm 4096×4096 float32"]),
        },
        # A product of 6 MB on a GPU with a cache of 6 MB, and its like on one with 50 MB.
        "cache-resident": {
            *of(A10G, ["matmul 1024×1024×1024 float16"], BOTH),
            *of(A10G, ["rmsnorm 512×1024 float16"]),
            *of(MAY, typed([SOFTMAX], *EACH), BOTH),
            *of(MAY, typed(SMALL, *F16)),
            *of(JUNE, typed([SOFTMAX], *EACH), BOTH),
        },
        # 1979 TFLOP/s are the H200's peak with sparsity.
        "sparse-peak": {
            *of(WAVES, ["512×11008×4096 bfloat16"], BOTH),
            *of(WAVES, ["512×11008×4096 float16"], ["PyTorch"]),
        },
        # Four times the work in the same 49 steps of the clock: bandwidth of launches.
        "bandwidth-near-floor": {
            *of(A10G, typed([SOFTMAX], *EACH)),
            *of(A10G, typed(["matmul 1024×1024×1024", *SMALL], *F16)),
            *of(MAY, typed([COPY, SOFTMAX], *EACH), BOTH),
            *of(MAY, typed([ADD], *F16), BOTH),
            *of(MAY, typed([*SMALL, *LARGE], *F16)),
            *of(MAY, typed(["layernorm 4096×4096", "swiglu 4096×4096"], *EACH)),
            *of(MAY, ["rmsnorm 4096×4096 float32"]),
            *of(JUNE, typed([COPY, SOFTMAX], *EACH), BOTH),
            *of(JUNE, typed([ADD], *F16), BOTH),
            *of(JUNE, typed([ADD], *F32)),
            *of(JUNE, typed(["layernorm 4096×4096", "rmsnorm 4096×4096", "swiglu 4096×4096"], *EACH)),
        },
        "identical-times": of(A10G, ["rmsnorm 1024×2048 float16"]),
        "more-work-in-no-more-time": {
            *of(A10G, ["rmsnorm 512×1024 float16"]),
            *of(MAY, ["rmsnorm 512×1024 float16"]),
            *of(MAY, typed([SOFTMAX], *F16), BOTH),
            *of(JUNE, typed([SOFTMAX], *F16), BOTH),
        },
        # 28 to 34 µs between the events that the profiler does not see.
        "host-time-in-events": {
            *of(A10G, typed([ADD], *F32)),
            *of(A10G, typed(["rmsnorm 4096×4096", "matmul 1024×1024×1024"], *F16)),
        },
        # Copy, scale, add, softmax and product all lose by 15 to 27 µs.
        "constant-loss": {(A10G, "Triton against PyTorch")},
        # 100.7 MB modelled, 75.2 MB counted, 67.1 MB needed.
        "modelled-above-counted": of(A10G, ["rmsnorm 4096×4096 float16"]),
        # Six decode profiles of one and the same other kernel.
        "same-counters": {(DECODE, mode) for mode in MODES},
        "counted-too-little": {(DECODE, mode) for mode in MODES},
        # Noise within a process is blind to what differs between processes.
        "two-times": of(JUNE, [f"{ADD} float32", "reduction_sum 16777216 float32 iterative"]),
        "two-speedups": of(JUNE, [f"{ADD} float32", "reduction_sum 16777216 float32 iterative"]),
        # The page of seed 004.
        "headline-case": {("", "RMSNorm fp16 max, 5.901×")},
        "dropped-rows": {("", "RMSNorm fp16 shape sweep")},
        # 5.9 times as fast as six or seven eager kernels.
        "weak-rival": {(A10G, "RMSNorm fp16 max, 5.901×")},
        "noisy-headline": {("", "Decode step, 0.1375 ms")},
        "counted-more-than-once": {("", "Fastest backend split: torch 47, triton 10")},
        "contradicts-itself": {("", "Width of the result of the case called llm-down, M×N×K of 512×11008×4096")},
    },
    CUDA_KERNELS.slug: {
        "above-memory-peak": {
            *swept("RMSNorm", (3072, 4096)), *swept("SwiGLU", (4096, 8192, 11008), BOTH),
        },
        "cache-resident": {
            *swept("RMSNorm", HIDDEN), *swept("RoPE", SEQUENCES[:4]), *swept("SwiGLU", WIDTHS[:2]),
        },
        # 12 to 13 µs whatever the size.
        "bandwidth-near-floor": {
            *swept("RMSNorm", HIDDEN), *swept("RoPE", SEQUENCES[:3]), *swept("SwiGLU", WIDTHS[:2]),
        },
        # 7182.3 µs for two sizes.
        "identical-times": swept("RMSNorm", [1536], BOTH, AGAIN),
        "more-work-in-no-more-time": {
            *swept("RMSNorm", HIDDEN[:3]),
            *swept("RMSNorm", (896, 1536, 2048, 3072, 3584), ALL, AGAIN),
            *swept("RoPE", (512, 1024), ("PyTorch", "CUDA C++"), AGAIN),
            *swept("RoPE", [2048], ("Triton", "CUDA C++"), AGAIN),
            *swept("SwiGLU", [4096], ALL, AGAIN),
            # One token slower than 256.
            *of(PROJECTION, [f"query, {tokens} tokens" for tokens in (1, 4, 16, 64, 256)], ["naive"]),
            *of(PROJECTION, ["FFN, 64 tokens"], ["naive"]),
        },
        # Up to a hundred times as long in the second table.
        "two-times": {place for name, sizes in SIZES.items() for place in swept(name, sizes, BOTH, AGAIN)},
        "two-speedups": {
            *swept("RMSNorm", (896, 3072, 4096), table=AGAIN),
            *swept("RoPE", (512, 1024), table=AGAIN),
            *swept("SwiGLU", WIDTHS, table=AGAIN),
        },
        "baseline-changed": swept("SwiGLU", WIDTHS, ["PyTorch"], AGAIN),
        "weak-rival": {
            (SWEEPS["RMSNorm"], "RMSNorm, 9.4× at hidden size 4096"), (SWEEPS["RoPE"], "RoPE, 8.8× at sequence 512"),
        },
        "sum-of-ratios": {("", "Savings per layer")},
        "dropped-rows": {("", PROJECTION)},
        "contradicts-itself": {
            ("", "RMSNorm 4096, printed as 1792+ GB/s"),
            ("", "Bytes of the naive projection"),
            ("", "Bytes of the fused projection"),
            ("", "Time of one token's projection at the memory's peak"),
            ("", "Time of the fused kernel at one token, said to be near the bandwidth limit of 28 µs"),
            ("", "Layers of the model"),
            ("", "RMSNorm calls of a forward pass"),
            ("", "Time that the kernels save in the whole model at 2048 tokens"),
        },
        "outside-its-range": {
            ("", "Triton and CUDA C++ within 10 to 20 % of each other"),
            ("", "Triton at 550 to 1100 GB/s, 30 to 60 % of the peak"),
            ("", "Fusion wins in decode, 1 to 64 tokens"),
        },
    },
    DIY_FLASH_ATTENTION.slug: {
        # 175 TFLOP/s on a part of 165.
        "above-dense-rate": of("Matrix products", ["8192×8192"]),
        # 6.2 and 3.9 TFLOP/s on the same part.
        "implausibly-slow": of(
            "Attention", [f"sequence {size}" for size in (512, 1024, 2048, 4096)], ["PyTorch", "Triton"]
        ),
        "contradicts-itself": {
            ("", "Memory saved at sequence 512"),
            ("", "Memory saved at sequence 1024"),
            ("", "Memory of standard attention at sequence 512"),
            ("", "Memory of this attention at sequence 512"),
        },
    },
    TRITON_FUSED_OPS.slug: {
        "faster-than-physics": of("Latency by sequence", ["sequence 8192"], ["fused", "unfused"]),
        "more-work-in-no-more-time": of("Latency by sequence", ["sequence 2048", "sequence 4096"], ["unfused"]),
        "identical-times": of("Latency by sequence", ["sequence 4096", "sequence 8192"], ["unfused"]),
        "outside-its-range": {("", "90 % of the memory's bandwidth and more")},
    },
}  # fmt: skip


def places(publication: Publication) -> dict[str, set[Place]]:
    return {rule: {(f.table, f.row) for f in findings} for rule, findings in audit(publication).items()}


EVERY = pytest.mark.parametrize("publication", AUDITS, ids=lambda publication: publication.slug)


@EVERY
def test_every_known_defect_is_found_and_nothing_in_sound_rows(publication) -> None:
    assert places(publication) == EXPECTED[publication.slug]


@EVERY
def test_no_place_is_named_twice_by_one_rule(publication) -> None:
    for rule, findings in audit(publication).items():
        assert len({(f.table, f.row) for f in findings}) == len(findings), rule


@EVERY
def test_every_figure_names_the_file_and_commit_that_prints_it(publication) -> None:
    for each in (*publication.tables, *publication.statements):
        assert "commit" in each.source or "2026-05-21" in each.source, each.source
    for table in publication.tables:
        assert len({row.label for row in table.rows}) == len(table.rows), table.title
        assert table.limits.source


def rows(publication: Publication) -> list[Row]:
    return [row for table in publication.tables for row in table.rows]


def test_the_copied_rates_are_the_bytes_that_each_project_models() -> None:
    """A slip in copying a time or a rate would show: the models are three, four or fewer tensors a call."""
    modelled = {"rmsnorm": 3, "layernorm": 4, "copy": 2, "scale": 2, "vector_add": 3, "softmax": 2, "swiglu": 3}
    size = {"float16": 2, "float32": 4}
    for row in rows(CUDA_KERNEL_LAB):
        if row.operator in modelled and row.modelled_bytes:
            elements = 1
            for side in row.shape.split("×"):
                elements *= int(side)
            expected = modelled[row.operator] * elements * size[row.dtype]
            assert row.modelled_bytes == pytest.approx(expected, rel=2e-3), row.label
    for row in rows(CUDA_KERNELS):
        if row.profile == "Triton" and row.modelled_bytes and row.work:
            assert row.modelled_bytes == pytest.approx(row.work.total_bytes, rel=1e-3), row.label


@EVERY
def test_the_copied_speedups_are_those_of_the_copied_times(publication) -> None:
    rivals = {"PyTorch", "naive", "baseline", "unfused"}
    for table in publication.tables:
        slow = {row.case: row.seconds for row in table.rows if row.profile in rivals}
        for row in table.rows:
            if row.speedup and row.seconds and slow.get(row.case):
                assert row.speedup == pytest.approx(slow[row.case] / row.seconds, rel=0.04), row.label


def test_the_least_work_is_that_of_the_labs_own_operators() -> None:
    assert rope(32, 512, 128) == wide_angle_traffic((1, 32, 512, 128), 2)
    for dtype, itemsize in (("float16", 2), ("float32", 4)):
        assert swiglu(512 * 1024, dtype) == glu_traffic((512, 1024), itemsize)
        assert rmsnorm(512, 1024, dtype) == rmsnorm_traffic((512, 1024), itemsize)
        assert layernorm(512, 1024, dtype) == layernorm_traffic((512, 1024), itemsize)
