"""Forward functions with the lab's kernels, which replace those of modules of Hugging Face's models.

Each takes the module as its first argument, like a method, and keeps no reference to any module: a copy of a patched
model uses its own weights. For a call that the kernel would compute differently, it calls the module's own forward.
"""

import inspect
from collections.abc import Callable, Mapping
from functools import wraps
from types import FunctionType
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lab.kernels.glu import geglu_erf, geglu_tanh, swiglu
from lab.kernels.rmsnorm import rmsnorm
from lab.kernels.rope import rope_qk

Forward = Callable[..., Any]
ROTATE = "apply_rotary_pos_emb"  # the function of their module that attentions call
CACHE_NAMES = ("cache", "past_key_values")  # of the argument: since transformers 5.24, and before

# PyTorch's activation → the kernel of the gated unit with this activation.
GATED: Mapping[Callable[[Tensor], Tensor], Callable[[Tensor, Tensor], Tensor]] = {
    F.silu: swiglu,
    F.gelu: geglu_erf,
    lambda g: F.gelu(g, approximate="tanh"): geglu_tanh,
}


def norm_forward(own: Forward, eps_name: str, offset: float) -> Forward:
    """The forward of an RMSNorm with a `weight`: x / sqrt(mean(x²) + eps) · (weight + offset)."""

    def forward(self: nn.Module, x: Tensor) -> Tensor:
        weight: Tensor = self.weight  # type: ignore[assignment]
        if not offset and weight.dtype != x.dtype:  # PyTorch would give the wider type of both
            return own(self, x)  # type: ignore[no-any-return]
        eps = getattr(self, eps_name)
        if offset:
            weight = weight.float() + offset  # at every call, since the weight may have changed
        # Heads before positions, as a view: rows with two different distances would be copied.
        if x.dim() == 4 and not x.is_contiguous() and x.transpose(1, 2).is_contiguous():
            return rmsnorm(x.transpose(1, 2), weight, eps).transpose(1, 2)
        return rmsnorm(x, weight, eps)

    return forward


def gated_forward(gated: Callable[[Tensor, Tensor], Tensor]) -> Forward:
    """The forward of an MLP with `gate_proj`, `up_proj` and `down_proj`, which it calls as modules."""

    def forward(self: Any, x: Tensor) -> Tensor:
        return self.down_proj(gated(self.gate_proj(x), self.up_proj(x)))  # type: ignore[no-any-return]

    return forward


def cache_name(function: Forward) -> str:
    """By which of its names a function of transformers takes the cache. ValueError if by none of them."""
    parameters = inspect.signature(function).parameters
    for name in CACHE_NAMES:
        if name in parameters:
            return name
    raise ValueError(f"{function.__qualname__} takes no argument {' or '.join(CACHE_NAMES)}")


def by_either_name(forward: Forward) -> Forward:
    """`forward`, but it takes the cache by any name: that of another version would be lost among its further arguments.
    A None by another name says nothing. TypeError where two names have a cache each."""
    name = cache_name(forward)
    others = [other for other in CACHE_NAMES if other != name]

    @wraps(forward)
    def renamed(self: nn.Module, *arguments: Any, **more: Any) -> Any:
        for other in others:
            cache = more.pop(other, None)
            if cache is not None and more.get(name) is not None:
                raise TypeError(f"{forward.__qualname__}: the cache is given twice, as {name} and as {other}")
            if cache is not None:
                more[name] = cache
        return forward(self, *arguments, **more)

    return renamed


def attention_forward(own: FunctionType) -> Forward:
    """A copy of an attention's forward, in which the rotation of queries and keys is one kernel."""
    rotate = _rotation(own.__globals__[ROTATE])
    forward = FunctionType(
        own.__code__, {**own.__globals__, ROTATE: rotate}, own.__name__, own.__defaults__, own.__closure__
    )
    if own.__kwdefaults__:  # the lab's guard of a run takes any such assignment for tampering
        forward.__kwdefaults__ = own.__kwdefaults__
    return by_either_name(forward)


def _rotation(own: Forward) -> Forward:
    def rotate(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, unsqueeze_dim: int = 1) -> tuple[Tensor, Tensor]:
        whole = cos.dim() == 3 and cos.shape[-1] == q.shape[-1] == k.shape[-1]
        if unsqueeze_dim != 1 or not whole or cos.shape[0] not in (1, q.shape[0]):
            return own(q, k, cos, sin, unsqueeze_dim)  # type: ignore[no-any-return]
        once = [_once(table, q.shape[0]) for table in (cos, sin)]
        return rope_qk(q, k, *once)

    return rotate


def _once(table: Tensor, batch: int) -> Tensor:
    """The first half of a table (1 or B, S, R) that contains each angle twice, as (S, R/2) or (B, S, R/2)."""
    half = table[..., : table.shape[-1] // 2]
    return half[0] if half.shape[0] == 1 and batch > 1 else half


def gated_kernel(activation: Callable[[Tensor], Tensor]) -> Callable[[Tensor, Tensor], Tensor] | None:
    """The gated-unit kernel for this activation, by comparing values; None for an unknown activation."""
    tried = torch.linspace(-9.0, 9.0, 513)
    output = activation(tried)
    for known, kernel in GATED.items():
        if torch.allclose(output, known(tried), rtol=1e-5, atol=1e-6):
            return kernel
    return None


def turns_half_split(rotate: Forward) -> bool:
    """Whether `rotate` computes the known half-split rotation: feature i is turned with feature i + R/2."""
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
