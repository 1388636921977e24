"""`lab check`: right, wrong, failed or skipped, at a tiny shape, before anything is timed."""

import math
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import lab
from lab.check import MOST_ELEMENTS, check, tiny
from lab.cli import main
from lab.evidence.source import child_environment


def checked(**profiles: Callable[[], Any]) -> dict[str, tuple[str, str]]:
    draft = lab.experiment("doubling", shapes=[(4096, 4096)], reference=lambda x: 2 * x.double(), edges=("nan",))
    for name, load in profiles.items():
        draft.profile(name.replace("_", "-"), load=load, **({"package": "nowhere"} if name == "absent" else {}))
    draft.claim(next(iter(profiles)).replace("_", "-"), faster_than=list(profiles)[-1].replace("_", "-"))
    results = list(check([draft.definition()], "cpu"))
    assert {each.shape for each in results} == {(64, 64)}
    return {each.profile: (each.outcome, each.message) for each in results}


def test_each_profile_is_reported_apart() -> None:
    def raising() -> Callable[[Tensor], Tensor]:
        raise ImportError("no such kernel")

    results = checked(
        right=lambda: lambda x: x * 2, off=lambda: lambda x: x * 2.01, of_nan=lambda: lambda x: torch.nan_to_num(x) * 2,
        raising=raising, absent=lambda: lambda x: x * 2,
    )  # fmt: skip
    assert {name: outcome for name, (outcome, _) in results.items()} == {
        "right": "right", "off": "wrong", "of-nan": "wrong", "raising": "failed", "absent": "skipped",
    }  # fmt: skip
    assert results["raising"][1] == "ImportError: no such kernel"


def test_a_wrong_baseline_excuses_neither_itself_nor_a_rival_that_is_wrong_alike() -> None:
    gelu = torch.nn.functional.gelu
    draft = lab.experiment("halving", shapes=[(64, 64)], reference=lambda x: gelu(x.double()), tolerance=64)
    draft.profile("composed", lambda x: x * 0.5, baseline=True)
    draft.profile("fused", lambda x: x * 0.6)
    draft.profile("right", gelu)
    draft.claim("fused", faster_than="composed")
    results = {each.profile: each for each in check([draft.definition()], "cpu")}
    assert {name: each.outcome for name, each in results.items()} == {
        "composed": "wrong", "fused": "wrong", "right": "right",
    }  # fmt: skip
    assert "so the standard or the reference is wrong" in results["fused"].message


@pytest.mark.parametrize("shape", [(4096, 4096), (7,), (1, 100_003), (8, 32, 2048, 128), (1,)])
def test_a_tiny_shape_is_of_the_same_kind(shape: tuple[int, ...]) -> None:
    small = tiny(shape)
    assert len(small) == len(shape)
    assert math.prod(small) <= MOST_ELEMENTS or small == (1,) * len(shape)
    assert all(1 <= a <= b for a, b in zip(small, shape, strict=True))


def test_the_command_checks_an_experiment_of_the_project(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "cpu-fused-calls"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 8
    assert all(" right: worst error " in line for line in lines)


def test_a_kernel_that_ends_the_process_is_named_before_it_does(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.kernel-evidence-lab]\n")
    (tmp_path / "experiments").mkdir()
    (tmp_path / "experiments" / "mine.py").write_text(
        "import os\nimport lab\n"
        "mine = lab.experiment('doubling', shapes=[(4, 8)], reference=lambda x: 2 * x.double())\n"
        "mine.profile('plain', lambda x: x + x, baseline=True)\n"
        "mine.profile('leaving', lambda x: os._exit(3))\n"
        "mine.claim('leaving')\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "lab.cli", "check"], capture_output=True, text=True, check=False, cwd=tmp_path,
        env=child_environment() | {"LAB_PROJECT": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == 3
    assert done.stdout.splitlines()[-1].split()[-1] == "leaving"


def test_a_kernel_that_raises_is_told_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.kernel-evidence-lab]\n")
    (tmp_path / "experiments").mkdir()
    (tmp_path / "experiments" / "mine.py").write_text(
        "import lab\n"
        "mine = lab.experiment('doubling', shapes=[(4, 8)], reference=lambda x: 2 * x.double())\n"
        "mine.profile('plain', lambda x: x + x, baseline=True)\n"
        "def unlucky(x):\n"
        "    raise ValueError('no luck')\n"
        "mine.profile('unlucky', unlucky)\n"
        "mine.claim('unlucky')\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "lab.cli", "check"], capture_output=True, text=True, check=False, cwd=tmp_path,
        env=child_environment() | {"LAB_PROJECT": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1].endswith("failed: ValueError: no luck (mine.py, line 5)")


def test_a_kernel_that_asks_to_exit_has_failed() -> None:
    def leave(x: Tensor) -> Tensor:
        raise SystemExit(7)

    assert checked(leaving=lambda: leave, right=lambda: lambda x: x * 2) == {
        "leaving": ("failed", "SystemExit: 7"), "right": ("right", "worst error 0.00 of the tolerance"),
    }  # fmt: skip
