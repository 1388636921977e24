"""Secrets in variables, in git's remote, in addresses and in paths: in nothing that the lab prints, keeps or shows."""

import os
from pathlib import Path

import pytest
from commands import lab_from_scratch

SECRET = "s3cret-kestrel-91"
USER = "planted-user"
KNOWN = {
    "PATH",
    "PYTHONPATH",
    "LAB_PROJECT",
    "LAB_RUNS",
    "LAB_TUNED",
    "LANG",
    "LC_ALL",
    "TRITON_INTERPRET",
    "LD_LIBRARY_PATH",
    "OMP_NUM_THREADS",  # a run records its value
    "MKL_NUM_THREADS",
}
PLANTED = {
    "AWS_SECRET_ACCESS_KEY": SECRET, "HF_TOKEN": SECRET, "MLFLOW_TRACKING_PASSWORD": SECRET,
    "MLFLOW_TRACKING_TOKEN": SECRET, "WANDB_API_KEY": SECRET, "SSH_AUTH_SOCK": f"/home/{USER}/agent-{SECRET}",
    "PYTORCH_CUDA_ALLOC_CONF": "", "TRITON_ALWAYS_COMPILE": f"0 {SECRET}", "CUDA_VISIBLE_DEVICES": "",
    "HTTPS_PROXY": f"http://ada:{SECRET}@127.0.0.1:9", "no_proxy": "127.0.0.1",
    "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "remote.origin.url",
    "GIT_CONFIG_VALUE_0": f"https://ada:{SECRET}@example.org/kernels.git",
    "USER": USER, "LOGNAME": USER, "USERNAME": USER, "HOSTNAME": f"{USER}-host",
}  # fmt: skip


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The whole journey of a run under a home full of secrets, and all that it printed."""
    home = tmp_path_factory.mktemp("secrets") / "home" / USER
    home.mkdir(parents=True)
    others = {name: SECRET for name in os.environ if name not in KNOWN and not name.startswith(("LC_", "COV"))}
    done = lab_from_scratch(
        home, "benchmark", "--run-id", "quiet", "--experiment", "pair", "--device", "cpu", "--sweeps", "1",
        **{**others, **PLANTED, "HOME": str(home), "TMPDIR": str(home)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return home, done.stdout + done.stderr


def test_no_secret_is_printed_kept_or_shown(measured: tuple[Path, str]) -> None:
    home, output = measured
    assert SECRET not in output
    files = [path for path in home.rglob("*") if path.is_file()]
    names = {path.name for path in files}
    assert {"journal.jsonl", "plan.json", "mlflow.db", "report.md", "index.html", "data.json"} <= names
    assert [str(path) for path in files if SECRET.encode() in path.read_bytes()] == []


def test_nor_is_the_user_or_the_home_in_records_pages_or_artifacts(measured: tuple[Path, str]) -> None:
    """MLflow's own database must hold the place of its artifacts, and stays on this machine."""
    home, _ = measured
    run = home / "runs" / "quiet"
    kept = [run / "journal.jsonl", run / "plan.json", *(run / "preview").rglob("*"), *home.rglob("artifacts/*")]
    assert len(kept) > 10
    leaks = [str(path.relative_to(home)) for path in kept if path.is_file() and USER.encode() in path.read_bytes()]
    assert leaks == []
