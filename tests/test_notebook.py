"""Runs as a notebook wants them, and the notebook of docs/, whose cells are run one after another."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import small_caches
from factory import measured_run
from warm_workers import Forks

import lab
from lab.errors import RunError
from lab.evidence.source import ROOT

NOTEBOOK = ROOT / "docs" / "notebook.ipynb"
TIMES = {"torch-baseline": 90e-6, "torch-fused": 30e-6, "triton-fused-rmsnorm": 20e-6}


@pytest.fixture
def run(tmp_path: Path) -> "lab.Run":
    return lab.load(measured_run(tmp_path, TIMES, include=()))


def test_importing_the_lab_loads_nothing_heavy() -> None:
    program = "import sys, lab; print(sorted({'torch', 'numpy', 'pandas', 'plotly', 'mlflow'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_frames_have_a_row_for_each_cell_claim_and_sample(run: "lab.Run") -> None:
    (experiment,) = run.result.experiments
    cold = run.cells[run.cells["scope"] == "device_cold"].set_index(["case", "profile"])
    cell = experiment.cells["rmsnorm-4096x4096-float16", "torch-fused"]
    assert cell.latency
    assert cold.loc["rmsnorm-4096x4096-float16", "torch-fused"]["p50_seconds"] == cell.latency.p50_seconds
    assert len(run.claims) == sum(len(claim.verdicts) for claim in experiment.claims)
    assert set(run.claims["status"]) <= {str(v.status) for c in experiment.claims for v in c.verdicts.values()}
    of_cell = run.samples.query("case == 'rmsnorm-4096x4096-float16' and profile == 'torch-fused'")
    assert len(of_cell[of_cell["scope"] == "device_cold"]) == cell.latency.samples
    assert run.df is run.cells


def test_a_run_shows_itself(run: "lab.Run") -> None:
    assert repr(run) == "Run('synthetic': normalization-fusion on NVIDIA H100 80GB HBM3)"
    assert "<strong>supported</strong>" in run._repr_html_()
    figure = run.plot()
    assert figure.layout.xaxis.title.text == "times as fast"
    weighed = int(run.claims["ratio"].notna().sum())
    assert sum(len(trace.x) for trace in figure.data) == 2 * weighed  # what was measured, and what is claimed


def test_a_run_that_is_not_there_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_RUNS", str(tmp_path))
    with pytest.raises(RunError, match="no run 'never' under"):
        lab.load("never")


def test_a_verdict_can_be_required(run: "lab.Run") -> None:
    run.require("not-refuted")
    with pytest.raises(AssertionError, match="is no-evidence, and supported is required"):
        run.require("supported")
    with pytest.raises(RunError, match="accepted are"):
        run.require("splendid")


def test_the_notebook_of_the_docs_runs_from_its_first_cell_to_its_last(tmp_path: Path, forks: Forks) -> None:
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    program = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    last_cell = "print(repr(run), len(run.samples) > 0, list(again.claims['claim']))"
    path = tmp_path / "notebook.py"
    path.write_text(f"{program}\n{last_cell}\n")
    places = {"PYTHONPATH": small_caches.PYTHONPATH, "LAB_RUNS": str(tmp_path / "runs"), "LAB_PROJECT": str(tmp_path)}
    # PyTorch's compiler, which it loads to tell how much an experiment reads and writes, as every worker does.
    done = forks.start([str(path)], cwd=tmp_path, env=os.environ | places, preload=["torch._dynamo"])
    output, errors = done.communicate()
    assert done.returncode == 0, errors
    assert "gelu-here on the CPU" in output
    assert "True ['fused-beats-composed']" in output
