"""What the lab publishes itself is asked what the publications of others are asked."""

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from factory import SWEEP_FLAG, measured_run, plan_of, records_of
from test_site import TIMES, Page, publish

from lab.definition.publication import Aggregate, Headline, Publication, Selection
from lab.errors import EvidenceError
from lab.evidence.record import SweepStart
from lab.verdict.audit.rules import audit
from lab.verdict.judge_run import judge_run
from lab.website.data.judged import Judged, judged_run
from lab.website.refusal import as_publication, refuse_findings
from lab.website.site import build_preview, build_site

pytestmark = pytest.mark.usefixtures("few_experiments")

CASE, PROFILE = "rmsnorm-4096x4096-float16", "triton-fused-rmsnorm"
Data = dict[str, Any]


def refuse(publication: Publication) -> None:
    refuse_findings(publication, audit(publication))


def shown(spoil: Callable[[Data], None] = lambda data: None) -> Judged:
    """A run that measured all profiles; `spoil` changes what was made of it."""
    plan = plan_of("try", device="cuda", profiling=True, include=[SWEEP_FLAG])
    item = judged_run(judge_run(plan, records_of(plan, TIMES)), "d" * 64)[0]
    data = copy.deepcopy(dict(item.data))
    spoil(data)
    return replace(item, data=data)


def test_a_sound_page_is_let_through() -> None:
    item = shown()
    publication = as_publication(item)
    refuse(publication)
    assert {table.title for table in publication.tables} == set(item.plan.scopes)
    assert sum(len(table.rows) for table in publication.tables) > 100
    assert {type(statement) for statement in publication.statements} == {Aggregate, Headline, Selection}


def cell(data: Data) -> Data:
    return data["cells"][CASE][PROFILE]


def too_fast(data: Data) -> None:
    cell(data)["scopes"]["device_cold"]["p50_seconds"] = 9e-6  # 33.6 MB to read at 3.35 TB/s take 10 µs


def too_much(data: Data) -> None:
    cell(data)["bytes_per_second"] = 4e12


def near_the_floor(data: Data) -> None:
    small = data["cells"]["rmsnorm-512x1024-float16"][PROFILE]
    assert small["launch_bound"]
    small["bytes_per_second"] = 3e11


def arithmetic(data: Data) -> None:
    claim = next(claim for claim in data["claims"].values() if claim["compared"] > 1)
    ratios = [case["ratio"] for case in claim["cases"].values()]
    ratios[0] *= 3
    next(iter(claim["cases"].values()))["ratio"] = ratios[0]
    claim["geometric_mean"] = sum(ratios) / len(ratios)


def summed(data: Data) -> None:
    claim = next(claim for claim in data["claims"].values() if claim["compared"] > 1)
    claim["geometric_mean"] = sum(case["ratio"] for case in claim["cases"].values())


def dropped(data: Data) -> None:
    del data["cells"][CASE]["torch-baseline"]


def sparse(data: Data) -> None:
    rate = {"flops_per_second": 7e14, "peak_share": 7e14 / 1978.9e12, "profile": "torch-matmul"}
    data["ceilings"] = {"matrix": {"float16": rate}}


def above_dense(data: Data) -> None:
    data["ceilings"] = {"matrix": {"float16": {"flops_per_second": 1.2e15, "peak_share": None, "profile": "p"}}}


def scattered(data: Data) -> None:
    """Samples that scatter, and no mark that says so."""
    for of_case in data["cells"].values():
        for cold in [profile["scopes"]["device_cold"] for profile in of_case.values() if profile.get("scopes")]:
            cold["noise_ratio"] = 1.3


def unlisted(data: Data) -> None:
    data["cases"][CASE]["included"] = False


@pytest.mark.parametrize(
    ("spoil", "rule"),
    [
        (too_fast, "faster-than-physics"),
        (too_much, "above-memory-peak"),
        (near_the_floor, "bandwidth-near-floor"),
        (sparse, "sparse-peak"),
        (above_dense, "above-dense-rate"),
        (arithmetic, "mean-of-ratios"),
        (summed, "sum-of-ratios"),
        (dropped, "dropped-rows"),
        (unlisted, "headline-case"),
        (scattered, "noisy-headline"),
    ],
)
def test_a_page_that_breaks_a_rule_is_refused_with_its_place(spoil: Callable[[Data], None], rule: str) -> None:
    item = shown(spoil)
    with pytest.raises(EvidenceError, match=rf"Normalization Fusion: .* breaks '{rule}'"):
        refuse(as_publication(item))


