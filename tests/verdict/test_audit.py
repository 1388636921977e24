"""The rules of the guard: each fires on figures that break it, and on no sound ones beside them."""

from dataclasses import replace

import pytest

from lab.definition.publication import (
    Aggregate,
    Captured,
    Headline,
    Limits,
    Publication,
    Row,
    Selection,
    StatedQuantity,
    StatedRange,
    Statement,
    Table,
    Tally,
)
from lab.kernels.traffic import Traffic
from lab.verdict.audit.rules import RULES, audit

# 1 TB/s, 100 TFLOP/s, a cache of 10 MB.
GPU = Limits(
    gpu="G", bytes_per_second=1e12, flops_per_second={"float16": 1e14}, l2_bytes=10e6, source="made up for a test"
)
MB = 10**6


def row(label: str = "a", megabytes: float = 100, microseconds: float | None = 200.0, **more) -> Row:
    """By default 100 MB, half of them read, in twice the time that the memory needs."""
    half = round(megabytes * MB / 2)
    facts = {
        "operator": "copy", "shape": str(megabytes), "dtype": "float16", "profile": "kernel",
        "work": Traffic(read_bytes=half, written_bytes=half, flops=0),
        "seconds": None if microseconds is None else microseconds * 1e-6,
    }  # fmt: skip
    return Row(label=label, **(facts | more))


def table(*rows: Row, title: str = "T", **more) -> Table:
    facts = {"source": "a test", "limits": GPU, "scope": "events"}
    return Table(title=title, rows=rows, **(facts | more))


def publication(*parts: Table | Statement) -> Publication:
    return Publication(
        slug="p", title="P", source="a test", about="",
        tables=tuple(part for part in parts if isinstance(part, Table)),
        statements=tuple(part for part in parts if not isinstance(part, Table)),
    )  # fmt: skip


def broken(*parts: Table | Statement) -> dict[str, list[str]]:
    """Rule → the rows that break it."""
    return {rule: [finding.row for finding in findings] for rule, findings in audit(publication(*parts)).items()}


def matmul(**more) -> Row:
    """20 MB and 10 GFLOP: 100 µs at the dense rate, 20 µs of memory."""
    work = Traffic(read_bytes=10 * MB, written_bytes=10 * MB, flops=10**10)
    return row(operator="matmul", work=work, matrix="float16", **more)


def captured(megabytes: float, microseconds: float, registers: float = 32) -> Captured:
    half = megabytes * MB / 2
    return Captured(
        seconds=microseconds * 1e-6, read_bytes=half, written_bytes=half, registers_per_thread=registers
    )  # fmt: skip


def test_sound_rows_break_no_rule() -> None:
    sound = row(bytes_per_second=0.5e12, speedup=1.2, noise_ratio=1.05, launches=1, counters=captured(100, 198))
    assert broken(table(sound, row("b", 200, 390.0, bytes_per_second=0.51e12, speedup=1.1))) == {}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_every_rule_says_what_it_asks_and_what_it_guards(rule) -> None:
    assert rule.statement.endswith(".")
    assert rule.principle.endswith(".")
    assert list(rule.find(publication())) == []


def test_the_names_of_the_rules_are_unique() -> None:
    assert len({rule.name for rule in RULES}) == len(RULES)


