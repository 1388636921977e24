"""Decisions rest on claims: whether one is still fresh is computed from what the evidence says of these now."""

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version

from lab.definition.claim_words import BYTES_WORDS, claim_sentence
from lab.errors import DefinitionError
from lab.evidence.machine import LIBRARIES
from lab.verdict.judge import WITH_USABLE_RATIO, Status
from lab.verdict.judge_traffic import TRAFFIC_MARGIN
from lab.website.data.contradicted import contradicting, newer_runs
from lab.website.data.judged import Judged
from lab.website.verdict_words import claim_word, verdict_word

# Fields of a run's machine that a decision may be bound to.
SOFTWARE = ("driver", "cuda", "torch", "triton", "ncu", "python", *LIBRARIES)


class Freshness(StrEnum):
    FRESH = "fresh"
    DRIFTED = "drifted"
    EXPIRED = "expired"
    CHALLENGED = "challenged"
    ORPHANED = "orphaned"


WORST_FIRST = tuple(reversed(Freshness))
GATED = (Freshness.CHALLENGED, Freshness.ORPHANED)  # what somebody must acknowledge before it is published


@dataclass(frozen=True, kw_only=True, slots=True)
class Support:
    """One claim that a decision rests on, as it was expected when decided."""

    experiment: str
    claim: str
    expects: Status
    evidence: str  # digest of the evidence it was decided on, or its beginning; may be empty; never changes
    acknowledged: tuple[str, ...] = ()  # what it may be found to be, or "orphaned", with nobody being stopped


@dataclass(frozen=True, kw_only=True, slots=True)
class Review:
    """That somebody looked at the record again, on which evidence, and what came of it in a sentence."""

    date: datetime.date
    evidence: str  # digest, or its beginning
    says: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Decision:
    """A decision record as written."""

    slug: str
    title: str
    status: str
    date: datetime.date
    review_by: datetime.date
    rests_on: tuple[Support, ...]
    body: str
    acknowledged: str = ""
    deciders: tuple[str, ...] = ()
    software: Mapping[str, str] = field(default_factory=dict)  # name → range of versions that it holds for
    supersedes: str = ""
    reviewed: tuple[Review, ...] = ()  # the oldest first

    @property
    def closed(self) -> bool:
        """Nobody follows it any more, so that nothing can challenge it."""
        return self.status in ("superseded", "rejected")


@dataclass(frozen=True, kw_only=True, slots=True)
class ClaimEvidence:
    """A claim as one run's evidence has it."""

    judged: Judged
    claim: str

    @property
    def data(self) -> Mapping[str, Any]:
        claim: Mapping[str, Any] = self.judged.data["claims"][self.claim]
        return claim

    @property
    def status(self) -> str:
        return str(self.data["status"])

    @property
    def is_measured(self) -> bool:
        """At one case at least; a run may have other claims of the experiment alone."""
        return any(case["status"] != Status.NO_EVIDENCE for case in self.data["cases"].values())

    @property
    def word(self) -> str:
        return claim_word(self.data)

    @property
    def text(self) -> str:
        return claim_sentence(self.judged.plan.claim(self.claim))


@dataclass(frozen=True, kw_only=True, slots=True)
class SupportStanding:
    """One support now: what evidence says of the claim, and what it said when it was decided.

    `now` is None where no experiment makes the claim any more, `then` where it was not pinned. `last` is what the
    last review saw that measured the claim, or else `then`: what today is held against. `now` is of the same GPU
    model as `last`: where the page of the experiment shows another model, that evidence is `elsewhere`, and says
    nothing against the decision. `why` is empty where it is fresh. `newer` is a run that challenges it though its
    page shows a fuller one; `since` are all runs of that model that measured the claim after `now`, the newest
    first.
    """

    support: Support
    now: ClaimEvidence | None
    then: ClaimEvidence | None
    freshness: Freshness
    why: str = ""
    last: ClaimEvidence | None = None
    problem: str = ""  # what challenges it: a verdict, or that it is orphaned
    newer: ClaimEvidence | None = None
    since: tuple[ClaimEvidence, ...] = ()
    elsewhere: ClaimEvidence | None = None
    reviews: Mapping[str, ClaimEvidence] = field(default_factory=dict)  # by the digest that a review names

    def at(self, evidence: str) -> ClaimEvidence | None:
        """What the evidence of a review says of the claim."""
        return self.reviews.get(evidence)


