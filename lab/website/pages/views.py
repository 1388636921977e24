"""What a template may see: complete, frozen, already in words. A template computes nothing.

`at` is the JSON pointer that the figures of a row have in common.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lab.verdict.judge import READING_ORDER
from lab.website.charts.speedups import SpeedupChart
from lab.website.figure import Figure, Sentence
from lab.website.pages.answer import Glance
from lab.website.pages.correctness import Worst
from lab.website.pages.every_cell import EveryCell
from lab.website.pages.hardware_views import CeilingsSection, LimitsSection, TrafficSection
from lab.website.pages.history import HistorySection
from lab.website.pages.hypotheses import Hypothesis
from lab.website.pages.past import Elsewhere
from lab.website.pages.replication_views import ReplicationSection


@dataclass(frozen=True, kw_only=True, slots=True)
class Card:
    label: str
    value: Figure
    context: Sentence


@dataclass(frozen=True, kw_only=True, slots=True)
class CaseVerdict:
    """One row of a claim's table."""

    at: str
    case: str
    anchor: str
    winner: str
    subject_p50: Figure | None
    baseline_p50: Figure | None
    ratio: Figure | None
    interval: Figure | None
    pooled: Sentence  # over several runs; figures point into trust/data.json
    noise: Figure | None
    status: str
    mark: str
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class TrafficVerdict:
    """One row of the table of a claim about traffic."""

    case: str
    anchor: str
    counted: Figure | None  # of the subject
    subject: Figure | None  # with the rest of its result
    baseline: Figure | None
    ratio: Figure | None
    bounds: Figure | None  # of the ratio, where there are several kernels
    status: str
    mark: str
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ExplainedRow:
    """A profile beside the fastest of its case: times its time, and times its bytes."""

    at: str
    case: str
    profile: str
    fastest: str
    time_ratio: Figure | None
    bytes_ratio: Figure | None
    explained: bool
    others: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ClaimView:
    name: str
    text: str
    status: str
    mark: str
    subject: str
    baseline: str
    threshold: Figure
    asked: str  # the same in words
    scope: str
    measure: str
    tally: Sentence
    rows: tuple[CaseVerdict, ...]
    traffic_rows: tuple[TrafficVerdict, ...]  # instead, of a claim about traffic
    headline: bool
    expected: str  # of a test of the lab itself: what a sound instrument may say


@dataclass(frozen=True, kw_only=True, slots=True)
class SplitRow:
    """One eager speed-up and its two parts, each with its interval."""

    at: str
    pair: str
    parts: tuple[tuple[Figure | None, Figure | None], ...]  # end to end, device, launch


@dataclass(frozen=True, kw_only=True, slots=True)
class ControlRow:
    """The same profile under two names, at one case."""

    case: str
    anchor: str
    profile: str
    ratio: Figure | None
    interval: Figure | None
    spoiled: Figure | None
    sweeps: Figure | None


@dataclass(frozen=True, slots=True)
class GpuFigure:
    name: str
    unit: str
    figure: Figure | None


@dataclass(frozen=True, kw_only=True, slots=True)
class GpuRow:
    """What the GPU went through while one case was timed."""

    at: str
    case: str
    anchor: str
    figures: tuple[GpuFigure, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchRow:
    """One configuration held against the rule."""

    title: str
    p50: Figure | None
    ratio: Figure | None
    interval: Figure | None
    ahead: Figure | None  # sweeps in which it was faster than the rule
    sweeps: Figure | None
    registers: Figure | None
    spills: Figure | None
    status: str
    mark: str
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchCase:
    """A search for launch configurations at one case."""

    name: str
    label: str
    chart: SpeedupChart | None
    rule_p50: Figure | None
    rule_registers: Figure | None
    rule_spills: Figure | None
    rows: tuple[SearchRow, ...]
    outcome: Sentence


@dataclass(frozen=True, kw_only=True, slots=True)
class Boundary:
    holds_for: tuple[Sentence, ...]
    does_not_show: tuple[Sentence, ...]  # the author's, registered before measuring, and what the data add
    not_measured: tuple[Sentence, ...]
    excluded: tuple[Sentence, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class DecisionLink:
    slug: str
    title: str
    status: str
    freshness: str  # empty of a closed one


@dataclass(frozen=True, kw_only=True, slots=True)
class Contradiction:
    """A claim of which a newer run than the one shown says otherwise."""

    claim: str
    text: str
    status: str
    run_id: str
    date: str
    link: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ExperimentPage:
    slug: str
    title: str
    question: str
    project: str
    focus: str
    importance: str
    answer: Sentence
    glances: tuple[Glance, ...]
    contradictions: tuple[Contradiction, ...]
    other_models: tuple[Elsewhere, ...]  # what was measured on other GPU models, the fullest run of each
    boundary_line: str
    state: Sentence
    date: str
    machine: str
    on_cpu: bool
    clock: str  # what the times of the headline scope are
    run_shape: Sentence
    samples: Sentence
    digest: str
    run_link: str  # empty in a preview
    tables: tuple[tuple[str, str], ...]  # each CSV beside the page, and what it holds
    verdict_link: str
    commit: str
    policy_version: int
    cards: tuple[Card, ...]
    chart: SpeedupChart | None
    chart_baseline: str
    figure_json: str
    searches: tuple[SearchCase, ...]  # instead of cards and chart, where it is a search for launch configurations
    claims: tuple[ClaimView, ...]
    need_gpu: tuple[tuple[str, str], ...]  # claims that a CPU cannot speak of: name, sentence
    explained: tuple[tuple[ExplainedRow, ...], ...]  # by case
    explained_within: str
    every_cell: EveryCell
    cells_note: Sentence
    controls: tuple[ControlRow, ...]
    limits: LimitsSection | None  # None where the run did not measure its ceilings
    ceilings: CeilingsSection | None  # on the page of the ceilings themselves
    traffic: TrafficSection | None  # None where the run was not profiled
    replication: ReplicationSection | None  # where published cases are measured again
    hypotheses: tuple[Hypothesis, ...]
    profiled: bool
    correctness: tuple[Worst, ...]
    self_test: bool
    metrics: Mapping[str, tuple[str, ...]]
    boundary: Boundary
    decisions: tuple[DecisionLink, ...]
    decision_state: str
    live_command: str
    local_command: str
    provenance: tuple[tuple[str, Sentence], ...]
    history: HistorySection | None  # None in a preview
    data: Mapping[str, Any]

    @property
    def counts(self) -> Mapping[str, int]:
        """How many claims have each verdict, in the order of the rules."""
        found = [claim.status for claim in self.claims]
        return {status: found.count(status) for status in READING_ORDER if status in found}
