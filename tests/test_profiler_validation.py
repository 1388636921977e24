"""The experiment on the profiler: what it takes for known must be so."""

import pytest

from experiments.profiler_validation import (
    BEYOND_L2,
    COLUMNS,
    ITEMSIZES,
    PROFILER_VALIDATION,
    SHIPPED,
    SIZES,
    TOLERANCE,
    WRITTEN_OUT,
    Shipped,
)
from lab.definition.catalogue import choose_experiments
from lab.definition.planning import planned
from lab.evidence.source import ROOT
from lab.verdict.judge_run import load_run

CLAIMS = {claim.name: claim for claim in PROFILER_VALIDATION.claims}
PLAN = planned(PROFILER_VALIDATION, frozenset({"full-validity"}))


@pytest.mark.parametrize("kernel", SHIPPED, ids=lambda kernel: kernel.profile.name)
def test_each_kernel_is_held_to_the_least_at_every_size_and_dtype(kernel: Shipped) -> None:
    claim = CLAIMS[f"{kernel.profile.name}-moves-the-least"]
    assert (claim.measure, claim.baseline, claim.subject) == ("traffic", None, kernel.profile)
    assert claim.threshold == pytest.approx(1 / 1.10)
    assert len(claim.cases) == len(SIZES) * len(kernel.dtypes)
    assert {case.dtype for case in claim.cases} == set(kernel.dtypes)
    assert set(kernel.profile.kernels or {}) == {kernel.operator.name}, "its own kernel must be the one that is counted"


def test_the_cases_are_as_large_as_their_names_say() -> None:
    """Weights and biases come on top: some kilobytes."""
    least = {case.name: case.least_bytes for case in PLAN.cases}
    for kernel in SHIPPED:
        for mebibytes in SIZES:
            for dtype in kernel.dtypes:
                case = kernel.case(mebibytes, dtype)
                assert least[case.name] == pytest.approx(mebibytes << 20, rel=0.005)
                assert case.shape[1] == COLUMNS


def test_the_sizes_reach_from_inside_the_cache_to_far_beyond_it() -> None:
    """An H100's L2 holds 50 MiB."""
    assert min(SIZES) <= 50 / 4
    assert max(SIZES) >= 10 * 50
    assert all(size >= 5 * 50 for size in BEYOND_L2)


def test_rivals_are_compared_beyond_the_cache_where_the_profiler_leaves_little_open() -> None:
    for claim in PROFILER_VALIDATION.claims:
        if claim.baseline:
            rows = {case.name: case.least_bytes for case in PLAN.cases}
            assert all(rows[case.name] >= min(BEYOND_L2) << 20 for case in claim.cases), claim.name


@pytest.mark.parametrize("row", WRITTEN_OUT, ids=lambda row: f"{row[0].operator.name}-{row[1]}")
def test_times_are_enclosed_by_what_the_bytes_say(row: tuple[Shipped, str, int, int]) -> None:
    kernel, dtype, read, written = row
    ratio = (read + written) / (2 * ITEMSIZES[dtype])
    below = CLAIMS[f"{kernel.operator.name}-{dtype}-saves-what-its-traffic-says"]
    above = CLAIMS[f"{kernel.operator.name}-{dtype}-saves-no-more"]
    assert below.threshold == pytest.approx(ratio / TOLERANCE)
    assert 1 / above.threshold == pytest.approx(ratio * TOLERANCE)
    assert (below.subject, below.baseline) == (above.baseline, above.subject)
    assert {case.dtype for case in below.cases + above.cases} == {dtype}


def test_what_the_written_out_norms_read_is_what_a_profiler_counted() -> None:
    """On an H100, at the largest published case of each; the count of writes lacks what stays in the cache."""
    (experiment,) = load_run(ROOT / "experiments" / "evidence" / "h100-2026-11-21").experiments
    checked = 0
    for kernel, dtype, read, written in WRITTEN_OUT:
        cases = [c for c in experiment.plan.cases if (c.op, c.dtype) == (kernel.operator.name, dtype)]
        if not cases:
            continue
        case = max(cases, key=lambda c: c.least_bytes)
        traffic = experiment.cells[case.name, "torch-baseline"].traffic
        assert traffic is not None
        elements = case.shape[0] * case.shape[1]
        assert traffic.read_bytes == pytest.approx(read * elements, rel=0.001)
        assert 0.6 * written * elements < traffic.written_bytes < written * elements
        checked += 1
    assert checked >= 3


def test_it_is_measured_only_when_asked_for_and_in_the_headline_scope() -> None:
    assert PROFILER_VALIDATION not in choose_experiments(["all"])
    assert PROFILER_VALIDATION.scopes == ("device_cold",)
