"""The data of a site, made afresh from runs that were judged anew: path → what must stand there."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from lab.definition.catalogue import load_audits, load_experiments
from lab.definition.plan import planned
from lab.verdict.audit.rules import audit
from lab.verdict.validity import study
from lab.website.data.judged import Judged, judged_run, not_measured
from lab.website.data.kept import EVERYTHING
from lab.website.data.promoted import Evidence
from lab.website.data.published_trust import trust_data
from lab.website.files.badges import badges_room
from lab.website.files.csv_tables import csv_room
from lab.website.files.schemas import data_text
from lab.website.outputs import Attachment, Gathered, Output, Room
from lab.website.pages.compare import compare_pages
from lab.website.pages.front import front_pages
from lab.website.pages.methods import guarded, methods_page
from lab.website.pages.verdicts import verdict_pages
from lab.website.refusal import as_publication
from lab.website.verification.files import read_json

# What of a site follows from samples alone; the feed and the index of the search tell of decisions too.
ROOMS: tuple[Room, ...] = (front_pages, verdict_pages, csv_room, badges_room)
TRUST = "trust/data.json"
METHODS = "methods/data.json"


def data_files(root: Path, evidence: Sequence[Evidence]) -> dict[str, str]:
    """The text of every data file, table and badge that follows from samples and from this code."""
    found = tuple(each for item in evidence for each in judged_run(item.run, item.digest, item.commit))
    shown = _shown(root, found)
    runs = [item.run for item in evidence]
    gathered = Gathered(label="", current=shown, published=found, decisions=(), files=())
    made = {
        output.path: output.content if isinstance(output.content, str) else output.content.decode()
        for output in _outputs(gathered)
        if isinstance(output, Attachment)
    }
    for item in shown:
        path = f"experiments/{item.plan.name}/data.json"
        made[path] = data_text(item.data, path, "experiment")
    made[TRUST] = data_text(trust_data(study(runs), runs), TRUST, "trust")
    pages = [as_publication(item) for item in shown]
    publications = [guarded(page, audit(page)) for page in pages]
    made[METHODS] = data_text(methods_page(load_audits(), publications, shown).data, METHODS, "methods")
    return made


def _outputs(gathered: Gathered) -> Iterator[Output]:
    for room in ROOMS:
        yield from room(gathered)
    for pair in compare_pages(gathered):
        yield from pair.make()


def _shown(root: Path, found: Sequence[Judged]) -> tuple[Judged, ...]:
    """Each experiment that has a page, from the run that its data name; unmeasured where they name none."""
    held = {(item.digest, item.plan.name): item for item in found}
    shown = []
    for experiment in load_experiments():
        path = f"experiments/{experiment.name}/data.json"
        if (root / path).is_file():
            told = read_json(root, path).get("evidence") or {}
            of_run = held.get((told.get("digest", ""), experiment.name))
            shown.append(of_run or not_measured(planned(experiment, EVERYTHING)))
    return tuple(shown)


def parsed(text: str) -> object:
    """JSON as values, so that a difference has a pointer; other text as its lines."""
    return json.loads(text) if text.startswith(("{", "[")) else text.splitlines()