def standings(
    decision: Decision, current: Sequence[Judged], published: Sequence[Judged], today: datetime.date
) -> tuple[SupportStanding, ...]:
    """How each claim stands in the current evidence, against what the decision expected of it."""
    return tuple(_standing(decision, support, current, published, today) for support in decision.rests_on)


def today_of(newest: str, decision: Decision) -> datetime.date:
    """The day of the newest evidence: the site must not change by itself while nothing was measured."""
    return max(datetime.date.fromisoformat(newest[:10]), decision.date) if newest else decision.date


def freshness(supports: Sequence[SupportStanding]) -> Freshness:
    """The worst of its supports."""
    present = {standing.freshness for standing in supports}
    return next((state for state in WORST_FIRST if state in present), Freshness.FRESH)


def machines(supports: Sequence[SupportStanding]) -> tuple[str, ...]:
    """What the evidence of a decision was measured on: GPU models, or CPUs."""
    claims = [standing.last or standing.now for standing in supports]
    return tuple(dict.fromkeys(each.judged.machine_name for each in claims if each and each.judged.machine_name))


def refuse_unacknowledged(decision: Decision, supports: Sequence[SupportStanding], current: Sequence[Judged]) -> None:
    """Raise DefinitionError for a decision that is challenged or orphaned, where nobody has acknowledged that.

    What is acknowledged is one verdict on one claim, with a sentence for readers: it does not cover what comes later.
    """
    gated = [standing for standing in supports if standing.freshness in GATED]
    if decision.acknowledged:
        gated = [standing for standing in gated if standing.problem not in standing.support.acknowledged]
    if decision.closed or not gated:
        return
    claims = ", ".join(f"{s.support.experiment}/{s.support.claim} {_gate(s)}" for s in gated)
    known = ""
    if orphans := {standing.support.experiment for standing in gated if standing.now is None}:
        plans = [item.plan for item in current if item.plan.name in orphans]
        known = "; claims are " + ", ".join(f"{plan.name}/{claim.name}" for plan in plans for claim in plan.claims)
    raise DefinitionError(
        f"decision {decision.slug} is {freshness(supports)}: {claims}. Supersede it, or acknowledge it: a sentence "
        f"`acknowledged:` for readers, and `acknowledged: {gated[0].problem}` beside the claim{known}"
    )


def _gate(standing: SupportStanding) -> str:
    """Why nothing is published, in the rules' own names, which the author has to write down."""
    if standing.now is None:
        return "is an unknown claim: no experiment makes it"
    if run := standing.newer:
        return f"is {standing.problem} in the newer run {run.judged.evidence['run_id']}"
    return f"is {standing.problem}, not {standing.support.expects}"


def _standing(
    decision: Decision, support: Support, current: Sequence[Judged], published: Sequence[Judged], today: datetime.date
) -> SupportStanding:
    shown = _held(support, [item for item in current if item.name == support.experiment])
    history = [item for item in published if item.name == support.experiment]
    then = _pinned(support, support.evidence, history)
    seen = {each.evidence: _pinned(support, each.evidence, history) for each in decision.reviewed}
    reviews = {evidence: claim for evidence, claim in seen.items() if claim}
    last = next((claim for claim in reversed(reviews.values()) if claim.is_measured), then)
    now = _of_one_model(shown, last, history)
    elsewhere = shown if now is not shown else None
    run = contradicting(now.judged, support.claim, history) if now and now.status == support.expects else None
    newer, problem = ClaimEvidence(judged=run, claim=support.claim) if run else None, ""
    since = newer_runs(now.judged, support.claim, history) if now and now.judged.digest else ()
    if now and not _speaks(now, then):
        newer, (state, why) = None, _due(decision, today)
    elif newer:
        state, problem = Freshness.CHALLENGED, newer.status
        why = f"“{newer.word}” in the newer run {newer.judged.evidence['run_id']} of {newer.judged.measured_utc[:10]}"
    else:
        state, why = _state(decision, support, now, last, today)
        if state in GATED:
            problem = now.status if now else Freshness.ORPHANED
    return SupportStanding(
        support=support, now=now, then=then, last=last, freshness=state, why=why, problem=problem, newer=newer,
        since=tuple(ClaimEvidence(judged=each, claim=support.claim) for each in since), elsewhere=elsewhere,
        reviews=reviews,
    )  # fmt: skip


