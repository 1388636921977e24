"""Does a run's verdict hold when the run is repeated? Counted over all pairs of runs of one source. Pure.

An interval that holds the true ratio 95 times in 100 holds the ratio of another such run 83 to 87 times in 100, for
that run errs too; their difference holds zero 95 times in 100.
"""

import itertools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from lab.definition.experiment import CEILINGS
from lab.verdict.judge import FEWEST_RANKED, POLICY_SET_UTC, Status
from lab.verdict.pooled import Seen, board_count, by_place
from lab.verdict.results import RunResult
from lab.verdict.statistics import Speedup, wilson

Pair = tuple[str, Seen, Seen]  # the experiment, and what two runs saw
HOLDING, ZERO, CHANGED, FLIPPED = 0.85, 0.93, 0.04, 0.0  # goals: the first two at least, the others at most
OPEN = {Status.RERUN_NOISE, Status.INCONCLUSIVE}


class Kind(StrEnum):
    """What the two sides of a claim are. Ceilings are measured along with every experiment, so they have many pairs,
    and their copies and sums differ less between boards than other kernels. Sweeps that each compile anew are nine
    today; the first runs had five, and their verdicts change more often."""

    FIXED = "fixed kernels"
    CEILINGS = "the GPU's ceilings"
    FRESH = "torch.compile, nine compilations"
    FEWER = "torch.compile, fewer compilations"
    ONE_CACHE = "torch.compile, one cache"


@dataclass(frozen=True, kw_only=True, slots=True)
class PairsOf:
    """What one experiment contributes."""

    experiment: str
    run_pairs: int  # of two runs
    pairs: int  # of two verdicts
    changed: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Counted:
    """Pairs of two runs' verdicts on a claim at a case. `holding` is out of twice as many intervals as there are
    pairs."""

    pairs: int
    holding: int  # intervals that hold the other run's estimate
    zero: int  # differences whose interval, the two half-widths in quadrature, holds zero
    changed: int  # verdicts that are not the same
    undecided: int  # of these, pairs whose verdicts both leave the claim open: too noisy to call, and undecided
    flipped: int  # supported in the one and refuted in the other

    @property
    def holding_share(self) -> float:
        return self.holding / (2 * self.pairs)

    @property
    def zero_share(self) -> float:
        return self.zero / self.pairs

    @property
    def changed_share(self) -> float:
        return self.changed / self.pairs

    @property
    def lowest_changed_share(self) -> float:
        """Of the 95 % interval, as though pairs were independent. Those of the same two runs are not."""
        return wilson(self.changed, self.pairs)[0]

    @property
    def highest_changed_share(self) -> float:
        return wilson(self.changed, self.pairs)[1]


@dataclass(frozen=True, kw_only=True, slots=True)
class Repeatability(Counted):
    """Pairs of runs of one source and sampling on GPUs of one model.

    Claims about compiled code are counted by themselves, because a compiler chooses among its kernels by measuring.
    `newer` counts the pairs of which a run was begun after the policy was set: it had no part in choosing the policy's
    values. None where no pair is.
    """

    gpu: str
    kind: Kind
    boards: int
    run_ids: tuple[str, ...]
    sweeps: int  # that a comparison has, in the median
    experiments: tuple[PairsOf, ...]
    newer: Counted | None

    @property
    def runs(self) -> int:
        return len(self.run_ids)

    @property
    def run_pairs(self) -> int:
        return sum(each.run_pairs for each in self.experiments)


@dataclass(frozen=True, kw_only=True, slots=True)
class RunsOfOneSource:
    """How often an experiment was repeated on GPUs of one model without a change."""

    gpu: str
    experiment: str
    runs: int  # of any source
    most: int  # of one source and sampling


