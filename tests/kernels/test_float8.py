"""float32 to float8, as PyTorch does it: on a GPU by the hardware's instruction, in the interpreter by hand."""

import math

import pytest
import torch
import triton
import triton.language as tl
from torch import Tensor

from lab.kernels.float8 import LARGEST, SMALLEST_SCALE, magnitude_bits, scale_of, to_float8

every_dtype = pytest.mark.parametrize("dtype", LARGEST, ids=str)


@triton.jit
def _convert_kernel(x_ptr, q_ptr, BLOCK: tl.constexpr):
    lanes = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(q_ptr + lanes, to_float8(tl.load(x_ptr + lanes), q_ptr.dtype.element_ty))


@triton.jit
def _scale_kernel(x_ptr, scale_ptr, LARGEST: tl.constexpr, BLOCK: tl.constexpr):
    bits = tl.max(magnitude_bits(tl.load(x_ptr + tl.arange(0, BLOCK))), axis=0)
    tl.store(scale_ptr, scale_of(bits, LARGEST))


def converted(x: Tensor, dtype: torch.dtype) -> Tensor:
    padded = torch.cat([x, x.new_zeros(-len(x) % 1024)])
    q = torch.empty(len(padded), dtype=dtype, device=x.device)
    _convert_kernel[(len(padded) // 1024,)](padded, q, BLOCK=1024)
    return q[: len(x)].view(torch.uint8)


@every_dtype
def test_the_range_is_that_of_the_dtype(dtype: torch.dtype) -> None:
    assert LARGEST[dtype] == torch.finfo(dtype).max


@every_dtype
def test_every_float8_comes_back_as_it_was(dtype: torch.dtype, device: str) -> None:
    codes = torch.arange(256, dtype=torch.uint8, device=device)
    values = codes.view(dtype).float()
    finite = values.isfinite()
    assert torch.equal(converted(values[finite], dtype), codes[finite])


@every_dtype
def test_what_lies_between_two_goes_to_the_nearest_and_a_tie_to_even(dtype: torch.dtype, device: str) -> None:
    values = torch.arange(127, dtype=torch.uint8, device=device).view(dtype).float()
    values = values[values.isfinite()]
    middle = (values[1:] + values[:-1]) / 2
    near = torch.cat([middle, middle.nextafter(values[1:]), middle.nextafter(values[:-1])])
    near = torch.cat([near, -near])
    assert torch.equal(converted(near, dtype), near.to(dtype).view(torch.uint8))


@every_dtype
@pytest.mark.parametrize("exponent", range(-20, 16, 2))
def test_it_agrees_with_pytorch_at_every_order_of_magnitude(dtype: torch.dtype, exponent: int, device: str) -> None:
    generator = torch.Generator(device).manual_seed(exponent + 100)
    x = torch.randn(3000, device=device, generator=generator) * 2.0**exponent
    x = x.clamp(-LARGEST[dtype], LARGEST[dtype])
    assert torch.equal(converted(x, dtype), x.to(dtype).view(torch.uint8))


@every_dtype
def test_beyond_the_range_lies_its_end_and_nan_stays(dtype: torch.dtype, device: str) -> None:
    most = LARGEST[dtype]
    q = converted(torch.tensor([most * 1.01, most * 2, 3e38, -3e38, math.nan, -math.nan], device=device), dtype)
    values = q.view(dtype).float()
    assert values[:4].tolist() == [most, most, most, -most]
    assert values[4:].isnan().all()


@every_dtype
@pytest.mark.parametrize(
    ("values", "largest"),
    [
        ([1.0, -3.5, 2.0, 0.0], 3.5),
        ([0.0, -0.0, 0.0, 0.0], 0.0),
        ([1e-40, 0.0, 0.0, 0.0], 0.0),
        ([3e38, 1, 1, 1], 3e38),
    ],
)
def test_the_scale_is_the_largest_magnitude_over_the_range_and_never_too_small(
    values: list[float], largest: float, dtype: torch.dtype, device: str
) -> None:
    scale = torch.empty((), device=device)
    _scale_kernel[(1,)](torch.tensor(values, device=device), scale, LARGEST=LARGEST[dtype], BLOCK=4)
    assert scale.item() == pytest.approx(max(largest / LARGEST[dtype], SMALLEST_SCALE), rel=2e-7)
    assert math.isfinite(1 / scale.item())


@pytest.mark.parametrize("value", [math.nan, -math.nan, math.inf, -math.inf])
def test_the_scale_forgets_neither_nan_nor_infinity(value: float, device: str) -> None:
    scale = torch.empty((), device=device)
    _scale_kernel[(1,)](torch.tensor([1.0, value, 2.0, 3.0], device=device), scale, LARGEST=448.0, BLOCK=4)
    torch.testing.assert_close(scale, torch.tensor(abs(value), device=device), equal_nan=True)
