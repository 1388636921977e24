"""What stands in for the parts of Hugging Face's models: forwards with the lab's kernels in them.

Each is a function of the module first, as a method is, and holds nothing of any module: a copy of a patched model uses
its own weights. Where a call is not one that a kernel computes alike, the module's own forward answers it.
"""

from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lab.kernels.glu import geglu_erf, geglu_tanh, swiglu
from lab.kernels.rmsnorm import rmsnorm
from lab.kernels.rope import rope_qk

Forward = Callable[..., Any]
ROTATE = "apply_rotary_pos_emb"  # what the attentions call, by this name of their module

# Activation as PyTorch has it → the kernel of a gated unit with it.
GATED: Mapping[Callable[[Tensor], Tensor], Callable[[Tensor, Tensor], Tensor]] = {
    F.silu: swiglu,
    F.gelu: geglu_erf,
    lambda g: F.gelu(g, approximate="tanh"): geglu_tanh,
}


def norm_forward(own: Forward, eps_name: str, offset: float) -> Forward:
    """Of a norm with a `weight` and an epsilon of that name: x / sqrt(mean(x²) + eps) · (weight + offset)."""

    def forward(self: nn.Module, x: Tensor) -> Tensor:
        weight: Tensor = self.weight  # type: ignore[assignment]
        if not offset and weight.dtype != x.dtype:  # PyTorch would give the wider type of both
            return own(self, x)  # type: ignore[no-any-return]
        eps = getattr(self, eps_name)
        if offset:
            weight = weight.float() + offset  # at every call: nothing tells when the weight has changed
        # Heads before positions, as a view: their rows lie two ways apart, and would be copied.
        if x.dim() == 4 and not x.is_contiguous() and x.transpose(1, 2).is_contiguous():
            return rmsnorm(x.transpose(1, 2), weight, eps).transpose(1, 2)
        return rmsnorm(x, weight, eps)

    return forward


def gated_forward(gated: Callable[[Tensor, Tensor], Tensor]) -> Forward:
    """Of an MLP with `gate_proj`, `up_proj` and `down_proj`, which keep their biases, if any, and their classes."""

    def forward(self: Any, x: Tensor) -> Tensor:
        return self.down_proj(gated(self.gate_proj(x), self.up_proj(x)))  # type: ignore[no-any-return]

    return forward


def attention_forward(own: FunctionType) -> Forward:
    """The very code of an attention's forward, with the rotation of queries and keys in one kernel."""
    rotate = _rotation(own.__globals__[ROTATE])
    forward = FunctionType(
        own.__code__, {**own.__globals__, ROTATE: rotate}, own.__name__, own.__defaults__, own.__closure__
    )
    forward.__kwdefaults__ = own.__kwdefaults__
    return forward


def _rotation(own: Forward) -> Forward:
    def rotate(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, unsqueeze_dim: int = 1) -> tuple[Tensor, Tensor]:
        whole = cos.dim() == 3 and cos.shape[-1] == q.shape[-1] == k.shape[-1]
        if unsqueeze_dim != 1 or not whole or cos.shape[0] not in (1, q.shape[0]):
            return own(q, k, cos, sin, unsqueeze_dim)  # type: ignore[no-any-return]
        once = [_once(table, q.shape[0]) for table in (cos, sin)]
        return rope_qk(q, k, *once)

    return rotate


def _once(table: Tensor, batch: int) -> Tensor:
    """(S, R/2), or (B, S, R/2), of a table (1 or B, S, R) that holds each angle twice."""
    half = table[..., : table.shape[-1] // 2]
    return half[0] if half.shape[0] == 1 and batch > 1 else half


def gated_kernel(activation: Callable[[Tensor], Tensor]) -> Callable[[Tensor, Tensor], Tensor] | None:
    """The kernel of a gated unit with this activation, found by trying it; None where it is none that is known."""
    tried = torch.linspace(-9.0, 9.0, 513)
    output = activation(tried)
    for known, kernel in GATED.items():
        if torch.allclose(output, known(tried), rtol=1e-5, atol=1e-6):
            return kernel
    return None


def turns_half_split(rotate: Forward) -> bool:
    """Whether `apply_rotary_pos_emb` is the one that is known: feature i is turned with feature i + R/2."""
    generator = torch.Generator().manual_seed(1)
    q, k = (torch.randn(2, heads, 5, 8, generator=generator) for heads in (3, 1))
    cos, sin = (torch.randn(2, 5, 4, generator=generator) for _ in range(2))
    rotated = rotate(q, k, torch.cat((cos, cos), -1), torch.cat((sin, sin), -1))
    for x, y in zip((q, k), rotated, strict=True):
        a, b = x.chunk(2, -1)
        c, s = cos[:, None], sin[:, None]
        if not torch.allclose(y, torch.cat((a * c - b * s, b * c + a * s), -1), rtol=1e-5, atol=1e-6):
            return False
    return True
