"""How fit a case was to be judged: its A/A control, the rounds that were left out, and the state of the GPU."""

from dataclasses import dataclass
from typing import Annotated

from lab.evidence.record import Round
from lab.verdict.excluded_rounds import LARGEST_CANARY_DRIFT
from lab.verdict.results import ExperimentResult
from lab.verdict.statistics import per_cent
from lab.website.data.published_speedups import Interval
from lab.website.data.typed import ByScope, taken


@dataclass(frozen=True, kw_only=True, slots=True)
class ControlData:
    """One profile against itself under another name: the lab's own error at this case."""

    profile: str
    scopes: ByScope[Interval]
    spoiled_share: Annotated[float, "Of the rounds: those left out, as a share of 1."]
    spoiled_because: list[str]


@dataclass(frozen=True, kw_only=True, slots=True)
class GpuData:
    """What the GPU went through while a case was timed, over all sweeps; null where nobody told."""

    rounds: int
    power_capped_share: Annotated[float | None, "Of the rounds: those at the power limit, as a share of 1."]
    lowest_spin_hertz: float | None
    lowest_sm_hertz: float | None
    largest_power_watts: float | None
    largest_temperature_celsius: float | None
    energy_joules_per_sweep: float | None
    blind: Annotated[list[str], "Why nothing was told, where nothing was."]


def control_data(result: ExperimentResult, case: str) -> ControlData:
    """The A/A control of a case by scope, and how much of the case was left out."""
    controls = result.controls.get(case, ())
    scopes = {scope: result.control(case, scope) for scope in result.plan.scopes} if controls else {}
    return ControlData(
        profile=controls[0].profile if controls else "",
        scopes={scope: taken(Interval, speedup) for scope, speedup in scopes.items() if speedup},
        spoiled_share=result.spoiled_share(case),
        spoiled_because=_spoiled_because(result, case),
    )


def _spoiled_because(result: ExperimentResult, case: str) -> list[str]:
    """The reasons for which rounds of a case were left out."""
    reasons = {
        _of_every_round(reason)
        for watch in result.watches.get(case, ())
        for reason in result.spoiled.reasons(watch).values()
    }
    return sorted(reasons)


def _of_every_round(reason: str) -> str:
    """How far a canary was off differs from round to round: instead, how far it must be to spoil one."""
    told, off_by, _ = reason.partition("off by ")
    return f"{told}{off_by}more than {per_cent(LARGEST_CANARY_DRIFT)}" if off_by else reason


def gpu_data(result: ExperimentResult, case: str) -> GpuData:
    watches = result.watches.get(case, ())
    rounds = [seen for watch in watches for seen in watch.rounds]
    readings = {name: [v for seen in rounds if (v := getattr(seen, name)) is not None] for name in Round.__slots__}
    joules = [watch.energy_joules for watch in watches if watch.energy_joules is not None]
    return GpuData(
        rounds=len(rounds),
        power_capped_share=result.spoiled.capped_shares.get((result.plan.name, case)),
        lowest_spin_hertz=min(readings["spin_hertz"], default=None),
        lowest_sm_hertz=min(readings["sm_hertz"], default=None),
        largest_power_watts=max(readings["power_watts"], default=None),
        largest_temperature_celsius=max(readings["temperature_celsius"], default=None),
        energy_joules_per_sweep=sum(joules) / len(joules) if joules else None,
        blind=sorted({watch.blind for watch in watches if watch.blind}),
    )
