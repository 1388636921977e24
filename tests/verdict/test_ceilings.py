"""What a run measured of its GPU, and how near to it a cell comes."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import pytest
from factory import LAUNCH_FLOOR_SECONDS, ceiling_seconds, machine, plan_of, records_of

from lab.definition.catalogue import choose_experiments
from lab.definition.experiment import CEILINGS
from lab.definition.plan import PlannedCase
from lab.definition.planning import planned
from lab.verdict.ceilings import Ceilings, MatrixRate, Rung, ceiling_gap, intensity, needed_cases
from lab.verdict.cells import CellResult
from lab.verdict.judge_run import judge_run
from lab.verdict.results import RunResult
from lab.verdict.statistics import Latency

MIB = 1 << 20
BOTH = choose_experiments(["normalization-fusion", CEILINGS])
PLANNED = planned(BOTH[1], frozenset())
COPY_512 = "copy-256x262144-float32"


def times() -> dict[Any, float]:
    """Those of the factory, with the Triton copy ahead of the driver's at one size."""
    ceilings = ceiling_seconds()
    ahead = {(COPY_512, "triton-copy"): 0.9 * ceilings[COPY_512, "torch-copy"]}
    return {"torch-fused": 30e-6, "triton-fused-rmsnorm": 20e-6, **ceilings, **ahead}


def judged(seconds: Mapping[Any, float] | None = None, **how: Any) -> RunResult:
    plan = plan_of(experiments=BOTH, sweeps=3)
    return judge_run(plan, records_of(plan, times() if seconds is None else seconds, noise=0.0001, **how))


@pytest.fixture(scope="module")
def run() -> RunResult:
    return judged()


@pytest.fixture(scope="module")
def ceilings(run: RunResult) -> Ceilings:
    assert run.ceilings is not None
    return run.ceilings


def case_of(read: int, written: int, flops: int = 0, dtype: str = "float16") -> PlannedCase:
    return PlannedCase(
        name="c", op="o", shape=(1,), dtype=dtype, description="", only_with="", included=True,
        read_bytes=read, written_bytes=written, flops=flops,
    )  # fmt: skip


def measured(seconds: float, scope: str = "device_cold", **changes: Any) -> CellResult:
    latency = Latency(p50_seconds=seconds, p95_seconds=None, sweep_p50_seconds=(seconds,), samples=9)
    return CellResult(
        case="c", profile="p", outcome="measured", reason="", latencies={scope: latency}, **changes
    )  # fmt: skip


# What the run measured


