"""MemoryWorld/cuda-kernels: Triton and CUDA C++ kernels of a language model on an RTX 5090."""

from experiments.audits.gpus import RTX_5090
from experiments.audits.operators import rmsnorm, rmsnorm_linear, rope, swiglu
from lab.definition.publication import (
    Aggregate,
    Headline,
    Publication,
    Replication,
    Row,
    Selection,
    StatedQuantity,
    StatedRange,
    Table,
)
from lab.kernels.traffic import Traffic

README = "README.md at commit 4290244"
HOST = "host clock over a loop of calls"  # time.perf_counter around 50 or 100 calls, one synchronisation at the end
ROWS = 2048  # batch 4, sequence 512
HEADS, HEAD = 32, 128
K = 3584

# Hidden size → µs of PyTorch and Triton, printed GB/s of both, printed speed-up.
RMSNORM_SWEEP = {
    896: (70.614, 13.308, 155.944, 551.672, 5.3),
    1536: (80.201, 13.132, 235.378, 958.408, 6.1),
    2048: (83.509, 12.633, 301.405, 1328.333, 6.6),
    3072: (84.454, 12.682, 447.045, 1984.814, 6.7),
    4096: (112.613, 12.016, 447.016, 2793.166, 9.4),
}
# Sequence → µs of PyTorch and Triton, printed GB/s of Triton, printed speed-up.
ROPE_SWEEP = {
    512: (128.794, 14.563, 594.012, 8.8),
    1024: (94.627, 19.362, 893.594, 4.9),
    2048: (133.456, 35.526, 974.031, 3.8),
    4096: (412.735, 68.762, 1006.461, 6.0),
    8192: (1018.464, 125.979, 1098.689, 8.1),
}
# FFN dimension → as for RMSNorm.
SWIGLU_SWEEP = {
    4096: (19.486, 13.252, 4304.910, 3798.088, 1.5),
    8192: (65.644, 18.482, 2555.800, 5446.494, 3.6),
    11008: (112.433, 69.800, 2005.147, 1937.901, 1.6),
    14336: (164.055, 104.740, 1789.649, 1681.889, 1.6),
    18944: (246.068, 148.030, 1576.691, 1572.540, 1.7),
}
# Size → µs of PyTorch, Triton and CUDA C++, printed speed-ups of the last two.
RMSNORM_AGAIN = {
    896: (7182.307, 835.674, 835.961, 8.59, 8.59),
    1536: (7182.320, 836.051, 744.820, 8.59, 9.64),
    2048: (7085.758, 929.063, 837.378, 7.63, 8.46),
    3072: (1204.242, 839.134, 838.889, 1.44, 1.44),
    3584: (1785.888, 654.298, 842.880, 2.73, 2.12),
    4096: (531.192, 194.723, 104.274, 2.73, 5.09),
}
ROPE_AGAIN = {
    512: (7979.980, 102.472, 835.552, 77.87, 9.55),
    1024: (7620.802, 110.833, 745.634, 68.76, 10.22),
    2048: (614.253, 232.337, 385.104, 2.64, 1.60),
    4096: (1501.066, 224.479, 214.001, 6.69, 7.01),
    8192: (3477.026, 381.718, 372.919, 9.11, 9.32),
}
SWIGLU_AGAIN = {
    4096: (1403.994, 121.519, 286.402, 11.55, 4.90),
    8192: (1128.818, 121.791, 219.864, 9.27, 5.13),
    11008: (1851.689, 351.364, 281.108, 5.27, 6.59),
    14336: (2535.920, 404.955, 380.626, 6.26, 6.66),
    18944: (3380.111, 563.175, 530.201, 6.00, 6.38),
}
# Tokens → µs of the naive and the fused path, printed speed-up.
QUERY = {
    1: (1246.800, 63.663, 19.6), 4: (1523.004, 82.858, 18.4), 16: (2286.151, 63.704, 35.9),
    64: (1615.941, 132.250, 12.2), 256: (295.114, 347.705, 0.85), 512: (279.623, 478.149, 0.58),
    1024: (557.205, 845.658, 0.66), 2048: (859.550, 1805.549, 0.48),
}  # fmt: skip
FFN = {
    1: (228.687, 266.760, 0.86), 4: (341.445, 224.502, 1.52), 16: (289.921, 210.292, 1.38),
    64: (515.747, 319.032, 1.62), 256: (454.287, 1174.116, 0.39), 512: (861.499, 2217.005, 0.39),
}  # fmt: skip
FFN_FILE_ONLY = {1024: (1618.099, 4599.427), 2048: (3078.609, 9223.294)}  # in the results file, not in the README
END_TO_END = {  # sequence → ms before and after patching, printed speed-up
    128: (19.847, 18.034, 1.101), 256: (26.364, 24.624, 1.071), 512: (42.716, 40.829, 1.046),
    1024: (79.072, 76.149, 1.038), 2048: (151.844, 147.030, 1.033),
}  # fmt: skip


