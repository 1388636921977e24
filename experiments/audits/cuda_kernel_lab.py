"""tungsheng/cuda-kernel-lab and its site: Triton kernels against PyTorch on an A10G and an H200."""

from experiments.audits.gpus import A10G, H200
from experiments.audits.operators import (
    decode_step,
    elementwise,
    layernorm,
    matmul,
    reduction,
    rmsnorm,
    softmax,
    swiglu,
)
from lab.definition.publication import (
    Captured,
    Headline,
    Limits,
    Publication,
    Row,
    Selection,
    StatedQuantity,
    Table,
    Tally,
)
from lab.kernels.traffic import Traffic

EVENTS = "CUDA events around one call"
A10G_RUN = "experiments/reports/aws-ec2/2026-05-21-strategy-next.md at commit 5794dae"
DECODE_RUN = "experiments/reports/aws-ec2/2026-05-22-decode-workflow-improvements.md at commit 681bd16"
ROUND_12 = "experiments/reports/aws-ec2/2026-05-22-round12-kv-active-views.md at commit a61df32"
H200_MAY = "experiments/reports/runpod/20260523-h200-live-010615.md at commit 16250f8"
H200_JUNE = "experiments/reports/runpod/20260611-h200-retry-timing.md at commit 97f25cd"
H200_WAVES = "experiments/reports/runpod/20260526-h200-persistent-waves-073234.md at commit b0bd300"
SITE = "the page “Normalization Fusion” of its site, reports of 2026-05-21"
DECISIONS = "src/features/site/decision-content.ts of resume-site at commit 3dc7fff"
NUMEL = 16_777_216
NOISE_LIMIT = 1.20
A10G_STEP_SECONDS = 1.024e-6  # every printed time is a multiple of it

# Rows: operator, shape as printed, data type, variant, least work, whether PyTorch needs a single launch.
COPY16 = ("copy", str(NUMEL), "float16", "", elementwise(NUMEL, "float16", reads=1, flops=0))
COPY32 = ("copy", str(NUMEL), "float32", "", elementwise(NUMEL, "float32", reads=1, flops=0))
SCALE16 = ("scale", str(NUMEL), "float16", "", elementwise(NUMEL, "float16", reads=1))
SCALE32 = ("scale", str(NUMEL), "float32", "", elementwise(NUMEL, "float32", reads=1))
ADD16 = ("vector_add", str(NUMEL), "float16", "", elementwise(NUMEL, "float16", reads=2))
ADD32 = ("vector_add", str(NUMEL), "float32", "", elementwise(NUMEL, "float32", reads=2))
SUM16 = ("reduction_sum", str(NUMEL), "float16", "iterative", reduction(NUMEL, "float16"))
SUM32 = ("reduction_sum", str(NUMEL), "float32", "iterative", reduction(NUMEL, "float32"))
SUM32_TWO = ("reduction_sum", str(NUMEL), "float32", "two-pass", reduction(NUMEL, "float32"))
SOFTMAX16 = ("softmax", "4096×1024", "float16", "", softmax(4096, 1024, "float16"))
SOFTMAX32 = ("softmax", "4096×1024", "float32", "", softmax(4096, 1024, "float32"))
SWIGLU16 = ("swiglu", "4096×4096", "float16", "", swiglu(4096 * 4096, "float16"))
SWIGLU32 = ("swiglu", "4096×4096", "float32", "", swiglu(4096 * 4096, "float32"))
LAYER16 = ("layernorm", "4096×4096", "float16", "", layernorm(4096, 4096, "float16"))
LAYER32 = ("layernorm", "4096×4096", "float32", "", layernorm(4096, 4096, "float32"))
RMS32 = ("rmsnorm", "4096×4096", "float32", "", rmsnorm(4096, 4096, "float32"))
MATMUL = ("matmul", "1024×1024×1024", "float16", "", matmul(1024, 1024, 1024))

