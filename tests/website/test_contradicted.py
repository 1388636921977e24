"""A page that shows an older, fuller run mentions a newer one that contradicts it; decisions on it are challenged."""

import csv
import dataclasses
import xml.etree.ElementTree as ET

import pytest
from factory import measured_run, plan_of, publish, records_of, write_run

from lab.errors import DefinitionError
from lab.evidence.record import RunFinish
from lab.website.data.judged_cache import judged
from lab.website.data.promoted import load_evidence
from lab.website.data.verdict_log import contradicting
from lab.website.site import build_site

pytestmark = pytest.mark.usefixtures("few_experiments")

CLAIM = "triton-rmsnorm-beats-torch-fused"
FAST = {"torch-fused": 30e-6, "triton-fused-rmsnorm": 22e-6}
SLOW = {"torch-fused": 30e-6, "triton-fused-rmsnorm": 33e-6}
RECORD = f"""---
title: Use the kernel
status: accepted
date: 2026-01-01
review_by: 2027-01-01
rests_on:
  - {{claim: normalization-fusion/{CLAIM}, expects: supported}}
---
We use it.
"""
ACKNOWLEDGED = RECORD.replace("rests_on", "acknowledged: It is measured again.\nrests_on").replace(
    "expects: supported", "expects: supported, acknowledged: refuted"
)

OVERDUE = """---
title: Look again
status: accepted
date: 2026-01-01
review_by: 2026-01-15
rests_on:
  - {claim: normalization-fusion/torch-fused-beats-decomposed, expects: no-evidence}
---
We wait.
"""
NEWER = "2026-02-02T03:30:00Z"
ATOM = "{http://www.w3.org/2005/Atom}"


@pytest.fixture(scope="module")
def evidence(tmp_path_factory):
    """A full run, and after it a quick one that finds the kernel slower."""
    root = tmp_path_factory.mktemp("contradicted")
    publish(root / "evidence", measured_run(root, FAST, run_id="a-full", sweeps=4))
    plan = plan_of("b-quick", sweeps=3)
    records = (
        dataclasses.replace(each, finished_utc=NEWER) if isinstance(each, RunFinish) else each
        for each in records_of(plan, SLOW)
    )
    publish(root / "evidence", write_run(root / "b-quick", plan, records))
    return root / "evidence"


@pytest.fixture(scope="module")
def runs(evidence):
    return [run for item in load_evidence(evidence) for run in judged(item)]


def test_only_a_newer_run_that_came_to_another_verdict_contradicts(runs):
    full, quick = runs
    assert contradicting(full, CLAIM, runs) is quick
    assert contradicting(quick, CLAIM, runs) is None
    assert contradicting(full, CLAIM, [quick, full]) is None, "it came before"
    assert contradicting(full, CLAIM, [full, quick, full]) is None
    assert contradicting(full, "torch-fused-beats-decomposed", runs) is None, "neither measured it"


def test_the_page_says_so_and_the_decision_is_challenged(evidence, tmp_path):
    decisions = tmp_path / "decisions"
    decisions.mkdir()
    (decisions / "0001-use.md").write_text(RECORD)
    with pytest.raises(DefinitionError, match=r"is refuted in the newer run b-quick\."):
        build_site(tmp_path / "site", decisions, evidence)
    (decisions / "0001-use.md").write_text(ACKNOWLEDGED)
    build_site(tmp_path / "site", decisions, evidence)
    folder = tmp_path / "site" / "experiments" / "normalization-fusion"
    page = (folder / "index.html").read_text()
    assert "A newer run says otherwise." in page
    assert "Verdict: <span" in page
    assert "run b-quick of 2026-02-02" in page
    front = (tmp_path / "site" / "index.html").read_text()
    assert "experiments/normalization-fusion/index.html#claim-triton-rmsnorm-beats-torch-fused" not in front


def test_dates_are_those_of_the_newer_run_though_no_page_shows_it_in_full(evidence, tmp_path):
    decisions, site = tmp_path / "decisions", tmp_path / "site"
    decisions.mkdir()
    (decisions / "0001-use.md").write_text(ACKNOWLEDGED)
    (decisions / "0002-look.md").write_text(OVERDUE)
    build_site(site, decisions, evidence)
    entries = ET.parse(site / "feed.atom").iter(f"{ATOM}entry")
    updated = {entry.findtext(f"{ATOM}title"): entry.findtext(f"{ATOM}updated") for entry in entries}
    assert updated["Decision challenged: Use the kernel"] == NEWER
    assert updated["Decision expired: Look again"] == "2026-01-16T00:00:00Z"
    with (site / "decisions" / "decisions.csv").open(newline="") as table:
        assert {row["decision"]: row["freshness"] for row in csv.DictReader(table)} == {
            "0001-use": "challenged", "0002-look": "expired",
        }  # fmt: skip
