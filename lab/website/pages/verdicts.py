"""An experiment as one run has it: verdicts at an address that stays, whatever is measured later."""

from collections.abc import Iterator
from dataclasses import dataclass

from lab.definition.asked import claim_sentence
from lab.definition.plan import PlannedClaim
from lab.definition.search import is_search
from lab.website import format
from lab.website.addresses import gpu_folder, run_folder, verdict_folder
from lab.website.data.differences import PROVENANCE
from lab.website.data.judged import Judged
from lab.website.data.verdict_log import Change, changes
from lab.website.figure import Figure, Ledger, Sentence, pointer
from lab.website.files.csv_tables import csv_files
from lab.website.files.schemas import data_text
from lab.website.outputs import Attachment, Document, Gathered, Output
from lab.website.pages.answer import answer
from lab.website.pages.boundary import boundary
from lab.website.pages.labels import baseline_title, case_label, profile_title
from lab.website.pages.machine import Fact, evidence_facts
from lab.website.pages.reproduce import live_command
from lab.website.pages.search import search_answer
from lab.website.pages.tallies import StatusCount, status_counts, supported_at, verdict_counts
from lab.website.pages.views import Boundary


@dataclass(frozen=True, kw_only=True, slots=True)
class CaseVerdict:
    """`at` is the beginning of the pointers of ratio and interval."""

    at: str
    case: str
    subject: Figure | None
    baseline: Figure | None
    ratio: Figure | None
    interval: Figure | None
    status: str
    mark: str
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ClaimVerdicts:
    """`unit` is that of the two sides: µs of p50, or MB of DRAM traffic."""

    name: str
    text: str
    status: str
    mark: str
    tally: Sentence
    subject: str
    baseline: str
    scope: str
    unit: str
    threshold: Figure | None
    rows: tuple[CaseVerdict, ...]
    change: Change | None  # how it came out otherwise than in the run before


@dataclass(frozen=True, kw_only=True, slots=True)
class Elsewhere:
    """A run of the same experiment, by the folder of its verdicts."""

    run_id: str
    date: str
    folder: str


@dataclass(frozen=True, kw_only=True, slots=True)
class VerdictPage:
    """`current` is the evidence that the experiment's own page shows: None where it is this, or there is no page."""

    slug: str
    title: str
    question: str
    answer: Sentence
    command: str
    defined: bool
    is_current: bool
    current: Elsewhere | None
    next: Elsewhere | None
    previous: Elsewhere | None
    run_id: str
    run_folder: str
    digest: str
    finished_utc: str
    date: str
    gpu: str
    gpu_folder: str
    on_cpu: bool
    cut_short: str
    samples: Sentence
    policy: Figure | None
    policy_of_run: Figure | None
    counts: tuple[StatusCount, ...]
    claims: tuple[ClaimVerdicts, ...]
    boundary: Boundary
    provenance: tuple[Fact, ...]


def verdict_pages(gathered: Gathered) -> Iterator[Output]:
    shown = {item.plan.name: item for item in gathered.current}
    for name, history in gathered.histories().items():
        log = changes(history)
        for place, item in enumerate(history):
            around = (history[place - 1] if place else None, history[place + 1] if place + 1 < len(history) else None)
            folder = verdict_folder(item.digest, name)
            page = _page(item, shown.get(name), around, {c.claim: c for c in log if c.digest == item.digest and c.was})
            yield Document(path=f"{folder}/index.html", template="verdicts.html", view={"page": page})
            data = f"{folder}/data.json"
            yield Attachment(path=data, content=data_text(item.data, data, "experiment", indent=None))
            yield from csv_files(item, folder, ("claims",))


