import pytest
import torch


@pytest.fixture
def device() -> str:
    """The GPU, or the CPU under Triton's interpreter."""
    return "cuda" if torch.cuda.is_available() else "cpu"
