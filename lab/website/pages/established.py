"""What the lab has established, and what it has disproved: headline claims in a sentence each, within their evidence.

A sentence says what was compared, in which scope, at which cases and on which machine, and nothing of any other.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from lab.definition.asked import claim_sentence
from lab.definition.plan import PlannedClaim
from lab.verdict.judge import Status
from lab.website import format
from lab.website.data.contradicted import contradicting
from lab.website.data.judged import Judged
from lab.website.data.outline import Outline
from lab.website.figure import Ledger, Sentence, plain_sentence, read_sentence
from lab.website.pages.labels import TITLES, scope_told, shape_label
from lab.website.pages.tallies import supported_at
from lab.website.pages.verdict_words import claim_mark

FIRST, FAILED = "established", "failed"
MOST_FIRST, MOST_FAILED = 12, 4
# Anchor, heading, by what rule a claim is in the list, and how many are.
LISTS = (
    (FIRST, "What each experiment found", "Each experiment's first headline claim, whatever came of it.", MOST_FIRST),
    (FAILED, "Headline claims that failed", "Of each experiment the next headline claim that is refuted.", MOST_FAILED),
)
MOST_SHAPES = 3  # beyond which only the smallest and the largest are named


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """One claim: its sentence as written, and what was measured of it. Addresses are relative to the site."""

    status: str
    mark: str  # equivalent, where it is so at each of its cases
    text: str
    href: str
    data: str
    measured: Sentence
    machine: str
    date: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Group:
    """Findings of one machine and day."""

    machine: str
    date: str
    findings: tuple[Finding, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class FindingList:
    """Findings, and by what rule they were chosen."""

    anchor: str
    title: str
    rule: str
    groups: tuple[Group, ...]


def established(current: Iterable[Outline], on_cpu: bool = False) -> tuple[FindingList, ...]:
    """Every list of findings, in each the newest evidence first; of a CPU only where the site is about its run."""
    told = [item for item in current if item.findings and item.on_cpu == on_cpu]
    newest = sorted(told, key=lambda item: item.measured_utc, reverse=True)
    lists = []
    for name, title, rule, most in LISTS:
        found = [_read(item.findings[name]) for item in newest if name in item.findings][:most]
        if found:
            lists.append(FindingList(anchor=name, title=title, rule=rule, groups=_grouped(found)))
    return tuple(lists)


def _grouped(found: Sequence[Finding]) -> tuple[Group, ...]:
    places = dict.fromkeys((finding.machine, finding.date) for finding in found)
    return tuple(
        Group(machine=machine, date=date, findings=tuple(f for f in found if (f.machine, f.date) == (machine, date)))
        for machine, date in places
    )


def findings(item: Judged, history: Sequence[Judged]) -> dict[str, dict[str, Any]]:
    """What an experiment gives to each list of the front page, as plain JSON values.

    Nothing is established of which a newer run among the published ones, `history`, says otherwise.
    """
    if not item.evidence or item.plan.self_test:
        return {}
    claims = {claim.name: claim for claim in item.plan.claims}
    told = [claims[name] for name in item.plan.headlines if not contradicting(item, name, history)]
    told += [claim for claim in item.plan.claims if claim not in told] if item.on_cpu else []
    found = [finding for claim in told if (finding := _finding(item, claim))]
    refuted = [finding for finding in found[1:] if finding.status == Status.REFUTED]
    chosen = {FIRST: found[:1], FAILED: refuted[:1]}
    return {
        name: asdict(each) | {"measured": plain_sentence(each.measured)}
        for name, held in chosen.items()
        for each in held
    }


def _read(plain: Mapping[str, Any]) -> Finding:
    finding = Finding(**plain)
    return replace(finding, measured=read_sentence(finding.measured))


def _finding(item: Judged, claim: PlannedClaim) -> Finding | None:
    """None where no ratio could be weighed: then there is nothing to tell."""
    ledger, path = Ledger(item.data), ("claims", claim.name)
    show = format.times if claim.measure == "traffic" else _hundredths
    least, most = (ledger.end(claim.name, name, show=show) for name in ("smallest_ratio", "largest_ratio"))
    supported, judged = ledger.figure(*path, "supported"), ledger.figure(*path, "judged")
    if least is None or most is None or supported is None or judged is None:
        return None
    span: Sentence = (least,) if least.text == most.text else (least, " to ", most)
    held: Sentence = () if supported.value == judged.value else ("; ", *supported_at(claim.name, ledger))
    return Finding(
        status=item.data["claims"][claim.name]["status"],
        mark=claim_mark(item.data["claims"][claim.name]),
        text=claim_sentence(claim),
        href=f"experiments/{item.plan.name}/index.html#claim-{claim.name}",
        data=f"experiments/{item.plan.name}/data.json",
        measured=(*_told(item, claim, span), f", at {_cases(item, claim)}", *held, *_eager(claim, ledger)),
        machine=item.machine_name,
        date=format.day(item.measured_utc),
    )


def _eager(claim: PlannedClaim, ledger: Ledger) -> Sentence:
    """What an eager caller gets of it, where that was measured and the claim is about GPU time."""
    if claim.scope == "eager":
        return ()
    found = [
        (parts["end_to_end"]["ratio"], case)
        for case, claims in (ledger.value("splits") or {}).items()
        if (parts := claims.get(claim.name)) and parts["end_to_end"]
    ]
    if not found:
        return ()
    ends = [ledger.figure("splits", case, claim.name, "end_to_end", "ratio", show=_hundredths) for _, case in
            (min(found), max(found))]  # fmt: skip
    least, most = (end or "" for end in ends)
    span: Sentence = (least,) if len(found) == 1 else (least, " to ", most)
    return ("; for an eager caller, launch included, ", *span)


def _told(item: Judged, claim: PlannedClaim, span: Sentence) -> Sentence:
    if claim.measure == "speedup":
        return (*span, f" as fast, {scope_told(claim.scope, item.on_cpu)}")
    if claim.baseline:
        return (*span, " the bytes, in DRAM traffic")
    return (*span, " of the least over the bytes that were moved, in DRAM traffic")


def _cases(item: Judged, claim: PlannedClaim) -> str:
    """'RMSNorm 4096×4096 float16', and of many the operators, how many, and the ends."""
    held = [case for case in item.plan.included_cases if case.name in claim.cases]
    operators = dict.fromkeys(TITLES.get(case.op, case.op) for case in held)
    if len(held) <= MOST_SHAPES:
        return " and ".join(
            f"{operator} {', '.join(shape_label(case) for case in held if TITLES.get(case.op, case.op) == operator)}"
            for operator in operators
        )
    by_size = sorted(held, key=lambda case: case.least_bytes)
    return (
        f"{len(held)} shapes of {' and '.join(operators)}, from {shape_label(by_size[0])} to {shape_label(by_size[-1])}"
    )


def _hundredths(ratio: float) -> str:
    return f"{ratio:.2f}×"
