"""Changed settings of the process are reported and put back."""

import os
from collections.abc import Callable
from typing import Any

import pytest
import torch

from lab.worker.guard import Guard
from lab.worker.settings import ProcessSettings, accesses

CHANGES: dict[str, Callable[[], Any]] = {
    "default dtype": lambda: torch.set_default_dtype(torch.float64),
    "matmul precision": lambda: torch.set_float32_matmul_precision("high"),
    "deterministic algorithms": lambda: torch.use_deterministic_algorithms(True),
    "denormals": lambda: torch.set_flush_denormal(True),
    "cudnn benchmark": lambda: setattr(torch.backends.cudnn, "benchmark", True),
    "default device": lambda: torch.set_default_device("meta"),
    "working directory": lambda: os.chdir("/"),
    "torch threads": lambda: torch.set_num_threads(torch.get_num_threads() + 1),
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_was_changed_is_reported_once_and_is_as_it_was(name: str) -> None:
    settings, read = ProcessSettings(), accesses()[name][0]
    before = read()
    assert settings.put_back() == []
    CHANGES[name]()
    assert read() != before
    (line,) = [each for each in settings.put_back() if not each.startswith("matmul precision: ") or name in each][:1]
    assert line.startswith(f"{name}: ")
    assert read() == before
    assert settings.put_back() == []


def test_the_guard_accuses_nobody_of_a_setting_and_tells_it() -> None:
    guard = Guard([])
    torch.set_default_device("meta")
    assert guard.broken() == ""
    assert guard.left() == ["default device:  → meta"]
    assert guard.left() == []
    assert torch.ones(1).device.type == "cpu"
