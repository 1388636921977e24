"""What Triton's interpreter runs is no evidence of a compiled kernel."""

import subprocess
import sys

import pytest
import torch
import triton
import triton.language as tl
from factory import DOUBLING
from sweeps import blamed, swept
from torch import Tensor

from lab.evidence.source import child_environment
from lab.worker.faults import not_on_a_cpu
from lab.worker.launches import interpreted


@triton.jit
def _double_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    lanes = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + lanes, tl.load(x_ptr + lanes, mask=lanes < n) * 2, mask=lanes < n)


def double_by_triton(x: Tensor) -> Tensor:
    y = torch.empty_like(x)
    _double_kernel[(triton.cdiv(x.numel(), 4096),)](x, y, x.numel(), BLOCK=4096)
    return y


def test_an_interpreted_kernel_is_noticed() -> None:
    with interpreted() as names:
        double_by_triton(torch.ones(8))
    assert names == {"_double_kernel"}
    with interpreted() as names:
        torch.ones(8).mul(2)
    assert names == set()


def test_times_of_interpreted_kernels_are_refused_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    cells = swept(monkeypatch, {"interpreted": lambda: double_by_triton}, operator=DOUBLING)
    assert cells["interpreted"].outcome == "skipped"
    assert cells["interpreted"].timings == ()
    (reason,) = blamed(cells).values()
    assert "TRITON_INTERPRET=1" in reason
    assert "unset TRITON_INTERPRET" in reason


ON_THE_CPU = """
import torch
from test_launches import double_by_triton
try:
    double_by_triton(torch.ones(8))
except Exception as problem:
    print(problem)
"""


def test_what_triton_says_on_a_cpu_is_known() -> None:
    """Without a GPU, and with one."""
    environment = {**child_environment(), "TRITON_INTERPRET": "0", "PYTHONPATH": ":".join(sys.path)}
    ran = subprocess.run([sys.executable, "-c", ON_THE_CPU], env=environment, capture_output=True, text=True)
    problem = RuntimeError(ran.stdout.strip())
    assert not_on_a_cpu(problem, "cpu") == "its Triton kernel needs a CUDA GPU, and this run measures the CPU"
    assert not_on_a_cpu(problem, "cuda") == ""
    assert not_on_a_cpu(RuntimeError("no luck"), "cpu") == ""


@pytest.mark.parametrize("when", ["loaded", "called"])
def test_a_triton_kernel_is_skipped_where_the_cpu_is_measured(monkeypatch: pytest.MonkeyPatch, when: str) -> None:
    def launching(*_: Tensor) -> Tensor:
        raise RuntimeError("0 active drivers ([]). There should only be one.")

    cells = swept(monkeypatch, {"triton": launching if when == "loaded" else lambda: launching}, operator=DOUBLING)
    assert cells["triton"].outcome == "skipped"
    assert blamed(cells) == {"triton": "its Triton kernel needs a CUDA GPU, and this run measures the CPU"}
