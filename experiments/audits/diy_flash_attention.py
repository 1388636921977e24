"""AICL-Lab/diy-flash-attention: matrix products and attention in Triton on an RTX 4090."""

from experiments.audits.gpus import RTX_4090
from experiments.audits.operators import attention, matmul
from lab.definition.publication import Publication, Replication, Row, StatedQuantity, Table

GUIDE = "docs/performance.md at commit 2b552cd"
BATCH, HEADS, HEAD = 4, 8, 64

MATMUL = {
    512: (25, 28, 1.12),
    1024: (45, 48, 1.07),
    2048: (85, 95, 1.12),
    4096: (120, 140, 1.17),
    8192: (150, 175, 1.17),
}
ATTENTION = {512: (0.8, 0.7, 1.14), 1024: (2.5, 2.0, 1.25), 2048: (9.0, 6.5, 1.38), 4096: (35.0, 22.0, 1.59)}
# Sequence → per cent of memory saved in the table of times, and in the table of memory.
SAVED = {512: (94, 88), 1024: (97, 94), 2048: (98, 97), 4096: (99, 98)}
# Sequence → MB of standard attention and of this one.
MEMORY = {512: (2, 0.25), 1024: (8, 0.5), 2048: (32, 1), 4096: (128, 2), 8192: (512, 4)}


def _matmul() -> Table:
    rows = [
        Row(
            label=f"{size}×{size}, {profile}", operator="matmul", shape=str(size), dtype="float16", profile=profile,
            work=matmul(size, size, size), matrix="float16", flops_per_second=rate * 1e12,
            speedup=speedup if profile == "Triton" else None,
        )
        for size, (torch, triton, speedup) in MATMUL.items()
        for profile, rate in (("PyTorch", torch), ("Triton", triton))
    ]  # fmt: skip
    return Table(title="Matrix products", source=GUIDE, limits=RTX_4090, scope="typical", rows=tuple(rows))


def _attention() -> Table:
    rows = [
        Row(
            label=f"sequence {size}, {profile}", operator="attention", shape=str(size), dtype="float16",
            profile=profile, work=attention(BATCH, HEADS, size, HEAD), matrix="float16", seconds=milliseconds * 1e-3,
            speedup=speedup if profile == "Triton" else None,
        )
        for size, (torch, triton, speedup) in ATTENTION.items()
        for profile, milliseconds in (("PyTorch", torch), ("Triton", triton))
    ]  # fmt: skip
    return Table(title="Attention", source=GUIDE, limits=RTX_4090, scope="typical", rows=tuple(rows))


def _saved(size: int) -> StatedQuantity:
    here, there = SAVED[size]
    return StatedQuantity(
        label=f"Memory saved at sequence {size}", source=GUIDE, said=here / 100, follows=there / 100, unit="share",
        basis="the table of memory on the same page",
    )  # fmt: skip


def _memory(size: int, which: int) -> StatedQuantity:
    """Memory of the S × S scores of every head, or of one output, in float16, for the table's batch and heads."""
    elements = BATCH * HEADS * size * (HEAD if which else size)
    return StatedQuantity(
        label=f"Memory of {'this' if which else 'standard'} attention at sequence {size}", source=GUIDE,
        said=MEMORY[size][which] * 2**20, follows=2 * elements, unit="bytes",
        basis=f"{'one output' if which else 'the scores'} in float16 at batch {BATCH} with {HEADS} heads",
    )  # fmt: skip


def _replication() -> Replication:
    """Every case of both tables."""
    cases = {f"matmul {size} float16": f"gemm-{size}x{size}x{size}-float16" for size in MATMUL}
    cases |= {
        f"attention {size} float16": f"attention-{BATCH}x{HEADS}x{HEADS}x{size}x{HEAD}-float16" for size in ATTENTION
    }
    return Replication(
        experiment="headline-attention", cases=cases, subject="triton", baseline="torch-baseline",
        printed_subject="Triton", printed_baseline="PyTorch",
    )  # fmt: skip


DIY_FLASH_ATTENTION = Publication(
    slug="diy-flash-attention",
    title="diy-flash-attention (AICL-Lab)",
    source="https://github.com/AICL-Lab/diy-flash-attention",
    about=(
        "Matrix products and flash attention in Triton, with figures called typical for an RTX 4090. Its benchmark "
        "empties the cache before each call, as no other here does."
    ),
    tables=(_matmul(), _attention()),
    statements=(*(_saved(size) for size in SAVED), _memory(512, 0), _memory(512, 1)),
    replications=(_replication(),),
)
