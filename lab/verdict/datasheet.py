"""Limits of GPUs from their datasheets: peaks that no program reaches, shown beside measured ceilings. Pure.

Rates are of dense matrices with float32 accumulation; a datasheet that prints those of sparse ones is halved here.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

# What the matrix units call a dtype: of float32 they take the first 19 bits.
MATRIX_KINDS = {"float16": "float16", "bfloat16": "bfloat16", "float8_e4m3fn": "float8_e4m3fn", "float32": "tf32"}
MEBIBYTE = 1 << 20


@dataclass(frozen=True, kw_only=True, slots=True)
class Datasheet:
    """A GPU's printed peaks; `flops_per_second` by kind of matrix."""

    gpu: str
    bytes_per_second: float
    flops_per_second: Mapping[str, float]
    l2_bytes: int
    source: str


def _rates(half: float, tf32: float, float8: float = 0.0) -> dict[str, float]:
    rates = {"float16": half, "bfloat16": half, "tf32": tf32}
    return rates | {"float8_e4m3fn": float8} if float8 else rates


def _per_clock(half: float) -> dict[str, float]:
    """Of matrix units that take half as many numbers of twice the size."""
    return _rates(half, tf32=half / 2, float8=2 * half)


# Dense operations that one multiprocessor's matrix units do in a clock, by compute capability: the most of any GPU of
# that capability, whatever it accumulates in. GeForce boards and the A10G do half of it with float32 accumulation.
# NVIDIA's architecture whitepapers: rate = multiprocessors × these × boost clock. A100: 312e12 = 108 × 2048 × 1.41e9.
# A40: 149.7e12 = 84 × 1024 × 1.74e9. RTX 6000 Ada: 364.2e12 = 142 × 1024 × 2.505e9. H100 SXM: 989.4e12 = 132 × 4096 ×
# 1.83e9. HGX B200: 2.25e15 = 148 × 8192 × 1.86e9. RTX PRO 6000 Blackwell: 503.8e12 = 188 × 1024 × 2.617e9.
DENSE_FLOPS_PER_CLOCK: Mapping[str, Mapping[str, float]] = {
    "8.0": _rates(2048, tf32=1024),
    "8.6": _rates(1024, tf32=512),
    "8.9": _per_clock(1024),
    "9.0": _per_clock(4096),
    "10.0": _per_clock(8192),
    "12.0": _per_clock(1024),
}

H100_SXM = Datasheet(
    gpu="NVIDIA H100 80GB HBM3", bytes_per_second=3.35e12, l2_bytes=50 * MEBIBYTE,
    flops_per_second=_rates(989.4e12, tf32=494.7e12, float8=1978.9e12),
    source="NVIDIA H100 Tensor Core GPU Architecture, whitepaper, 2022",
)  # fmt: skip
A100_SXM_80GB = Datasheet(
    gpu="NVIDIA A100-SXM4-80GB", bytes_per_second=2.039e12, l2_bytes=40 * MEBIBYTE,
    flops_per_second=_rates(312e12, tf32=156e12),
    source="NVIDIA A100 Tensor Core GPU, datasheet, 2021",
)  # fmt: skip
DATASHEETS = (
    H100_SXM,
    Datasheet(
        gpu="NVIDIA H100 PCIe", bytes_per_second=2.0e12, l2_bytes=50 * MEBIBYTE,
        flops_per_second=_rates(756.5e12, tf32=378e12, float8=1513e12),
        source=H100_SXM.source,
    ),
    replace(
        H100_SXM, gpu="NVIDIA H200", bytes_per_second=4.8e12, l2_bytes=60 * MEBIBYTE,
        source="NVIDIA H200 Tensor Core GPU, datasheet, 2023; L2 as its driver tells it",
    ),
    A100_SXM_80GB,
    replace(A100_SXM_80GB, gpu="NVIDIA A100 80GB PCIe", bytes_per_second=1.935e12),
    replace(A100_SXM_80GB, gpu="NVIDIA A100-SXM4-40GB", bytes_per_second=1.555e12),
    replace(A100_SXM_80GB, gpu="NVIDIA A100-PCIE-40GB", bytes_per_second=1.555e12),
    Datasheet(
        gpu="NVIDIA A10G", bytes_per_second=600e9, l2_bytes=6 * MEBIBYTE,
        flops_per_second=_rates(70e12, tf32=35e12),
        source="NVIDIA A10G on AWS, datasheet, 2022; L2: NVIDIA Ampere GA102 GPU Architecture, whitepaper, 2021",
    ),
    Datasheet(
        gpu="NVIDIA L4", bytes_per_second=300e9, l2_bytes=48 * MEBIBYTE,
        flops_per_second=_rates(121e12, tf32=60e12, float8=242.5e12),
        source="NVIDIA L4 Tensor Core GPU, datasheet, 2023",
    ),
    Datasheet(
        gpu="NVIDIA GeForce RTX 4090", bytes_per_second=1008e9, l2_bytes=72 * MEBIBYTE,
        flops_per_second=_rates(165.2e12, tf32=82.6e12, float8=330.3e12),
        source="NVIDIA Ada GPU Architecture, whitepaper, 2022",
    ),
    Datasheet(
        gpu="NVIDIA GeForce RTX 5090", bytes_per_second=1792e9, l2_bytes=96 * MEBIBYTE,
        flops_per_second=_rates(209.5e12, tf32=104.8e12, float8=419e12),
        source="NVIDIA RTX Blackwell GPU Architecture, whitepaper, 2025",
    ),
)  # fmt: skip


def datasheet(gpu: str) -> Datasheet | None:
    """The printed peaks of the GPU of that name, as CUDA tells it; None where this table lacks it."""
    return next((sheet for sheet in DATASHEETS if sheet.gpu == gpu), None)