def _of_one_model(
    shown: ClaimEvidence | None, last: ClaimEvidence | None, history: Sequence[Judged]
) -> ClaimEvidence | None:
    """What is held against `last`: what the page shows, or the fullest evidence of the GPU model that `last` is of."""
    if shown is None or last is None or shown.judged.on_cpu:
        return shown
    machine = last.judged.machine_name
    if shown.judged.machine_name == machine:
        return shown
    same = [run for run in history if run.machine_name == machine and last.claim in run.data["claims"]]
    return ClaimEvidence(judged=max(same, key=lambda run: run.fullness), claim=last.claim)


def _speaks(now: ClaimEvidence, then: ClaimEvidence | None) -> bool:
    """Whether this evidence can say anything of the decision: a CPU's cannot, unless it was decided on a CPU's."""
    return not now.judged.on_cpu or (then is not None and then.judged.on_cpu)


def _pinned(support: Support, evidence: str, history: Sequence[Judged]) -> ClaimEvidence | None:
    return _held(support, [item for item in history if item.digest.startswith(evidence)]) if evidence else None


def _held(support: Support, among: Sequence[Judged]) -> ClaimEvidence | None:
    for item in among:
        if support.claim in item.data["claims"]:
            return ClaimEvidence(judged=item, claim=support.claim)
    return None


def _due(decision: Decision, today: datetime.date) -> tuple[Freshness, str]:
    if today > decision.review_by:
        return Freshness.EXPIRED, f"the review was due on {decision.review_by}"
    return Freshness.FRESH, ""


def _state(
    decision: Decision, support: Support, now: ClaimEvidence | None, last: ClaimEvidence | None, today: datetime.date
) -> tuple[Freshness, str]:
    if now is None:
        return Freshness.ORPHANED, "no experiment makes this claim any more"
    if now.status != support.expects:
        return Freshness.CHALLENGED, f"now “{now.word}”, expected “{verdict_word(support.expects)}”"
    if today > decision.review_by:
        return _due(decision, today)
    if outside := _outside(decision.software, now.judged):
        return Freshness.EXPIRED, outside
    both = shared_cases(last, now)
    if last is not None and (moved := [case for case in both if _moved(last, now, case)]):
        return Freshness.DRIFTED, f"the speed-up moved at {len(moved)} of {len(both)} cases"
    return Freshness.FRESH, ""


def _outside(software: Mapping[str, str], judged: Judged) -> str:
    """What of the evidence's software the decision was not made for; empty where all of it is within."""
    for name, wanted in software.items():
        version = str({**judged.machine["libraries"], **judged.machine}.get(name, "")) or "not on record"
        try:
            within = SpecifierSet(wanted).contains(Version(version), prereleases=True)
        except InvalidVersion:
            within = False
        if not within:
            return f"{name} of the evidence is {version}; the decision is for {wanted}"
    return ""


def shared_cases(then: ClaimEvidence | None, now: ClaimEvidence | None) -> tuple[str, ...]:
    """The cases that both could judge: a range over any others says nothing of a change."""
    if then is None or now is None:
        return ()
    before, after = then.data["cases"], now.data["cases"]
    return tuple(case for case in after if _has_usable_ratio(after[case]) and _has_usable_ratio(before.get(case, {})))


def _has_usable_ratio(verdict: Mapping[str, Any]) -> bool:
    return verdict.get("status") in WITH_USABLE_RATIO and verdict.get("ratio") is not None


def _moved(before: ClaimEvidence, after: ClaimEvidence, case: str) -> bool:
    """Whether the intervals do not meet; of traffic, which has none, whether ratios differ by more than passes do."""
    then, now = before.data["cases"][case], after.data["cases"][case]
    if after.data["measure"] in BYTES_WORDS:
        return bool(abs(now["ratio"] / then["ratio"] - 1) > TRAFFIC_MARGIN)
    return bool(then["high"] < now["low"] or now["high"] < then["low"])
