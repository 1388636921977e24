"""Definitions + evidence + decisions → the whole site: gather everything first, then write it at once."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from lab.definition.catalogue import load_audits, load_experiments
from lab.definition.experiment import Experiment
from lab.definition.plan import planned
from lab.evidence.source import ROOT
from lab.verdict.results import load_run
from lab.website.badges import badges_room
from lab.website.csv_tables import csv_room
from lab.website.decision_records import check_records, load_decisions
from lab.website.decisions import Decision, Standing, refuse_unacknowledged, standings, today_of
from lab.website.feed import feed_room
from lab.website.inventory import checked_base_url
from lab.website.judged import Judged, judged_run, not_measured
from lab.website.kept import judged, trust
from lab.website.outputs import Gathered, Output, Published
from lab.website.outside import refuse_outside, said_in_badges, said_on
from lab.website.pages.case import case_pages
from lab.website.pages.compare import compare_pages
from lab.website.pages.decisions import decision_pages
from lab.website.pages.experiment import experiment_page
from lab.website.pages.finder import search_pages
from lab.website.pages.front import front_pages
from lab.website.pages.glossary import glossary_pages
from lab.website.pages.gpu import gpu_pages
from lab.website.pages.methods import methods_page
from lab.website.pages.profile import profile_pages
from lab.website.pages.run import run_pages
from lab.website.pages.site import Site, policy_page
from lab.website.pages.trust import TrustPage, trust_page
from lab.website.pages.verdicts import verdict_pages
from lab.website.promoted import EVIDENCE, Evidence, load_evidence
from lab.website.prose import check_definitions, cited, cited_plan
from lab.website.quoted import Quotable
from lab.website.references import References
from lab.website.refusal import as_publication, refuse
from lab.website.render import write_site
from lab.website.schemas import schemas_room

DECISIONS = ROOT / "experiments" / "decisions"
# Each makes one kind of page, or of file, of all that was gathered.
PREVIEWED: tuple[Callable[[Gathered], Iterable[Output]], ...] = (  # what a run shows before it is published
    front_pages,
    decision_pages,
    glossary_pages,
    search_pages,
    case_pages,
    profile_pages,
    csv_room,
    schemas_room,
)
ROOMS: tuple[Callable[[Gathered], Iterable[Output]], ...] = (
    *PREVIEWED,
    run_pages,
    verdict_pages,
    gpu_pages,
    compare_pages,
    badges_room,
    feed_room,
)
EVERYTHING = frozenset({"rmsnorm-shape-sweep", "full-validity"})


def build_site(out: Path, decisions: Path = DECISIONS, promoted: Path = EVIDENCE, base_url: str = "") -> str:
    """Rebuild the published site from what is committed; says what it wrote.

    EvidenceError where a figure that is about to be published breaks a rule of the guard.
    """
    evidence, published = _published(promoted)
    definitions = load_experiments()
    shown = [_shown(experiment, published) for experiment in definitions]
    references = References({item.plan.name: item.data for item in shown})
    check_definitions(definitions, references)
    shown = [cited_plan(item, references) for item in shown]
    records = [cited(decision, references) for decision in load_decisions(decisions)]
    check_records(records, [item.digest for item in evidence])
    found = _standings(records, shown, published)
    for decision in records:
        refuse_unacknowledged(decision, found[decision.slug], shown)
    own = [as_publication(item) for item in shown]
    refuse(own)
    gathered = replace(_gathered("", shown, published, records, found, evidence), base_url=checked_base_url(base_url))
    outputs = tuple(output for room in ROOMS for output in room(gathered))
    site = _site(gathered, trust_page(trust(evidence)))
    for item, page in zip(shown, site.experiments, strict=True):
        refuse_outside(item, [*said_on(page), *said_in_badges(outputs, item.plan.name)])
    files = write_site(replace(site, methods=methods_page(load_audits(), own, shown), outputs=outputs), out)
    return f"{out}: {len(shown)} experiments, {len(records)} decisions, {files} files"


def build_preview(directory: Path, decisions: Path = DECISIONS) -> Path:
    """Pages of one run as they would look if it were published; returns the first page to open."""
    run = load_run(directory)
    _, published = _published(EVIDENCE)
    shown = judged_run(run)
    names = {item.plan.name for item in shown}
    held = [r for r in load_decisions(decisions) if {s.experiment for s in r.rests_on} <= names]
    references = References({item.plan.name: item.data for item in shown}, lenient=True)
    records = [cited(decision, references) for decision in held]
    found = _standings(records, shown, published)
    out = directory / "preview"
    label = f"Preview of run {run.plan.run_id}, not published" + (": CPU evidence" if shown[0].on_cpu else "")
    gathered = _gathered(label, shown, published, records, found)
    outputs = tuple(output for room in PREVIEWED for output in room(gathered))
    write_site(replace(_site(gathered, None), outputs=outputs), out)
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
        policy=policy_page(),
        trust=trust,
        quotable=Quotable([*gathered.current, *gathered.published]),
        base_url=gathered.base_url,
    )


def _gathered(
    label: str,
    shown: Sequence[Judged],
    published: Sequence[Judged],
    records: Sequence[Decision],
    found: Mapping[str, Sequence[Standing]],
    evidence: Sequence[Evidence] = (),
) -> Gathered:
    return Gathered(
        label=label,
        current=tuple(shown),
        published=tuple(published),
        decisions=tuple((decision, found[decision.slug]) for decision in records),
        files=tuple(Published(digest=item.digest, directory=item.directory) for item in evidence),
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


def _standings(
    records: Sequence[Decision], shown: Sequence[Judged], published: Sequence[Judged]
) -> dict[str, Sequence[Standing]]:
    return {each.slug: standings(each, shown, published, today_of(shown, each)) for each in records}
