"""A published speed-up beside the same case here: the product that it is, and the sentences that its figures make."""

import dataclasses
from collections.abc import Iterable
from math import prod

import pytest
from counting import once, recounted
from factory import FAST, FAST_BEATS_PLAIN, LARGE, PLAIN, SMALL, plan_of, profile, records_of, small_experiment

from lab.definition.publication import Limits, Publication, Replication, Row, Table
from lab.evidence.record import Cell, Record
from lab.kernels.traffic import Traffic
from lab.verdict.audit.finding import Amount, Words
from lab.verdict.judge_run import judge_run
from lab.verdict.replication import (
    Measured,
    MeasuredProfile,
    Printed,
    factors,
    inconsistencies,
    measured,
    printed_speedups,
    reasons,
)
from lab.verdict.statistics import Speedup

RIVAL = profile("rival")
AGAIN = Replication(
    experiment="doubling", cases={"double 4096": LARGE.name}, subject="fast", baseline="plain",
    printed_subject="kernel", printed_baseline="torch",
)  # fmt: skip
# 1 TB/s and a cache of 10 MB: 8 MB take 8 µs.
GPU = Limits(gpu="G", bytes_per_second=1e12, flops_per_second={}, l2_bytes=10e6, source="made up")
WORK = Traffic(read_bytes=4_000_000, written_bytes=4_000_000, flops=0)

FORMULA = "<3 ratio> is the formula's, over the fastest other profile"


def text(sentences: Iterable[Words]) -> str:
    return " ".join(
        "".join(f"<{w.value:.3g} {w.unit}>" if isinstance(w, Amount) else w for w in words) for words in sentences
    )


def table(
    title: str = "T", torch: float = 80.0, kernel: float = 20.0, speedup: float | None = 4.0, scope: str = "loop"
) -> Table:
    def row(name: str, microseconds: float, ratio: float | None) -> Row:
        return Row(
            label=f"4096, {name}", operator="double", shape="4096", dtype="", profile=name, work=WORK,
            seconds=microseconds * 1e-6, speedup=ratio,
        )  # fmt: skip

    return Table(
        title=title, source="a test", limits=GPU, scope=scope,
        rows=(row("torch", torch, None), row("kernel", kernel, speedup)),
    )  # fmt: skip


def publication(*tables: Table) -> Publication:
    return Publication(slug="p", title="P", source="a test", about="", tables=tables, replications=(AGAIN,))


def printed(*tables: Table) -> Printed:
    return next(printed_speedups(publication(*(tables or (table(),))), AGAIN))


def speedup(ratio: float) -> Speedup:
    return Speedup(ratio=ratio, low=0.99 * ratio, high=1.01 * ratio, sweep_ratios=(ratio,) * 5)


def side(name: str, seconds: float, **changes: object) -> MeasuredProfile:
    facts = {"graph_seconds": seconds, "enqueue_seconds": 1e-6, "launches": None, "bytes_ratio": None}
    return MeasuredProfile(profile=name, seconds=seconds, **(facts | changes))  # type: ignore[arg-type]


def here(
    cold: float = 3.0, graph: float | None = 3.0, rival: float = 1.0, *, plain: MeasuredProfile | None = None
) -> Measured:  # fmt: skip
    """30 µs of the formula against 10 µs of the kernel, and a host that is never waited for."""
    return Measured(
        subject=side("fast", 10e-6),
        baseline=plain or side("plain", 30e-6),
        rival=side("rival", 10e-6 * rival, launches=1, bytes_ratio=1.0),
        over_baseline={"device_cold": speedup(cold), "graph": speedup(graph) if graph else None},
        over_rival=speedup(rival),
    )


def test_a_published_speedup_is_found_with_both_of_its_times_and_what_its_memory_needs() -> None:
    figure = printed()
    assert (figure.table, figure.case, figure.ratio) == ("T", LARGE.name, 4.0)
    assert (figure.baseline_seconds, figure.subject_seconds) == pytest.approx((80e-6, 20e-6))
    assert figure.memory_seconds == pytest.approx(8e-6)
    assert printed(table(speedup=None)).ratio == pytest.approx(4.0), "of the times, where none is printed"


def test_a_case_that_is_not_measured_again_is_left_out() -> None:
    other = dataclasses.replace(AGAIN, cases={"double 64": SMALL.name})
    assert list(printed_speedups(publication(table()), other)) == []


def test_a_published_factor_is_exactly_the_product_of_its_causes() -> None:
    measured = here(cold=3.0, graph=3.6, rival=1.5, plain=side("plain", 30e-6, enqueue_seconds=50e-6))
    product = factors(8.8, measured)
    assert list(product) == ["rival", "formula", "warmth", "launches", "elsewhere"]
    assert prod(factor for factor in product.values() if factor) == pytest.approx(8.8)
    assert (product["rival"], product["formula"], product["warmth"]) == pytest.approx((1.5, 2.0, 1.2))
    # A loop takes the longer of host and GPU: 50 µs over 10 µs.
    assert product["launches"] == pytest.approx(5.0 / 3.6)
    assert product["elsewhere"] == pytest.approx(8.8 / 5.0)


def test_what_a_missing_scope_would_tell_is_left_open() -> None:
    product = factors(8.8, here(graph=None))
    assert (product["formula"], product["warmth"], product["launches"], product["elsewhere"]) == (3.0, None, None, None)


