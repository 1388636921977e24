"""The verdicts of a claim: at each case with the ratio and its interval, and over all cases together."""

from dataclasses import dataclass
from typing import Annotated, Literal

from lab.verdict.judge import Status, Verdict
from lab.verdict.results import ClaimResult, ExperimentResult
from lab.website.data.published_clocks import quotient
from lab.website.data.typed import ByCase, taken


@dataclass(frozen=True, kw_only=True, slots=True)
class VerdictData:
    """From low to high is the interval for any board of the GPU model, from run_low to run_high that of this run."""

    status: Status
    mark: str
    reason: str
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    run_low: float | None = None
    run_high: float | None = None
    sweep_ratios: Annotated[tuple[float, ...] | None, "The ratio of each sweep by itself."] = None
    subject_bytes: float | None = None
    baseline_bytes: float | None = None
    quotient_of_medians: Annotated[
        float | None, "Of the two medians that are shown, where it is not the ratio: that is of paired rounds."
    ] = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ClaimData:
    """Smallest, largest and mean are of the ratios that were fit to be weighed."""

    status: Status
    mark: Annotated[str, "“one draw” where the verdict rests on such evidence."]
    measure: Literal["speedup", "traffic", "memory"]
    threshold: float
    scope: str
    expected: Annotated[tuple[Status, ...], "Of a test of the lab itself: what a sound instrument may say."]
    cases: ByCase[VerdictData]
    judged: int
    compared: int
    supported: int
    ties: int
    smallest_ratio: float | None = None
    largest_ratio: float | None = None
    geometric_mean: float | None = None


def claim_data(result: ExperimentResult, claim: ClaimResult) -> ClaimData:
    """With counts of its verdicts, and range and geometric mean of the ratios that were fit to be judged."""
    verdicts, ratios = list(claim.verdicts.values()), claim.usable_ratios
    return taken(
        ClaimData, claim, claim.claim, cases={case: _verdict(result, claim, case) for case in claim.verdicts},
        judged=len(verdicts), compared=len(ratios),
        supported=sum(verdict.status == "supported" for verdict in verdicts),
        ties=sum("equivalent" in verdict.mark.split(", ") for verdict in verdicts),
        smallest_ratio=min(ratios, default=None), largest_ratio=max(ratios, default=None),
    )  # fmt: skip


def _verdict(result: ExperimentResult, claim: ClaimResult, case: str) -> VerdictData:
    verdict: Verdict = claim.verdicts[case]
    asked, speedup = claim.claim, verdict.speedup
    run_low, run_high = speedup.of_run_alone if speedup else (None, None)
    return taken(
        VerdictData, verdict.compared_bytes, speedup, verdict, run_low=run_low, run_high=run_high,
        quotient_of_medians=quotient(result, case, asked.subject, asked.baseline, speedup, asked.scope),
    )  # fmt: skip
