"""Definitions + evidence + decisions → the whole site: gather everything first, then write what is new of it."""

import gc
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from lab.definition.plan import PlannedExperiment
from lab.definition.plan_file import load_plan
from lab.definition.prose import missing_prose
from lab.definition.publication import Publication
from lab.errors import LabError
from lab.project import project
from lab.verdict.judge_run import load_run
from lab.website.build import Builder, PageBuilders
from lab.website.data import publication_log
from lab.website.data.judged import Judged, judged_run, not_measured
from lab.website.data.judged_cache import CACHE, audits, definitions, judged, trust
from lab.website.data.promoted import EVIDENCE, Evidence, load_evidence, refuse_marked
from lab.website.data.publication_log import Log, read_log
from lab.website.decision_figures import DecisionReferences
from lab.website.decision_records import check_records, cited, load_decisions
from lab.website.decisions import Decision, SupportStanding, refuse_unacknowledged, standings, today_of
from lab.website.files.csv_tables import experiment_csv_files
from lab.website.files.inventory import checked_base_url
from lab.website.files.schemas import schema_files
from lab.website.folder import REMEMBERED, replace_site
from lab.website.format import counted
from lab.website.outputs import SiteContext, grouped
from lab.website.pages.case import case_pages
from lab.website.pages.compare import compare_list, compare_pages
from lab.website.pages.decisions import decision_pages
from lab.website.pages.experiment import experiment_pages
from lab.website.pages.feed import feed_file
from lab.website.pages.front import front_pages
from lab.website.pages.methods import methods_pages
from lab.website.pages.policy import glossary_pages, policy_pages
from lab.website.pages.run import run_list, run_pages
from lab.website.pages.search import search_pages
from lab.website.pages.trust import trust_pages
from lab.website.pages.verdicts import verdict_pages
from lab.website.pages.zoo import zoo_pages
from lab.website.wording.references import References, check_references

DECISIONS = project().decisions
A_SITE = ("index.html", "policy/index.html", "assets/style.css")  # what every site that was built holds
# Each builder makes one kind of page, or of file: of one experiment at a time, which then is all that was gathered; of
# the outlines of all together; or of some that it needs whole.
PREVIEWED = PageBuilders(  # what a run shows before it is published
    of_one=(experiment_pages, case_pages, experiment_csv_files),
    of_all=(front_pages, decision_pages, glossary_pages, search_pages, policy_pages),
    of_some=(schema_files,),
)
BUILDERS = PageBuilders(
    of_one=(*PREVIEWED.of_one, verdict_pages),
    of_all=(*PREVIEWED.of_all, run_list, compare_list, feed_file, trust_pages),
    of_some=(*PREVIEWED.of_some, run_pages, compare_pages, methods_pages, zoo_pages),
)


def build_site(
    out: Path,
    decisions: Path = DECISIONS,
    promoted: Path = EVIDENCE,
    base_url: str = "",
    remembered: Path = REMEMBERED,
    samples: bool = False,
) -> str:
    """Rebuild the published site from what is committed; says what it wrote. With `samples` it holds those too.

    EvidenceError where a figure that is about to be published breaks a rule of the guard.
    """
    _refuse_to_replace(out)  # before all of the evidence is judged
    log = read_log(promoted / publication_log.NAME)
    with _no_search_for_cycles():
        context = replace(gather(load_evidence(promoted), decisions, base_url, log=log), samples=samples)
    files = write_site(context, BUILDERS, out, remembered)
    made = counted(len(context.current), "experiment"), counted(len(context.decisions), "decision")
    return f"{out}: {', '.join(made)}, {files} files"


def gather(
    evidence: Sequence[Evidence], decisions: Path, base_url: str = "", kept: Path = CACHE, log: Log = ()
) -> SiteContext:
    """What is to be published: the experiments as their pages show them, and those of every run.

    LabError where a decision, a definition or a reference cannot be published as it is.
    """
    evidence, published = _published(evidence, kept)
    histories = grouped(published, lambda item: item.name)
    # One that lacks words is a draft: it is measured and previewed, and not shown.
    defined = [plan for plan in definitions(kept) if not any(missing_prose(plan))]
    publications = audits(kept) if any(plan.name not in histories for plan in defined) else ()
    current = [_shown(plan, histories.get(plan.name, ()), publications) for plan in defined]
    shown = {item.name: item for item in current}
    references = References(shown)
    check_references(defined, references)
    current = [cited_plan(item, References(shown, lenient=True)) for item in current]
    records = load_decisions(decisions)
    check_records(records, [item.digest for item in evidence])
    supports = [
        (cited(decision, DecisionReferences(standing, current, published)), standing)
        for decision, standing in _standings(records, current, published)
    ]
    for decision, standing in supports:
        refuse_unacknowledged(decision, standing, current)
    return SiteContext(
        label="",
        current=current,
        published=published,
        decisions=supports,
        files=evidence,
        base_url=checked_base_url(base_url),
        trust=trust(evidence, kept),
        log=log,
    )


