"""Decision records: authored in Markdown, resting on claims; whether they are still fresh is computed.

Front matter (YAML): title, status (proposed, accepted, rejected, superseded), date, review_by, and
rests_on: a list of {claim: experiment/claim, expects: verdict, evidence: digest it was decided on}.
`acknowledged` (a sentence) lets a challenged decision be published while it is being reconsidered.
"""

import datetime
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import yaml

from lab.definition.experiment import SLUG
from lab.errors import DefinitionError
from lab.verdict.judge import Status, Verdict
from lab.verdict.judge_traffic import TRAFFIC_MARGIN
from lab.verdict.results import ClaimResult

STATUSES = ("proposed", "accepted", "rejected", "superseded")
FIELDS = ("title", "status", "date", "review_by", "rests_on", "acknowledged")


class Freshness(StrEnum):
    FRESH = "fresh"
    DRIFTED = "drifted"
    CHALLENGED = "challenged"
    EXPIRED = "expired"


@dataclass(frozen=True, kw_only=True, slots=True)
class Support:
    """One claim that a decision rests on, as it was expected when decided."""

    experiment: str
    claim: str
    expects: Status
    evidence: str  # digest of the evidence it was decided on, or its beginning; may be empty


@dataclass(frozen=True, kw_only=True, slots=True)
class Decision:
    """A decision record as written."""

    slug: str
    title: str
    status: str
    date: datetime.date
    review_by: datetime.date
    rests_on: tuple[Support, ...]
    acknowledged: str
    body: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Standing:
    """One support now: the claim's result today, and when it was decided (None where not pinned)."""

    support: Support
    now: ClaimResult | None
    then: ClaimResult | None
    freshness: Freshness


Lookup = Callable[[str, str, str], ClaimResult | None]  # experiment, claim, evidence digest ("" = today's)


def load_decisions(folder: Path) -> tuple[Decision, ...]:
    """Every record in the folder, by number. DefinitionError names the file and the field at fault."""
    if not folder.is_dir():
        raise DefinitionError(f"{folder}: no such folder; it holds the decision records, even if there are none yet")
    return tuple(_parse(path) for path in sorted(folder.glob("*.md")))


def check_claims(
    decisions: Sequence[Decision], known: Mapping[str, Sequence[str]], published: Sequence[str] = ()
) -> None:
    """Raise DefinitionError for a decision on a claim that no experiment makes, or pinned to unknown evidence."""
    for decision in decisions:
        for support in decision.rests_on:
            if support.evidence and not any(digest.startswith(support.evidence) for digest in published):
                raise DefinitionError(
                    f"decision {decision.slug}: is pinned to evidence {support.evidence!r}, which is not published; "
                    f"published are {[digest[:12] for digest in published]}"
                )
            if support.claim not in known.get(support.experiment, ()):
                accepted = [f"{experiment}/{claim}" for experiment, claims in known.items() for claim in claims]
                raise DefinitionError(
                    f"decision {decision.slug}: rests on unknown claim {support.experiment}/{support.claim}; "
                    f"accepted are {accepted}"
                )


def standings(decision: Decision, lookup: Lookup, today: datetime.date) -> tuple[Standing, ...]:
    """How each claim stands now, against what the decision expected of it."""
    return tuple(_standing(decision, support, lookup, today) for support in decision.rests_on)


def freshness(found: Sequence[Standing]) -> Freshness:
    """The worst of its supports."""
    present = {standing.freshness for standing in found}
    for state in (Freshness.CHALLENGED, Freshness.EXPIRED, Freshness.DRIFTED):
        if state in present:
            return state
    return Freshness.FRESH


def refuse_unacknowledged(decision: Decision, found: Sequence[Standing]) -> None:
    """Raise DefinitionError for a challenged decision that nobody has acknowledged."""
    if decision.status in ("superseded", "rejected"):
        return
    if freshness(found) is Freshness.CHALLENGED and not decision.acknowledged:
        challenged = [s for s in found if s.freshness is Freshness.CHALLENGED]
        claims = ", ".join(
            f"{s.support.experiment}/{s.support.claim} is {s.now.status if s.now else 'without evidence'}, "
            f"not {s.support.expects}"
            for s in challenged
        )
        raise DefinitionError(
            f"decision {decision.slug} is challenged: {claims}. Supersede it, or add an `acknowledged:` sentence"
        )


