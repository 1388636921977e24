"""Definitions + evidence + decisions → the whole site: gather everything first, then write what is new of it."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from lab.definition.plan import PlannedExperiment
from lab.errors import LabError
from lab.evidence.codec import digest
from lab.evidence.source import ROOT
from lab.verdict.results import load_run
from lab.website.data.judged import judged_run, not_measured
from lab.website.data.kept import KEPT, definitions, judged, trust
from lab.website.data.promoted import EVIDENCE, Evidence, load_evidence, refuse_marked
from lab.website.data.shelf import DataByName, Held, Shelf, held
from lab.website.decision_records import check_records, load_decisions
from lab.website.decisions import Decision, Standing, refuse_unacknowledged, standings, today_of
from lab.website.files.badges import badges_room
from lab.website.files.csv_tables import csv_room
from lab.website.files.feed import feed_room
from lab.website.files.inventory import checked_base_url
from lab.website.files.schemas import schemas_room
from lab.website.incremental import REMEMBERED, write_parts
from lab.website.outputs import Gathered, Published
from lab.website.pages.case import case_pages
from lab.website.pages.compare import compare_pages
from lab.website.pages.decisions import decision_pages
from lab.website.pages.experiment import experiment_pages
from lab.website.pages.finder import search_pages
from lab.website.pages.front import front_pages
from lab.website.pages.glossary import glossary_pages
from lab.website.pages.gpu import gpu_pages
from lab.website.pages.methods import methods_pages
from lab.website.pages.pairs import compare_list
from lab.website.pages.profile import profile_pages
from lab.website.pages.run import run_list, run_pages
from lab.website.pages.site import policy_pages
from lab.website.pages.trust import trust_pages
from lab.website.pages.verdicts import verdict_pages
from lab.website.parts import Parts, Rooms
from lab.website.wording.prose import check_references, cited, cited_plan
from lab.website.wording.references import References

DECISIONS = ROOT / "experiments" / "decisions"
A_SITE = ("index.html", "policy/index.html", "assets/style.css")  # what every site that was built holds
# Each room makes one kind of page, or of file: of one experiment at a time, which then is all that was gathered; of
# the outlines of all together; or of some that it needs whole.
PREVIEWED = Rooms(  # what a run shows before it is published
    of_one=(experiment_pages, case_pages, csv_room),
    of_all=(front_pages, decision_pages, glossary_pages, search_pages, policy_pages),
    of_some=(profile_pages, schemas_room),
)
ROOMS = Rooms(
    of_one=(*PREVIEWED.of_one, verdict_pages, badges_room),
    of_all=(*PREVIEWED.of_all, run_list, compare_list, feed_room, trust_pages),
    of_some=(*PREVIEWED.of_some, run_pages, gpu_pages, compare_pages, methods_pages),
)


def build_site(
    out: Path,
    decisions: Path = DECISIONS,
    promoted: Path = EVIDENCE,
    base_url: str = "",
    remembered: Path = REMEMBERED,
) -> str:
    """Rebuild the published site from what is committed; says what it wrote.

    EvidenceError where a figure that is about to be published breaks a rule of the guard.
    """
    gathered, current, published = gather(load_evidence(promoted), decisions, base_url)
    files = write_site(Parts(gathered, ROOMS, current, published), out, remembered)
    return f"{out}: {len(current)} experiments, {len(gathered.decisions)} decisions, {files} files"


def gather(
    evidence: Sequence[Evidence], decisions: Path, base_url: str = "", kept: Path = KEPT
) -> tuple[Gathered, list[Held], list[Held]]:
    """What is to be published, the experiments as their pages show them, and those of every run.

    LabError where a decision, a definition or a reference cannot be published as it is.
    """
    evidence, published, finished = _published(evidence, kept)
    defined, histories = definitions(kept), Shelf(published).by_name()
    current = [_shown(definition, histories.get(definition.name, ())) for definition in defined]
    references = References(DataByName(current))
    check_references(defined, references)
    current = [_cited(item, references) for item in current]
    records = [cited(decision, references) for decision in load_decisions(decisions)]
    check_records(records, [item.digest for item in evidence])
    found = _standings(records, current, published)
    for decision, standing in found:
        refuse_unacknowledged(decision, standing, Shelf(current))
    gathered = Gathered(
        label="",
        current=(),
        published=(),
        decisions=found,
        files=tuple(
            Published(digest=item.digest, directory=item.directory, finished_utc=finished[item.digest])
            for item in evidence
        ),
        base_url=checked_base_url(base_url),
        trust=trust(evidence, kept),
    )
    return gathered, current, published


def build_preview(directory: Path, decisions: Path = DECISIONS) -> Path:
    """Pages of one run as they would look if it were published; returns the first page to open."""
    run = load_run(directory)
    refuse_marked(directory)
    _, published, _ = _published(load_evidence(), KEPT)
    current = [held(item) for item in judged_run(run)]
    names = {item.name for item in current}
    references = References(DataByName(current), lenient=True)
    on_cpu = current[0].load().on_cpu
    # What was decided on GPUs a CPU cannot speak of.
    written = [] if on_cpu else [r for r in load_decisions(decisions) if {s.experiment for s in r.rests_on} <= names]
    records = [cited(decision, references) for decision in written]
    label = f"Preview of run {run.plan.run_id}, not published" + (": CPU evidence" if on_cpu else "")
    gathered = Gathered(label=label, current=(), published=(), decisions=_standings(records, current, published))
    out = directory / "preview"
    write_site(Parts(gathered, PREVIEWED, current, published), out)
    return out / "experiments" / current[0].name / "index.html"


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


def _published(evidence: Sequence[Evidence], kept: Path) -> tuple[list[Evidence], list[Held], dict[str, str]]:
    """Published runs, and their experiments, the oldest first; and by digest when each run ended."""
    pairs = [(item, judged(item, kept)) for item in evidence]
    pairs.sort(key=lambda pair: (pair[1].finished_utc, pair[1].run_id))
    finished = {item.digest: run.finished_utc for item, run in pairs}
    return [item for item, _ in pairs], [each for _, run in pairs for each in run.experiments], finished


def _shown(definition: PlannedExperiment, history: Sequence[Held]) -> Held:
    """The fullest evidence of an experiment, and of such the newest; else its definition alone."""
    return max(history, key=lambda item: item.fullness) if history else held(not_measured(definition))


def _cited(item: Held, references: References) -> Held:
    """An experiment whose registered prose shows what it refers to as it is today."""
    if not item.cites:
        return item
    shown = cited_plan(Shelf([item])[0], references)
    plan = shown.plan
    return replace(item, key=digest([item.key, plan.importance, list(plan.does_not_show)]), load=lambda: shown)


def _standings(
    records: Sequence[Decision], current: Sequence[Held], published: Sequence[Held]
) -> list[tuple[Decision, Sequence[Standing]]]:
    shelves = Shelf(current), Shelf(published)
    newest = max((item.finished_utc for item in (*current, *published)), default="")
    return [(each, standings(each, *shelves, today_of(newest, each))) for each in records]
