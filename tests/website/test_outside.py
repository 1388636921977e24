"""The boundary is kept by a check: what states a result names nothing that its run did not hold."""

import dataclasses

import pytest
from factory import FAST_BEATS_PLAIN, SMALL, measured_run, small_experiment
from test_site import TIMES, publish

from lab.definition.planning import planned
from lab.errors import DefinitionError, EvidenceError
from lab.verdict.judge_run import load_run
from lab.website.data.judged import judged_run
from lab.website.pages import experiment
from lab.website.site import build_site
from lab.website.wording.outside import check_claims, refuse_outside

pytestmark = pytest.mark.usefixtures("few_experiments")

NAME = "normalization-fusion"


@pytest.fixture(scope="module")
def item(tmp_path_factory):
    (judged_item,) = judged_run(load_run(measured_run(tmp_path_factory.mktemp("outside"), TIMES, sweeps=3, include=())))
    return judged_item


@pytest.mark.parametrize(
    "text",
    [
        "On one NVIDIA H100 80GB HBM3, in cold-cache GPU time, Triton ran 1.3× as fast",
        "RMSNorm 4096×4096 float16: 20 µs against 30 µs", "rmsnorm 4096x4096 float16 device_cold",
        "the L2 cache is cold", "in replayed CUDA graphs",
    ],
)  # fmt: skip
def test_what_the_run_held_may_be_said(item, text):
    refuse_outside(item, [("answer", text)])


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("On one NVIDIA H200", "GPU 'H200'"), ("on an A100 too", "GPU 'A100'"), ("on an RTX 4090", "GPU 'RTX 4090'"),
        ("on an H20", "GPU 'H20'"), ("on every Hopper", "GPU 'Hopper'"), ("in tf32", "data type 'tf32'"),
        ("for float64 too", "data type 'float64'"), ("in bf16", "data type 'bf16'"),
        ("at 4096×4097 float16", "shape '4096×4097'"), ("at 4096x8192", "shape '4096x8192'"),  # of a case left out
    ],
)  # fmt: skip
def test_what_it_did_not_hold_is_refused_by_name(item, text, kind):
    with pytest.raises(EvidenceError, match=rf"{NAME}, card: speaks of {kind}, which its evidence does not hold"):
        refuse_outside(item, [("card", text)])


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("Fast is faster than plain on an H100.", "GPU 'H100'"), ("Fast wins at bfloat16.", "data type 'bfloat16'"),
        ("Fast wins at 64×129.", "shape '64×129'"), ("Fast wins at 64x128 float32.", ""),
        ("Fast writes float8 faster.", ""),  # which its case describes
    ],
)  # fmt: skip
def test_a_claim_is_not_registered_in_words_wider_than_its_cases(text, says):
    case = dataclasses.replace(SMALL, description="small, and cast to float8")
    claim = dataclasses.replace(FAST_BEATS_PLAIN, text=text, cases=(case,))
    plan = planned(small_experiment(cases=(case,), claims=(claim,), headlines=(claim,)), frozenset())
    if says:
        with pytest.raises(DefinitionError, match=f"doubling: claim fast-beats-plain speaks of {says}"):
            check_claims([plan])
    else:
        check_claims([plan])


@pytest.mark.parametrize("text", ["as an eager caller waits, it ran", "in device_warm it ran"])
def test_a_scope_that_was_not_asked_for_is_refused(item, text):
    narrow = dataclasses.replace(item, plan=dataclasses.replace(item.plan, scopes=("device_cold",)))
    refuse_outside(item, [("answer", text)])
    with pytest.raises(EvidenceError, match=r"speaks of scope '(device_warm|eager)'"):
        refuse_outside(narrow, [("answer", text)])


def test_evidence_of_a_cpu_speaks_of_no_gpu(tmp_path):
    (cpu,) = judged_run(load_run(measured_run(tmp_path, TIMES, device="cpu", sweeps=3)))
    with pytest.raises(EvidenceError, match="GPU 'H100'"):
        refuse_outside(cpu, [("answer", "On one NVIDIA H100")])


def test_a_sentence_beyond_the_evidence_stops_the_build_and_keeps_the_old_site(tmp_path, monkeypatch):
    (tmp_path / "decisions").mkdir()
    publish(tmp_path / "evidence", measured_run(tmp_path, TIMES, sweeps=3))
    build_site(tmp_path / "site", tmp_path / "decisions", tmp_path / "evidence")
    before = (tmp_path / "site" / "index.html").read_bytes()
    monkeypatch.setattr(experiment, "answer", lambda *_: ("On any GPU from A100 to H100, Triton is faster.",))
    with pytest.raises(EvidenceError, match=f"{NAME}, answer: speaks of GPU 'A100'"):
        build_site(tmp_path / "site", tmp_path / "decisions", tmp_path / "evidence", remembered=tmp_path / "nothing")
    assert (tmp_path / "site" / "index.html").read_bytes() == before
