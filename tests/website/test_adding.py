"""A profiler metric takes three edits and a page two files: one of each is added to a copy of the lab."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from lab.evidence.codec import SCHEMA
from lab.evidence.source import ROOT

METRIC = "lsu_hit_percent"
EDITS = (  # file, the line before, the line that is added; of the last the line is replaced
    (
        "lab/quantities.py",
        "COUNTERS: Mapping[str, Counter] = {\n",
        f'    "{METRIC}": Counter(label="LSU hits", ncu="lsu__hit_rate.pct", better="higher", over_call="mean"),\n',
    ),
    ("lab/evidence/record.py", "class Kernel:", f"    {METRIC}: float | None = added({SCHEMA + 1}, None)\n"),
    ("lab/evidence/codec.py", f"SCHEMA = {SCHEMA}", f"SCHEMA = {SCHEMA + 1}"),
)
PAGE = '''"""Which experiments there are, as a page."""

from collections.abc import Iterator

from lab.website.figure import DataView
from lab.website.files.schemas import data_text
from lab.website.outputs import Attachment, Document, Output, SiteContext
from lab.website.table import PageTable, column, csv_file, named, row

HEADS = (named("experiment", "Experiment"), column("p50_seconds", "Median, µs"))


def census_pages(context: SiteContext) -> Iterator[Output]:
    data = {item.name: {"p50_seconds": 25e-6} for item in context.current}
    rows = tuple(row(DataView(data).at(name), HEADS, experiment=name) for name in data)
    table = PageTable(label="Census", heads=HEADS, rows=rows)
    yield Document(path="census/index.html", template="census.html", view={"table": table})
    yield Attachment(path="census/data.json", content=data_text(data, "census/data.json", "overview"))
    yield csv_file(table, "census/census.csv")
'''
TEMPLATE = """{% extends "base.html" %}
{% block title %}Census{% endblock %}
{% block description %}Every experiment.{% endblock %}
{% block content %}<h1>Census</h1>{{ table_html(table) }}{% endblock %}
"""
LOOK = """
import dataclasses, json, sys
from pathlib import Path
from factory import LARGE, plan_of, records_of, small_experiment
from lab.evidence.codec import from_data, to_data
from lab.evidence.record import Counters, Kernel
from lab.quantities import tracked
from lab.verdict.judge_run import judge_run
from lab.website.data.judged import judged_run
from lab.website.figure import DataView
from lab.website.files.csv_tables import csv_files
from lab.website.files.schemas import schema
from lab.website.outputs import SiteContext
from lab.website.pages.kernels import kernels_fold
from lab.website.site import BUILDERS, write_site

def counted(record):
    if not isinstance(record, Counters):
        return record
    return dataclasses.replace(record, kernels=tuple(dataclasses.replace(k, METRIC=12.5) for k in record.kernels))

plan = plan_of(experiments=[small_experiment()], include=["large-sweep"], sweeps=3, profiling=True)
times = {(LARGE.name, "plain"): 90e-6, (LARGE.name, "fast"): 60e-6}
(item,) = judged_run(judge_run(plan, [counted(record) for record in records_of(plan, times)]), digest="ab" * 32)
case = next(case for case in item.plan.cases if case.name == LARGE.name)
table = kernels_fold(item, case, DataView(item.data)).tables[0]
profiled = next(record for record in records_of(plan, times) if isinstance(record, Counters) and record.kernels)
old = to_data(profiled.kernels[0])
del old["METRIC"]
files = {file.path: file.content.splitlines()[0] for file in csv_files(item, "x")}
kernel = schema("experiment")["properties"]["cells"]["additionalProperties"]["additionalProperties"]["properties"]
write_site(SiteContext(label="", current=[item], published=[item], decisions=()), BUILDERS, Path(sys.argv[1]),
           Path(sys.argv[1] + "-memory"))
print(json.dumps({
    "heads": [head.text for head in table.heads], "cells": [figure.text for row in table.rows if not row.kind
        for cell in row.cells for figure in cell if getattr(figure, "source", "").endswith("METRIC")],
    "kernels": files["x/kernels.csv"], "of_cells": files["x/cells.csv"],
    "schema": kernel["counters"]["properties"]["kernels"]["items"]["properties"]["METRIC"],
    "mlflow": tracked("ncu", "METRIC"), "older": from_data(Kernel, old).METRIC,
}))
""".replace("METRIC", METRIC)


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict, Path]:
    """What a copy of the lab shows of the metric, and the site that it makes."""
    copy = tmp_path_factory.mktemp("copy")
    for folder in ("lab", "site_templates", "tests", "experiments"):
        left_out = shutil.ignore_patterns("__pycache__", "evidence", "website", "browser")
        shutil.copytree(ROOT / folder, copy / folder, ignore=left_out if folder != "lab" else None)
    shutil.copy(ROOT / "pyproject.toml", copy)
    _add_metric(copy)
    (copy / "lab/website/pages/census.py").write_text(PAGE)
    (copy / "site_templates/census.html").write_text(TEMPLATE)
    site = copy / "lab/website/site.py"  # where pages are named, in a line
    compare = "from lab.website.pages.compare"
    named = site.read_text().replace(compare, f"from lab.website.pages.census import census_pages\n{compare}")
    site.write_text(named.replace("of_all=(*PREVIEWED.of_all,", "of_all=(*PREVIEWED.of_all, census_pages,"))
    environment = {**os.environ, "PYTHONPATH": f"{copy}:{copy / 'tests'}"}
    done = subprocess.run(
        [sys.executable, "-c", LOOK, str(copy / "out")], cwd=copy, env=environment, capture_output=True, text=True
    )
    assert not done.returncode, done.stderr
    return json.loads(done.stdout), copy / "out"


def _add_metric(copy: Path) -> None:
    (table, before, line), (records, kernel, field), (codec, old, new) = EDITS
    path = copy / table
    path.write_text(path.read_text().replace(before, before + line, 1))
    path, text = copy / records, (copy / records).read_text()
    end = text.index("\n\n\n", text.index(kernel))
    path.write_text(f"{text[:end]}\n{field.rstrip()}{text[end:]}")
    path = copy / codec
    path.write_text(path.read_text().replace(old, new, 1))


def test_a_metric_of_three_edits_stands_on_pages_in_csv_in_schemas_and_in_mlflow(seen: tuple[dict, Path]) -> None:
    shows, _ = seen
    assert "LSU hits, %" in shows["heads"]
    assert set(shows["cells"]) == {"12.5"}
    assert METRIC in shows["kernels"].split(",")
    assert f"ncu_{METRIC}" in shows["of_cells"].split(",")
    assert shows["schema"] == {"type": ["number", "null"], "description": "In per cent."}
    assert shows["mlflow"] == "ncu/lsu_hit_pct"
    assert shows["older"] is None, "a record that lacks it can still be read"


def test_a_page_of_two_files_stands_in_the_site_with_its_csv_and_in_the_sitemap(seen: tuple[dict, Path]) -> None:
    _, site = seen
    page = (site / "census/index.html").read_text()
    assert '<data value="2.5e-05" data-src="/doubling/p50_seconds">25.00</data>' in page
    assert (site / "census/census.csv").read_text().splitlines() == ["experiment,p50_seconds", "doubling,2.5e-05"]
    assert "census/index.html" in (site / "sitemap.xml").read_text()
    assert "census/data.json" in json.loads((site / "manifest.json").read_text())["files"]
