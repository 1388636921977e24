"""Which differences in time the counted bytes explain, and what else differs where they do not."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from counting import kernel, once, recounted, traffic_plan
from factory import FAST, LARGE, PLAIN, plan_of, profile, records_of, small_experiment

from lab.evidence.record import Counters, Kernel
from lab.verdict.explained import Explained, explain
from lab.verdict.judge_run import judge_run


def rows(
    ratio: float,
    plain: Sequence[Kernel],
    fast: Sequence[Kernel] = (),
    seconds: float = 60e-6,
    outcomes: Mapping[Any, tuple[str, str]] | None = None,
) -> list[Explained]:
    """Plain takes `ratio` times the time of fast, which moves the least where not told otherwise."""
    plan = traffic_plan()
    times = {(LARGE.name, "plain"): ratio * seconds, (LARGE.name, "fast"): seconds}
    records = recounted(
        records_of(plan, times, noise=0.0, outcomes=outcomes), {"plain": plain, "fast": fast or once()}
    )  # fmt: skip
    return list(explain(judge_run(plan, records).experiments[0]))


def row(*arguments: Any, **how: Any) -> Explained:
    (only_row,) = rows(*arguments, **how)
    return only_row


def test_a_profile_stands_beside_the_fastest_of_its_case() -> None:
    result = row(3.0, once(3.0, 3.0))
    assert (result.case, result.profile, result.fastest) == (LARGE.name, "plain", "fast")
    assert (result.time_ratio, result.bytes_ratio) == pytest.approx((3.0, 3.0), rel=1e-3)
    assert (result.explained, result.others) == (True, ())


@pytest.mark.parametrize(
    ("ratio", "explained"),
    [
        pytest.param(2.29, True, id="14.5 % slower than its bytes"),
        pytest.param(2.31, False, id="15.5 % slower"),
        pytest.param(1.75, True, id="14.3 % faster"),
        pytest.param(1.73, False, id="15.6 % faster"),
    ],
)
def test_ratios_within_the_margin_tell_the_same_story(ratio: float, explained: bool) -> None:
    assert row(ratio, once(2.0, 2.0)).explained is explained


@pytest.mark.parametrize(
    ("ratio", "share", "explained"),
    [
        pytest.param(1.14, 1.0, False, id="a small gap, and no byte more"),
        pytest.param(1.14, 1.06, False, id="the bytes make less than half of it"),
        pytest.param(1.14, 1.075, True, id="the bytes make more than half of it"),
    ],
)
def test_a_small_gap_is_explained_by_bytes_that_make_most_of_it(ratio: float, share: float, explained: bool) -> None:
    assert row(ratio, once(share, share)).explained is explained


def test_where_there_is_no_gap_there_is_nothing_to_explain() -> None:
    assert row(1.015, once()).others == ("hardly slower, nothing to explain",)


def test_no_clock_waits_for_writes_that_stay_in_the_cache() -> None:
    assert row(1.5, once(1.5, 0.5), once(1.0, 0.3)).bytes_ratio == pytest.approx(2.0 / 1.3)


@pytest.mark.parametrize(
    ("plain", "fast", "others"),
    [
        pytest.param([*once(0.5, 0.5)] * 2, (), ("2 kernels a call against 1",), id="several kernels"),
        pytest.param(
            once(occupancy_percent=40.0), (), ("the fastest has 90 % occupancy, this one 40 %",), id="lower occupancy"
        ),
        pytest.param(once(occupancy_percent=80.5), (), ("these counters do not say why",), id="hardly lower occupancy"),
        pytest.param(
            once(occupancy_percent=90.0), once(occupancy_percent=40.0), ("these counters do not say why",),
            id="higher occupancy",
        ),
        pytest.param(
            once(sm_percent=95.0), (), ("its multiprocessors are at 95 % of their peak, its memory at 80 %",),
            id="busy multiprocessors",
        ),
        pytest.param(once(sm_percent=20.0), (), ("these counters do not say why",), id="idle multiprocessors"),
        pytest.param(
            [kernel(3e7, 3e7, occupancy_percent=None), kernel(3e7, 3e7)], (), ("2 kernels a call against 1",),
            id="an occupancy that is not known",
        ),
    ],
)  # fmt: skip
def test_what_else_differs_is_named_where_time_is_longer_than_bytes_say(
    plain: Sequence[Kernel], fast: Sequence[Kernel], others: tuple[str, ...]
) -> None:
    result = row(2.0, plain, fast)
    assert (result.explained, result.others) == (False, others)


def test_the_cache_between_kernels_is_named_where_time_is_shorter_than_bytes_say() -> None:
    (remark,) = row(1.5, once(2.0, 2.0) * 2).others
    assert remark == "counted with empty caches before each kernel; in a timed call the L2 hands on what it holds"
    assert row(1.5, once(2.0, 2.0)).others == ("these counters do not say why",)


def test_near_the_launch_floor_bytes_decide_nothing_even_where_they_agree() -> None:
    """The floor is 2 µs here; below three times of it a cell is launch-bound. The inputs cannot come so fast."""
    result = row(2.0, once(2.0, 2.0), seconds=5e-6)
    assert not result.explained
    assert result.others == ("the fastest is launch-bound, so that bytes do not decide",)


def test_nothing_is_explained_without_counts_of_both() -> None:
    lacking = [kernel(None, None)]
    assert rows(2.0, lacking) == []
    assert rows(2.0, once(), lacking) == []
    assert rows(2.0, once(), outcomes={"plain": ("failed", "")}) == []


def test_the_others_are_not_held_against_one_that_is_not_the_fastest() -> None:
    profiles = (PLAIN, FAST, profile("third"))
    plan = plan_of(experiments=[small_experiment(profiles=profiles)], include=["large-sweep"], profiling=True)
    times = {(LARGE.name, name): seconds for name, seconds in (("fast", 60e-6), ("plain", 90e-6), ("third", 80e-6))}
    records = records_of(plan, times)
    assert len(list(explain(judge_run(plan, records).experiments[0]))) == 2
    uncounted = recounted(records, {"fast": [kernel(None, None)]})
    assert list(explain(judge_run(plan, uncounted).experiments[0])) == []


def test_a_profile_that_was_not_timed_is_not_the_fastest() -> None:
    assert rows(2.0, once(), outcomes={"fast": ("wrong", "far off")}) == []


def test_a_run_without_counters_explains_nothing() -> None:
    plan = traffic_plan()
    records = [r for r in records_of(plan, {"plain": 60e-6, "fast": 40e-6}) if not isinstance(r, Counters)]
    assert list(explain(judge_run(plan, records).experiments[0])) == []