def rmsnorm_work(columns: int) -> Traffic:
    return rmsnorm(ROWS, columns, "float16")


def rope_work(sequence: int) -> Traffic:
    return rope(HEADS, sequence, HEAD)


def swiglu_work(columns: int) -> Traffic:
    return swiglu(ROWS * columns, "float16")


def _row(
    operator: str, size: int, work: Traffic, profile: str, microseconds: float, *, gigabytes: float | None = None,
    speedup: float | None = None, launches: int | None = None,
) -> Row:  # fmt: skip
    return Row(
        label=f"{operator} {size}, {profile}", operator=operator, shape=str(size), dtype="float16", profile=profile,
        work=work, seconds=microseconds * 1e-6, bytes_per_second=None if gigabytes is None else gigabytes * 1e9,
        speedup=speedup, launches=launches,
    )  # fmt: skip


def _sweep(title: str, file: str, rows: list[Row]) -> Table:
    source = f"{README}; {file} at commit cccc7d9"
    return Table(title=title, source=source, limits=RTX_5090, scope=HOST, rows=tuple(rows))


def _rmsnorm_sweep() -> Table:
    rows = []
    for size, (torch, triton, torch_rate, triton_rate, speedup) in RMSNORM_SWEEP.items():
        work = rmsnorm_work(size)
        rows.append(_row("RMSNorm", size, work, "PyTorch", torch, gigabytes=torch_rate))
        rows.append(_row("RMSNorm", size, work, "Triton", triton, gigabytes=triton_rate, speedup=speedup, launches=1))
    return _sweep("RMSNorm by hidden size", "results/rmsnorm.json", rows)


def _rope_sweep() -> Table:
    rows = []
    for size, (torch, triton, triton_rate, speedup) in ROPE_SWEEP.items():
        work = rope_work(size)
        rows.append(_row("RoPE", size, work, "PyTorch", torch))
        rows.append(_row("RoPE", size, work, "Triton", triton, gigabytes=triton_rate, speedup=speedup, launches=1))
    return _sweep("RoPE by sequence", "results/rope.json", rows)


def _swiglu_sweep() -> Table:
    """PyTorch here is F.silu(gate) * up: two kernels."""
    rows = []
    for size, (torch, triton, torch_rate, triton_rate, speedup) in SWIGLU_SWEEP.items():
        work = swiglu_work(size)
        rows.append(_row("SwiGLU", size, work, "PyTorch", torch, gigabytes=torch_rate, launches=2))
        rows.append(_row("SwiGLU", size, work, "Triton", triton, gigabytes=triton_rate, speedup=speedup, launches=1))
    return _sweep("SwiGLU by FFN dimension", "results/swiglu.json", rows)


def _head_to_head() -> Table:
    """PyTorch's SwiGLU is (F.silu(gate.float()) * up.float()).half() here: five kernels."""
    measured = [("RMSNorm", size, rmsnorm_work(size), None, times) for size, times in RMSNORM_AGAIN.items()]
    measured += [("RoPE", size, rope_work(size), None, times) for size, times in ROPE_AGAIN.items()]
    measured_rows = [
        *measured,
        *(("SwiGLU", size, swiglu_work(size), 5, times) for size, times in SWIGLU_AGAIN.items()),
    ]
    rows = []
    for operator, size, work, launches, (torch, triton, cuda, triton_speedup, cuda_speedup) in measured_rows:
        rows.append(_row(operator, size, work, "PyTorch", torch, speedup=1.0, launches=launches))
        rows.append(_row(operator, size, work, "Triton", triton, speedup=triton_speedup, launches=1))
        rows.append(_row(operator, size, work, "CUDA C++", cuda, speedup=cuda_speedup, launches=1))
    return Table(
        title="Triton against CUDA C++", source=f"{README}; results/cuda_vs_triton.json at commit 0af1daa",
        limits=RTX_5090, scope=HOST, rows=tuple(rows),
    )  # fmt: skip