Case = tuple[str, str, str, str, Traffic]
SINGLE = {"copy", "scale", "vector_add", "softmax", "matmul"}  # one kernel in PyTorch as well


def rms16(rows: int, columns: int, variant: str = "") -> Case:
    return "rmsnorm", f"{rows}×{columns}", "float16", variant, rmsnorm(rows, columns, "float16")


# Case → ms, printed GB/s and noise ratio of PyTorch, then of Triton; printed speed-up.
A10G_ROWS: list[tuple[Case, tuple[float, float, float], tuple[float, float, float], float]] = [
    (COPY16, (0.1505, 445.8, 1.027), (0.17, 394.8, 1.043), 0.8855),
    (COPY32, (0.2888, 464.8, 1.014), (0.3154, 425.6, 1.026), 0.9156),
    (SCALE16, (0.1526, 439.8, 1.027), (0.171, 392.4, 1.06), 0.8922),
    (SCALE32, (0.2929, 458.3, 1.017), (0.3154, 425.6, 1.036), 0.9286),
    (ADD16, (0.2212, 455.1, 1.023), (0.2437, 413.0, 1.025), 0.9076),
    (ADD32, (0.4311, 467.0, 1.01), (0.4552, 442.3, 1.033), 0.9472),
    (SUM16, (0.08602, 391.6, 1.06), (0.126, 267.4, 1.187), 0.6829),
    (SUM32, (0.1485, 452.9, 1.035), (0.1761, 381.8, 1.047), 0.843),
    (SUM32_TWO, (0.1495, 449.8, 1.048), (0.1792, 375.2, 1.081), 0.8343),
    (SOFTMAX16, (0.05018, 334.4, 1.042), (0.06554, 256.0, 1.157), 0.7656),
    (SOFTMAX32, (0.08192, 409.6, 1.027), (0.09933, 337.8, 1.165), 0.8247),
    (MATMUL, (0.06963, 90.35, 1.118), (0.08499, 74.02, 1.096), 0.8193),
    (LAYER16, (0.2181, 615.4, 1.048), (0.172, 780.2, 1.06), 1.268),
    (LAYER32, (0.4321, 621.2, 1.014), (0.3133, 856.7, 1.03), 1.379),
    (rms16(512, 1024), (0.1188, 26.48, 1.173), (0.05018, 62.69, 1.39), 2.367),
    (rms16(1024, 2048), (0.1443, 87.19, 1.022), (0.05018, 250.8, 1.212), 2.876),
    (rms16(2048, 4096), (0.4874, 103.3, 1.011), (0.1024, 491.5, 1.142), 4.76),
    (rms16(4096, 4096), (0.9462, 106.4, 1.013), (0.169, 595.7, 1.03), 5.599),
    (rms16(4096, 8192), (1.831, 110.0, 1.003), (0.3103, 648.9, 1.036), 5.901),
    (RMS32, (1.011, 199.2, 1.006), (0.3098, 649.9, 1.038), 3.263),
    (SWIGLU16, (0.7158, 140.6, 1.007), (0.2437, 413.0, 1.042), 2.937),
    (SWIGLU32, (1.418, 142.0, 1.004), (0.4547, 442.8, 1.027), 3.119),
]
H200_MAY_ROWS: list[tuple[Case, tuple[float, float, float], tuple[float, float, float], float]] = [
    (COPY16, (0.02283, 2939, 1.06), (0.03374, 1989, 1.064), 0.6766),
    (COPY32, (0.03824, 3510, 1.049), (0.04944, 2715, 1.052), 0.7735),
    (ADD16, (0.03043, 3308, 1.049), (0.04405, 2285, 1.053), 0.6909),
    (ADD32, (0.05379, 3743, 1.03), (0.108, 1864, 1.084), 0.4979),
    (SUM16, (0.01862, 1809, 1.019), (0.06002, 561.3, 1.082), 0.3103),
    (SUM32, (0.02992, 2247, 1.041), (0.122, 551.2, 1.065), 0.2453),
    (SUM32_TWO, (0.03008, 2235, 1.033), (0.04146, 1622, 1.056), 0.7256),
    (SOFTMAX16, (0.01562, 1074, 1.037), (0.02437, 688.5, 1.229), 0.6408),
    (SOFTMAX32, (0.01546, 2171, 1.033), (0.02314, 1450, 1.125), 0.668),
    (LAYER16, (0.04067, 3300, 1.025), (0.03891, 3449, 1.057), 1.045),
    (LAYER32, (0.0604, 4444, 1.025), (0.06011, 4466, 1.06), 1.005),
    (rms16(512, 1024), (0.05493, 57.27, 1.089), (0.0239, 131.6, 1.162), 2.298),
    (rms16(1024, 2048), (0.05579, 225.5, 1.094), (0.02365, 532.1, 1.162), 2.359),
    (rms16(2048, 4096), (0.1185, 424.6, 1.01), (0.02646, 1902, 1.12), 4.479),
    (rms16(4096, 4096), (0.2104, 478.5, 1.004), (0.03562, 2826, 1.066), 5.907),
    (rms16(4096, 8192), (0.3839, 524.4, 1.005), (0.05232, 3848, 1.046), 7.338),
    (RMS32, (0.1721, 1170, 1.009), (0.05261, 3827, 1.043), 3.272),
    (SWIGLU16, (0.09555, 1053, 1.012), (0.04411, 2282, 1.041), 2.166),
    (SWIGLU32, (0.1733, 1162, 1.008), (0.06658, 3024, 1.037), 2.603),
]
H200_JUNE_ROWS: list[tuple[Case, tuple[float, float, float], tuple[float, float, float], float]] = [
    (COPY16, (0.02323, 2889, 1.068), (0.034, 1974, 1.121), 0.6833),
    (COPY32, (0.03869, 3469, 1.042), (0.05018, 2675, 1.048), 0.771),
    (ADD16, (0.03117, 3230, 1.069), (0.04421, 2277, 1.095), 0.705),
    (ADD32, (0.05373, 3747, 1.027), (0.0665, 3028, 1.032), 0.808),
    (SUM16, (0.01998, 1686, 1.025), (0.06101, 552.2, 1.14), 0.3276),
    (SUM32, (0.02982, 2255, 1.05), (0.05779, 1163, 1.118), 0.5161),
    (SUM32_TWO, (0.03043, 2210, 1.056), (0.04064, 1655, 1.087), 0.7488),
    (SOFTMAX16, (0.01594, 1053, 1.047), (0.02366, 709.0, 1.114), 0.6734),
    (SOFTMAX32, (0.01547, 2169, 1.055), (0.0223, 1504, 1.135), 0.6937),
    (LAYER16, (0.0409, 3282, 1.042), (0.03784, 3547, 1.066), 1.081),
    (LAYER32, (0.06074, 4420, 1.027), (0.05445, 4930, 1.05), 1.115),
    (rms16(4096, 4096), (0.2135, 471.4, 1.008), (0.03499, 2877, 1.086), 6.102),
    (RMS32, (0.1744, 1155, 1.007), (0.05192, 3878, 1.05), 3.358),
    (SWIGLU16, (0.09589, 1050, 1.01), (0.04218, 2387, 1.064), 2.274),
    (SWIGLU32, (0.1735, 1160, 1.007), (0.06619, 3042, 1.038), 2.621),
]
# Label of a Triton row → ns of the profiled kernel, bytes read and written, registers a thread.
PROFILES = {
    "vector_add 16777216 float32, Triton": (421_568, 154_447_360, 76_962_816, 26),
    "rmsnorm 4096×4096 float16, Triton": (137_952, 37_918_080, 37_239_552, 40),
    "matmul 1024×1024×1024 float16, Triton": (57_152, 5_729_792, 2_413_440, 80),
    "reduction_sum 16777216 float32 iterative, Triton": (136_448, 74_149_120, 2_385_920, 16),
    "reduction_sum 16777216 float32 two-pass, Triton": (136_576, 74_193_792, 2_427_904, 16),
}
# As PROFILES: share of the memory's peak, occupancy.
PERCENTAGES = {"rmsnorm 4096×4096 float16, Triton": (0.9091, 0.9312)}
# Mode → ms, printed GB/s, noise ratio; then its profile.
DECODE = {
    "naive-eager": ((0.4863, 56.21, 1.123), (35_040, 9_305_856, 8_574_848, 30)),
    "fused-eager": ((0.4786, 57.1, 1.059), (34_144, 9_304_832, 8_491_264, 30)),
    "naive-graph": ((0.161, 169.8, 1.056), (34_560, 9_286_144, 8_536_064, 30)),
    "fused-graph": ((0.1499, 182.4, 1.054), (34_272, 9_298_432, 8_539_904, 30)),
    "fused-piecewise-graph": ((0.4174, 65.47, 1.061), (34_784, 9_303_168, 8_583_680, 30)),
    "fused-piecewise-graph-same-stream": ((0.3223, 84.8, 1.075), (34_944, 9_302_272, 8_618_368, 30)),
}
# Matrix products on the H200, 512×11008×4096: ms, printed TFLOP/s and per cent of the matrix peak.
MATRIX = {
    ("bfloat16", "PyTorch"): (0.08757, 527.3, 26.64), ("float16", "PyTorch"): (0.08938, 516.6, 26.10),
    ("bfloat16", "Triton"): (0.09794, 471.4, 23.82),
}  # fmt: skip
SWEPT = (rms16(512, 1024), rms16(1024, 2048), rms16(2048, 4096), rms16(4096, 4096), rms16(4096, 8192))


