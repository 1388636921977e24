"""The inputs of a short-form experiment that does not make its own: normal data, a tensor for each parameter."""

import inspect
from collections.abc import Callable
from typing import Any

Shape = tuple[int, ...]
Inputs = Callable[..., tuple[Any, ...]]


def randn(shape: Shape, dtype: Any, device: str, seed: int, count: int = 1) -> tuple[Any, ...]:
    """So many tensors of normal data. Equal seeds give equal values."""
    import torch

    if device == "meta":  # only sizes are needed
        return tuple(torch.empty(shape, dtype=dtype, device=device) for _ in range(count))
    generator = torch.Generator(device).manual_seed(seed)
    return tuple(
        torch.randn(shape, dtype=torch.float32, device=device, generator=generator).to(dtype) for _ in range(count)
    )


def randn_for(reference: Callable[..., Any]) -> Inputs:
    """As many tensors as `reference` takes."""
    count = len(inspect.signature(reference).parameters)
    return lambda shape, dtype, device, seed: randn(shape, dtype, device, seed, count)
