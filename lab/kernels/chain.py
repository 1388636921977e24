"""A copy that takes an adjustable time: y = x, with n dependent multiply-adds for each element.

x: (elements,)   y: (elements,), float16, bfloat16 or float32. Step: v ← 0.5·v + 0.5·x in float32, from v = x.
v = x is the fixed point of the step: halving is exact (for |x| above 2⁻¹²⁵ or x = 0) and the halves add up to x. So the
result is x for every n, while the time is a fixed part + n × the latency of one multiply-add. The compiler does not
know the fixed point, and each step waits for the one before: n steps take the time of n steps, even if a multiprocessor
runs several programs. The lab tests itself with it: does it find a difference in time that is known?
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from lab.kernels.checks import check_tensor
from lab.kernels.traffic import Traffic

# The fixed part of a call (launch, load, store) in steps: the time at n = 0 divided by the time of one step, both from
# a straight line through `chain` at several n. Measured on an H100: 4.63 µs and 3.51 ns. Measure it again on another
# GPU model.
OVERHEAD_STEPS = 1_320
UNROLLED_STEPS = 4  # the compiler unrolls the loop by 4; for multiples of it the remainder loop never runs
MOST_STEPS = 2**31 - 1
BLOCK = 128


# Without specialisation on the number of steps, so that all numbers of steps run the same code.
@triton.jit(do_not_specialize=["steps"])
def _chain_kernel(x_ptr, y_ptr, elements, steps, BLOCK: tl.constexpr):
    """One element a thread."""
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < elements
    x = tl.load(x_ptr + offsets, mask=inside, other=0.0).to(tl.float32)
    half = 0.5 * x
    value = x
    for _ in range(steps):
        value = tl.fma(value, 0.5, half)
    tl.store(y_ptr + offsets, value.to(y_ptr.dtype.element_ty), mask=inside)


def chain(x: Tensor, steps: int) -> Tensor:
    """A copy of `x`, in one kernel launch that takes `steps` dependent steps.

    x: (elements,), contiguous. Returns a new tensor of its shape and dtype; no elements give an empty result.
    Raises TypeError or ValueError naming the argument, what it was and what is accepted, and
    NotImplementedError where a gradient would be needed.
    """
    check_tensor("chain", "x", x)
    if x.dim() != 1 or not x.is_contiguous():
        raise ValueError(f"chain: x has shape {tuple(x.shape)}; accepted is (elements,), contiguous")
    if not 0 <= steps <= MOST_STEPS:
        raise ValueError(f"chain: steps is {steps}; accepted are 0 to {MOST_STEPS}")
    y = torch.empty_like(x)
    if len(x):
        _chain_kernel[(triton.cdiv(len(x), BLOCK),)](x, y, len(x), steps, BLOCK=BLOCK, num_warps=BLOCK // 32)
    return y


def extra_steps(steps: int, share: float) -> int:
    """How many more steps lengthen a call of `steps` by `share` of its whole time, fixed part included."""
    return UNROLLED_STEPS * round((steps + OVERHEAD_STEPS) * share / UNROLLED_STEPS)


def chain_reference(x: Tensor, steps: int) -> Tensor:
    """The float64 result, on the device of `x`: x itself, for any number of steps."""
    return x.double()


def chain_inputs(shape: tuple[int, ...], dtype: torch.dtype, device: str, seed: int) -> tuple[Tensor, int]:
    """(x, steps) for shape (elements, steps); x of normal data."""
    elements, steps = shape
    generator = torch.Generator(device).manual_seed(seed)
    return torch.randn((elements,), dtype=dtype, device=device, generator=generator), steps


def chain_traffic(shape: tuple[int, ...], itemsize: int) -> Traffic:
    """Least work for (elements, steps): read x, write y; one product and one sum for each step of each element."""
    elements, steps = shape
    return Traffic(read_bytes=elements * itemsize, written_bytes=elements * itemsize, flops=2 * elements * steps)