class TestCeilings:
    def test_a_time_below_what_the_memory_allows(self) -> None:
        """50 MB read and 50 MB written, less a cache of 10 MB each, at 1 TB/s: 80 µs."""
        assert broken(table(row(microseconds=78.0))) == {"faster-than-physics": ["a"]}
        assert broken(table(row(microseconds=79.0))) == {}

    def test_after_a_cold_start_all_reads_come_from_memory(self) -> None:
        """8 MB read and 8 MB written: 8 µs, although the cache could hold more."""
        assert broken(table(row(megabytes=16, microseconds=7.0), cold=True)) == {"faster-than-physics": ["a"]}
        assert broken(table(row(megabytes=16, microseconds=7.0))) == {}

    def test_a_time_below_what_the_dense_rate_allows(self) -> None:
        assert broken(table(matmul(microseconds=97.0))) == {"faster-than-physics": ["a"]}
        assert broken(table(matmul(microseconds=99.0))) == {}

    def test_a_bandwidth_above_the_peak(self) -> None:
        assert broken(table(row(bytes_per_second=1.01e12))) == {"above-memory-peak": ["a"]}
        assert broken(table(row(bytes_per_second=0.99e12))) == {}

    def test_a_bandwidth_above_the_peak_beside_the_working_set_that_the_cache_has_served(self) -> None:
        fast = row(megabytes=8, microseconds=4.0, bytes_per_second=2e12, launches=1)
        assert set(broken(table(fast))) == {"above-memory-peak", "cache-resident"}
        assert broken(table(replace(fast, working_set_bytes=8e6))) == {}
        beyond = replace(row(microseconds=40.0, bytes_per_second=2.5e12), working_set_bytes=100e6)
        assert broken(table(beyond)) == {"faster-than-physics": ["a"]}, "more than any cache can do"

    def test_a_bandwidth_of_what_the_cache_holds(self) -> None:
        small = row(megabytes=8, microseconds=20.0, bytes_per_second=0.4e12, launches=1)
        assert broken(table(small)) == {"cache-resident": ["a"]}
        assert broken(table(small, cold=True)) == {}
        assert broken(table(replace(small, launches=6))) == {}
        assert broken(table(row(megabytes=12, microseconds=30.0, bytes_per_second=0.4e12, launches=1))) == {}

    def test_a_rate_above_the_dense_one(self) -> None:
        assert broken(table(matmul(microseconds=None, flops_per_second=1.1e14))) == {"above-dense-rate": ["a"]}
        assert broken(table(matmul(microseconds=None, flops_per_second=0.9e14))) == {}

    def test_a_rate_far_below_the_dense_one(self) -> None:
        assert broken(table(matmul(microseconds=2500.0))) == {"implausibly-slow": ["a"]}
        assert broken(table(matmul(microseconds=1500.0))) == {}
        assert broken(table(row(microseconds=9000.0))) == {}, "what the memory bounds has no matrix rate to reach"

    def test_a_share_of_a_sparse_peak(self) -> None:
        half = matmul(microseconds=200.0, flops_per_second=5e13, matrix_share=0.25)
        assert broken(table(half)) == {"sparse-peak": ["a"]}
        assert broken(table(replace(half, matrix_share=0.5))) == {}


class TestLaunches:
    def test_a_bandwidth_near_the_measured_floor(self) -> None:
        near = row(megabytes=10, microseconds=29.0, bytes_per_second=0.3e12)
        assert broken(table(near, launch_floor_seconds=10e-6)) == {"bandwidth-near-floor": ["a"]}
        assert broken(table(near, launch_floor_seconds=9e-6)) == {}
        assert broken(table(replace(near, bytes_per_second=None), launch_floor_seconds=10e-6)) == {}

    def test_calling_a_row_launch_bound_does_not_excuse_its_bandwidth(self) -> None:
        near = row(megabytes=10, microseconds=20.0, bytes_per_second=0.5e12, launch_bound=True)
        assert broken(table(near, launch_floor_seconds=10e-6)) == {"bandwidth-near-floor": ["a"]}

    def test_where_the_floor_was_measured_none_is_guessed(self) -> None:
        """A kernel that is bad at one shape does not make the others launch-bound."""
        rows = row("bad", 40, 300.0, bytes_per_second=0.2e12), row("good", 80, 100.0, bytes_per_second=0.8e12)
        assert "bandwidth-near-floor" not in broken(table(*rows, launch_floor_seconds=4e-6))
        assert broken(table(*rows))["bandwidth-near-floor"] == ["good"]

    def test_times_that_do_not_grow_with_the_work_show_the_floor(self) -> None:
        times = {20: 50.0, 80: 50.0, 100: 120.0, 400: 600.0}
        rows = [
            row(f"{size}", size, microseconds, bytes_per_second=0.2e12, launches=1)
            for size, microseconds in times.items()
        ]
        findings = broken(table(*rows))
        assert findings["bandwidth-near-floor"] == ["20", "80", "100"]
        assert findings["more-work-in-no-more-time"] == ["20"]
        assert findings["identical-times"] == ["80"]

    def test_the_same_time_is_no_wonder_where_the_row_says_so_or_claims_nothing(self) -> None:
        for more in ({"launch_bound": True, "speedup": 2.0}, {}):
            assert broken(table(row("small", 20, 120.0, **more), row("large", 80, 120.0, **more))) == {}

    def test_a_row_that_takes_twice_as_long_as_one_of_more_work(self) -> None:
        small, large = row("small", 90, 1000.0, speedup=2.0), row("large", 100, 480.0, speedup=2.0)
        assert broken(table(small, large)) == {"more-work-in-no-more-time": ["small"]}
        assert broken(table(replace(small, seconds=900e-6), large)) == {}, "an odd shape may cost some time"

    def test_another_implementation_or_other_kernels_are_no_comparison(self) -> None:
        small = row("small", 20, 1000.0, speedup=2.0)
        for change in ({"profile": "other"}, {"operator": "other"}, {"dtype": "float32"}):
            assert broken(table(small, row("large", 100, 400.0, **change))) == {}

    def test_one_step_of_the_clock_is_no_difference(self) -> None:
        pair = row("small", 20, 100.0, speedup=2.0), row("large", 80, 101.3, speedup=2.0)
        assert broken(table(*pair)) == {}
        findings = broken(table(*pair, clock_step_seconds=4e-6))
        assert findings == {"more-work-in-no-more-time": ["small"], "identical-times": ["large"]}

    def profiled(self, *excess: float) -> Table:
        kernels = (50.0, 100.0, 300.0)
        return table(
            *(
                row(f"{kernel:.0f}", kernel / 2, kernel + more, launches=1, counters=captured(kernel / 2, kernel))
                for kernel, more in zip(kernels, excess, strict=True)
            )
        )

    def test_an_excess_over_the_profiler_that_is_the_same_for_all_kernels(self) -> None:
        assert broken(self.profiled(28, 31, 34)) == {"host-time-in-events": ["50", "100", "300"]}
        assert broken(self.profiled(14, 28, 84)) == {}, "in proportion: the profiler ran at another clock"
        assert broken(self.profiled(4, 5, 6)) == {}, "what a launch takes"

    def test_a_loss_that_is_the_same_for_all_kernels(self) -> None:
        def against(gaps: tuple[float, ...]) -> Table:
            rows = []
            for rival, gap in zip((50.0, 100.0, 200.0, 400.0), gaps, strict=True):
                rows.append(row(f"rival {rival}", rival / 2, rival, profile="rival", launches=1))
                rows.append(row(f"ours {rival}", rival / 2, rival + gap, launches=1))
            return table(*rows)

        assert broken(against((20, 22, 25, 30))) == {"constant-loss": ["kernel against rival"]}
        assert broken(against((20, 40, 80, 160))) == {}
        assert broken(against((5, 5, 6, 6))) == {}


