"""What the template of a case's page may see: frozen, already in words.

`at` is the JSON pointer that the figures of a row have in common.
"""

from dataclasses import dataclass

from lab.website.charts.sweeps import SweepsChart
from lab.website.figure import Figure, Sentence
from lab.website.pages.past import Elsewhere


@dataclass(frozen=True, kw_only=True, slots=True)
class ScopeTime:
    """The time of one profile in one scope."""

    p50: Figure | None
    p95: Figure | None
    why_not: str


@dataclass(frozen=True, kw_only=True, slots=True)
class CaseCell:
    """Everything that was measured of one profile at the case."""

    at: str
    profile: str
    title: str
    outcome: str
    reason: str
    place: str
    p50: Figure | None
    p95: Figure | None
    noise: Figure | None
    spread: Figure | None
    samples: Figure | None
    gigabytes: Figure | None
    enqueue: Figure | None
    prepare: Figure | None
    memory: Figure | None
    launch_bound: bool
    host_bound: bool
    notes: tuple[Sentence, ...]
    scopes: tuple[ScopeTime, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class PairRow:
    """One profile against every other: speed-up, interval, and the quotient of the medians where it is another."""

    title: str
    ratios: tuple[tuple[Figure | None, Figure | None, Figure | None] | None, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class CaseClaim:
    """What the rules say of one claim at this case."""

    name: str
    text: str
    status: str
    mark: str
    reason: str
    ratio: Figure | None
    interval: Figure | None
    quotient: Figure | None  # of the medians, where it is another
    pooled: Sentence  # over several runs; figures point into trust/data.json


@dataclass(frozen=True, kw_only=True, slots=True)
class OtherClocks:
    """What other clocks say of one claim's pair: a ratio for each of them, and those that turn the verdict."""

    text: str
    ours: Figure | None
    ratios: tuple[tuple[Figure | None, bool], ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Draw:
    """What one sweep compiled and chose. `codes` are the beginnings of SHA-256 sums."""

    sweep: int
    codes: str
    configuration: str
    p50: Figure | None
    compile_time: Figure | None
    autotune_time: Figure | None
    blind: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Draws:
    """The code of a profile that is compiled or tuned at run time, sweep by sweep."""

    profile: str
    fresh: bool
    codes: Figure | None  # how many different ones
    rows: tuple[Draw, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Distribution:
    """The p50 of each sweep; `sweeps` are their numbers."""

    chart: SweepsChart
    sweeps: tuple[int, ...]
    rows: tuple[tuple[str, tuple[Figure | None, ...]], ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class PastTime:
    """The case in one published run. `data` is the file of its figures."""

    run_id: str
    link: str
    date: str
    software: str
    changed: bool  # other software than the run before it
    current: bool
    data: str
    times: tuple[Figure | None, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class CaseHistory:
    """Runs on the GPU model of the run shown, newest first; those on others apart."""

    profiles: tuple[str, ...]
    rows: tuple[PastTime, ...]
    elsewhere: tuple[Elsewhere, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class CorrectnessRow:
    at: str
    profile: str
    error: Figure | None
    tolerance: Figure | None
    checks: Figure | None
    edges: tuple[str, ...]  # what each edge input gave, in the order of the heading
    wrong: str
