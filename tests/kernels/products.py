"""How near the float64 truth a matrix product has to come, whatever its size."""

from typing import Any

import pytest
import torch
from torch import Tensor

from lab.kernels import gemm_hopper_launch
from lab.kernels.changed_ptx import ChangedLaunch
from lab.kernels.multicast import SHARED_COPIES

TENSOR_FLOAT = 2.0**-9  # what a product of two numbers that are cut to 10 bits may be off by


def assert_normed_product(y: Tensor, truth: Tensor, dtype: torch.dtype) -> None:
    """Shape, dtype, and an error within one rounding of the result, and of x · w, whose errors add up like a walk to
    that of a number of size 1. Triton's interpreter cuts off where it rounds to bfloat16, always in one direction."""
    assert y.shape == truth.shape
    assert y.dtype == dtype
    assert y.is_contiguous()
    allowed = 2 * torch.finfo(dtype).eps * (truth.abs() + 1)
    worst = ((y.double() - truth).abs() / allowed).max().item() if y.numel() else 0.0
    assert worst <= 1, f"{worst:.2f} times the allowed error"


def assert_product(y: Tensor, truth: Tensor, size: float, dtype: torch.dtype) -> None:
    """Shape, dtype, and an error within that of one rounding and of the sums.

    size: of a sum, its standard deviation. float32 is multiplied as tensor float 32: each product is off by its share,
    and the errors of a sum add up like a walk, of which six standard deviations are allowed. 16-bit dtypes are
    multiplied exactly; Triton's interpreter cuts off where it rounds to bfloat16, which an epsilon allows.
    """
    assert y.shape == truth.shape
    assert y.dtype == dtype
    assert y.is_contiguous()
    exact = dtype != torch.float32
    allowed = torch.finfo(dtype).eps * truth.abs() + size * (1e-4 if exact else 6 * TENSOR_FLOAT)
    assert bool(torch.isfinite(y).all())
    worst = ((y.double() - truth).abs() / allowed).max().item() if y.numel() else 0.0
    assert worst <= 1, f"{worst:.2f} times the allowed error"


def sharing_launches(monkeypatch: pytest.MonkeyPatch) -> list[ChangedLaunch]:
    """The launches of products whose programs share tiles that are made from now on."""
    made: list[ChangedLaunch] = []

    def launch(*arguments: Any, **options: Any) -> ChangedLaunch:
        one = ChangedLaunch(*arguments, **options)
        if SHARED_COPIES in options["changes"]:
            made.append(one)
        return one

    monkeypatch.setattr(gemm_hopper_launch, "ChangedLaunch", launch)
    return made
