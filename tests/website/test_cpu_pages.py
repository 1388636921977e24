"""The page of a run on a CPU: its own verdicts first, and one line on what needs a GPU."""

from types import SimpleNamespace as View

from factory import plan_of, records_of

from lab.overview import describe_verdicts
from lab.verdict.judge_run import judge_run
from lab.verdict.results import RunResult
from lab.website.data.judged import judged_run
from lab.website.pages.experiment import experiment_page
from lab.website.table import plain

ON_CPU = {"torch-baseline": 5e-3, "torch-fused": 1e-3, "torch-compile": 1.2e-3}


NEAR = {"torch-baseline": 5.1e-3, "torch-fused": 5e-3, "torch-compile": 5e-3}


def run_of(times: dict[str, float] = ON_CPU, noise: float = 0.001) -> RunResult:
    """The lab's first experiment, as a machine without a GPU measures it."""
    plan = plan_of(device="cpu", include=(), sweeps=3)
    return judge_run(plan, records_of(plan, times, noise=noise))


def page_of(times: dict[str, float] = ON_CPU, noise: float = 0.001) -> View:
    return experiment_page(judged_run(run_of(times, noise))[0], [])


def test_what_needs_a_gpu_is_a_number_and_no_row() -> None:
    page = page_of()
    assert len(page.need_gpu) > 10
    assert {claim.name for claim in page.claims} == {"torch-fused-beats-decomposed", "compile-beats-torch-fused"}
    assert "not measured" not in plain(dict(page.facts)["Claims"])


def test_the_page_leads_with_what_the_cpu_could_judge() -> None:
    page = page_of()
    assert [glance.claim for glance in page.glances] == ["torch-fused-beats-decomposed", "compile-beats-torch-fused"]
    answer = "".join(part if isinstance(part, str) else part.text for part in page.answer)
    assert answer.startswith("Fused PyTorch ran ")
    assert "could not be judged" not in answer


def test_a_ratio_that_is_too_noisy_to_call_is_shown_with_its_interval() -> None:
    glance = page_of(NEAR, noise=0.4).glances[0]
    assert glance.status == "rerun-noise"
    assert glance.ratios
    assert glance.interval


def test_the_terminal_says_it_in_one_line_too() -> None:
    lines = list(describe_verdicts(run_of()))
    assert sum("need a GPU" in line for line in lines) == 1
    assert not any("no-evidence" in line for line in lines)
