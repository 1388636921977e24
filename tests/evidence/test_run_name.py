"""A run that is named after a GPU begins on that GPU only."""

from pathlib import Path

import pytest
from factory import plan_of, small_experiment

from lab.errors import RunError
from lab.evidence.run_name import other_gpus
from lab.supervisor import resume
from lab.supervisor.resume import open_run

H200, GH200, ADA = "NVIDIA H200", "NVIDIA GH200 480GB", "NVIDIA L40S"


@pytest.mark.parametrize(
    ("run_id", "gpus"),
    [
        ("h200-norms", [H200]), ("first-look", [H200]), ("h100-against-h200", [H200]), ("gh200-norms", [GH200]),
        ("norms-l40s", [ADA]), ("h100-norms", []), ("norms-a1", [H200]),
        ("h100-norms", [H200, "NVIDIA H100 80GB HBM3"]),
    ],
)  # fmt: skip
def test_a_name_that_fits_or_tells_of_no_gpu_is_taken(run_id: str, gpus: list[str]) -> None:
    assert other_gpus(run_id, gpus) == []


@pytest.mark.parametrize(
    ("run_id", "gpus", "named"),
    [
        ("h100-norms", [H200, H200], ["h100"]), ("h200-norms", [GH200], ["h200"]),
        ("norms-a100-v100", [ADA], ["a100", "v100"]),
    ],
)  # fmt: skip
def test_a_name_of_another_gpu_is_noticed(run_id: str, gpus: list[str], named: list[str]) -> None:
    assert other_gpus(run_id, gpus) == named


def test_nothing_is_written_for_a_run_that_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resume, "gpu_names", lambda: (H200,))
    with pytest.raises(RunError, match="names the GPU h100, and here is NVIDIA H200: choose another"):
        open_run(plan_of("h100-norms", experiments=[small_experiment()]), tmp_path)
    assert not list(tmp_path.iterdir())
    open_run(plan_of("h200-norms", experiments=[small_experiment()]), tmp_path)
    assert list(tmp_path.iterdir())