def _captured(
    profile: tuple[float, float, float, float] | None, percentages: tuple[float, float] | None = None
) -> Captured | None:
    if profile is None:
        return None
    nanoseconds, read, written, registers = profile
    dram_share, occupancy_share = percentages or (None, None)
    return Captured(
        seconds=nanoseconds * 1e-9, read_bytes=read, written_bytes=written, registers_per_thread=registers,
        dram_share=dram_share, occupancy_share=occupancy_share,
    )  # fmt: skip


def _rows(
    case: Case, torch: tuple[float, float, float], triton: tuple[float, float, float], speedup: float, profiled: bool
) -> tuple[Row, Row]:
    operator, shape, dtype, variant, work = case
    name = f"{operator} {shape} {dtype}" + (f" {variant}" if variant else "")
    launches = {"PyTorch": 1 if operator in SINGLE else None, "Triton": {"iterative": 3, "two-pass": 2}.get(variant, 1)}

    def row(profile: str, times: tuple[float, float, float], ratio: float) -> Row:
        milliseconds, gigabytes, noise = times
        label = f"{name}, {profile}"
        return Row(
            label=label, operator=f"{operator} {variant}".strip(), shape=shape, dtype=dtype, profile=profile, work=work,
            matrix=dtype if operator == "matmul" else "", seconds=milliseconds * 1e-3, bytes_per_second=gigabytes * 1e9,
            speedup=ratio, noise_ratio=noise, launches=launches[profile],
            counters=_captured(PROFILES.get(label), PERCENTAGES.get(label)) if profiled else None,
        )  # fmt: skip

    return row("PyTorch", torch, 1.0), row("Triton", triton, speedup)


