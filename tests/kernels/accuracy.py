"""How near the float64 truth a row-wise norm has to come, whatever the size."""

import torch
from torch import Tensor

ODD_COLUMNS = (1, 7, 33, 127, 128, 129, 1000, 4097)
DTYPES = (torch.float16, torch.bfloat16, torch.float32)


def assert_near(y: Tensor, truth: Tensor, x: Tensor) -> None:
    """The same shape and dtype as `x`, and within rounding of the truth.

    All arithmetic is in float32 and rounded once: half an epsilon of a 16-bit dtype, so one is allowed. In
    float32 the sum over a row brings a few roundings of its own: sixteen epsilons hold 65,536 columns.
    """
    assert y.shape == x.shape
    assert y.dtype == x.dtype
    assert y.is_contiguous()
    epsilons = 16 if x.dtype == torch.float32 else 1
    allowed = epsilons * torch.finfo(x.dtype).eps * (truth.abs() + 1)
    assert bool(torch.isfinite(y).all())
    worst = ((y.double() - truth).abs() / allowed).max().item() if y.numel() else 0.0
    assert worst <= 1, f"{worst:.2f} times the allowed error"