def test_the_ladder_holds_the_fastest_profile_of_each_size_in_each_scope(ceilings: Ceilings) -> None:
    assert ceilings.copies.keys() == ceilings.reads.keys() == {"device_cold", "device_warm", "graph"}
    cold = ceilings.copies["device_cold"]
    assert [rung.bytes // MIB for rung in cold] == [2, 4, 8, 16, 32, 64, 128, 256, 512, 2048]
    assert {rung.bytes // MIB for rung in cold if rung.profile == "triton-copy"} == {512}
    largest = cold[-1]
    assert largest.bytes_per_second == pytest.approx(3e12, rel=0.01)
    assert ceilings.copies["graph"][-1].seconds == pytest.approx(0.95 * largest.seconds, rel=1e-3)
    assert [round(rung.bytes / MIB) for rung in ceilings.reads["device_cold"]] == [64, 512, 2048]


def needed(*cases: PlannedCase) -> set[int | str]:
    """Sizes in MiB of the copies and reads, and names of the products."""
    other = dataclasses.replace(planned(BOTH[0], frozenset()), cases=cases)
    names = needed_cases(PLANNED, [other])
    chosen = [case for case in PLANNED.cases if case.name in names]
    return {case.name if "matmul" in case.op else round(case.least_bytes / MIB) for case in chosen}


@pytest.mark.parametrize(
    ("mib", "rungs"), [(1, {2, 4}), (2, {2}), (3, {2, 4}), (64, {64}), (100, {64, 128}), (9000, {256, 512, 2048})]
)
def test_the_needed_ceilings_are_those_that_limit_a_case(mib: int, rungs: set[int]) -> None:
    assert needed(case_of(mib * MIB // 2, mib * MIB // 2)) == rungs


def test_reads_and_products_are_needed_where_they_may_be_the_limit() -> None:
    assert needed(case_of(100 * MIB, 0)) == {64, 512}
    products = {case.name for case in PLANNED.cases if "matmul" in case.op}
    assert needed(case_of(32 * MIB, 32 * MIB, flops=100 * 64 * MIB)) == {64, *products}
    assert needed(case_of(32 * MIB, 32 * MIB, flops=5 * 64 * MIB)) == {64}


def test_a_gpu_too_small_for_the_largest_copy_has_a_limit_above_the_others_too() -> None:
    def limit(names: frozenset[str]) -> float | None:
        cases = tuple(dataclasses.replace(case, included=case.name in names) for case in measured.cases)
        plan = plan_of(experiments=BOTH, sweeps=3)
        plan = dataclasses.replace(plan, experiments=(norms, dataclasses.replace(measured, cases=cases)))
        found = judge_run(plan, records_of(plan, times(), noise=0.0001)).ceilings
        assert found is not None
        return found.memory_seconds(large, "device_cold")

    norms, measured = plan_of(experiments=BOTH, sweeps=3).experiments
    large = case_of(400 * MIB, 400 * MIB)
    needed_ones = needed_cases(measured, [dataclasses.replace(norms, cases=(large,))])
    largest = "copy-1024x262144-float32"
    every = frozenset(case.name for case in measured.cases)
    assert limit(needed_ones - {largest}) == pytest.approx(limit(every - {largest}), rel=1e-3)


def test_what_is_left_out_changes_no_limit(run: RunResult, ceilings: Ceilings) -> None:
    plan = plan_of(experiments=BOTH, sweeps=3)
    norms, measured = plan.experiments
    names = needed_cases(measured, [norms])
    assert 0 < len(names) < len(measured.cases)
    cases = tuple(dataclasses.replace(case, included=case.name in names) for case in measured.cases)
    fewer = dataclasses.replace(plan, experiments=(norms, dataclasses.replace(measured, cases=cases)))
    found = judge_run(fewer, records_of(fewer, times(), noise=0.0001)).ceilings
    assert found is not None
    limits = [found.memory_seconds(case, "device_cold") for case in norms.included_cases]
    assert any(limits)
    every = [ceilings.memory_seconds(case, "device_cold") for case in norms.included_cases]
    assert limits == [limit and pytest.approx(limit, rel=1e-3) for limit in every]


def test_each_kind_of_matrix_has_its_rate(ceilings: Ceilings) -> None:
    rates = {kind: rate.flops_per_second for kind, rate in ceilings.matrix.items()}
    assert rates == pytest.approx(
        {"float16": 600e12, "bfloat16": 700e12, "float8_e4m3fn": 1200e12, "tf32": 300e12}, rel=1e-3
    )
    assert ceilings.matrix["tf32"].case == "matmul-tf32-8192x8192x8192-float32"
    assert ceilings.matrix["tf32"].profile == "cublas"
    assert ceilings.launch_floor_seconds == LAUNCH_FLOOR_SECONDS


def test_what_beats_the_rate_of_its_dtype_by_far_is_held_against_that_of_the_fastest_type(ceilings: Ceilings) -> None:
    product = case_of(1, 1, flops=2 * 8192**3, dtype="bfloat16")
    at_its_rate = product.flops / 700e12
    assert ceilings.matrix_seconds(product) == pytest.approx(at_its_rate, rel=1e-3)
    assert ceilings.matrix_seconds(product, 0.95 * at_its_rate) == pytest.approx(at_its_rate, rel=1e-3)
    assert ceilings.matrix_seconds(product, 0.6 * at_its_rate) == pytest.approx(product.flops / 1200e12, rel=1e-3)


def test_a_run_that_measured_nothing_of_its_gpu_has_no_ceilings() -> None:
    assert judged({"torch-fused": 30e-6}).ceilings is None
    plan = plan_of(experiments=BOTH[:1], sweeps=3)
    assert judge_run(plan, records_of(plan, {"torch-fused": 30e-6})).ceilings is None


def test_a_time_that_no_copy_can_take_is_no_ceiling() -> None:
    ceilings = judged({**times(), (COPY_512, "triton-copy"): 100e-6}).ceilings
    assert ceilings is not None
    (rung,) = [rung for rung in ceilings.copies["device_cold"] if rung.bytes == 512 * MIB]
    assert rung.profile == "torch-copy"


def test_a_case_that_failed_leaves_a_gap_in_the_ladder_and_the_rest_stands() -> None:
    largest = "copy-1024x262144-float32"
    lost = {(largest, profile): ("failed", "inputs: OutOfMemoryError") for profile in ("torch-copy", "triton-copy")}
    ceilings = judged(outcomes=lost, on=machine(memory_bytes=24 << 30)).ceilings
    assert ceilings is not None
    assert [rung.bytes // MIB for rung in ceilings.copies["device_cold"]][-2:] == [256, 512]


# The ceilings of a case


LADDER = Ceilings(
    copies={
        scope: (
            Rung(bytes=2 * MIB, seconds=4e-6, profile="a"),
            Rung(bytes=4 * MIB, seconds=6e-6, profile="b"),
            Rung(bytes=12 * MIB, seconds=10e-6, profile="a"),
        )
        for scope in ("device_cold", "graph")
    },
    reads={
        "device_cold": tuple(
            Rung(bytes=size * MIB, seconds=seconds, profile="r") for size, seconds in ((3, 3e-6), (12, 8e-6))
        )
    },
    matrix={"float16": MatrixRate(flops_per_second=1e12, seconds=1.0, profile="m", case="m")},
    launch_floor_seconds=2e-6,
)  # fmt: skip


@pytest.mark.parametrize(
    ("mebibytes", "seconds"),
    [(2, 4e-6), (3, 5e-6), (4, 6e-6), (8, 8e-6), (12, 10e-6), (1.999, None), (12.001, None)],
)
def test_a_copy_of_as_many_bytes_lies_between_two_rungs(mebibytes: float, seconds: float | None) -> None:
    half = int(mebibytes * MIB) // 2
    copy_seconds = LADDER.memory_seconds(case_of(half, half), "device_cold")
    assert copy_seconds == (pytest.approx(seconds) if seconds else None)
    assert LADDER.memory_seconds(case_of(half, half), "graph") == copy_seconds
    assert LADDER.memory_seconds(case_of(half, half), "eager") is None


def test_a_whole_model_is_held_against_the_line_through_the_last_two_rungs_if_no_cache_holds_them() -> None:
    def read_seconds(*rungs: tuple[int, float], read: int = 16384 * MIB) -> float | None:
        ladder = tuple(Rung(bytes=size * MIB, seconds=seconds, profile="r") for size, seconds in rungs)
        ceilings = dataclasses.replace(LADDER, reads={"device_cold": ladder})
        return ceilings.memory_seconds(case_of(read, 0), "device_cold")

    assert read_seconds((64, 20e-6), (512, 130e-6), (2048, 514e-6)) == pytest.approx(130e-6 + 31 * 128e-6)
    assert read_seconds((64, 20e-6), (128, 40e-6)) is None
    assert read_seconds((2048, 514e-6)) is None
    assert read_seconds() is None


@pytest.mark.parametrize(("written_share", "seconds"), [(0.0, 8e-6), (0.01, 8e-6), (0.02, 10e-6)])
def test_what_writes_next_to_nothing_is_held_against_a_read(written_share: float, seconds: float) -> None:
    written = int(12 * MIB * written_share)
    assert LADDER.memory_seconds(case_of(12 * MIB - written, written), "device_cold") == pytest.approx(seconds)


def test_operations_take_their_time_at_the_rate_of_their_dtype() -> None:
    assert LADDER.matrix_seconds(case_of(1, 1, flops=10**9)) == pytest.approx(1e-3)
    assert LADDER.matrix_seconds(case_of(1, 1, flops=10**9, dtype="bfloat16")) is None
    assert LADDER.matrix_seconds(case_of(1, 1, flops=10**9, dtype="int8")) is None
    assert LADDER.matrix_seconds(case_of(1, 1)) is None


def test_intensity_is_operations_a_byte() -> None:
    assert intensity(case_of(60, 40, flops=1000)) == 10.0


# How near a cell comes


COPIED = case_of(4 * MIB, 4 * MIB)


def test_a_cell_is_held_against_the_copy_of_its_bytes() -> None:
    gap = ceiling_gap(COPIED, measured(10e-6), LADDER)
    assert gap is not None
    assert (gap.limit, gap.matrix_seconds) == ("memory", None)
    assert gap.seconds == gap.memory_seconds == pytest.approx(8e-6)
    assert gap.attained == pytest.approx(0.8)
    assert gap.distance_seconds == pytest.approx(2e-6)


@pytest.mark.parametrize(("flops", "limit"), [(7_900_000, "memory"), (8_100_000, "matrix")])
def test_the_ceiling_that_takes_longer_limits(flops: int, limit: str) -> None:
    gap = ceiling_gap(dataclasses.replace(COPIED, flops=flops), measured(10e-6), LADDER)
    assert gap is not None
    assert gap.limit == limit
    assert gap.seconds == pytest.approx(max(8e-6, flops / 1e12))
    assert gap.attained == pytest.approx(gap.seconds / 10e-6)


def test_a_cell_faster_than_the_measured_copy_attains_more_than_all_of_it() -> None:
    gap = ceiling_gap(COPIED, measured(7.5e-6), LADDER)
    assert gap is not None
    assert gap.attained == pytest.approx(8 / 7.5)
    assert gap.distance_seconds == pytest.approx(-0.5e-6)


@pytest.mark.parametrize(
    ("case", "cell", "scope"),
    [
        pytest.param(COPIED, measured(5.9e-6), "device_cold", id="launch-bound"),
        pytest.param(COPIED, measured(10e-6), "graph", id="not measured in this scope"),
        pytest.param(COPIED, measured(10e-6, "eager"), "eager", id="no ceiling in this scope"),
        pytest.param(COPIED, measured(10e-6, impossible={"device_cold": "too fast"}), "device_cold", id="impossible"),
        pytest.param(case_of(MIB // 2, MIB // 2), measured(10e-6), "device_cold", id="below the ladder"),
    ],
)
def test_nothing_is_said_of_a_cell_that_has_no_ceiling_or_no_time(
    case: PlannedCase, cell: CellResult, scope: str
) -> None:
    assert ceiling_gap(case, cell, LADDER, scope) is None


def test_nothing_is_said_without_ceilings() -> None:
    assert ceiling_gap(COPIED, measured(10e-6), None) is None


def test_inside_a_graph_no_cell_is_too_near_the_launch() -> None:
    assert ceiling_gap(COPIED, measured(5.9e-6, "graph"), LADDER, "graph") is not None


def test_the_ceilings_own_fastest_cells_attain_all_of_them(run: RunResult) -> None:
    assert run.ceilings is not None
    experiment = run.experiments[1]
    for case in experiment.plan.included_cases:
        gaps = [ceiling_gap(case, cell, run.ceilings) for cell in experiment.measured(case.name)]
        if case.least_bytes >= 64 * MIB:
            assert max(each.attained for each in gaps if each) == pytest.approx(1.0), case.name