class TestCounters:
    def test_a_rate_that_counts_more_than_the_profiler(self) -> None:
        counted = row(bytes_per_second=0.75e12, counters=captured(110, 190))  # 150 MB in 200 µs
        assert broken(table(counted)) == {"modelled-above-counted": ["a"]}
        assert broken(table(replace(counted, bytes_per_second=0.5e12))) == {}
        left_in_cache = replace(counted, bytes_per_second=0.5e12, counters=captured(60, 190))
        assert broken(table(left_in_cache, limits=replace(GPU, l2_bytes=50e6))) == {}, "least bytes are no over-count"

    def test_a_capture_that_read_less_than_the_operator_must(self) -> None:
        assert broken(table(row(counters=captured(78, 190)))) == {"counted-too-little": ["a"]}
        assert broken(table(row(counters=captured(82, 190)))) == {}, "the cache may hold the rest"

    def test_counters_that_no_kernel_can_have(self) -> None:
        """1 TB/s are 100 MB in 100 µs."""
        sound = captured(101, 100)
        assert broken(table(row(counters=sound))) == {}
        for changes in (
            {"seconds": 98e-6}, {"seconds": 0.0}, {"written_bytes": -1.0}, {"dram_share": 1.03},
            {"occupancy_share": 3.0}, {"read_bytes": 100 * sound.read_bytes},
        ):  # fmt: skip
            assert "impossible-counters" in broken(table(row(counters=replace(sound, **changes)))), changes

    def test_one_capture_for_two_targets(self) -> None:
        slow, fast = row("slow", counters=captured(100, 120)), row("fast", 100, 130.0, counters=captured(101, 121))
        assert broken(table(slow, fast)) == {"same-counters": ["slow", "fast"]}
        assert broken(table(slow, replace(fast, counters=captured(101, 121, registers=40)))) == {}
        assert broken(table(slow, replace(fast, counters=captured(120, 121)))) == {}
        assert broken(table(slow, replace(fast, seconds=180e-6))) == {}, "their times are alike as well"


class TestTables:
    def test_one_row_with_two_times(self) -> None:
        here, there = table(row()), table(row("again", 100, 320.0), title="U")
        assert broken(here, there) == {"two-times": ["again"]}
        assert broken(here, table(row("again", 100, 280.0), title="U")) == {}

    @pytest.mark.parametrize("change", [{"scope": "eager"}, {"limits": replace(GPU, gpu="H")}], ids=["scope", "GPU"])
    def test_another_clock_or_gpu_may_give_another_time(self, change) -> None:
        assert broken(table(row()), table(row("again", 100, 900.0), title="U", **change)) == {}

    def test_one_row_with_two_speedups(self) -> None:
        here = table(row(speedup=2.0))
        assert broken(here, table(row("again", speedup=3.1), title="U")) == {"two-speedups": ["again"]}
        assert broken(here, table(row("again", speedup=2.9), title="U")) == {}

    def test_one_name_for_two_implementations(self) -> None:
        here = table(row(launches=2))
        assert broken(here, table(row("again", launches=5), title="U")) == {"baseline-changed": ["again"]}
        assert broken(here, table(row("again", launches=2), title="U")) == {}


