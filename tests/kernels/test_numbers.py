"""A number is passed to a kernel as a float, whatever it comes as.

Triton compiles some integers in as constants, and what was launched once is launched again without asking: with an eps
of 1 the next one would not be looked at.
"""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from lab.kernels.add_rmsnorm import add_rmsnorm, add_rmsnorm_inputs, add_rmsnorm_reference
from lab.kernels.launch import Launch
from lab.kernels.layernorm import layernorm, layernorm_inputs, layernorm_reference
from lab.kernels.rmsnorm import rmsnorm, rmsnorm_inputs, rmsnorm_reference
from lab.kernels.rmsnorm_fp8 import rmsnorm_fp8, rmsnorm_fp8_inputs
from lab.kernels.rmsnorm_rope import (
    qk_norm_rope,
    qk_norm_rope_inputs,
    qk_norm_rope_reference,
    rmsnorm_rope,
    rmsnorm_rope_inputs,
    rmsnorm_rope_reference,
)
from lab.kernels.scale import scale, scale_inputs, scale_reference

ROWS, HEADS, BOTH = (3, 48), (1, 5, 3, 16), (1, 4, 2, 5, 16)
Call = Callable[..., Any]
# (entry, its tensors, the truth)
ENTRIES = [
    pytest.param(rmsnorm, rmsnorm_inputs, ROWS, rmsnorm_reference, id="rmsnorm"),
    pytest.param(layernorm, layernorm_inputs, ROWS, layernorm_reference, id="layernorm"),
    pytest.param(add_rmsnorm, add_rmsnorm_inputs, ROWS, add_rmsnorm_reference, id="add_rmsnorm"),
    pytest.param(rmsnorm_fp8, rmsnorm_fp8_inputs, ROWS, rmsnorm_reference, id="rmsnorm_fp8"),
    pytest.param(rmsnorm_rope, rmsnorm_rope_inputs, HEADS, rmsnorm_rope_reference, id="rmsnorm_rope"),
    pytest.param(qk_norm_rope, qk_norm_rope_inputs, BOTH, qk_norm_rope_reference, id="qk_norm_rope"),
    pytest.param(
        scale, lambda *how: scale_inputs(*how)[:1], ROWS, lambda x, factor: scale_reference(x, factor), id="scale"
    ),
]


@pytest.mark.parametrize(("entry", "inputs", "shape", "reference"), ENTRIES)
def test_an_integer_is_passed_as_a_float_and_the_next_number_is_used(
    entry: Call, inputs: Call, shape: tuple[int, ...], reference: Call, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    passed: list[Any] = []
    original = Launch.__call__

    def noting(self: Launch, *arguments: Any) -> None:
        passed.extend(argument for argument in arguments if not isinstance(argument, Tensor))
        original(self, *arguments)

    monkeypatch.setattr(Launch, "__call__", noting)
    tensors = inputs(shape, torch.float32, device, 1)
    for number in (1, 4, 0.5):
        actual, truth = entry(*tensors, number), reference(*tensors, number)
        if entry is rmsnorm_fp8:
            q, step = actual
            assert ((q.float() * step - truth).abs() <= 2**-4 * truth.abs() + step).all()
        else:
            torch.testing.assert_close(actual, truth, atol=1e-5, rtol=1e-5, check_dtype=False)
    assert [(type(number), number) for number in passed] == [(float, 1.0), (float, 4.0), (float, 0.5)]