def test_the_refusal_names_page_table_row_and_figures() -> None:
    item = shown(too_much)
    with pytest.raises(EvidenceError) as refusal:
        refuse(as_publication(item))
    for word in ("Normalization Fusion", "device_cold", "RMSNorm 4096×4096 fp16", "above-memory-peak", "3352 GB/s"):
        assert word in str(refusal.value), word


def test_a_noisy_headline_that_is_marked_is_let_through() -> None:
    def marked(data: Data) -> None:
        scattered(data)
        for claim in data["claims"].values():
            for verdict in claim["cases"].values():
                verdict["mark"] = "size imprecise, noisy"

    refuse(as_publication(shown(marked)))


def test_a_rejected_cell_may_be_shown_as_rejected() -> None:
    """5 µs for 67 MB: judged impossible, and shown so."""
    plan = plan_of("try", device="cuda")
    run = judge_run(plan, records_of(plan, {**TIMES, (CASE, PROFILE): 5e-6}))
    item = judged_run(run)[0]
    assert item.cell(CASE, PROFILE)["impossible"]["device_cold"]
    refuse(as_publication(item))


def test_of_a_cpu_only_the_statements_are_asked() -> None:
    plan = plan_of("try", device="cpu")
    run = judge_run(plan, records_of(plan, {"torch-baseline": 6e-3, "torch-fused": 5e-3}))
    publication = as_publication(judged_run(run)[0])
    assert publication.tables == ()
    assert publication.statements


def test_what_is_strange_and_may_be_true_is_published_and_named(tmp_path) -> None:
    """Half the bytes of another case in three times its time: a kernel may be that bad at a shape."""
    evidence, decisions = tmp_path / "evidence", tmp_path / "decisions"
    decisions.mkdir()
    times = {**TIMES, ("rmsnorm-2048x4096-float16", PROFILE): 70e-6}
    publish(evidence, measured_run(tmp_path, times, run_id="strange"))
    build_site(tmp_path / "site", decisions, evidence)
    text = Page(tmp_path / "site" / "methods" / "index.html").text
    assert "On this site: Normalization Fusion" in text
    named = text[text.index("On this site") :]
    assert "more-work-in-no-more-time: 1" in named
    assert "RMSNorm 2048×4096 fp16" in named


def test_a_refused_build_leaves_the_old_site_and_a_preview_shows_the_run(tmp_path) -> None:
    """15 µs for 67 MB: above the memory's peak, and without ceilings no page says what the cache has served."""
    evidence, decisions, out = tmp_path / "evidence", tmp_path / "decisions", tmp_path / "site"
    decisions.mkdir()
    publish(evidence, measured_run(tmp_path, TIMES, run_id="sound"))
    build_site(out, decisions, evidence)
    before = (out / "index.html").read_bytes()
    directory = measured_run(tmp_path, {**TIMES, (CASE, PROFILE): 15e-6}, run_id="unsound", profiling=True)
    publish(evidence, directory)
    with pytest.raises(EvidenceError, match="above-memory-peak"):
        build_site(out, decisions, evidence)
    assert (out / "index.html").read_bytes() == before
    assert build_preview(directory).is_file()


@pytest.mark.parametrize("unknown", [{"peak_bytes_per_second": 0.0, "gpu": "A GPU of no datasheet"}, {"l2_bytes": 0}])
def test_what_the_driver_does_not_tell_refuses_nothing(unknown: dict[str, Any]) -> None:
    plan = plan_of("try", device="cuda", profiling=True, include=[SWEEP_FLAG])
    records = [
        replace(record, machine=replace(record.machine, **unknown)) if isinstance(record, SweepStart) else record
        for record in records_of(plan, TIMES)
    ]
    run = judge_run(plan, records)
    item = judged_run(run, "d" * 64)[0]
    refuse(as_publication(item))
