"""The printed counters of an audited kernel beside this site's own."""

from counting import kernel, recounted
from factory import plan_of, records_of

from experiments.audits import AUDITS
from lab.definition.catalogue import choose_experiments
from lab.definition.publication import Publication
from lab.verdict.results import judge_run
from lab.website.data.judged import Judged, judged_run
from lab.website.figure import DataView
from lab.website.pages.same_kernel import PRINTED, same_kernel, same_kernel_data

EXPERIMENTS = choose_experiments(["normalization-fusion", "profiler-validation"])
OWN = kernel(33.6e6, 13.2e6, duration_seconds=20e-6, dram_percent=68.2, theoretical_occupancy_percent=75.0)
THEIRS = next(audit for audit in AUDITS if audit.slug == PRINTED[0])


def shown(*launches: object) -> list[Judged]:
    """Runs in which every call of the lab's norm launches these kernels."""
    plan = plan_of(experiments=EXPERIMENTS, include=(), profiling=True, sweeps=1)
    records = recounted(records_of(plan, {"triton-fused-rmsnorm": 2e-5}), {"triton-fused-rmsnorm": launches})  # type: ignore[dict-item]
    run = judge_run(plan, records)
    return list(judged_run(run))


def test_the_printed_counters_stand_beside_our_own() -> None:
    data = same_kernel_data(AUDITS, shown(OWN))
    assert (data["theirs"]["gpu"], data["theirs"]["shape"]) == ("A10G", "4096×4096")
    assert (data["theirs"]["dram_share"], data["theirs"]["occupancy_share"]) == (0.9091, 0.9312)
    assert data["theirs"]["least_bytes"] == data["same"]["least_bytes"] == 67_117_056
    assert (data["same"]["dram_share"], data["same"]["occupancy_limit_share"]) == (0.682, 0.75)
    assert data["beyond"]["least_bytes"] > 4 * data["same"]["l2_bytes"]
    view = same_kernel(DataView({"here": data}), "here")
    assert view is not None
    rows = {label: [figure.text if figure else "" for figure in figures] for label, figures in view.rows}
    assert rows["DRAM throughput, of its peak"] == ["90.91 %", "68.2 %", "68.2 %"]
    assert rows["Occupancy that the launch allows"] == ["", "75 %", "75 %"]
    assert all("–" not in reason for reason in view.reasons[:3])


def test_without_counters_of_one_kernel_nothing_is_compared() -> None:
    assert same_kernel_data(AUDITS, shown()) == {}
    assert same_kernel_data(AUDITS, shown(OWN, OWN)) == {}
    assert same_kernel_data(AUDITS, []) == {}
    assert same_kernel_data([_without_tables(THEIRS)], shown(OWN)) == {}
    assert same_kernel(DataView({"here": {}}), "here") is None


def _without_tables(publication: Publication) -> Publication:
    return Publication(slug=publication.slug, title="", source="", about="", tables=())