@pytest.mark.parametrize(
    ("microseconds", "says"),
    [
        pytest.param(
            7.0, "are less than the <8e-06 seconds> that the memory of the G needs", id="faster than its memory"
        ),
        pytest.param(12.0, "", id="near its memory"),
        pytest.param(20.0, "are <2.5 ratio> what the memory of the G needs", id="mostly something else"),
    ],
)
def test_published_times_are_held_against_their_own_memory(microseconds: float, says: str) -> None:
    words = text(inconsistencies(printed(table(kernel=microseconds))))
    assert says in words
    assert bool(says) == bool(words)


def test_two_times_of_one_kernel_by_one_clock_are_named() -> None:
    words = text(inconsistencies(printed(table(kernel=12.0), table("Again", kernel=120.0))))
    assert words == "“Again” gives the same kernel <0.00012 seconds> by the same clock: <10 ratio> apart."
    assert not text(inconsistencies(printed(table(kernel=12.0), table("Again", kernel=20.0)))), "less than twice"
    assert not text(inconsistencies(printed(table(kernel=12.0), table("Again", kernel=120.0, scope="events"))))


def test_a_weak_formula_is_reported_by_its_kernels_and_bytes() -> None:
    plain = side("plain", 30e-6, launches=9, bytes_ratio=5.5)
    words = text(reasons(printed(table(speedup=3.0)), here(plain=plain)))
    assert words.startswith(f"{FORMULA}: written out it takes <9 count> kernels that move ")
    assert "<5.5 ratio> the least bytes, against <1 count> and <1 ratio>." in words
    assert f"{FORMULA}." in text(reasons(printed(table(speedup=3.0)), here()))


def test_launches_are_reported_by_what_the_host_needs_to_enqueue() -> None:
    plain = side("plain", 30e-6, enqueue_seconds=90e-6)
    words = text(reasons(printed(table(speedup=9.0)), here(rival=3.0, plain=plain)))
    assert words.startswith("<3 ratio> is the host's: to enqueue a call it takes <9e-05 seconds> for the formula")
    assert "the formula's" not in words, "the rival is no faster than the formula"


def test_the_weightiest_cause_comes_first_and_small_ones_are_not_named() -> None:
    words = text(reasons(printed(table(speedup=12.0)), here(cold=3.0, graph=3.15)))
    assert words.index("none of these clocks") < words.index("the formula's")
    assert "in the cache what the last ones left" not in words


def test_a_factor_that_holds_says_so() -> None:
    assert text(reasons(printed(table(speedup=1.05)), here(cold=1.0, graph=1.0, plain=side("plain", 10e-6)))) == (
        "Nothing in it changes the ratio by more than <0.1 share>."
    )


PLAN = plan_of(
    experiments=[
        small_experiment(
            profiles=(PLAIN, FAST, RIVAL), scopes=("device_cold", "graph", "eager"), claims=(FAST_BEATS_PLAIN,)
        )
    ],
    include=("large-sweep",), profiling=True,
)  # fmt: skip
SECONDS = {(LARGE.name, "plain"): 180e-6, (LARGE.name, "fast"): 60e-6, (LARGE.name, "rival"): 90e-6}


def run(records: list[Record]) -> Measured | str:
    return measured(judge_run(PLAN, records).experiments[0], AGAIN, LARGE.name)


def slow_to_enqueue(records: Iterable[Record], profile_name: str) -> list[Record]:
    return [
        dataclasses.replace(
            record, timings=tuple(dataclasses.replace(timing, enqueue_seconds=1e-3) for timing in record.timings)
        )
        if isinstance(record, Cell) and record.profile == profile_name else record
        for record in records
    ]  # fmt: skip


def test_a_run_gives_the_fastest_rival_every_scope_and_the_counters() -> None:
    records = recounted(records_of(PLAN, SECONDS), {"plain": [*once(2.0, 2.0), *once(2.0, 2.0)]})
    measured = run(slow_to_enqueue(records, "plain"))
    assert isinstance(measured, Measured)
    assert measured.rival.profile == "rival"
    assert measured.over_rival.ratio == pytest.approx(1.5, rel=0.01)
    ratios = {scope: each.ratio for scope, each in measured.over_baseline.items() if each}
    assert ratios == pytest.approx({"device_cold": 3.0, "graph": 3.0, "eager": 2.5}, rel=0.01)
    assert (measured.baseline.launches, measured.baseline.bytes_ratio) == (2, pytest.approx(4.0, rel=0.01))
    assert measured.loop_ratio == pytest.approx(1e-3 / 57e-6, rel=0.01)


def test_the_formula_itself_is_the_rival_where_no_other_was_measured() -> None:
    measured = run(records_of(PLAN, {key: value for key, value in SECONDS.items() if key[1] != "rival"}))
    assert isinstance(measured, Measured)
    assert measured.rival.profile == "plain"
    assert factors(4.0, measured)["formula"] == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("outcome", "says"),
    [
        (("failed", "it broke"), "failed: it broke"),
        (("skipped", "needs a CUDA GPU"), "skipped: needs a CUDA GPU"),
    ],
)
def test_a_side_that_was_not_measured_is_named_with_its_reason(outcome: tuple[str, str], says: str) -> None:
    assert run(records_of(PLAN, SECONDS, outcomes={"fast": outcome})) == says


def test_an_impossible_time_is_no_measurement() -> None:
    measured = run(records_of(PLAN, SECONDS | {(LARGE.name, "fast"): 3e-6}))
    assert isinstance(measured, str)
    assert measured.startswith("rejected: faster than physics")
