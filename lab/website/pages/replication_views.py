"""What a template may see of published speed-ups beside the same cases measured here."""

from dataclasses import dataclass

from lab.website.charts.published import PublishedChart
from lab.website.figure import Figure, Sentence


@dataclass(frozen=True, kw_only=True, slots=True)
class ReplicationRow:
    """One published speed-up. `at`: see views.py."""

    at: str
    case: str
    anchor: str
    baseline: Figure | None  # published times
    subject: Figure | None
    printed: Figure | None  # published speed-up
    ratios: tuple[tuple[Figure | None, Figure | None], ...]  # here, by scope: ratio and interval
    over_rival: tuple[Figure | None, Figure | None]
    rival: str
    loop: Figure | None  # a loop of calls by a clock of the host, estimated
    product: Sentence
    above: str  # the table above that holds what was measured here of this case; empty where this is the first
    unmeasured: str  # why there is nothing from here; empty where there is


@dataclass(frozen=True, kw_only=True, slots=True)
class PrintedReasons:
    """Why a speed-up in a published table differs from what was measured here."""

    table: str
    product: Sentence
    why: tuple[Sentence, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class PrintedTable:
    title: str
    source: str
    clock: str
    rows: tuple[ReplicationRow, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class ReplicationSection:
    """`rival_series` draws the fastest other profile, whichever that is at a case."""

    publication: str
    slug: str
    scopes: tuple[str, ...]
    rival_series: str
    machines: Sentence
    tables: tuple[PrintedTable, ...]
    chart: PublishedChart | None
