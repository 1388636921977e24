"""What a search for launch configurations found: every one tried, and the winner, if noise allows one. Pure."""

from dataclasses import dataclass

from lab.definition.plan import PlannedCase, PlannedProfile
from lab.definition.search import RULE
from lab.evidence.record import Compiled
from lab.verdict.cells import CellResult
from lab.verdict.judge import Status, Verdict
from lab.verdict.results import ExperimentResult
from lab.verdict.statistics import DECIDING_CONFIDENCE


@dataclass(frozen=True, kw_only=True, slots=True)
class ConfigurationTrial:
    """One configuration, compared with the rule's."""

    claim: str
    profile: PlannedProfile
    cell: CellResult
    verdict: Verdict

    @property
    def ratio(self) -> float:
        """Times as fast as the rule; 0 where that is not known."""
        return self.verdict.speedup.ratio if self.verdict.speedup else 0.0

    @property
    def sweep_ratios(self) -> tuple[float, ...]:
        return self.verdict.speedup.sweep_ratios if self.verdict.speedup else ()

    @property
    def sweeps_ahead(self) -> int:
        """In how many sweeps it was faster than the rule."""
        return sum(ratio > 1 for ratio in self.sweep_ratios)


@dataclass(frozen=True, kw_only=True, slots=True)
class Search:
    """All trials at one case and scope, the fastest first. `winner` is None where the rule stays."""

    case: PlannedCase
    scope: str
    rule: CellResult
    trials: tuple[ConfigurationTrial, ...]
    winner: ConfigurationTrial | None

    @property
    def sweeps_fastest(self) -> int:
        """In how many sweeps the winner was the fastest of all."""
        if self.winner is None:
            return 0
        rivals = [t.sweep_ratios for t in self.trials if len(t.sweep_ratios) == len(self.winner.sweep_ratios)]
        return sum(own >= max(sweep) for own, *sweep in zip(self.winner.sweep_ratios, *rivals, strict=True))


def searches(experiment: ExperimentResult) -> tuple[Search, ...]:
    """The searches of a judged experiment, by case. The winner is the fastest of those whose claim is supported, and
    would be at the level of a verdict divided by the number that were tried: the best of many looks better than it is.
    """
    return tuple(_search(experiment, case) for case in experiment.plan.included_cases)


def compiled_of(cell: CellResult) -> Compiled | None:
    """What Triton made of a configuration: its kernel, where a call launches one."""
    return next((record.compiled[0] for record in cell.cells if record.compiled), None)


def _wins(verdict: Verdict, threshold: float, tried: int) -> bool:
    """Whether it is supported among so many (Bonferroni)."""
    low, _ = verdict.speedup.interval(1 - (1 - DECIDING_CONFIDENCE) / tried) if verdict.speedup else (0.0, 0.0)
    return verdict.status is Status.SUPPORTED and low >= threshold


def _search(experiment: ExperimentResult, case: PlannedCase) -> Search:
    profiles = {profile.name: profile for profile in experiment.plan.profiles}
    claims = [claim for claim in experiment.claims if case.name in claim.verdicts]
    trials = [
        ConfigurationTrial(
            claim=claim.claim.name,
            profile=profiles[claim.claim.subject],
            cell=experiment.cells[case.name, claim.claim.subject],
            verdict=claim.verdicts[case.name],
        )
        for claim in claims
    ]
    trials.sort(key=lambda trial: -trial.ratio)
    threshold = claims[0].claim.threshold  # of every claim of a search
    return Search(
        case=case,
        scope=claims[0].claim.scope,
        rule=experiment.cells[case.name, RULE],
        trials=tuple(trials),
        winner=next((trial for trial in trials if _wins(trial.verdict, threshold, len(trials))), None),
    )