def said(kind: type[Statement], **facts) -> Statement:
    return kind(label="s", source="a test", **facts)


class TestStatements:
    @pytest.mark.parametrize(
        ("figure", "rules"),
        [
            (8.0, {"sum-of-ratios"}),
            (8 / 3, {"mean-of-ratios"}),
            (16 ** (1 / 3), set()),
            (4.0, set()),
            (99.0, {"no-mean-of-ratios"}),
        ],
        ids=["sum", "arithmetic", "geometric", "largest", "invented"],
    )
    def test_one_figure_for_several_speedups(self, figure, rules) -> None:
        assert set(broken(said(Aggregate, ratios=(2.0, 2.0, 4.0), said=figure))) == rules

    def test_of_equal_ratios_all_means_are_one(self) -> None:
        assert broken(said(Aggregate, ratios=(2.0, 2.0), said=2.0)) == {}
        assert broken(said(Aggregate, ratios=(2.0,), said=2.0)) == {}

    def test_a_headline_of_a_case_that_is_not_listed(self) -> None:
        assert broken(said(Headline, case="big", listed=("small",))) == {"headline-case": ["s"]}
        assert broken(said(Headline, case="big", listed=("small", "big"))) == {}

    def test_a_headline_on_a_row_that_is_noisy_by_its_own_rule(self) -> None:
        assert broken(said(Headline, case="a", noise_ratio=1.2, noise_limit=1.2)) == {"noisy-headline": ["s"]}
        assert broken(said(Headline, case="a", noise_ratio=1.19, noise_limit=1.2)) == {}

    def test_a_headline_over_a_rival_that_leaves_the_gpu_idle(self) -> None:
        ours, theirs = row("ours", profile="ours"), row("theirs", 100, 1000.0, profile="rival")
        other = row("other", 300, 600.0, operator="add", profile="rival")
        headline = said(Headline, case=ours.case, table="T", profile="ours")
        assert broken(table(ours, theirs, other), headline) == {"weak-rival": ["s"]}
        assert broken(table(ours, replace(theirs, seconds=500e-6), other), headline) == {}
        better = row("better", 100, 220.0, profile="library")
        assert broken(table(ours, theirs, better, other), headline) == {}

    def test_rows_that_were_measured_and_are_not_shown(self) -> None:
        assert broken(said(Selection, measured=("a", "b"), shown=("a",))) == {"dropped-rows": ["s"]}
        assert broken(said(Selection, measured=("a", "b"), shown=("b", "a", "c"))) == {}

    def test_a_tally_that_counts_a_case_twice(self) -> None:
        assert broken(said(Tally, counted={"a": 1, "b": 2})) == {"counted-more-than-once": ["s"]}
        assert broken(said(Tally, counted={"a": 1, "b": 1})) == {}

    def test_a_figure_that_its_own_formula_contradicts(self) -> None:
        stated = {"unit": "bytes", "basis": "its formula"}
        assert broken(said(StatedQuantity, said=214e6, follows=84e6, **stated)) == {"contradicts-itself": ["s"]}
        assert broken(said(StatedQuantity, said=85e6, follows=84e6, **stated)) == {}

    def test_rows_outside_the_range_that_is_stated_for_them(self) -> None:
        bound = {"unit": "ratio", "low": 0.8, "high": 1.2}
        assert broken(said(StatedRange, values={"a": 1.0, "b": 1.9}, **bound)) == {"outside-its-range": ["s"]}
        assert broken(said(StatedRange, values={"a": 1.0, "b": 0.3}, **bound)) == {"outside-its-range": ["s"]}
        assert broken(said(StatedRange, values={"a": 1.0, "b": 1.2}, **bound)) == {}


def test_a_finding_carries_its_figures() -> None:
    (finding,) = audit(publication(table(row(bytes_per_second=1.5e12))))["above-memory-peak"]
    assert finding.printed is not None
    assert finding.allowed is not None
    assert (finding.table, finding.row) == ("T", "a")
    assert (finding.printed.value, finding.printed.unit) == (1.5e12, "bytes_per_second")
    assert finding.allowed.value == 1e12
    assert any(getattr(word, "value", None) == 300e6 for word in finding.words), "the bytes that the rate counts"
