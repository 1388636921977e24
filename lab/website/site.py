"""Definitions + evidence + decisions → the whole site: gather everything first, then write it at once."""

import datetime
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from lab.definition.catalogue import load_audits, load_experiments
from lab.definition.experiment import Experiment
from lab.definition.plan import planned
from lab.evidence.source import ROOT
from lab.verdict.results import ClaimResult, load_run
from lab.website.decisions import Decision, Standing, check_claims, load_decisions, refuse_unacknowledged, standings
from lab.website.judged import Judged, judged_run, not_measured
from lab.website.kept import judged, trust
from lab.website.outputs import Gathered, Output
from lab.website.pages.experiment import decision_link, experiment_page
from lab.website.pages.methods import methods_page
from lab.website.pages.site import Site, decision_page, policy_page
from lab.website.pages.trust import TrustPage, trust_page
from lab.website.promoted import EVIDENCE, Evidence, load_evidence
from lab.website.refusal import as_publication, refuse
from lab.website.render import write_site

DECISIONS = ROOT / "experiments" / "decisions"
# Each makes one kind of page, or of file, of all that was gathered.
ROOMS: tuple[Callable[[Gathered], Iterable[Output]], ...] = ()
EVERYTHING = frozenset({"rmsnorm-shape-sweep", "full-validity"})


def build_site(out: Path, decisions: Path = DECISIONS, promoted: Path = EVIDENCE) -> str:
    """Rebuild the published site from what is committed; says what it wrote.

    EvidenceError where a figure that is about to be published breaks a rule of the guard.
    """
    evidence, published = _published(promoted)
    shown = [_shown(experiment, published) for experiment in load_experiments()]
    records = load_decisions(decisions)
    known = {item.plan.name: list(item.data["claims"]) for item in shown}
    check_claims(records, known, [item.digest for item in evidence])
    found = {decision.slug: _standings(decision, shown, published) for decision in records}
    for decision in records:
        refuse_unacknowledged(decision, found[decision.slug])
    own = [as_publication(item) for item in shown]
    refuse(own)
    gathered = _gathered("", shown, published, records, found)
    outputs = tuple(output for room in ROOMS for output in room(gathered))
    site = _site(gathered, trust_page(trust(evidence)))
    files = write_site(replace(site, methods=methods_page(load_audits(), own, shown), outputs=outputs), out)
    return f"{out}: {len(shown)} experiments, {len(records)} decisions, {files} files"


def build_preview(directory: Path, decisions: Path = DECISIONS) -> Path:
    """Pages of one run as they would look if it were published; returns the first page to open."""
    run = load_run(directory)
    _, published = _published(EVIDENCE)
    shown = judged_run(run)
    names = {item.plan.name for item in shown}
    records = [r for r in load_decisions(decisions) if {s.experiment for s in r.rests_on} <= names]
    found = {decision.slug: _standings(decision, shown, published) for decision in records}
    out = directory / "preview"
    label = f"Preview of run {run.plan.run_id}, not published" + (": CPU evidence" if shown[0].on_cpu else "")
    write_site(_site(_gathered(label, shown, published, records, found), None), out)
    return out / "experiments" / shown[0].plan.name / "index.html"


def _published(promoted: Path) -> tuple[list[Evidence], list[Judged]]:
    """Published runs, and their experiments; the oldest first."""
    held = [(item, judged(item)) for item in load_evidence(promoted)]
    held.sort(key=lambda pair: (pair[1][0].evidence["finished_utc"], pair[1][0].evidence["run_id"]))
    return [item for item, _ in held], [each for _, judgements in held for each in judgements]


def _site(gathered: Gathered, trust: TrustPage | None) -> Site:
    audits = load_audits()
    return Site(
        label=gathered.label,
        experiments=tuple(
            experiment_page(item, gathered.decisions, audits, gathered.history(item.plan.name))
            for item in gathered.current
        ),
        decisions=tuple(decision_page(decision, standing) for decision, standing in gathered.decisions),
        decision_links=tuple(decision_link(decision, standing) for decision, standing in gathered.decisions),
        policy=policy_page(),
        trust=trust,
    )


def _gathered(
    label: str,
    shown: Sequence[Judged],
    published: Sequence[Judged],
    records: Sequence[Decision],
    found: Mapping[str, Sequence[Standing]],
) -> Gathered:
    return Gathered(
        label=label,
        current=tuple(shown),
        published=tuple(published),
        decisions=tuple((decision, found[decision.slug]) for decision in records),
    )


def _shown(definition: Experiment, published: Sequence[Judged]) -> Judged:
    """The fullest evidence of an experiment, and of such the newest; else its definition alone.

    A GPU's before a CPU's, with counters before without, more sweeps before fewer.
    """
    holding = [item for item in published if item.plan.name == definition.name]
    return max(holding, key=_fullness) if holding else not_measured(planned(definition, EVERYTHING))


def _fullness(item: Judged) -> tuple[bool, bool, int, str]:
    """Counters that were taken, not that were planned: a run may have been cut short before them."""
    counted = any("counters" in cell for cells in item.data["cells"].values() for cell in cells.values())
    return not item.on_cpu, counted, item.evidence["sweeps"], item.evidence["finished_utc"]


def _standings(decision: Decision, shown: Sequence[Judged], published: Sequence[Judged]) -> tuple[Standing, ...]:
    def lookup(experiment: str, claim: str, digest: str) -> ClaimResult | None:
        held = [item for item in published if item.digest.startswith(digest)] if digest else shown
        found = (item.claim(claim) for item in held if item.plan.name == experiment and item.evidence)
        return next((result for result in found if result), None)

    return standings(decision, lookup, _today(shown, decision))


def _today(shown: Sequence[Judged], decision: Decision) -> datetime.date:
    """The day of the newest evidence: the site must not change by itself while nothing was measured."""
    finished = [str(item.evidence.get("finished_utc", "")) for item in shown]
    return max([*(datetime.date.fromisoformat(utc[:10]) for utc in finished if utc), decision.date])
