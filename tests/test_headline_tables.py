"""The published headlines as experiments: their cases, formulas and thresholds are those of the publications."""

import pytest
import torch

from experiments.audits.cuda_kernels import CUDA_KERNELS
from experiments.audits.diy_flash_attention import DIY_FLASH_ATTENTION
from experiments.headline_attention import HEADLINE_ATTENTION
from experiments.headline_linear import HEADLINE_LINEAR
from experiments.headline_tables import HEADLINE_TABLES, PUBLISHED, rmsnorm_decomposed, rope_decomposed
from lab.definition.experiment import Claim, Experiment
from lab.definition.planning import planned
from lab.definition.publication import Publication, Replication
from lab.verdict.replication import printed_speedups

AGAIN = CUDA_KERNELS.replications[0]
AGAIN_LINEAR = CUDA_KERNELS.replications[1]
(AGAIN_ATTENTION,) = DIY_FLASH_ATTENTION.replications
REPLICATIONS = pytest.mark.parametrize(
    ("experiment", "publication", "again"),
    [
        (HEADLINE_TABLES, CUDA_KERNELS, AGAIN),
        (HEADLINE_LINEAR, CUDA_KERNELS, AGAIN_LINEAR),
        (HEADLINE_ATTENTION, DIY_FLASH_ATTENTION, AGAIN_ATTENTION),
    ],
    ids=lambda each: getattr(each, "name", ""),
)
PLAN = planned(HEADLINE_TABLES, frozenset())
SWEEPS = ("RMSNorm by hidden size", "RoPE by sequence", "SwiGLU by FFN dimension")


@REPLICATIONS
def test_every_case_is_one_that_was_published_and_every_published_one_is_a_case(
    experiment: Experiment, publication: Publication, again: Replication
) -> None:
    plan = planned(experiment, frozenset())
    assert sorted(again.cases.values()) == sorted(case.name for case in plan.cases)
    assert {profile.name for profile in plan.profiles} >= {again.subject, again.baseline}
    assert experiment.name == again.experiment
    assert {printed.case for printed in printed_speedups(publication, again)} == set(again.cases.values())


def test_cases_of_two_tables_are_measured_once() -> None:
    pairs = [(printed.table, printed.case) for printed in printed_speedups(CUDA_KERNELS, AGAIN)]
    assert len(pairs) == len(set(pairs)) == 15 + 16
    assert {case for table, case in pairs if table in SWEEPS} == {case.name for case in PLAN.cases} - {
        "rmsnorm-2048x3584-float16"
    }


@REPLICATIONS
def test_a_case_here_is_the_work_that_was_published(
    experiment: Experiment, publication: Publication, again: Replication
) -> None:
    cases = {case.name: case for case in planned(experiment, frozenset()).cases}
    for row in (row for table in publication.tables for row in table.rows if row.case in again.cases):
        assert cases[again.cases[row.case]].work == row.work, row.label
        assert cases[again.cases[row.case]].dtype == row.dtype, row.label


def smallest_factors(publication: Publication, again: Replication, claim: Claim) -> float:
    names = {case.name for case in claim.cases}
    return min(printed.ratio for printed in printed_speedups(publication, again) if printed.case in names)


def test_the_factors_of_products_and_attention_are_the_smallest_that_were_published() -> None:
    asked = [claim for claim in HEADLINE_ATTENTION.claims if claim.name.startswith("published-")]
    assert len(asked) == 2
    for claim in asked:
        assert claim.threshold == smallest_factors(DIY_FLASH_ATTENTION, AGAIN_ATTENTION, claim)


def test_the_factors_of_fused_projections_are_the_smallest_of_their_decoding_rows() -> None:
    asked = [claim for claim in HEADLINE_LINEAR.claims if claim.name.startswith("published-")]
    assert len(asked) == 4
    for claim in asked:
        assert claim.threshold == smallest_factors(CUDA_KERNELS, AGAIN_LINEAR, claim)
        assert max(case.shape[0] for case in claim.cases) == 64


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
