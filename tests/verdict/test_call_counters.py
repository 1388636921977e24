"""The kernels of one profiled call, summed up."""

import dataclasses

import pytest

from lab.evidence.record import Counters, Kernel
from lab.verdict.call_counters import call_of, limiters, top_stall

KERNEL = Kernel(
    name="a", grid="(1, 1, 1)", block="(32, 1, 1)", duration_seconds=3e-6, dram_read_bytes=2e6, dram_written_bytes=1e6,
    dram_percent=60.0, occupancy_percent=80.0, registers_per_thread=32.0, shared_bytes_per_block=0.0,
    l2_hit_percent=50.0,
)  # fmt: skip
SHORT = dataclasses.replace(KERNEL, duration_seconds=1e-6, dram_read_bytes=1e6, dram_percent=20.0, l2_hit_percent=90.0)


def counted(*kernels: Kernel) -> Counters:
    return Counters(
        experiment="e", case="c", profile="p", outcome="measured", reason="", kernels=kernels, ncu="", report_sha256=""
    )  # fmt: skip


def test_bytes_and_time_are_summed_and_percentages_weighted_by_duration() -> None:
    call = call_of(counted(KERNEL, SHORT))
    assert call is not None
    assert (call.launches, call.dram_read_bytes, call.dram_bytes) == (2, 3e6, 5e6)
    assert call.counters["duration_seconds"] == pytest.approx(4e-6)
    assert call.counters["dram_percent"] == pytest.approx(50.0)
    assert call.counters["l2_hit_percent"] == pytest.approx(60.0)


def test_what_one_kernel_lacks_the_call_lacks() -> None:
    call = call_of(counted(KERNEL, dataclasses.replace(SHORT, dram_written_bytes=None, dram_percent=None)))
    assert call is not None
    assert (call.dram_written_bytes, call.dram_bytes, call.counters["dram_percent"]) == (None, None, None)
    assert call.dram_read_bytes == 3e6
    assert call.counters["sm_percent"] is None


def test_without_durations_there_is_no_mean() -> None:
    call = call_of(counted(dataclasses.replace(KERNEL, duration_seconds=None), SHORT))
    assert call is not None
    assert (call.counters["duration_seconds"], call.counters["dram_percent"]) == (None, None)


def test_no_kernels_are_no_call() -> None:
    assert call_of(counted()) is None
    assert call_of(None) is None


def test_the_limiter_of_occupancy_is_what_allows_the_fewest_blocks_and_a_tie_names_both() -> None:
    def limited(**blocks: float) -> tuple[str, ...]:
        return limiters(dataclasses.replace(KERNEL, blocks_per_multiprocessor=blocks))

    assert limited(registers=4, shared_mem=8, warps=5) == ("registers",)
    assert limited(warps=4, registers=4, shared_mem=8) == ("registers", "warps")
    assert limited() == ()


def test_the_top_stall_is_what_most_warps_waited_for() -> None:
    stalled = dataclasses.replace(KERNEL, stalls={"barrier": 1.0, "long_scoreboard": 7.5})
    assert top_stall(stalled) == "long_scoreboard"
    assert top_stall(KERNEL) == ""
