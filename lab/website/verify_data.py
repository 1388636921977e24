"""The data files of a site, made afresh from runs that were judged anew: path → what must stand there."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lab.definition.catalogue import load_audits, load_experiments
from lab.definition.plan import planned
from lab.verdict.validity import study
from lab.website.judged import Judged, judged_run, not_measured
from lab.website.pages.methods import methods_page
from lab.website.promoted import Evidence
from lab.website.published_trust import trust_data
from lab.website.refusal import as_publication
from lab.website.site import EVERYTHING
from lab.website.verify_files import read_json

TRUST = "trust/data.json"
METHODS = "methods/data.json"


def data_files(root: Path, evidence: Sequence[Evidence]) -> dict[str, Any]:
    """Of the data files that the site holds, those that follow from samples and from this code."""
    found = [each for item in evidence for each in judged_run(item.run, item.digest, item.commit)]
    shown = _shown(root, found)
    made: dict[str, Any] = {f"experiments/{item.plan.name}/data.json": item.data for item in shown}
    made |= {f"runs/{item.digest[:12]}/{item.plan.name}/data.json": item.data for item in found}
    if (root / TRUST).is_file():
        runs = [item.run for item in evidence]
        made[TRUST] = trust_data(study(runs), runs)
    if (root / METHODS).is_file():
        made[METHODS] = methods_page(load_audits(), [as_publication(item) for item in shown], shown).data
    return {path: data for path, data in made.items() if (root / path).is_file()}


def _shown(root: Path, found: Sequence[Judged]) -> list[Judged]:
    """Each experiment that has a page, from the run that its data name; unmeasured where they name none."""
    held = {(item.digest, item.plan.name): item for item in found}
    shown = []
    for experiment in load_experiments():
        path = f"experiments/{experiment.name}/data.json"
        if (root / path).is_file():
            told = read_json(root, path).get("evidence") or {}
            of_run = held.get((told.get("digest", ""), experiment.name))
            shown.append(of_run or not_measured(planned(experiment, EVERYTHING)))
    return shown
