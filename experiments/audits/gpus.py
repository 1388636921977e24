"""Limits of the audited GPUs from their makers' datasheets: dense matrix rates, never sparse ones."""

from lab.definition.publication import Limits
from lab.verdict.datasheet import datasheet


def _limits(name: str, gpu: str) -> Limits:
    """The limits of the GPU that CUDA calls `gpu`, under the `name` that the audited publication uses."""
    sheet = datasheet(gpu)
    assert sheet is not None, f"no datasheet of {gpu!r}"
    return Limits(
        gpu=name, bytes_per_second=sheet.bytes_per_second, flops_per_second=sheet.flops_per_second,
        l2_bytes=sheet.l2_bytes, source=sheet.source,
    )  # fmt: skip


A10G = _limits("A10G", "NVIDIA A10G")
A100 = _limits("A100 SXM4 80 GB", "NVIDIA A100-SXM4-80GB")
H200 = _limits("H200", "NVIDIA H200")
RTX_4090 = _limits("RTX 4090", "NVIDIA GeForce RTX 4090")
RTX_5090 = _limits("RTX 5090", "NVIDIA GeForce RTX 5090")
