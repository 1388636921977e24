"""What the hardware allows, scope by scope: a time 3 % below a limit is rejected, one 1 % above is not."""

import dataclasses
from typing import Any

import pytest
from factory import machine

from lab.definition.plan import PlannedCase
from lab.verdict.roofline import (
    bytes_per_second,
    cache_resident_bytes,
    matrix_limit_seconds,
    memory_limit_seconds,
    peak_bytes_per_second,
    why_impossible,
)

H100 = machine()
GPU = machine(peak_bytes_per_second=2e12, l2_bytes=50_000_000)
FLOOR_SECONDS = 4e-6


def case(read: int, written: int, flops: int = 0, dtype: str = "float32") -> PlannedCase:
    return PlannedCase(
        name="c", op="o", shape=(1,), dtype=dtype, description="", only_with="", included=True,
        read_bytes=read, written_bytes=written, flops=flops,
    )  # fmt: skip


COPY = case(60_000_000, 60_000_000)
SMALL = case(4, 4)
PRODUCT = case(2 * 8192**2, 8192**2, flops=2 * 8192**3)


# The memory


@pytest.mark.parametrize(
    ("scope", "calls", "seconds"),
    [
        pytest.param("device_cold", 1, 35e-6, id="all inputs, and what the cache cannot hold of the results"),
        pytest.param("graph", 5, 50e-6, id="the cache holds a sixth of what five calls read, and of what they write"),
        pytest.param("graph", 1, 10e-6, id="one call goes round nothing"),
        pytest.param("device_warm", 1, 10e-6, id="the cache may hold its own size from the call before"),
        pytest.param("eager", 1, 10e-6, id="nothing is flushed"),
    ],
)
def test_no_call_is_faster_than_the_memory_moves_what_the_cache_cannot_hold(
    scope: str, calls: int, seconds: float
) -> None:
    assert memory_limit_seconds(COPY, GPU, scope, calls) == pytest.approx(seconds)
    if seconds:
        assert "the memory cannot" in why_impossible(0.97 * seconds, COPY, GPU, FLOOR_SECONDS, scope, calls)
        assert not why_impossible(1.01 * seconds, COPY, GPU, FLOOR_SECONDS, scope, calls)


@pytest.mark.parametrize(
    ("read", "written", "bytes_moved"),
    [
        pytest.param(60_000_000, 40_000_000, 60_000_000, id="results that the cache can hold cost nothing"),
        pytest.param(60_000_000, 51_000_000, 61_000_000, id="those beyond it do"),
        pytest.param(0, 500_000_000, 450_000_000, id="a fill"),
    ],
)
def test_after_a_cold_start_the_cache_takes_its_own_size_of_results(read: int, written: int, bytes_moved: int) -> None:
    limit = bytes_moved / 2e12
    assert "the memory cannot" in why_impossible(0.97 * limit, case(read, written), GPU, FLOOR_SECONDS)
    assert not why_impossible(1.01 * limit, case(read, written), GPU, FLOOR_SECONDS)


def test_a_cache_of_unknown_size_may_hold_all_results() -> None:
    unknown = dataclasses.replace(GPU, l2_bytes=0)
    assert memory_limit_seconds(case(60_000_000, 500_000_000), unknown) == pytest.approx(30e-6)
    assert memory_limit_seconds(COPY, unknown, "graph", 96) == 0.0


def test_the_machines_own_peak_counts_and_where_it_tells_none_the_datasheets() -> None:
    assert peak_bytes_per_second(H100) == 3.35232e12
    assert peak_bytes_per_second(machine(peak_bytes_per_second=0.0)) == 3.35e12
    assert peak_bytes_per_second(machine(peak_bytes_per_second=0.0, gpu="NVIDIA Unheard-of")) == 0.0
    assert peak_bytes_per_second(machine("cpu")) == 0.0


# The matrix units


