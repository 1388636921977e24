"""LessUp/triton-fused-ops: RMSNorm fused with RoPE on an A100."""

from experiments.audits.gpus import A100
from experiments.audits.operators import rmsnorm_rope
from lab.definition.publication import Publication, Row, StatedRange, Table
from lab.kernels.traffic import Traffic

HOST = "host clock over a loop of calls"
CHART = "docs/en/guides/benchmark-visualization.md at commit 38c61a8"
README = "README.en.md at commit 7e7dddd"
# Sequence → µs of the fused and the unfused path, as the bars of the chart are labelled.
LATENCY = {128: (14, 32), 512: (20, 44), 1024: (28, 68), 2048: (38, 80), 4096: (50, 80), 8192: (60, 80)}


def work(sequence: int) -> Traffic:
    """Batch 2, hidden 4096; in float16, which the page does not say: any wider type moves more."""
    return rmsnorm_rope(2, sequence, 4096, 64)


def _latency() -> Table:
    rows = [
        Row(
            label=f"sequence {size}, {profile}", operator="RMSNorm + RoPE", shape=f"2×{size}×4096", dtype="",
            profile=profile, work=work(size), seconds=microseconds * 1e-6,
            speedup=unfused / microseconds,  # what the two bars show
        )
        for size, (fused, unfused) in LATENCY.items()
        for profile, microseconds in (("fused", fused), ("unfused", unfused))
    ]  # fmt: skip
    return Table(title="Latency by sequence", source=CHART, limits=A100, scope=HOST, rows=tuple(rows))


TRITON_FUSED_OPS = Publication(
    slug="triton-fused-ops",
    title="triton-fused-ops (LessUp)",
    source="https://github.com/LessUp/triton-fused-ops",
    about=(
        "Fused operators with their own exceptions and correctness checks. Its page of charts calls its figures "
        "directional references; its guide says which measurements not to trust."
    ),
    tables=(_latency(),),
    statements=(
        StatedRange(
            label="90 % of the memory's bandwidth and more", source=README, low=0.9, high=1.0, unit="share",
            values={
                f"sequence {size}": work(size).total_bytes / (fused * 1e-6) / A100.bytes_per_second
                for size, (fused, _) in LATENCY.items()
            },
        ),
    ),
)  # fmt: skip