def _run(
    title: str,
    source: str,
    limits: Limits,
    rows: list[tuple[Case, tuple[float, float, float], tuple[float, float, float], float]],
) -> Table:
    on_a10g = limits is A10G
    return Table(
        title=title, source=source, limits=limits, scope=EVENTS,
        clock_step_seconds=A10G_STEP_SECONDS if on_a10g else 0.0,
        rows=tuple(row for each in rows for row in _rows(*each, profiled=on_a10g)),
    )  # fmt: skip


def _decode() -> Table:
    rows = [
        Row(
            label=mode, operator="decode step", shape="hidden 1024, intermediate 4096, sequence 2048", dtype="float16",
            profile=mode, work=decode_step(1024, 4096, 2048), seconds=milliseconds * 1e-3,
            bytes_per_second=gigabytes * 1e9, noise_ratio=noise, counters=_captured(profile),
        )
        for mode, ((milliseconds, gigabytes, noise), profile) in DECODE.items()
    ]  # fmt: skip
    source = f"{DECODE_RUN}, and the six profiles of that run"
    return Table(title="A10G, decode step with profiles", source=source, limits=A10G, scope=EVENTS, rows=tuple(rows))


def _matrix() -> Table:
    rows = [
        Row(
            label=f"512×11008×4096 {dtype}, {profile}", operator="matmul", shape="512×11008×4096", dtype=dtype,
            profile=profile, work=matmul(512, 11008, 4096), matrix=dtype, seconds=milliseconds * 1e-3,
            flops_per_second=rate * 1e12, matrix_share=percent / 100,
        )
        for (dtype, profile), (milliseconds, rate, percent) in MATRIX.items()
    ]  # fmt: skip
    return Table(title="H200, matrix products", source=H200_WAVES, limits=H200, scope=EVENTS, rows=tuple(rows))