def _fused_linear() -> Table:
    rows = []
    for name, n, table in (("query", 3584, QUERY), ("FFN", 18944, FFN)):
        for tokens, (naive, fused, speedup) in table.items():
            for profile, microseconds in (("naive", naive), ("fused", fused)):
                rows.append(
                    Row(
                        label=f"{name}, {tokens} tokens, {profile}", operator=f"RMSNorm + {name}",
                        shape=f"{tokens}×{n}×{K}", dtype="float16", profile=profile, work=rmsnorm_linear(tokens, n, K),
                        matrix="float16", seconds=microseconds * 1e-6, speedup=1.0 if profile == "naive" else speedup,
                    )
                )  # fmt: skip
    return Table(
        title="RMSNorm fused with a projection", limits=RTX_5090, scope=HOST, rows=tuple(rows),
        source=f"{README}; results/fused_rmsnorm_linear.json at commit 4290244",
    )  # fmt: skip


def _end_to_end() -> Table:
    rows = [
        Row(
            label=f"prefill {size}, {profile}", operator="Qwen2.5-7B prefill", shape=f"{size} tokens",
            dtype="float16", profile=profile,
            seconds=milliseconds * 1e-3, speedup=speedup if profile == "patched" else None,
        )
        for size, (before, after, speedup) in END_TO_END.items()
        for profile, milliseconds in (("baseline", before), ("patched", after))
    ]  # fmt: skip
    source = f"{README}; results/end_to_end.json at commit cccc7d9"
    return Table(title="The whole model", source=source, limits=RTX_5090, scope=HOST, rows=tuple(rows))


def _patched_saving() -> float:
    """Seconds that 57 RMSNorm and 28 SwiGLU save according to the head-to-head table."""
    norm, activation = RMSNORM_AGAIN[3584], SWIGLU_AGAIN[18944]
    return (57 * (norm[0] - norm[1]) + 28 * (activation[0] - activation[1])) * 1e-6


def _triton_rates() -> dict[str, float]:
    rates = {f"RMSNorm {size}": times[3] for size, times in RMSNORM_SWEEP.items()}
    rates |= {f"RoPE {size}": times[2] for size, times in ROPE_SWEEP.items()}
    rates |= {f"SwiGLU {size}": times[3] for size, times in SWIGLU_SWEEP.items()}
    return {name: rate * 1e9 for name, rate in rates.items()}


def _triton_over_cuda() -> dict[str, float]:
    tables = {"RMSNorm": RMSNORM_AGAIN, "RoPE": ROPE_AGAIN, "SwiGLU": SWIGLU_AGAIN}
    return {f"{name} {size}": times[1] / times[2] for name, table in tables.items() for size, times in table.items()}


def _decode_speedups() -> dict[str, float]:
    tables = {"query": QUERY, "FFN": FFN}
    return {
        f"{name}, {tokens} tokens": times[2] for name, table in tables.items() for tokens, times in table.items()
        if tokens <= 64
    }  # fmt: skip


def _bytes_of(passes: int) -> float:
    """The README's formula: passes·M·K + K + N·K + M·N elements of two bytes, at M 2048, N 3584."""
    m, n = 2048, 3584
    return 2.0 * (passes * m * K + K + n * K + m * n)


def _replication() -> Replication:
    """Every case of the first four tables."""
    cases = {f"RMSNorm {hidden} float16": f"rmsnorm-{ROWS}x{hidden}-float16" for hidden in RMSNORM_AGAIN}
    cases |= {f"RoPE {size} float16": f"rope-1x{HEADS}x{size}x{HEAD}-float16" for size in ROPE_SWEEP}
    cases |= {f"SwiGLU {width} float16": f"swiglu-{ROWS}x{width}-float16" for width in SWIGLU_SWEEP}
    return Replication(
        experiment="headline-tables", cases=cases, subject="triton", baseline="torch-baseline",
        printed_subject="Triton", printed_baseline="PyTorch",
    )  # fmt: skip


