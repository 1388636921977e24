"""What the lab has established, and what it has disproved: headline claims in a sentence each, within their evidence.

A sentence says what was compared, in which scope, at which cases and on which machine, and nothing of any other.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice
from typing import Any

from lab.definition.asked import claim_sentence
from lab.definition.plan import PlannedClaim
from lab.verdict.judge import Status
from lab.website import format
from lab.website.data.contradicted import contradicting
from lab.website.data.judged import Judged
from lab.website.data.outline import Outline
from lab.website.figure import Ledger, Sentence, plain_sentence, read_sentence
from lab.website.pages.labels import SCOPES, TITLES, shape_label

MOST_SUPPORTED, MOST_REFUTED = 6, 4
MOST_SHAPES = 3  # beyond which only the smallest and the largest are named


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """One claim: its sentence as written, and what was measured of it. Addresses are relative to the site."""

    status: str
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


def established(current: Iterable[Outline]) -> tuple[Group, ...]:
    """The first supported headline of each experiment, then the first refuted ones; the newest evidence first."""
    newest = sorted((item for item in current if item.findings), key=lambda item: item.measured_utc, reverse=True)
    found = [
        finding
        for status, most in ((Status.SUPPORTED, MOST_SUPPORTED), (Status.REFUTED, MOST_REFUTED))
        for finding in islice(_first(newest, status), most)
    ]
    places = dict.fromkeys((finding.machine, finding.date) for finding in found)
    return tuple(
        Group(machine=machine, date=date, findings=tuple(f for f in found if (f.machine, f.date) == (machine, date)))
        for machine, date in places
    )


def findings(item: Judged, history: Sequence[Judged]) -> dict[str, dict[str, Any]]:
    """The first finding of an experiment's headlines with each verdict that is told, as plain JSON values.

    Nothing is established of which a newer run among the published ones, `history`, says otherwise.
    """
    if not _tells(item):
        return {}
    found = {str(status): _first_of(item, history, status) for status in (Status.SUPPORTED, Status.REFUTED)}
    return {
        status: asdict(finding) | {"measured": plain_sentence(finding.measured)}
        for status, finding in found.items()
        if finding
    }


def _tells(item: Judged) -> bool:
    """Whether it speaks of kernels: not of the lab itself, and not of a CPU where GPUs are the subject."""
    return bool(item.evidence) and not item.plan.self_test and not item.on_cpu


def _first(items: Iterable[Outline], status: Status) -> Iterator[Finding]:
    return (_read(item.findings[status]) for item in items if status in item.findings)


def _read(plain: Mapping[str, Any]) -> Finding:
    finding = Finding(**plain)
    return replace(finding, measured=read_sentence(finding.measured))


def _first_of(item: Judged, history: Sequence[Judged], status: Status) -> Finding | None:
    claims = {claim.name: claim for claim in item.plan.claims}
    names = [name for name in item.plan.headlines if item.data["claims"][name]["status"] == status]
    held = (claims[name] for name in names if not contradicting(item, name, history))
    return next((found for claim in held if (found := _finding(item, claim))), None)


def _finding(item: Judged, claim: PlannedClaim) -> Finding | None:
    """None where no ratio could be weighed: then there is nothing to tell."""
    ledger, path = Ledger(item.data), ("claims", claim.name)
    show = format.times if claim.measure == "traffic" else _hundredths
    least, most = (ledger.end(claim.name, name, show=show) for name in ("smallest_ratio", "largest_ratio"))
    supported, judged = ledger.figure(*path, "supported"), ledger.figure(*path, "judged")
    if least is None or most is None or supported is None or judged is None:
        return None
    span: Sentence = (least,) if least.text == most.text else (least, " to ", most)
    held: Sentence = () if supported.value == judged.value else ("; supported at ", supported, " of ", judged, " cases")
    return Finding(
        status=item.data["claims"][claim.name]["status"],
        text=claim_sentence(claim),
        href=f"experiments/{item.plan.name}/index.html#claim-{claim.name}",
        data=f"experiments/{item.plan.name}/data.json",
        measured=(*_told(claim, span), f", at {_cases(item, claim)}", *held),
        machine=item.machine_name,
        date=format.day(item.measured_utc),
    )


def _told(claim: PlannedClaim, span: Sentence) -> Sentence:
    if claim.measure == "speedup":
        return (*span, f" as fast, {SCOPES[claim.scope]}")
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
