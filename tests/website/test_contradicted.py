"""A page that shows an older, fuller run mentions a newer one that contradicts it; decisions on it are challenged."""

import copy
import csv
import dataclasses
import re
import xml.etree.ElementTree as ET

import pytest
from factory import measured_run, plan_of, publish, records_of, write_run

from lab.definition.claim_words import claim_sentence
from lab.errors import DefinitionError
from lab.evidence.record import RunFinish
from lab.website.data.contradicted import contradicted_cases, contradicting
from lab.website.data.judged import Judged
from lab.website.data.judged_cache import judged
from lab.website.data.promoted import load_evidence
from lab.website.data.winners import winners
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


def test_a_run_that_leaves_open_what_the_shown_one_does_answers_for_the_runs_before_it(runs):
    def says(run, status, cases=None):
        data = copy.deepcopy(run.data)
        claim = data["claims"][CLAIM]
        claim["status"] = status
        claim["cases"] = {
            case: {**verdict, "status": status}
            for case, verdict in claim["cases"].items()
            if not cases or case in cases
        }
        return Judged(plan=run.plan, data=data)

    def dated(run, digest):
        data = copy.deepcopy(run.data)
        data["evidence"]["digest"] = digest
        return Judged(plan=run.plan, data=data)

    full, quick = runs
    undecided, newest = says(full, "inconclusive"), dated(quick, "f" * 64)
    assert contradicting(undecided, CLAIM, [undecided, quick]) is quick
    for status in ("inconclusive", "rerun-noise"):
        assert contradicting(undecided, CLAIM, [undecided, quick, says(newest, status)]) is None
        assert contradicting(full, CLAIM, [full, quick, says(newest, status)]) is quick, "it decides nothing"
    assert contradicting(undecided, CLAIM, [undecided, quick, says(newest, "no-evidence")]) is quick
    first, *others = quick.data["claims"][CLAIM]["cases"]
    assert others
    of_one_case = says(newest, full.data["claims"][CLAIM]["status"], cases=[first])
    assert contradicting(full, CLAIM, [full, quick, of_one_case]) is quick, "it answers for one case"
    told = {case for claim, case, _ in contradicted_cases(full, [full, quick, of_one_case]) if claim.name == CLAIM}
    assert told == set(others)


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


def test_the_front_page_marks_the_rows_that_the_newer_run_contradicts_and_no_others(evidence, runs, tmp_path):
    """Both runs timed each shape in every call mode; the contradicted claims are about some of them in two."""
    (tmp_path / "decisions").mkdir()
    build_site(tmp_path / "site", tmp_path / "decisions", evidence)
    front = (tmp_path / "site" / "index.html").read_text()
    full, quick = runs
    link = r'data-at="/shapes/H100/([^"]+)/cells/".*class="newer" href="([^"]+)" title="([^"]+)">newer run differs</a>'
    marked = {row: (href, title.partition(" Claim: ")) for row, href, title in re.findall(link, front)}
    about = {f"{claim.scope}/{case}": claim for claim, case, _ in contradicted_cases(full, runs)}
    assert set(marked) == set(about)
    assert {row.partition("/")[0] for row in marked} == {"device_cold", "graph"}
    assert any(row["mode"] == "eager" for row in winners(full, runs)), "which no claim is about"
    assert front.count("newer run differs") == len(marked) + 1, "and in the legend"
    verdict = f"runs/{quick.digest[:12]}/normalization-fusion/index.html"
    page = (tmp_path / "site" / verdict).read_text()
    for href, (says, _, sentence) in marked.values():
        assert says == "A newer run says otherwise: “slower” in b-quick of 2026-02-02, “faster” in the one shown."
        file, _, fragment = href.partition("#")
        assert file == verdict
        assert f'id="{fragment}"' in page
        assert sentence == claim_sentence(full.plan.claim(fragment.removeprefix("claim-")))
    assert not [row for row in winners(quick, runs) if "newer" in row], "nothing is newer than the newest"


def test_a_row_is_not_marked_for_a_case_that_the_newer_run_found_alike(runs):
    full, quick = runs
    first, *others = [case for claim, case, _ in contradicted_cases(full, runs) if claim.name == CLAIM]
    alike = copy.deepcopy(quick.data["claims"][CLAIM]["cases"])
    alike[first] = full.data["claims"][CLAIM]["cases"][first]
    claims = quick.data["claims"] | {CLAIM: quick.data["claims"][CLAIM] | {"cases": alike}}
    newer = dataclasses.replace(quick.loaded, data=quick.data | {"claims": claims})
    assert [case for claim, case, _ in contradicted_cases(full, [full, newer]) if claim.name == CLAIM] == others
    fewer = {CLAIM: quick.data["claims"][CLAIM] | {"cases": {first: alike[first]}}}
    smaller = dataclasses.replace(quick.loaded, data=quick.data | {"claims": claims | fewer})
    assert contradicting(full, CLAIM, [full, smaller]) is None, "a claim of fewer cases, all of them alike"


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