def _page(
    item: Judged, current: Judged | None, around: tuple[Judged | None, Judged | None], moved: dict[str, Change]
) -> VerdictPage:
    ledger, evidence = Ledger(item.data), item.evidence
    is_current = current is not None and current.digest == item.digest
    return VerdictPage(
        slug=item.plan.name,
        title=item.plan.title,
        question=item.plan.question,
        answer=search_answer(item, ledger) if is_search(item.plan) else answer(item, ledger),
        command=live_command(item),
        defined=current is not None,
        is_current=is_current,
        current=None if is_current or current is None else _elsewhere(current),
        next=_elsewhere(around[1]),
        previous=_elsewhere(around[0]),
        run_id=evidence["run_id"],
        run_folder=run_folder(item.digest),
        digest=item.digest,
        finished_utc=evidence["finished_utc"],
        date=format.minute(evidence["finished_utc"]),
        gpu=item.machine_name,
        gpu_folder="" if item.on_cpu else gpu_folder(item.machine["gpu"]),
        on_cpu=item.on_cpu,
        cut_short=evidence["cut_short"],
        samples=_samples(ledger),
        policy=ledger.figure("policy_version"),
        policy_of_run=ledger.figure("evidence", "policy_version_of_run"),
        counts=status_counts([verdict_counts(item)]),
        claims=tuple(_claim(item, claim, moved.get(claim.name), ledger) for claim in item.plan.claims),
        boundary=boundary(item, ledger),
        provenance=evidence_facts(ledger, PROVENANCE),
    )


def _elsewhere(item: Judged | None) -> Elsewhere | None:
    if item is None or not item.digest:
        return None
    return Elsewhere(
        run_id=item.evidence["run_id"],
        date=format.minute(item.evidence["finished_utc"]),
        folder=verdict_folder(item.digest, item.plan.name),
    )


def _samples(ledger: Ledger) -> Sentence:
    fewest, most = ledger.figure("evidence", "fewest_sweeps"), ledger.figure("evidence", "most_sweeps")
    rounds, block = ledger.figure("evidence", "rounds"), ledger.figure("evidence", "block")
    sweeps: Sentence = (
        (fewest,) if fewest and most and fewest.value == most.value else (fewest or "–", " to ", most or "–")
    )
    return (*sweeps, " sweeps × ", rounds or "–", " rounds × up to ", block or "–", " samples")


def _claim(item: Judged, claim: PlannedClaim, change: Change | None, ledger: Ledger) -> ClaimVerdicts:
    found = item.data["claims"][claim.name]
    return ClaimVerdicts(
        name=claim.name,
        text=claim_sentence(claim),
        status=found["status"],
        mark=found["mark"],
        tally=supported_at(claim.name, ledger),
        subject=profile_title(item, claim.subject),
        baseline=baseline_title(item, claim),
        scope=claim.scope,
        unit="MB of DRAM traffic" if claim.measure == "traffic" else "p50, µs",
        threshold=ledger.figure("claims", claim.name, "threshold", show=format.threshold),
        rows=tuple(_verdict(item, claim, case, ledger) for case in found["cases"]),
        change=change,
    )


def _verdict(item: Judged, claim: PlannedClaim, case: str, ledger: Ledger) -> CaseVerdict:
    path = ("claims", claim.name, "cases", case)
    found = ledger.value(*path)
    sides = [_side(claim, case, side, ledger) for side in ("subject", "baseline")]
    traffic = claim.measure == "traffic"
    return CaseVerdict(
        at=pointer(*path),
        case=_label(item, case),
        subject=sides[0],
        baseline=sides[1],
        ratio=ledger.figure(*path, "ratio", show=format.times) if traffic else ledger.ratio(*path),
        interval=None if traffic else ledger.interval(*path),
        status=found["status"],
        mark=found["mark"],
        reason=found["reason"],
    )


def _side(claim: PlannedClaim, case: str, side: str, ledger: Ledger) -> Figure | None:
    if claim.measure == "traffic":
        return ledger.figure("claims", claim.name, "cases", case, f"{side}_bytes", show=format.megabytes)
    profile = getattr(claim, side)
    return ledger.figure("cells", case, profile, "scopes", claim.scope, "p50_seconds", show=format.microseconds)


def _label(item: Judged, case: str) -> str:
    return next(case_label(each) for each in item.plan.cases if each.name == case)
