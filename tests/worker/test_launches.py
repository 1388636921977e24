"""What Triton's interpreter runs is no evidence of a compiled kernel."""

import pytest
import torch
import triton
import triton.language as tl
from factory import DOUBLING
from sweeps import blamed, swept
from torch import Tensor

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
    with interpreted() as runs:
        double_by_triton(torch.ones(8))
    assert len(runs) == 1
    with interpreted() as runs:
        torch.ones(8).mul(2)
    assert runs == []


def test_times_of_interpreted_kernels_are_refused_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    cells = swept(monkeypatch, {"interpreted": lambda: double_by_triton}, operator=DOUBLING)
    assert cells["interpreted"].outcome == "skipped"
    assert cells["interpreted"].timings == ()
    (reason,) = blamed(cells).values()
    assert "TRITON_INTERPRET=1" in reason
    assert "unset TRITON_INTERPRET" in reason
