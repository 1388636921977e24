import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lab.kernels.glu_module import SwiGLU


class LlamaStyle(nn.Module):
    """The same layer written out, with Hugging Face's names."""

    def __init__(self, hidden_size: int, intermediate_size: int, bias: bool) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(hidden_size, intermediate_size, bias)
        self.up_proj = nn.Linear(hidden_size, intermediate_size, bias)
        self.down_proj = nn.Linear(intermediate_size, hidden_size, bias)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))
        return y


@pytest.mark.parametrize("bias", [False, True])
def test_it_takes_the_place_of_a_layer_written_out(bias: bool, device: str) -> None:
    torch.manual_seed(1)
    known = LlamaStyle(24, 50, bias).to(device)
    ours = SwiGLU(24, 50, bias, device=device)
    ours.load_state_dict(known.state_dict())
    known.load_state_dict(ours.state_dict())
    x = torch.randn(2, 3, 24, device=device)
    with torch.no_grad():
        torch.testing.assert_close(ours(x), known(x), rtol=1e-5, atol=1e-6)


def test_it_is_made_where_and_as_it_is_asked_for() -> None:
    module = SwiGLU(8, 16, device="meta", dtype=torch.bfloat16)
    assert {(p.device.type, p.dtype) for p in module.parameters()} == {("meta", torch.bfloat16)}
    assert sorted(module.state_dict()) == ["down_proj.weight", "gate_proj.weight", "up_proj.weight"]


def test_it_can_be_trained(device: str) -> None:
    module = SwiGLU(8, 16, device=device)
    module(torch.ones(1, 8, device=device)).sum().backward()
    assert all(parameter.grad is not None for parameter in module.parameters())
