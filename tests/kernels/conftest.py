import pytest
import torch

from tests.quick_interpreter import make_quick


@pytest.fixture
def device() -> str:
    """The GPU, or the CPU under Triton's interpreter."""
    return "cuda" if torch.cuda.is_available() else "cpu"


make_quick(pytest.importorskip("triton.runtime.interpreter"))
