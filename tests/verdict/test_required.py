"""The verdicts that a gate requires of a run's headline claims."""

import dataclasses

from factory import LARGE, SMALL, ceiling_seconds, plan_of, records_of, small_experiment

from lab.definition.catalogue import choose_experiments
from lab.definition.experiment import CEILINGS
from lab.definition.plan import Plan
from lab.verdict.ceilings import needed_cases
from lab.verdict.judge_run import judge_run
from lab.verdict.required import lacking_verdicts

BOTH = choose_experiments(["normalization-fusion", CEILINGS])
READS = "triton-sum-keeps-up"


def lacking(plan: Plan) -> str:
    times = {"torch-fused": 30e-6, "triton-fused-rmsnorm": 20e-6, **ceiling_seconds()}
    return " ".join(lacking_verdicts(judge_run(plan, records_of(plan, times, noise=0.0001)), "supported"))


def test_claims_about_ceilings_that_a_run_does_not_need_are_not_required() -> None:
    plan = plan_of(experiments=BOTH, sweeps=3)
    norms, ceilings = plan.experiments
    needed = needed_cases(ceilings, [norms])
    assert not any(name.startswith("read") for name in needed)
    cases = tuple(dataclasses.replace(case, included=case.name in needed) for case in ceilings.cases)
    fewer = dataclasses.replace(plan, experiments=(norms, dataclasses.replace(ceilings, cases=cases)))
    assert READS not in lacking(fewer)


def test_a_claim_of_another_experiment_is_required_even_if_none_of_its_cases_is_measured() -> None:
    plan = plan_of(experiments=BOTH[:1], sweeps=3)
    (norms,) = plan.experiments
    first, *others = norms.cases
    alone = dataclasses.replace(norms, cases=(first, *(dataclasses.replace(each, included=False) for each in others)))
    unmeasured = {
        claim.name for claim in norms.claims if claim.name in norms.headlines and first.name not in claim.cases
    }
    assert unmeasured
    said = lacking(dataclasses.replace(plan, experiments=(alone,)))
    assert all(f"/{name} is no-evidence" in said for name in unmeasured)


def test_a_case_that_is_slower_is_named_without_a_reason() -> None:
    plan = plan_of(experiments=[small_experiment()], sweeps=5)
    times = {(SMALL.name, "plain"): 20e-6, (SMALL.name, "fast"): 40e-6}
    (said,) = lacking_verdicts(judge_run(plan, records_of(plan, times)), "supported")
    assert (
        said == f"{plan.run_id}: doubling/fast-beats-plain is refuted, and supported is required: {SMALL.name}, slower"
    )


def test_the_case_that_decided_is_named_with_its_reason() -> None:
    """And not another of the same claim."""
    plan = plan_of(experiments=[small_experiment()], sweeps=3, include=("large-sweep",))
    times = {(SMALL.name, "plain"): 24e-6, (SMALL.name, "fast"): 20e-6, (LARGE.name, "plain"): 60e-6}
    outcomes = {(LARGE.name, "fast"): ("wrong", "off by one"), (SMALL.name, "fast"): ("failed", "no luck")}
    (said,) = lacking_verdicts(judge_run(plan, records_of(plan, times, outcomes=outcomes)), "supported")
    assert said == (
        f"{plan.run_id}: doubling/fast-beats-plain is rejected, and supported is required: {LARGE.name}, wrong result: "
        "wrong result of the subject: off by one"
    )