def repeatability(runs: Sequence[RunResult], one_code: bool = False) -> tuple[Repeatability, ...]:
    """By GPU model. Runs of different sources are not compared, unless the caller knows that they measured the same
    code."""
    groups: dict[tuple[str, Kind], list[Pair]] = {}
    for place, seen in by_place(runs, one_code).items():
        for one, other in itertools.combinations(seen, 2):
            groups.setdefault((place.gpu, _kind(place.experiment, one, other)), []).append(
                (place.experiment, one, other)
            )
    return tuple(_counted(gpu, kind, pairs) for (gpu, kind), pairs in sorted(groups.items()))


def _kind(experiment: str, one: Seen, other: Seen) -> Kind:
    if experiment == CEILINGS:
        return Kind.CEILINGS
    if one.verdict.one_draw or other.verdict.one_draw:
        return Kind.ONE_CACHE
    if not (one.compiled or other.compiled):
        return Kind.FIXED
    fewest = min(len(each.speedup.sweep_ratios) for each in (one, other))
    return Kind.FRESH if fewest >= FEWEST_RANKED else Kind.FEWER


def runs_of_one_source(runs: Sequence[RunResult]) -> tuple[RunsOfOneSource, ...]:
    """By GPU model and experiment; the most repeated first."""
    sources: dict[tuple[str, str], dict[tuple[str, tuple[float, ...]], set[str]]] = {}
    for place, seen in by_place(runs).items():
        groups = sources.setdefault((place.gpu, place.experiment), {})
        groups.setdefault((place.source, place.sampling), set()).update(each.run_id for each in seen)
    counted = (
        RunsOfOneSource(
            gpu=gpu,
            experiment=experiment,
            runs=len(set().union(*groups.values())),
            most=max(map(len, groups.values())),
        )
        for (gpu, experiment), groups in sources.items()
    )
    return tuple(sorted(counted, key=lambda each: (each.gpu, -each.most, each.experiment)))


def _counted(gpu: str, kind: Kind, found: Sequence[Pair]) -> Repeatability:
    seen = [each for pair in found for each in pair[1:]]
    newer = [pair for pair in found if max(pair[1].started_utc, pair[2].started_utc) > POLICY_SET_UTC]
    return Repeatability(
        gpu=gpu,
        kind=kind,
        boards=board_count(seen),
        run_ids=tuple(sorted({each.run_id for each in seen})),
        sweeps=statistics.median_low(len(each.speedup.sweep_ratios) for each in seen),
        experiments=tuple(_of_one(name, found) for name in sorted({pair[0] for pair in found})),
        newer=Counted(**_counts(newer)) if newer else None,
        **_counts(found),
    )


def _counts(found: Sequence[Pair]) -> dict[str, int]:
    """What `Counted` holds."""
    pairs = [(one, other) for _, one, other in found]
    return {
        "pairs": len(pairs),
        "holding": sum(_holds(a.speedup, b.speedup) + _holds(b.speedup, a.speedup) for a, b in pairs),
        "zero": sum(_meets(a.speedup, b.speedup) for a, b in pairs),
        "changed": sum(map(_changed, found)),
        "undecided": sum({a.verdict.status, b.verdict.status} == OPEN for a, b in pairs),
        "flipped": sum({a.verdict.status, b.verdict.status} == {Status.SUPPORTED, Status.REFUTED} for a, b in pairs),
    }


def _of_one(experiment: str, found: Sequence[Pair]) -> PairsOf:
    pairs = [pair for pair in found if pair[0] == experiment]
    return PairsOf(
        experiment=experiment,
        run_pairs=len({frozenset((one.run_id, other.run_id)) for _, one, other in pairs}),
        pairs=len(pairs),
        changed=sum(map(_changed, pairs)),
    )


def _changed(pair: Pair) -> bool:
    return pair[1].verdict.status != pair[2].verdict.status


def _holds(one: Speedup, other: Speedup) -> bool:
    return one.low <= other.ratio <= one.high


def _meets(one: Speedup, other: Speedup) -> bool:
    widths = (math.log(each.high / each.low) / 2 for each in (one, other))
    return abs(math.log(one.ratio / other.ratio)) <= math.hypot(*widths)
