"""What the hardware allows, scope by scope."""

import pytest
from factory import machine

from lab.definition.plan import PlannedCase
from lab.verdict.roofline import bytes_per_second, shortest_seconds, why_impossible

GPU = machine(peak_bytes_per_second=2e12, l2_bytes=50_000_000)
CASE = PlannedCase(
    name="copy", op="copy", shape=(1,), dtype="float32", description="", only_with="", included=True,
    read_bytes=60_000_000, written_bytes=60_000_000, flops=0,
)  # fmt: skip
FLOOR_SECONDS = 4e-6


@pytest.mark.parametrize(
    ("scope", "calls", "seconds"),
    [
        pytest.param("device_cold", 1, 30e-6, id="everything comes from memory"),
        pytest.param("graph", 5, 25e-6, id="the cache holds a sixth of what five calls read"),
        pytest.param("graph", 1, 5e-6, id="one call goes round nothing"),
        pytest.param("device_warm", 1, 0.0, id="the cache may hold everything"),
        pytest.param("eager", 1, 0.0, id="nothing is flushed"),
    ],
)
def test_no_call_is_faster_than_memory_delivers_what_the_cache_cannot_hold(
    scope: str, calls: int, seconds: float
) -> None:
    assert shortest_seconds(CASE, GPU, scope, calls) == pytest.approx(seconds)


@pytest.mark.parametrize("scope", ["device_cold", "device_warm", "eager"])
def test_no_call_is_faster_than_an_empty_kernel(scope: str) -> None:
    assert "does nothing" in why_impossible(3.1e-6, small(), GPU, FLOOR_SECONDS, scope)
    assert not why_impossible(3.3e-6, small(), GPU, FLOOR_SECONDS, scope)


def test_inside_a_graph_a_kernel_has_no_launch_but_must_read_its_inputs() -> None:
    assert not why_impossible(1e-6, small(), GPU, FLOOR_SECONDS, "graph", 100)
    assert "memory" in why_impossible(1.9e-9, CASE, GPU, FLOOR_SECONDS, "graph", 100)


def test_of_a_cpu_and_of_an_unknown_peak_nothing_is_said() -> None:
    assert not why_impossible(1e-9, CASE, machine("cpu"), FLOOR_SECONDS)
    assert shortest_seconds(CASE, machine(peak_bytes_per_second=0.0)) == 0.0


def test_bandwidth_is_the_least_traffic_over_the_time() -> None:
    assert bytes_per_second(1e-4, CASE) == pytest.approx(1.2e12)


def small() -> PlannedCase:
    return PlannedCase(
        name="small", op="copy", shape=(1,), dtype="float32", description="", only_with="", included=True,
        read_bytes=4, written_bytes=4, flops=0,
    )  # fmt: skip
