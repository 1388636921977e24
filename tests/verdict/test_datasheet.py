"""Printed peaks, against the arithmetic of the hardware behind them."""

import pytest

from lab.verdict.datasheet import DATASHEETS, DENSE_FLOPS_PER_CLOCK, MATRIX_KINDS, Datasheet, datasheet

# Multiprocessors, boost clock while the matrix units run, and what they do of half-precision operations in a clock with
# float32 accumulation: half of its capability's most on GeForce boards and the A10G.
HARDWARE = {
    "NVIDIA H100 80GB HBM3": (132, 1.83e9, "9.0", 4096),
    "NVIDIA H100 PCIe": (114, 1.62e9, "9.0", 4096),
    "NVIDIA H200": (132, 1.83e9, "9.0", 4096),
    "NVIDIA A100-SXM4-80GB": (108, 1.41e9, "8.0", 2048),
    "NVIDIA A100 80GB PCIe": (108, 1.41e9, "8.0", 2048),
    "NVIDIA A100-SXM4-40GB": (108, 1.41e9, "8.0", 2048),
    "NVIDIA A100-PCIE-40GB": (108, 1.41e9, "8.0", 2048),
    "NVIDIA A10G": (80, 1.71e9, "8.6", 512),
    "NVIDIA L4": (58, 2.04e9, "8.9", 1024),
    "NVIDIA GeForce RTX 4090": (128, 2.52e9, "8.9", 512),
    "NVIDIA GeForce RTX 5090": (170, 2.407e9, "12.0", 512),
}
every_sheet = pytest.mark.parametrize("sheet", DATASHEETS, ids=lambda sheet: sheet.gpu)


@every_sheet
def test_no_rate_is_that_of_sparse_matrices(sheet: Datasheet) -> None:
    """A sparse rate would be twice what the hardware can do."""
    multiprocessors, boost_hertz, capability, half = HARDWARE[sheet.gpu]
    share = {"float16": 1, "bfloat16": 1, "tf32": 0.5, "float8_e4m3fn": 2}
    assert sheet.flops_per_second.keys() == DENSE_FLOPS_PER_CLOCK[capability].keys()
    for kind, rate in sheet.flops_per_second.items():
        assert rate == pytest.approx(multiprocessors * boost_hertz * half * share[kind], rel=0.015), kind
        assert half * share[kind] <= DENSE_FLOPS_PER_CLOCK[capability][kind], "no printed rate is beyond the hard limit"


def test_the_hardware_of_every_sheet_is_known_here() -> None:
    assert [sheet.gpu for sheet in DATASHEETS] == [*HARDWARE]


@every_sheet
def test_each_sheet_names_its_source_and_kinds_that_are_known(sheet: Datasheet) -> None:
    assert sheet.source
    assert sheet.flops_per_second.keys() <= set(MATRIX_KINDS.values())
    assert 1e11 < sheet.bytes_per_second < 1e13
    assert sheet.l2_bytes > 1e6


def test_a_sheet_is_found_by_the_whole_name() -> None:
    sheet = datasheet("NVIDIA H100 80GB HBM3")
    assert sheet is not None
    assert sheet.bytes_per_second == 3.35e12
    for other in ("NVIDIA H100 NVL", "NVIDIA GeForce RTX 4090 Laptop GPU", "NVIDIA H100", ""):
        assert datasheet(other) is None
