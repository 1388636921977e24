"""Whether a run's headline claims have the verdict that a gate or a test requires. Pure."""

from collections.abc import Iterator

from lab.definition.experiment import CEILINGS
from lab.errors import RunError
from lab.verdict.judge import Status
from lab.verdict.plain_words import in_words
from lab.verdict.results import ClaimResult, RunResult

# What is accepted for each verdict that can be required. A claim that is not refuted may still lack evidence; one that
# is not rejected may be wrong about speed, but its results are right.
NOT_REFUTED = (Status.SUPPORTED, Status.INCONCLUSIVE, Status.RERUN_NOISE, Status.NO_EVIDENCE)
REQUIRED = {
    "supported": (Status.SUPPORTED,),
    "not-refuted": NOT_REFUTED,
    "not-rejected": (*NOT_REFUTED, Status.REFUTED),
}


def lacking_verdicts(run: RunResult, required: str) -> Iterator[str]:
    """A line for each headline claim that has another verdict. RunError if `required` is not in REQUIRED.

    Of its GPU's ceilings a run measures those that its cases are compared with: claims about others are not required.
    """
    if required not in REQUIRED:
        raise RunError(f"required is {required!r}; accepted are {list(REQUIRED)}")
    for experiment in run.experiments:
        for claim in experiment.claims:
            if experiment.plan.name == CEILINGS and not claim.verdicts:
                continue
            if claim.claim.name in experiment.plan.headlines and claim.status not in REQUIRED[required]:
                place = f"{run.plan.run_id}: {experiment.plan.name}/{claim.claim.name}"
                yield f"{place} is {claim.status}, and {required} is required{_why(claim)}"


def _why(claim: ClaimResult) -> str:
    """The first case with the claim's verdict, and the reason, where the verdict has one."""
    alike = ((case, each) for case, each in claim.verdicts.items() if each.status is claim.status)
    told = (f": {case}, {in_words(each)}{f': {each.reason}' if each.reason else ''}" for case, each in alike)
    return next(told, "")
