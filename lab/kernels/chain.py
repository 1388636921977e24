"""A copy that takes as long as it is told to: y = x, each element by way of n dependent multiply-adds.

x: (elements,)   y: (elements,), float16, bfloat16 or float32. Step: v ← 0.5·v + 0.5·x in float32, from v = x.
The start is the fixed point: halves are exact (for |x| above 2⁻¹²⁵ or x = 0) and add up to x again, so the
result is x whatever n is, while the time is a fixed part + n × the latency of one multiply-add. The compiler
cannot know the fixed point, and each step waits for the one before: n steps take n steps' time, also where a
multiprocessor holds more than one program. It serves to give the lab a known difference in time to find.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from lab.kernels.checks import check_tensor
from lab.kernels.traffic import Traffic

# What a call costs before its first step and after its last (launch, load, store), in steps: the time at n = 0
# by the time of one step, both from a straight line through `chain` at several n. Measured on an H100: 4.63 µs and
# 3.51 ns. On another GPU model it is to be measured anew.
OVERHEAD_STEPS = 1_320
UNROLLED_STEPS = 4  # as the compiler unrolls the loop: with whole multiples the remainder's code never runs
MOST_STEPS = 2**31 - 1
BLOCK = 128


# Specialised on the number of steps, variants would not run the same code.
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
    """The steps that lengthen a whole call of `steps` by `share` of its time, the fixed part included."""
    return UNROLLED_STEPS * round((steps + OVERHEAD_STEPS) * share / UNROLLED_STEPS)


def chain_reference(x: Tensor, steps: int) -> Tensor:
    """The float64 truth, on the device of `x`: x itself, for any number of steps."""
    return x.double()


def chain_inputs(shape: tuple[int, ...], dtype: torch.dtype, device: str, seed: int) -> tuple[Tensor, int]:
    """(x, steps) for shape (elements, steps); x of normal data."""
    elements, steps = shape
    generator = torch.Generator(device).manual_seed(seed)
    return torch.randn((elements,), dtype=dtype, device=device, generator=generator), steps


def chain_traffic(shape: tuple[int, ...], itemsize: int) -> Traffic:
    """Least work for (elements, steps): read x, write y; a product and a sum for each step of each element."""
    elements, steps = shape
    return Traffic(read_bytes=elements * itemsize, written_bytes=elements * itemsize, flops=2 * elements * steps)