@pytest.mark.parametrize(
    ("dtype", "capability", "flops_per_second"),
    [
        # A quantised product multiplies float8 whatever its inputs and results are.
        ("float16", "9.0", 132 * 8192 * 1.98e9),
        ("bfloat16", "9.0", 132 * 8192 * 1.98e9),
        ("float8_e4m3fn", "9.0", 132 * 8192 * 1.98e9),
        ("float32", "9.0", 132 * 8192 * 1.98e9),
        ("float16", "8.0", 132 * 2048 * 1.98e9),
        ("float32", "8.0", 132 * 2048 * 1.98e9),
        ("bfloat16", "8.6", 132 * 1024 * 1.98e9),
        ("float8_e4m3fn", "8.9", 132 * 2048 * 1.98e9),
        ("float16", "10.0", 132 * 16384 * 1.98e9),
        ("float16", "12.0", 132 * 2048 * 1.98e9),
    ],
)
@pytest.mark.parametrize(("scope", "calls"), [("device_cold", 1), ("device_warm", 1), ("graph", 3), ("eager", 1)])
def test_no_product_is_faster_than_the_matrix_units_in_any_scope(
    dtype: str, capability: str, flops_per_second: float, scope: str, calls: int
) -> None:
    product, on = dataclasses.replace(PRODUCT, dtype=dtype), machine(compute_capability=capability)
    limit = 2 * 8192**3 / flops_per_second
    assert matrix_limit_seconds(product, on) == pytest.approx(limit)
    assert "the matrix units cannot" in why_impossible(0.97 * limit, product, on, FLOOR_SECONDS, scope, calls)
    assert not why_impossible(1.01 * limit, product, on, FLOOR_SECONDS, scope, calls)


@pytest.mark.parametrize(
    ("dtype", "changes"),
    [
        ("float64", {}),
        ("float16", {"compute_capability": "13.7"}),
        ("float16", {"sm_clock_hertz": 0.0}),
        ("float16", {"multiprocessors": 0}),
    ],
)
def test_of_what_is_not_known_of_the_matrix_units_nothing_is_said(dtype: str, changes: dict[str, Any]) -> None:
    product = dataclasses.replace(PRODUCT, dtype=dtype)
    assert matrix_limit_seconds(product, machine(**changes)) == 0.0
    assert not why_impossible(1e-4, product, machine(**changes), FLOOR_SECONDS)


@pytest.mark.parametrize(
    ("flops", "why"), [(0, "the memory cannot"), (2 * 8192**3, "the matrix units cannot")], ids=["bytes", "operations"]
)
def test_the_longer_of_both_limits_counts(flops: int, why: str) -> None:
    both = case(10**9, 10**6, flops=flops, dtype="float16")
    limit = max(memory_limit_seconds(both, H100), matrix_limit_seconds(both, H100))
    assert why in why_impossible(0.97 * limit, both, H100, FLOOR_SECONDS)
    assert not why_impossible(1.01 * limit, both, H100, FLOOR_SECONDS)


# The launch


@pytest.mark.parametrize("scope", ["device_cold", "device_warm", "eager"])
def test_no_call_is_faster_than_an_empty_kernel(scope: str) -> None:
    assert "does nothing" in why_impossible(3.1e-6, SMALL, GPU, FLOOR_SECONDS, scope)
    assert not why_impossible(3.3e-6, SMALL, GPU, FLOOR_SECONDS, scope)


def test_inside_a_graph_a_kernel_has_no_launch_but_must_read_its_inputs() -> None:
    assert not why_impossible(1e-6, SMALL, GPU, FLOOR_SECONDS, "graph", 100)
    assert "memory" in why_impossible(1.9e-9, COPY, GPU, FLOOR_SECONDS, "graph", 100)


def test_of_a_cpu_and_of_an_unknown_peak_nothing_is_said() -> None:
    assert not why_impossible(1e-9, COPY, machine("cpu"), FLOOR_SECONDS)
    assert memory_limit_seconds(COPY, machine("cpu")) == 0.0
    assert not cache_resident_bytes(1e-9, COPY, machine("cpu"))


# What the cache held


@pytest.mark.parametrize(
    ("scope", "calls", "working_set"),
    [("device_cold", 1, 120_000_000), ("device_warm", 1, 120_000_000), ("graph", 5, 600_000_000)],
)
def test_a_time_too_short_for_all_bytes_to_cross_the_memory_shows_the_working_set(
    scope: str, calls: int, working_set: int
) -> None:
    """All bytes take 60 µs; the cold limit is 35 µs, since the cache may keep 50 MB of results."""
    assert cache_resident_bytes(0.97 * 60e-6, COPY, GPU, scope, calls) == working_set
    assert cache_resident_bytes(1.01 * 60e-6, COPY, GPU, scope, calls) == 0
    assert not why_impossible(0.97 * 60e-6, COPY, GPU, FLOOR_SECONDS, scope, calls)


def test_nothing_is_known_to_be_cached_where_the_peak_is_unknown() -> None:
    assert not cache_resident_bytes(1e-9, COPY, machine(peak_bytes_per_second=0.0, gpu="NVIDIA Unheard-of"))


def test_bandwidth_is_the_least_traffic_over_the_time() -> None:
    assert bytes_per_second(1e-4, COPY) == pytest.approx(1.2e12)
