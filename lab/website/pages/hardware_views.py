"""What a template may see of limits, ceilings and counters: frozen, already in words.

`at` is the JSON pointer that the figures of a row have in common.
"""

from dataclasses import dataclass

from lab.website.charts.ladder import LadderChart
from lab.website.charts.roofline import RooflineChart
from lab.website.figure import Figure, Sentence


@dataclass(frozen=True, kw_only=True, slots=True)
class KernelRow:
    """One kernel of a profiled call, or all of them together."""

    at: str
    name: str
    launch: str  # '4096 blocks of 512'
    duration: Figure | None
    read: Figure | None
    written: Figure | None
    dram: Figure | None
    occupancy: Figure | None
    theoretical: Figure | None
    limiter: str
    registers: Figure | None
    shared: Figure | None
    l2_hit: Figure | None
    sm: Figure | None
    tensor: Figure | None
    stall: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ProfiledCall:
    """Every kernel of one call; `total` where there are several."""

    at: str
    profile: str
    blocked: str  # why there are no counters
    essentials: Sentence
    kernels: tuple[KernelRow, ...]
    total: KernelRow | None


@dataclass(frozen=True, kw_only=True, slots=True)
class CompiledRow:
    """A Triton kernel as it was compiled for a cell."""

    at: str
    profile: str
    name: str
    registers: Figure | None
    spills: Figure | None
    shared: Figure | None
    warps: Figure | None
    stages: Figure | None
    configuration: str
    code: str
    compile_time: Figure | None
    autotune_time: Figure | None
    variants: Figure | None  # where sweeps did not agree on the code


@dataclass(frozen=True, kw_only=True, slots=True)
class ProfiledCase:
    name: str
    label: str
    calls: tuple[ProfiledCall, ...]
    compiled: tuple[CompiledRow, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class KernelsSection:
    about: Sentence  # of the pass itself
    report_sha256: str
    detailed: bool  # else the run is older than what the details need
    cases: tuple[ProfiledCase, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class TrafficRow:
    """What one profiled call moved to and from DRAM."""

    at: str
    profile: str
    read: Figure | None
    written: Figure | None
    ratio: Figure | None  # over the least
    state: str
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class TrafficGroup:
    case: str
    least: Figure | None
    rows: tuple[TrafficRow, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class TrafficLine:
    """A case on one line: (bytes over the least, state) of each profile of the section; None where not counted."""

    case: str
    anchor: str
    least: Figure | None
    cells: tuple[tuple[Figure | None, str] | None, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class TrafficSection:
    profiles: tuple[str, ...]
    lines: tuple[TrafficLine, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Attained:
    """How near a cell came to its limit in one scope, or why that cannot be said."""

    share: Figure | None
    distance: Figure | None
    resident: Figure | None  # the working set, where the cache held some of it
    why_not: str


@dataclass(frozen=True, kw_only=True, slots=True)
class LimitRow:
    at: str
    profile: str
    scopes: tuple[Attained, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class LimitGroup:
    """A case: its least work and what limits it, and how near each profile came."""

    case: str
    least: Figure | None
    flops: Figure | None
    intensity: Figure | None
    limits: tuple[Sentence, ...]  # by scope
    rows: tuple[LimitRow, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class LimitLine:
    """A case on one line: its limit, and how much of it each profile attained; the case's page has the rest."""

    case: str
    anchor: str
    bound: str  # 'memory': what the limit is of; empty where it has none
    limit: Figure | None
    intensity: Figure | None
    cells: tuple[Attained | None, ...]  # by profile of the section; None where it was not measured


@dataclass(frozen=True, kw_only=True, slots=True)
class LimitsSection:
    ceilings: Sentence  # what the cells are held against
    profiles: tuple[str, ...]
    lines: tuple[LimitLine, ...]
    chart: RooflineChart | None
    figure_json: str
    undrawn: str  # what the chart leaves out, or why there is none


@dataclass(frozen=True, kw_only=True, slots=True)
class CeilingRow:
    """One ceiling: what was measured, and what the datasheet prints."""

    name: Sentence
    unit: str
    measured: Figure | None
    printed: Figure | None
    share: Figure | None
    by: str


@dataclass(frozen=True, kw_only=True, slots=True)
class LadderRow:
    size: Figure | None
    speeds: tuple[Figure | None, ...]  # by line of the chart


@dataclass(frozen=True, kw_only=True, slots=True)
class CeilingsSection:
    chart: LadderChart | None
    headings: tuple[str, ...]
    ladder: tuple[LadderRow, ...]
    rows: tuple[CeilingRow, ...]
    datasheet: str  # whose; empty where the lab knows none
    source: str