def _named(case: Case) -> str:
    return f"{case[0]} {case[1]} {case[2]}"


CUDA_KERNEL_LAB = Publication(
    slug="cuda-kernel-lab",
    title="cuda-kernel-lab (tungsheng) and its site",
    source="https://github.com/tungsheng/cuda-kernel-lab",
    about=(
        "Triton kernels against PyTorch, with percentiles, noise, profiler counters and decision records. It publishes "
        "its losses, and marks noisy rows itself; this lab owes it the form of its pages."
    ),
    tables=(
        _run("A10G, 2026-05-21", A10G_RUN, A10G, A10G_ROWS),
        _decode(),
        _run("H200, 2026-05-23", H200_MAY, H200, H200_MAY_ROWS),
        _run("H200, 2026-06-11", H200_JUNE, H200, H200_JUNE_ROWS),
        _matrix(),
    ),
    statements=(
        Headline(
            label="RMSNorm fp16 max, 5.901×", source=SITE, case=_named(rms16(4096, 8192)),
            table="A10G, 2026-05-21", profile="Triton",
            listed=(_named(rms16(512, 1024)), _named(rms16(2048, 4096)), _named(rms16(4096, 4096)), _named(LAYER32)),
            noise_ratio=1.036, noise_limit=NOISE_LIMIT,
        ),
        Headline(
            label="Decode step, 0.1375 ms", source=f"{DECISIONS}; {ROUND_12}", case="decode step",
            noise_ratio=1.222, noise_limit=NOISE_LIMIT,
        ),
        StatedQuantity(
            label="Width of the result of the case called llm-down, M×N×K of 512×11008×4096", source=H200_MAY,
            said=11008, follows=4096, unit="count",
            basis="a down projection, which leads from the wider layer back to the narrower",
        ),
        Selection(
            label="RMSNorm fp16 shape sweep", source=SITE, measured=tuple(_named(case) for case in SWEPT),
            shown=(_named(rms16(512, 1024)), _named(rms16(2048, 4096)), _named(rms16(4096, 8192))),
        ),
        Tally(
            label="Fastest backend split: torch 47, triton 10", source=A10G_RUN,
            counted={
                "attention float16": 1, "matmul 1024×1024×1024 float16": 33, "copy float16": 1, "copy float32": 1,
                "reduction_sum float16": 1, "reduction_sum float32": 2, "scale float16": 1, "scale float32": 1,
                "vector_add float16": 1, "vector_add float32": 3, "layernorm float16": 1, "layernorm float32": 1,
                **{_named(case): 1 for case in SWEPT}, _named(RMS32): 1, "softmax float16": 1, "softmax float32": 1,
                "swiglu float16": 1, "swiglu float32": 1,
            },
        ),
    ),
)  # fmt: skip