def build_preview(directory: Path, decisions: Path = DECISIONS) -> Path:
    """Pages of one run as they would look if it were published; returns the first page to open."""
    run = load_run(directory)
    refuse_marked(directory)
    current = judged_run(run)
    names = {item.name for item in current}
    _, published = _published(_measuring(names, load_evidence()), CACHE)
    on_cpu = current[0].on_cpu
    # What was decided on GPUs a CPU cannot speak of.
    written = [] if on_cpu else [r for r in load_decisions(decisions) if {s.experiment for s in r.rests_on} <= names]
    label = f"Preview of run {run.plan.run_id}, not published" + (": CPU evidence" if on_cpu else "")
    supports = [
        (cited(decision, DecisionReferences(standing, current, (), lenient=True)), standing)
        for decision, standing in _standings(written, current, published)
    ]
    context = SiteContext(label=label, current=current, published=published, decisions=supports)
    out = directory / "preview"
    write_site(context, PREVIEWED, out)
    return out / "experiments" / current[0].name / "index.html"


def _measuring(names: Collection[str], evidence: Sequence[Evidence]) -> list[Evidence]:
    """The runs that planned one of these experiments: judging those of others would cost a new clone minutes."""
    return [item for item in evidence if any(each.name in names for each in load_plan(item.directory).experiments)]


def write_site(context: SiteContext, builders: PageBuilders, out: Path, remembered: Path = REMEMBERED) -> int:
    """Returns the number of files that the site then has.

    LabError where it cannot be written, or where `out` holds anything but a site.
    """
    try:
        _refuse_to_replace(out)
        with _no_search_for_cycles():
            parts = replace_site(out, remembered, Builder(context, builders).fill)
    except OSError as refusal:
        raise LabError(f"{out}: the site cannot be written there ({refusal.strerror}); choose another folder") from None
    return sum(len(part.files) for part in parts.values())


@contextmanager
def _no_search_for_cycles() -> Iterator[None]:
    """Neither judging nor pages leave any, and to look for them takes a twentieth of a build."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _refuse_to_replace(out: Path) -> None:
    """LabError unless `out` is absent, empty, or a site that was built before."""
    if out.is_dir() and (not any(out.iterdir()) or all((out / path).is_file() for path in A_SITE)):
        return
    if out.exists() or out.is_symlink():
        raise LabError(f"{out}: is not a generated site, and building would replace it; choose a new folder")


def _published(evidence: Sequence[Evidence], kept: Path) -> tuple[list[Evidence], list[Judged]]:
    """Published runs, which come by name, and their experiments, the oldest first."""
    pairs = sorted(((item, judged(item, kept)) for item in evidence), key=lambda pair: pair[1][0].finished_utc)
    return [item for item, _ in pairs], [each for _, experiments in pairs for each in experiments]


def _shown(definition: PlannedExperiment, history: Sequence[Judged], publications: Sequence[Publication]) -> Judged:
    """The fullest evidence of an experiment, and of such the newest; else its definition alone."""
    return max(history, key=lambda item: item.fullness) if history else not_measured(definition, publications)


def cited_plan(item: Judged, references: References) -> Judged:
    """An experiment whose registered prose shows what it refers to as it is today."""
    if not item.cites:
        return item
    plan = item.plan
    limits = tuple(references.resolve(text, plan.name) for text in plan.does_not_show)
    importance = references.resolve(plan.importance, plan.name)
    return Judged(plan=replace(plan, importance=importance, does_not_show=limits), data=item.data, text=item.text)


def _standings(
    records: Sequence[Decision], current: Sequence[Judged], published: Sequence[Judged]
) -> list[tuple[Decision, Sequence[SupportStanding]]]:
    newest = max((item.finished_utc for item in (*current, *published)), default="")
    return [(each, standings(each, current, published, today_of(newest, each))) for each in records]
