"""The gated MLP of a transformer's layer, as Llama, Qwen and Mistral have it, with the lab's SwiGLU in the middle.

y = W_down (SiLU(W_gate x) · W_up x). The three products are PyTorch's own; only the step between them is one kernel.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lab.kernels.checks import runs_here
from lab.kernels.glu import swiglu


class SwiGLU(nn.Module):
    """x: (..., hidden_size) to (..., hidden_size).

    Its parameters have the names of Hugging Face's LlamaMLP, so that each loads the state dict of the other, and
    `layer.mlp` of a loaded model can be replaced by it. It can be trained. Where no kernel runs, as on a CPU, it
    uses PyTorch's own operators.
    """

    def __init__(
        self, hidden_size: int, intermediate_size: int, bias: bool = False, *,
        device: torch.device | str | None = None, dtype: torch.dtype | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.gate_proj = nn.Linear(hidden_size, intermediate_size, bias, device=device, dtype=dtype)
        self.up_proj = nn.Linear(hidden_size, intermediate_size, bias, device=device, dtype=dtype)
        self.down_proj = nn.Linear(intermediate_size, hidden_size, bias, device=device, dtype=dtype)

    def forward(self, x: Tensor) -> Tensor:
        gate, up = self.gate_proj(x), self.up_proj(x)
        y: Tensor = self.down_proj(swiglu(gate, up) if runs_here(gate) else F.silu(gate) * up)
        return y
