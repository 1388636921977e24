"""Triton without a GPU runs in its interpreter; tests marked `gpu` need `--gpu`; several processes share the rest."""

import ctypes
import gc
import importlib
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
LONGEST = (
    "remote/test_remote.py", "cluster/test_local.py", "tracking/", "faults/", "test_own_project.py",
    "supervisor/test_run.py", "browser/", "worker/test_cheating.py", "definition/test_catalogue.py",
    "kernels/test_cuda.py", "kernels/test_flash_attention_hopper.py", "website/test_whole_site.py",
    "website/test_verify.py", "website/test_site.py", "kernels/test_gemm_hopper.py", "test_experiments.py",
    "website/test_determinism.py", "kernels/test_flash_attention.py", "website/test_refusal.py",
)  # fmt: skip

# One of several processes (pytest-xdist) must not take the cores of the others; the libraries read this when imported.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")


def _has_gpu() -> bool:
    """Where there is no driver PyTorch is not asked: the process that gives the others their tests needs none."""
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    import torch

    return torch.cuda.is_available()


# Triton reads this when it is first imported, so it must stand before any test module is.
if not _has_gpu():
    os.environ["TRITON_INTERPRET"] = "1"


# Tests make many objects and few cycles: to look for cycles after every 700 objects takes an eighth of their time.
gc.set_threshold(20_000, 50, 100)


# A shell starts what runs in the background with this signal ignored, and every process that a test interrupts would
# inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

os.environ["LAB_TUNED"] = ""  # nor may what was tuned on this machine change what is tested


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--gpu", action="store_true", help="also run the tests marked gpu")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--gpu") and config.getoption("numprocesses", None):
        raise pytest.UsageError("--gpu: tests that time a GPU run in one process; leave out -n")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    items.sort(key=_turn)
    if config.getoption("--gpu"):
        return
    skip = pytest.mark.skip(reason="needs an NVIDIA GPU: give --gpu where there is one")
    for item in items:
        if "gpu" in item.keywords:
            item.add_marker(skip)


def pytest_collection_finish() -> None:
    """What was imported stays, and the garbage collector need not look at these millions of objects again."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def unsynced() -> Iterator[None]:
    """No machine loses its power in a test. That the journal is synced, a test sees by an `os.fsync` of its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield


def _turn(item: pytest.Item) -> int:
    """A function that Triton interprets leaves the interpreter's in the language, so compiling comes first.

    Where several processes run, a file's tests share one of them, and the files that take longest begin at once.
    """
    if "compiles" in item.keywords:
        return 0
    place = item.path.relative_to(HERE).as_posix()
    return next((turn for turn, start in enumerate(LONGEST, start=1) if place.startswith(start)), 1 + len(LONGEST))


@pytest.fixture(scope="session")
def empty_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A migrated database of MLflow's without experiments: making one takes over a second, copying it nothing."""
    from made_once import made_once
    from mlflow import MlflowClient

    def make(folder: Path) -> Path:
        MlflowClient(tracking_uri=f"sqlite:///{folder / 'mlflow.db'}").delete_experiment("0")
        return folder / "mlflow.db"

    return made_once(tmp_path_factory, "store", make)


@pytest.fixture(scope="session")
def compiler() -> None:
    """PyTorch imports it for a function of tensors without data, by which a plan of the short form counts bytes: with
    this once for all commands that are forked, and not in each."""
    importlib.import_module("torch._dynamo")


@pytest.fixture(scope="session")
def forks() -> Iterator[Any]:
    from warm_workers import Forks

    with Forks() as started:
        yield started


@pytest.fixture(scope="module")
def warm_workers(request: pytest.FixtureRequest) -> Iterator[None]:
    """Workers of this module need not import torch. On a GPU, whose driver dislikes forks, they are started as ever."""
    if sys.platform != "linux" or _has_gpu():
        yield
        return
    with request.getfixturevalue("forks").instead_of_starts():
        yield


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Nobody shall take a run without a browser for one with it."""
    reasons = [r.longrepr[2] for r in terminalreporter.stats.get("skipped", ()) if isinstance(r.longrepr, tuple)]
    if without := [reason for reason in reasons if "no browser: " in reason]:
        terminalreporter.section("THE SITE WAS NOT TESTED IN A BROWSER", red=True, bold=True)
        terminalreporter.write_line(f"{len(without)} tests: {without[0]}")
