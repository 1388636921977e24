"""What Triton's interpreter refuses, it refuses where it remembers what it has found out."""

import pytest
import torch
import triton
import triton.language as tl
from triton.runtime.errors import InterpreterError


@triton.jit
def _sum_kernel(y_ptr, SIDE: tl.constexpr):
    tl.store(y_ptr, tl.sum(tl.zeros([SIDE], tl.float32) + 1, 0))


@pytest.mark.skipif(torch.cuda.is_available(), reason="kernels are compiled here, not interpreted")
@pytest.mark.parametrize(("side", "refusal"), [(12, "must be a power of 2"), (16.0, "must have type")])
def test_a_side_that_no_block_may_have_is_refused_also_after_one_that_it_may_have(side: float, refusal: str) -> None:
    y = torch.zeros(1)
    for _ in range(2):
        _sum_kernel[(1,)](y, SIDE=16)
        assert y.item() == 16
        with pytest.raises(InterpreterError, match=refusal):
            _sum_kernel[(1,)](y, SIDE=side)
