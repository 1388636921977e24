"""What the profiler counted, held against the least: each state, at its edges."""

import pytest
from counting import MB, counters, kernel
from factory import machine

from lab.definition.plan import PlannedCase
from lab.evidence.record import Counters
from lab.verdict.traffic import DramTraffic, dram_traffic, least_moved, traffic_ratio

CASE = PlannedCase(
    name="copy", op="copy", shape=(1,), dtype="float32", description="", only_with="", included=True,
    read_bytes=1_000_000_000, written_bytes=1_000_000_000, flops=0,
)  # fmt: skip
SMALL_L2 = 50 * MB


def traffic(*kernels: tuple[float, float], l2: float = SMALL_L2) -> DramTraffic:
    """Of kernels that read and wrote so many MB."""
    counted = [kernel(read * MB, written * MB) for read, written in kernels]
    result = dram_traffic(CASE, counters(*counted), machine(l2_bytes=int(l2)))
    assert result is not None
    return result


@pytest.mark.parametrize(
    ("read", "written", "l2", "state"),
    [
        pytest.param(1000, 1000, 50, "reconciled", id="the least"),
        pytest.param(1200, 1000, 50, "reconciled", id="1.10 times the least"),
        pytest.param(1202, 1000, 50, "excess", id="1.101 times the least"),
        pytest.param(1000, 1202, 50, "excess", id="written in excess"),
        pytest.param(1000, 900, 100, "reconciled", id="0.95 of the least"),
        pytest.param(1000, 898, 102, "cached-writes", id="0.949 of the least, the rest in the cache"),
        pytest.param(1000, 898, 101, "unreconciled", id="0.949 of the least, and a cache too small for the rest"),
        pytest.param(1000, 0, 1000, "cached-writes", id="nothing written, all in the cache"),
        pytest.param(1000, 950, 0, "reconciled", id="0.95 of the result written, and no cache"),
        pytest.param(1000, 949, 50, "unreconciled", id="0.949 of the result written, the cache too small"),
        pytest.param(950, 1000, 50, "reconciled", id="0.95 of the inputs read"),
        pytest.param(950, 900, 100, "cached-writes", id="0.95 of the inputs read, writes in the cache"),
        pytest.param(949, 1000, 50, "unreconciled", id="0.949 of the inputs read"),
        pytest.param(500, 1500, 50, "unreconciled", id="writes do not make up for reads"),
        pytest.param(500, 3000, 50, "unreconciled", id="nor in excess"),
        pytest.param(2000, 0, 50, "unreconciled", id="nor reads for writes"),
        pytest.param(1500, 400, 600, "excess", id="reads in excess do not hide behind writes in the cache"),
    ],
)
def test_each_count_has_its_state(read: float, written: float, l2: float, state: str) -> None:
    assert traffic((read, written), l2=l2 * MB).state == state


def test_the_ratio_is_of_what_was_counted_and_what_moves_includes_the_rest_of_the_result() -> None:
    result = traffic((1000, 600), l2=400 * MB)
    assert result.ratio == 0.8
    assert (result.read_bytes, result.written_bytes, result.counted_bytes) == (1000 * MB, 600 * MB, 1600 * MB)
    assert result.pending_bytes == 400 * MB
    assert result.moved.bytes == CASE.least_bytes


def test_one_kernel_leaves_nothing_open() -> None:
    moved = traffic((1300, 1000)).moved
    assert (moved.fewest_bytes, moved.bytes, moved.most_bytes) == (2300 * MB,) * 3


def test_several_kernels_leave_open_what_the_cache_could_hand_on() -> None:
    """The second reads 500 MB, of which a cache of 50 could hold 50; the third reads 30, and could find it all."""
    result = traffic((1000, 500), (500, 1000), (30, 0))
    assert result.kernels == 3
    assert result.recounted_bytes == 80 * MB
    assert result.unseen_bytes == 100 * MB
    assert (result.moved.fewest_bytes, result.moved.most_bytes) == (2950 * MB, 3130 * MB)


def test_no_more_is_taken_back_than_was_read_beyond_the_inputs() -> None:
    result = traffic((970, 500), (40, 500))
    assert result.recounted_bytes == 10 * MB


def test_no_more_goes_unseen_than_later_kernels_read() -> None:
    assert traffic((1000, 500), (30, 500)).unseen_bytes == 30 * MB


@pytest.mark.parametrize(
    "unmeasured",
    [
        pytest.param(None, id="no counters"),
        pytest.param(counters(outcome="blocked", reason="no permission"), id="blocked"),
        pytest.param(counters(kernel(), outcome="blocked", reason="wrong kernel"), id="blocked, with kernels"),
        pytest.param(counters(), id="no kernel"),
        pytest.param(counters(kernel(), kernel(None, 5.0)), id="reads of one kernel missing"),
        pytest.param(counters(kernel(), kernel(5.0, None)), id="writes of one kernel missing"),
    ],
)
def test_what_was_not_counted_is_unmeasured_and_never_zero(unmeasured: Counters | None) -> None:
    assert dram_traffic(CASE, unmeasured, machine()) is None


@pytest.mark.parametrize(
    ("kernels", "reason"),
    [
        ([(1000, 1000)], "moves what it must: 1.00× was counted"),
        ([(500, 500), (500, 500)], "moves what it must: 1.00× was counted"),
        ([(1500, 1000)], "moves 1.25× what it must, 500 MB more"),
        (
            [(1500, 800)],
            "moves 1.25× what it must, 500 MB more, with 200 MB of its result that are still in the L2",
        ),
        ([(1000, 800)], "reads what it must, and 200 MB of its result are still in the L2"),
        ([(300, 1000)], "reads 30 % of its inputs, with nothing cached: these are not the counters of this work"),
        (
            [(1000, 100)],
            "leaves more of its result unwritten than the L2 holds: these are not the counters of this work",
        ),
        (
            [(1000, 1000), (1000, 1000)],
            "moves 2.00× what it must, 2000 MB more; the profiler empties the caches before each of the 2 kernels, "
            "so that up to 200 MB are read again for that alone",
        ),
    ],
)
def test_the_reason_says_how_much_and_why(kernels: list[tuple[float, float]], reason: str) -> None:
    assert traffic(*kernels, l2=200 * MB).reason == reason


def test_the_ratio_of_two_calls_has_the_bounds_of_both() -> None:
    one, several = traffic((1000, 1000)).moved, traffic((1000, 1000), (1000, 1000)).moved
    result = traffic_ratio(one, several)
    assert (result.ratio, result.subject_bytes, result.baseline_bytes) == (2.0, 2000 * MB, 4000 * MB)
    assert (result.low, result.high) == pytest.approx((3950 / 2000, 4050 / 2000))
    assert result.bounded
    back = traffic_ratio(several, one)
    assert (back.low, back.high) == pytest.approx((2000 / 4050, 2000 / 3950))


def test_against_the_least_one_kernel_has_a_ratio_without_bounds() -> None:
    result = traffic_ratio(traffic((1500, 1000)).moved, least_moved(CASE))
    assert (result.ratio, result.low, result.high) == (0.8, 0.8, 0.8)
    assert not result.bounded
