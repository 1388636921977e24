import pytest
import torch

from lab.kernels import gemm_hopper_launch
from tests.quick_interpreter import make_quick


@pytest.fixture
def device() -> str:
    """The GPU, or the CPU under Triton's interpreter."""
    return "cuda" if torch.cuda.is_available() else "cpu"


@pytest.fixture
def few_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A product of a few dozen tiles has six programs: each computes several, some of them one more than others."""
    monkeypatch.setattr(gemm_hopper_launch, "multiprocessors", lambda device: 6)


make_quick(pytest.importorskip("triton.runtime.interpreter"))
