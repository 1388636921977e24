"""The published headlines as an experiment: its cases, formulas and thresholds are those of the publication."""

from collections.abc import Iterator

import pytest
import torch

from experiments.audits.cuda_kernels import CUDA_KERNELS
from experiments.headline_tables import HEADLINE_TABLES, PUBLISHED, rmsnorm_decomposed, rope_decomposed
from lab.definition.plan import planned
from lab.definition.publication import Row
from lab.verdict.replication import printed_speedups

AGAIN = CUDA_KERNELS.replication
assert AGAIN is not None
PLAN = planned(HEADLINE_TABLES, frozenset())
SWEEPS = ("RMSNorm by hidden size", "RoPE by sequence", "SwiGLU by FFN dimension")


def test_every_case_is_one_that_was_published_and_every_published_one_is_a_case() -> None:
    assert sorted(AGAIN.cases.values()) == sorted(case.name for case in PLAN.cases)
    assert {(profile.name) for profile in PLAN.profiles} >= {AGAIN.subject, AGAIN.baseline}
    assert HEADLINE_TABLES.name == AGAIN.experiment
    pairs = [(printed.table, printed.case) for printed in printed_speedups(CUDA_KERNELS, AGAIN)]
    assert len(pairs) == len(set(pairs)) == 15 + 16
    assert {case for table, case in pairs if table in SWEEPS} == {case.name for case in PLAN.cases} - {
        "rmsnorm-2048x3584-float16"
    }


def rows() -> Iterator[Row]:
    return (row for table in CUDA_KERNELS.tables for row in table.rows if row.case in AGAIN.cases)


def test_a_case_here_is_the_work_that_was_published() -> None:
    cases = {case.name: case for case in PLAN.cases}
    for row in rows():
        assert cases[AGAIN.cases[row.case]].work == row.work, row.label
        assert cases[AGAIN.cases[row.case]].dtype == row.dtype, row.label


@pytest.mark.parametrize(("claim", "table"), zip(PUBLISHED, SWEEPS, strict=True), ids=lambda each: str(each)[:20])
def test_a_headline_asks_for_the_smallest_factor_of_its_table_at_the_cases_of_its_table(claim, table) -> None:
    ratios = {p.case: p.ratio for p in printed_speedups(CUDA_KERNELS, AGAIN) if p.table == table}
    assert {case.name for case in claim.cases} == set(ratios)
    assert claim.threshold == min(ratios.values())
    callers = next(each for each in HEADLINE_TABLES.claims if each.name == f"{claim.name}-for-callers")
    assert (callers.scope, callers.threshold, callers.cases) == ("eager", claim.threshold, claim.cases)


def test_the_formulas_are_written_out_in_float32_and_rounded_once() -> None:
    x = torch.randn(3, 8, dtype=torch.float16)
    weight = torch.rand(8, dtype=torch.float16)
    wide = x.double()
    truth = wide / (wide.square().mean(-1, keepdim=True) + 1e-6).sqrt() * weight.double()
    assert torch.equal(rmsnorm_decomposed(x, weight), truth.half())
    cos, sin = torch.tensor([[0.0], [1.0]]), torch.tensor([[1.0], [0.0]])
    heads = torch.tensor([[[[1.0, 2.0], [3.0, 4.0]]]], dtype=torch.float16)
    assert rope_decomposed(heads, cos, sin).tolist() == [[[[-2.0, 1.0], [3.0, 4.0]]]]