def _replication_of_linear() -> Replication:
    """Every case of the table of fused projections."""
    return Replication(
        experiment="headline-linear",
        cases={
            f"RMSNorm + {name} {tokens}×{n}×{K} float16": f"rmsnorm-linear-{tokens}x{n}x{K}-float16"
            for name, n, table in (("query", 3584, QUERY), ("FFN", 18944, FFN))
            for tokens in table
        },
        subject="triton", baseline="torch-baseline", printed_subject="fused", printed_baseline="naive",
    )  # fmt: skip


CUDA_KERNELS = Publication(
    slug="cuda-kernels",
    title="cuda-kernels (MemoryWorld)",
    source="https://github.com/MemoryWorld/cuda-kernels",
    about=(
        "Fused RMSNorm, RoPE and SwiGLU on an RTX 5090, with the results files beside the tables. It publishes a "
        "regime where its own kernel loses, and says why the gain in the whole model is small."
    ),
    tables=(_rmsnorm_sweep(), _rope_sweep(), _swiglu_sweep(), _head_to_head(), _fused_linear(), _end_to_end()),
    statements=(
        Headline(
            label="RMSNorm, 9.4× at hidden size 4096", source=README, case="RMSNorm 4096 float16",
            table="RMSNorm by hidden size", profile="Triton",
        ),
        Headline(
            label="RoPE, 8.8× at sequence 512", source=README, case="RoPE 512 float16", table="RoPE by sequence",
            profile="Triton",
        ),
        Aggregate(label="Savings per layer", source=README, ratios=(9.4, 8.1, 1.7), said=9.4 + 8.1 + 1.7),
        StatedQuantity(
            label="RMSNorm 4096, printed as 1792+ GB/s", source=README, said=1792e9,
            follows=RMSNORM_SWEEP[4096][3] * 1e9, unit="bytes_per_second", basis="its own results file",
        ),
        StatedQuantity(
            label="Bytes of the naive projection", source=README, said=214e6, follows=_bytes_of(3), unit="bytes",
            basis="the formula beside it, (3·M·K + K + N·K + M·N) · 2 bytes",
        ),
        StatedQuantity(
            label="Bytes of the fused projection", source=README, said=199e6, follows=_bytes_of(2), unit="bytes",
            basis="the formula beside it, (2·M·K + K + N·K + M·N) · 2 bytes",
        ),
        StatedQuantity(
            label="Time of one token's projection at the memory's peak", source=README, said=28e-6,
            follows=rmsnorm_linear(1, 3584, K).total_bytes / RTX_5090.bytes_per_second, unit="seconds",
            basis="the bytes that it must move at 1792 GB/s",
        ),
        StatedQuantity(
            label="Time of the fused kernel at one token, said to be near the bandwidth limit of 28 µs", source=README,
            said=28e-6, follows=QUERY[1][1] * 1e-6, unit="seconds", basis="its own table",
        ),
        StatedQuantity(
            label="Layers of the model", source=README, said=32, follows=28, unit="count",
            basis="its own results file, which reads the model",
        ),
        StatedQuantity(
            label="RMSNorm calls of a forward pass", source=README, said=64, follows=57, unit="count",
            basis="the number that it patched",
        ),
        StatedQuantity(
            label="Time that the kernels save in the whole model at 2048 tokens", source=README,
            said=(END_TO_END[2048][0] - END_TO_END[2048][1]) * 1e-3, follows=_patched_saving(), unit="seconds",
            basis="57 RMSNorm and 28 SwiGLU by the table of Triton against CUDA C++",
        ),
        Selection(
            label="RMSNorm fused with a projection", source=README,
            measured=(*(f"query, {m} tokens" for m in QUERY), *(f"FFN, {m} tokens" for m in (*FFN, *FFN_FILE_ONLY))),
            shown=(*(f"query, {m} tokens" for m in QUERY), *(f"FFN, {m} tokens" for m in FFN)),
        ),
        StatedRange(
            label="Triton and CUDA C++ within 10 to 20 % of each other", source=README, low=0.8, high=1.2,
            unit="ratio", values=_triton_over_cuda(),
        ),
        StatedRange(
            label="Triton at 550 to 1100 GB/s, 30 to 60 % of the peak", source=README, low=550e9, high=1100e9,
            unit="bytes_per_second", values=_triton_rates(),
        ),
        StatedRange(
            label="Fusion wins in decode, 1 to 64 tokens", source=README, low=1.0, unit="ratio",
            values=_decode_speedups(),
        ),
    ),
    replications=(_replication(), _replication_of_linear()),
)  # fmt: skip
