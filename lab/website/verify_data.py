"""The data files of a site, made afresh from runs that were judged anew: path → what must stand there."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from lab.definition.catalogue import load_audits, load_experiments
from lab.definition.plan import planned
from lab.verdict.results import unmeasured
from lab.verdict.validity import study
from lab.website.pages.methods import methods_page
from lab.website.pages.replication import publication_of, replication_data
from lab.website.pages.trust_data import trust_data
from lab.website.pages.views import Shown
from lab.website.promoted import Evidence
from lab.website.published import experiment_data
from lab.website.refusal import as_publication
from lab.website.site import EVERYTHING
from lab.website.verify_files import read_json


def data_files(root: Path, evidence: Sequence[Evidence]) -> dict[str, Any]:
    """Of the data files that the site holds, those that follow from samples and from this code."""
    current = list(_current(root, evidence))
    found = {f"experiments/{item.result.plan.name}/data.json": _experiment(item) for item in current}
    found |= {
        path: _experiment(Shown(result=result, run=item.run, digest=item.digest, commit=item.commit))
        for item in evidence
        for result in item.run.experiments
        if (root / (path := f"runs/{item.digest[:12]}/{result.plan.name}/data.json")).is_file()
    }
    if (root / "trust" / "data.json").is_file():
        found["trust/data.json"] = trust_data(study([item.run for item in evidence]), evidence)
    if (root / "methods" / "data.json").is_file():
        own = [as_publication(item, found[f"experiments/{item.result.plan.name}/data.json"]) for item in current]
        found["methods/data.json"] = dict(methods_page(load_audits(), own, current).data)
    return found


def _current(root: Path, evidence: Sequence[Evidence]) -> Iterator[Shown]:
    """Each experiment that has a page, with the run that its data name; unmeasured where they name none."""
    for experiment in load_experiments():
        if not (root / "experiments" / experiment.name / "data.json").is_file():
            continue
        told = read_json(root, f"experiments/{experiment.name}/data.json").get("evidence") or {}
        held = [
            (item, result)
            for item in evidence
            for result in item.run.experiments
            if item.digest == told.get("digest") and result.plan.name == experiment.name
        ]
        if held:
            item, result = held[0]
            yield Shown(result=result, run=item.run, digest=item.digest, commit=item.commit)
        else:
            yield Shown(result=unmeasured(planned(experiment, EVERYTHING)), run=None)


def _experiment(shown: Shown) -> dict[str, Any]:
    data = experiment_data(shown.result, shown.run, shown.digest, shown.commit)
    if again := publication_of(load_audits(), shown.result.plan.name):
        data["replication"] = replication_data(again, shown)
    return data
