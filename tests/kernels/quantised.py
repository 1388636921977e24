"""How near the float64 truth a quantised tensor has to come."""

import torch
from torch import Tensor

ULP = 2.0**-23  # of float32


def assert_nearest(q: Tensor, truth: Tensor, ulps: int = 4) -> None:
    """Every q is the float8 that lies nearest to its truth, or as near but for the rounding of float32."""
    codes = torch.arange(256, dtype=torch.uint8, device=q.device).view(q.dtype).double()
    values = codes[codes.isfinite()].unique()
    above = torch.searchsorted(values, truth.contiguous()).clamp(1, len(values) - 1)
    least = torch.minimum((values[above] - truth).abs(), (values[above - 1] - truth).abs())
    assert ((q.double() - truth).abs() <= least + ulps * ULP * truth.abs()).all()
