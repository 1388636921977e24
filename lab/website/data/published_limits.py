"""What the hardware allows, and how near each implementation came to it."""

from dataclasses import dataclass
from typing import Literal

from lab.definition.experiment import COLD, GRAPH
from lab.definition.plan import PlannedCase
from lab.verdict.ceilings import Ceilings, MatrixRate, Rung, ceiling_gap, intensity
from lab.verdict.cells import CellResult
from lab.verdict.datasheet import Datasheet, datasheet
from lab.verdict.results import ExperimentResult, RunResult
from lab.website.data.typed import ByProfile, ByScope, taken

LIMIT_SCOPES = (COLD, GRAPH)  # where a time is the GPU's alone, and the inputs are not at hand


@dataclass(frozen=True, kw_only=True, slots=True)
class RungData(Rung):
    peak_share: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class MatrixRateData(MatrixRate):
    peak_share: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class CeilingsData:
    """What this GPU can do at most: as this run measured it, and as its datasheet says of dense matrices."""

    run_id: str
    copies: ByScope[tuple[RungData, ...]]
    reads: ByScope[tuple[RungData, ...]]
    matrix: dict[str, MatrixRateData]
    launch_floor_seconds: float
    l2_bytes: int
    datasheet: Datasheet | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Limit:
    limit: Literal["memory", "matrix"]
    seconds: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Gap:
    """`attained`: the time at the ceiling that limits the case, as a share of the measured one."""

    attained: float
    distance_seconds: float
    cache_resident_bytes: int | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Gaps:
    device_cold: Gap | None = None
    graph: Gap | None = None
    flops_per_second: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class LimitsData:
    flops_per_byte: float
    scopes: ByScope[Limit]
    profiles: ByProfile[Gaps]


def ceilings_data(run: RunResult) -> CeilingsData | None:
    """None where the run did not measure them."""
    if run.ceilings is None:
        return None
    ceilings, sheet = run.ceilings, datasheet(run.machine.gpu)

    def rungs(ladders: dict[str, tuple[Rung, ...]]) -> dict[str, tuple[RungData, ...]]:
        peak = sheet.bytes_per_second if sheet else None
        return {
            scope: tuple(taken(RungData, each, peak_share=_share(each.bytes_per_second, peak)) for each in ladder)
            for scope, ladder in ladders.items()
        }

    return taken(
        CeilingsData, ceilings, run.machine, run_id=run.plan.run_id, copies=rungs({**ceilings.copies}),
        reads=rungs({**ceilings.reads}), datasheet=sheet,
        matrix={
            kind: taken(
                MatrixRateData, rate,
                peak_share=_share(rate.flops_per_second, sheet.flops_per_second.get(kind) if sheet else None),
            )
            for kind, rate in ceilings.matrix.items()
        },
    )  # fmt: skip


def limits_data(result: ExperimentResult, run: RunResult) -> dict[str, LimitsData] | None:
    """By case: its intensity and what limits it in each scope; by profile: how much of that was attained."""
    if run.ceilings is None:
        return None
    return {case.name: _case(case, result, run.ceilings) for case in result.plan.included_cases}


def _share(measured: float, printed: float | None) -> float | None:
    return measured / printed if printed else None


def _case(case: PlannedCase, result: ExperimentResult, ceilings: Ceilings) -> LimitsData:
    cells = {cell.profile: cell for cell in result.measured(case.name)}
    limits: dict[str, Limit] = {}  # of a case and a scope all profiles have one
    profiles = {}
    for profile, cell in cells.items():
        gaps = {}
        for scope in LIMIT_SCOPES:
            if scope in result.plan.scopes and (gap := ceiling_gap(case, cell, ceilings, scope)):
                limits.setdefault(scope, taken(Limit, gap))
                gaps[scope] = taken(Gap, gap, cache_resident_bytes=cell.cache_resident.get(scope))
        profiles[profile] = Gaps(**gaps, flops_per_second=_rate(case, cell))
    scopes = {scope: limits[scope] for scope in LIMIT_SCOPES if scope in limits}
    return LimitsData(flops_per_byte=intensity(case), scopes=scopes, profiles=profiles)


def _rate(case: PlannedCase, cell: CellResult) -> float | None:
    honest = case.flops and cell.latency and not cell.launch_bound and not cell.impossible.get(COLD)
    return case.flops / cell.latency.p50_seconds if honest and cell.latency else None
