"""Definitions + evidence + decisions → the whole site: gather everything first, then write what is new of it."""

import datetime
from collections.abc import Sequence
from pathlib import Path

from lab.definition.plan import PlannedExperiment
from lab.errors import LabError
from lab.evidence.source import ROOT
from lab.verdict.results import ClaimResult, load_run
from lab.website.decisions import Decision, Standing, check_claims, load_decisions, refuse_unacknowledged, standings
from lab.website.incremental import REMEMBERED, write_parts
from lab.website.judged import Judged, judged_run, not_measured
from lab.website.kept import definitions, judged, trust
from lab.website.outputs import Gathered
from lab.website.pages.experiment import experiment_pages
from lab.website.pages.methods import methods_pages
from lab.website.pages.site import decision_pages, front_pages, policy_pages
from lab.website.pages.trust import trust_pages
from lab.website.parts import Parts, Rooms
from lab.website.promoted import EVIDENCE, Evidence, load_evidence
from lab.website.shelf import Held, Shelf, held, named

DECISIONS = ROOT / "experiments" / "decisions"
A_SITE = ("index.html", "policy/index.html", "assets/style.css")  # what every site that was built holds
# Each room makes one kind of page, or of file: of one experiment at a time, which then is all that was gathered; or of
# all of them together.
ROOMS = Rooms(
    of_one=(experiment_pages,),
    of_all=(front_pages, decision_pages, policy_pages, trust_pages, methods_pages),
)


def build_site(out: Path, decisions: Path = DECISIONS, promoted: Path = EVIDENCE, remembered: Path = REMEMBERED) -> str:
    """Rebuild the published site from what is committed; says what it wrote.

    EvidenceError where a figure that is about to be published breaks a rule of the guard.
    """
    evidence, published = _published(promoted)
    current = [_shown(definition, published) for definition in definitions()]
    shown = Shelf(current)
    records = load_decisions(decisions)
    known = {item.plan.name: list(item.data["claims"]) for item in shown}
    check_claims(records, known, [item.digest for item in evidence])
    found = [(decision, _standings(decision, shown, Shelf(published))) for decision in records]
    for decision, standing in found:
        refuse_unacknowledged(decision, standing)
    gathered = Gathered(label="", current=(), published=(), decisions=found, trust=trust(evidence))
    files = write_site(Parts(gathered, ROOMS, current, published), out, remembered)
    return f"{out}: {len(current)} experiments, {len(records)} decisions, {files} files"


def build_preview(directory: Path, decisions: Path = DECISIONS) -> Path:
    """Pages of one run as they would look if it were published; returns the first page to open."""
    run = load_run(directory)
    _, published = _published(EVIDENCE)
    shown = judged_run(run)
    names = {item.plan.name for item in shown}
    records = [r for r in load_decisions(decisions) if {s.experiment for s in r.rests_on} <= names]
    found = [(decision, _standings(decision, shown, Shelf(published))) for decision in records]
    label = f"Preview of run {run.plan.run_id}, not published" + (": CPU evidence" if shown[0].on_cpu else "")
    gathered = Gathered(label=label, current=(), published=(), decisions=found)
    out = directory / "preview"
    write_site(Parts(gathered, ROOMS, [held(item) for item in shown], published), out)
    return out / "experiments" / shown[0].plan.name / "index.html"


def write_site(parts: Parts, out: Path, remembered: Path = REMEMBERED) -> int:
    """Returns the number of files that the site then has.

    LabError where it cannot be written, or where `out` holds anything but a site.
    """
    try:
        _refuse_to_replace(out)
        return len(write_parts(parts, out, remembered))
    except OSError as refusal:
        raise LabError(f"{out}: the site cannot be written there ({refusal.strerror}); choose another folder") from None


def _refuse_to_replace(out: Path) -> None:
    """LabError unless `out` is absent, empty, or a site that was built before: anything else would be lost."""
    if out.is_dir() and (not any(out.iterdir()) or all((out / path).is_file() for path in A_SITE)):
        return
    if out.exists() or out.is_symlink():
        raise LabError(f"{out}: holds something else than a site, which building would replace; choose a new folder")


def _published(promoted: Path) -> tuple[list[Evidence], list[Held]]:
    """Published runs, and their experiments; the oldest first."""
    kept = [(item, judged(item)) for item in load_evidence(promoted)]
    kept.sort(key=lambda pair: (pair[1].finished_utc, pair[1].run_id))
    return [item for item, _ in kept], [each for _, run in kept for each in run.experiments]


def _shown(definition: PlannedExperiment, published: Sequence[Held]) -> Held:
    """The fullest evidence of an experiment, and of such the newest; else its definition alone."""
    holding = [item for item in published if item.name == definition.name]
    return max(holding, key=lambda item: item.fullness) if holding else held(not_measured(definition))


def _standings(decision: Decision, shown: Sequence[Judged], published: Sequence[Judged]) -> tuple[Standing, ...]:
    def lookup(experiment: str, claim: str, digest: str) -> ClaimResult | None:
        items = named(published if digest else shown, experiment)
        found = (item.claim(claim) for item in items if item.evidence and item.digest.startswith(digest))
        return next((result for result in found if result), None)

    return standings(decision, lookup, _today(shown, decision))


def _today(shown: Sequence[Judged], decision: Decision) -> datetime.date:
    """The day of the newest evidence: the site must not change by itself while nothing was measured."""
    days = [datetime.date.fromisoformat(item.finished_utc[:10]) for item in shown if item.finished_utc]
    return max([*days, decision.date])
