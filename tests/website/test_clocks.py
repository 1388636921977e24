"""What a page says of its times: a GPU's clock on a GPU's pages, a CPU's on a CPU's."""

from dataclasses import replace

from factory import FAST, FAST_BEATS_PLAIN, PLAIN, SMALL, plan_of, records_of, small_experiment

from lab.definition.experiment import SCOPES
from lab.verdict.judge_run import judge_run
from lab.website.data.judged import Judged, judged_run
from lab.website.outputs import Document, SiteContext
from lab.website.pages import labels
from lab.website.pages.case import case_pages
from lab.website.pages.experiment import experiment_pages
from lab.website.pages.front import front_pages
from lab.website.pages.labels import clocks_of, operator_title, titled
from lab.website.render import Renderer, SiteInfo
from lab.website.wording.lint import Quotable

RIVAL = replace(PLAIN, title="cuBLAS")  # of another family: the front page sets families side by side
TIMES = {(SMALL.name, "plain"): 60e-6, (SMALL.name, "fast"): 40e-6}


def item_of(device: str) -> Judged:
    claim = replace(FAST_BEATS_PLAIN, baseline=RIVAL)
    experiment = small_experiment(profiles=(RIVAL, FAST), claims=(claim,), headlines=(claim,))
    plan = plan_of("clocks", experiments=[experiment], include=(), device=device)
    return judged_run(judge_run(plan, records_of(plan, TIMES, noise=0.001)), digest="c" * 64)[0]


def pages_of(device: str) -> dict[str, str]:
    """The text of each page that shows times, as it is rendered."""
    context = SiteContext(label="a preview", current=(item_of(device),), published=(), decisions=(), files=())
    outputs = [*front_pages(context), *experiment_pages(context), *case_pages(context)]
    renderer = Renderer(SiteInfo(label="a preview", trust=False, methods=False))
    files = [renderer.file(output, Quotable(())) for output in outputs if isinstance(output, Document)]
    return {path: content.decode() for path, content in files}


OF_A_GPU = ("GPU time", "GPU alone", "same GPU", "GPU kernel is", "GPU meanwhile", "Nsight", "n empty kernel",
            "Two events", "L2 cache", "CUDA graph", "in a graph")  # fmt: skip


def test_no_page_of_a_cpu_run_calls_its_times_those_of_a_gpu() -> None:
    pages = pages_of("cpu")
    for path, text in pages.items():
        assert not [words for words in OF_A_GPU if words in text], path
    assert "timed on the same CPU" in pages["index.html"]
    assert "CPU · Cold cache" in pages["index.html"]
    assert "Last-level cache" in pages["experiments/doubling/index.html"]
    assert "A call on one number" in pages["experiments/doubling/index.html"]
    assert "wall time of one call on the CPU" in pages["experiments/doubling/index.html"]
    assert "wall time of one call on the CPU" in pages[f"experiments/doubling/cases/{SMALL.name}/index.html"]


def test_an_operator_of_a_cpu_has_the_title_of_its_namesake() -> None:
    assert [titled("cpu-layernorm"), operator_title("cpu-layernorm")] == ["LayerNorm", "LayerNorm"]
    assert [titled("cpu-no-such"), operator_title("cpu-no-such")] == ["no-such", "No such"]


def test_pages_of_a_gpu_run_say_gpu_time() -> None:
    pages = pages_of("cuda")
    assert "H100 · Cold cache, GPU time" in pages["index.html"]
    assert "An empty kernel" in pages["experiments/doubling/index.html"]
    for path in ("experiments/doubling/index.html", f"experiments/doubling/cases/{SMALL.name}/index.html"):
        assert "GPU time of one call with a cold cache" in pages[path]
        assert "wall time" not in pages[path]


def test_every_scope_that_can_be_measured_has_words() -> None:
    assert set(SCOPES) <= set(labels.SCOPES)


def test_times_of_both_kinds_of_machine_are_reported_apart() -> None:
    words = clocks_of(SCOPES[0], [True, False])
    assert "GPU time" in words
    assert "on the CPU" in words