def _standing(decision: Decision, support: Support, lookup: Lookup, today: datetime.date) -> Standing:
    now = lookup(support.experiment, support.claim, "")
    then = lookup(support.experiment, support.claim, support.evidence) if support.evidence else None
    state = Freshness.FRESH
    if now is None or now.status is not support.expects:
        state = Freshness.CHALLENGED
    elif today > decision.review_by:
        state = Freshness.EXPIRED
    elif then is not None and _moved(then, now):
        state = Freshness.DRIFTED
    return Standing(support=support, now=now, then=then, freshness=state)


def _moved(then: ClaimResult, now: ClaimResult) -> bool:
    """Whether at any case the value is no longer the one decided on."""
    return any(_apart(then.verdicts[case], now.verdicts[case]) for case in then.verdicts.keys() & now.verdicts)


def _apart(then: Verdict, now: Verdict) -> bool:
    """Intervals that do not meet; of traffic, which has none, ratios that differ by more than passes do."""
    if then.speedup and now.speedup:
        return then.speedup.high < now.speedup.low or now.speedup.high < then.speedup.low
    if then.traffic and now.traffic:
        return abs(now.traffic.ratio / then.traffic.ratio - 1) > TRAFFIC_MARGIN
    return False


def _parse(path: Path) -> Decision:
    slug = path.stem
    if not SLUG.fullmatch(slug):
        raise DefinitionError(f"{path.name}: the file's name must be NNNN-slug.md")
    parts = path.read_text(encoding="utf-8").split("---\n", 2)
    if len(parts) != 3 or parts[0].strip():
        raise DefinitionError(f"{path.name}: must begin with YAML front matter between two lines of ---")
    try:
        front = yaml.safe_load(parts[1])
    except yaml.YAMLError as problem:
        raise DefinitionError(f"{path.name}: front matter is not valid YAML: {problem}") from None
    if not isinstance(front, dict):
        raise DefinitionError(f"{path.name}: front matter must be fields; accepted are {list(FIELDS)}")
    if unknown := sorted(set(front) - set(FIELDS)):
        raise DefinitionError(f"{path.name}: unknown field {unknown[0]!r}; accepted are {list(FIELDS)}")
    return Decision(
        slug=slug,
        title=_field(path, front, "title", str),
        status=_one_of(path, "status", _field(path, front, "status", str), STATUSES),
        date=_field(path, front, "date", datetime.date),
        review_by=_field(path, front, "review_by", datetime.date),
        rests_on=_supports(path, _field(path, front, "rests_on", list)),
        acknowledged=_field(path, front, "acknowledged", str) if "acknowledged" in front else "",
        body=parts[2].strip(),
    )


def _supports(path: Path, items: list[Any]) -> tuple[Support, ...]:
    if not items:
        raise DefinitionError(f"{path.name}: rests_on is empty; name at least one claim")
    return tuple(_support(path, item) for item in items)


def _support(path: Path, item: Any) -> Support:
    if not isinstance(item, dict) or not {"claim", "expects"} <= set(item) <= {"claim", "expects", "evidence"}:
        raise DefinitionError(f"{path.name}: each of rests_on must have claim, expects and, if pinned, evidence")
    experiment, _, claim = str(item["claim"]).partition("/")
    expects = _one_of(path, "expects", str(item["expects"]), tuple(Status))
    return Support(experiment=experiment, claim=claim, expects=Status(expects), evidence=str(item.get("evidence", "")))


def _field(path: Path, front: Mapping[str, Any], name: str, kind: type) -> Any:
    value = front.get(name)
    # A datetime is a date to Python, and an empty sentence is a string: neither is what the field asks for.
    if not isinstance(value, kind) or isinstance(value, datetime.datetime) or value == "":
        raise DefinitionError(f"{path.name}: field {name!r} is {front.get(name)!r}; it must be a {kind.__name__}")
    return front[name]


def _one_of(path: Path, name: str, value: str, accepted: Sequence[str]) -> str:
    if value not in accepted:
        raise DefinitionError(f"{path.name}: {name} is {value!r}; accepted are {[str(a) for a in accepted]}")
    return value
