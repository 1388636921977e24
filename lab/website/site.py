"""Definitions + evidence + decisions → the whole site: gather everything first, then write it at once."""

import datetime
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from lab.definition.catalogue import load_audits, load_experiments
from lab.definition.plan import planned
from lab.evidence.source import ROOT
from lab.verdict.results import ClaimResult, ExperimentResult, RunResult, load_run, unmeasured
from lab.verdict.validity import study
from lab.website.badges import badges_room
from lab.website.csv_tables import csv_room
from lab.website.decisions import Decision, Standing, check_claims, load_decisions, refuse_unacknowledged, standings
from lab.website.feed import feed_room
from lab.website.inventory import checked_base_url
from lab.website.judged import Judged, judged
from lab.website.outputs import Gathered, Output
from lab.website.pages.experiment import decision_link, experiment_page
from lab.website.pages.methods import methods_page
from lab.website.pages.site import Site, decision_page, policy_page
from lab.website.pages.trust import TrustPage, trust_page
from lab.website.pages.views import Shown
from lab.website.promoted import EVIDENCE, Evidence, load_evidence
from lab.website.refusal import as_publication, refuse
from lab.website.render import write_site
from lab.website.schemas import schemas_room

DECISIONS = ROOT / "experiments" / "decisions"
# Each makes one kind of page, or of file, of all that was gathered.
ROOMS: tuple[Callable[[Gathered], Iterable[Output]], ...] = (
    badges_room,
    csv_room,
    feed_room,
    schemas_room,
)
EVERYTHING = frozenset({"rmsnorm-shape-sweep", "full-validity"})


def build_site(out: Path, decisions: Path = DECISIONS, promoted: Path = EVIDENCE, base_url: str = "") -> str:
    """Rebuild the published site from what is committed; says what it wrote.

    EvidenceError where a figure that is about to be published breaks a rule of the guard.
    """
    evidence = load_evidence(promoted)
    shown = [_shown(experiment.name, evidence) for experiment in load_experiments()]
    records = load_decisions(decisions)
    known = {item.result.plan.name: [claim.claim.name for claim in item.result.claims] for item in shown}
    check_claims(records, known, [item.digest for item in evidence])
    found = {decision.slug: _standings(decision, shown, evidence) for decision in records}
    for decision in records:
        refuse_unacknowledged(decision, found[decision.slug])
    trust = trust_page(study([item.run for item in evidence]), evidence)
    site = replace(_site("", shown, records, found, trust), base_url=checked_base_url(base_url))
    own = [as_publication(item, page.data) for item, page in zip(shown, site.experiments, strict=True)]
    refuse(own)
    gathered = _gathered(site, shown, [item for each in evidence for item in judged(each)], records, found)
    outputs = tuple(output for room in ROOMS for output in room(gathered))
    files = write_site(replace(site, methods=methods_page(load_audits(), own, shown), outputs=outputs), out)
    return f"{out}: {len(shown)} experiments, {len(records)} decisions, {files} files"


def build_preview(directory: Path, decisions: Path = DECISIONS) -> Path:
    """Pages of one run as they would look if it were published; returns the first page to open."""
    run = load_run(directory)
    evidence = load_evidence()
    shown = [Shown(result=result, run=run, history=evidence) for result in run.experiments]
    names = {item.result.plan.name for item in shown}
    records = [r for r in load_decisions(decisions) if {s.experiment for s in r.rests_on} <= names]
    found = {decision.slug: _standings(decision, shown, evidence) for decision in records}
    out = directory / "preview"
    label = f"Preview of run {run.plan.run_id}, not published" + (": CPU evidence" if shown[0].on_cpu else "")
    write_site(_site(label, shown, records, found, None), out)
    return out / "experiments" / shown[0].result.plan.name / "index.html"


def _site(
    label: str,
    shown: Sequence[Shown],
    records: Sequence[Decision],
    found: Mapping[str, Sequence[Standing]],
    trust: TrustPage | None,
) -> Site:
    pairs = [(decision, found[decision.slug]) for decision in records]
    return Site(
        label=label,
        experiments=tuple(experiment_page(item, pairs, load_audits()) for item in shown),
        decisions=tuple(decision_page(decision, standing) for decision, standing in pairs),
        decision_links=tuple(decision_link(decision, standing) for decision, standing in pairs),
        policy=policy_page(),
        trust=trust,
    )


def _gathered(
    site: Site,
    shown: Sequence[Shown],
    published: Sequence[Judged],
    records: Sequence[Decision],
    found: Mapping[str, Sequence[Standing]],
) -> Gathered:
    return Gathered(
        label=site.label,
        current=tuple(
            Judged(plan=item.result.plan, data=page.data) for item, page in zip(shown, site.experiments, strict=True)
        ),
        published=tuple(published),
        decisions=tuple((decision, found[decision.slug]) for decision in records),
        base_url=site.base_url,
    )


def _shown(name: str, evidence: Sequence[Evidence]) -> Shown:
    """The fullest evidence of an experiment, and of such the newest; else its definition alone.

    A GPU's before a CPU's, with counters before without, more sweeps before fewer.
    """
    holding = [(item, result) for item in evidence for result in item.run.experiments if result.plan.name == name]
    if not holding:
        definition = next(experiment for experiment in load_experiments() if experiment.name == name)
        return Shown(result=unmeasured(planned(definition, EVERYTHING)), run=None)
    item, result = max(holding, key=lambda pair: _fullness(pair[0].run, pair[1]))
    return Shown(
        result=result,
        run=item.run,
        digest=item.digest,
        commit=item.commit,
        history=tuple(held for held, _ in holding),
    )


def _fullness(run: RunResult, result: ExperimentResult) -> tuple[bool, bool, int, str]:
    """Counters that were taken, not that were planned: a run may have been cut short before them."""
    counted = any(cell.counters for cell in result.cells.values())
    return run.machine.device == "cuda", counted, run.plan.protocol.sweeps, run.finished_utc


def _standings(decision: Decision, shown: Sequence[Shown], evidence: Sequence[Evidence]) -> tuple[Standing, ...]:
    def lookup(experiment: str, claim: str, digest: str) -> ClaimResult | None:
        if not digest:
            results: list[ExperimentResult] = [item.result for item in shown if item.run]
        else:
            results = [r for item in evidence if item.digest.startswith(digest) for r in item.run.experiments]
        for result in results:
            for found in result.claims:
                if (result.plan.name, found.claim.name) == (experiment, claim):
                    return found
        return None

    return standings(decision, lookup, _today(shown, decision))


def _today(shown: Sequence[Shown], decision: Decision) -> datetime.date:
    """The day of the newest evidence: the site must not change by itself while nothing was measured."""
    days = [
        datetime.date.fromisoformat(item.run.finished_utc[:10]) for item in shown if item.run and item.run.finished_utc
    ]
    return max([*days, decision.date])
