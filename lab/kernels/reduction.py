"""The sum of all elements of a tensor, y = Σ x. Reading x limits it.

x: any shape, float16, bfloat16 or float32   y: (), float32; all arithmetic in float32. Each program takes every
PROGRAMS-th tile and keeps one sum a lane, which it adds up at the end. There are two strategies to add up the sums of
the programs:

- "tree": each program writes its sum, and a second launch adds them up. The order depends only on the number of
  elements and the configuration, so the same values give the same bits.
- "atomic": the result is set to zero, and each program adds its sum to it atomically. The order is that in which
  programs end, so the same values may give sums that differ in the last bits.
"""

import math
from collections.abc import Callable, Iterator

import torch
import triton
import triton.language as tl
from torch import Tensor

from lab.kernels.checks import check_tensor
from lab.kernels.launch import Configuration, Launch, Launches
from lab.kernels.traffic import Traffic
from lab.kernels.tuned import Tuning, by_elements

STRATEGIES = ("tree", "atomic")
PROGRAMS = 528  # four on each of the 132 multiprocessors of an H100 or H200


@triton.jit
def _reduction_kernel(x_ptr, y_ptr, elements, BLOCK: tl.constexpr, ATOMIC: tl.constexpr):
    """A program takes tiles of BLOCK elements, BLOCK · (number of programs) elements apart."""
    program = tl.program_id(0).to(tl.int64)
    stride = tl.num_programs(0).to(tl.int64) * BLOCK
    lanes = tl.arange(0, BLOCK)
    x_ptr += program * BLOCK
    sums = tl.zeros((BLOCK,), tl.float32)
    rounds = elements // stride  # without masks, which would make every load narrower
    for _ in range(rounds):
        sums += tl.load(x_ptr + lanes, eviction_policy="evict_first").to(tl.float32)
        x_ptr += stride
    left = elements - rounds * stride - program * BLOCK
    sums += tl.load(x_ptr + lanes, mask=lanes < left, other=0.0, eviction_policy="evict_first").to(tl.float32)
    if ATOMIC:
        tl.atomic_add(y_ptr, tl.sum(sums, axis=0), sem="relaxed")
    else:
        tl.store(y_ptr + program, tl.sum(sums, axis=0))


def reduction(x: Tensor, *, strategy: str = "tree", configuration: Configuration | None = None) -> Tensor:
    """The sum of all elements of `x`, in two launches: two kernels for "tree", a fill with zero and one for "atomic".

    x: any shape. If its elements are in memory without gaps, in any order, they are read there; else a contiguous copy
    is made first. strategy: "tree", which always gives the same bits, or "atomic", which may not. configuration: how to
    launch, one of `reduction_choices`; by default as tuned here, else by rule. Returns a new float32 tensor of shape
    (), on the device of `x`; no elements sum to 0. Raises TypeError or ValueError naming the argument, what it was and
    what is accepted, and NotImplementedError where a gradient would be needed.
    """
    run: Callable[[Tensor], Tensor] = _LAUNCHES(x, options=(strategy, configuration))
    return run(x)


def _prepare(x: Tensor, strategy: str, configuration: Configuration | None) -> Callable[[Tensor], Tensor]:
    check_tensor("reduction", "x", x)
    if strategy not in STRATEGIES:
        raise ValueError(f"reduction: strategy is {strategy!r}; accepted are {' and '.join(map(repr, STRATEGIES))}")
    if x.numel() == 0:
        return lambda x: torch.zeros((), dtype=torch.float32, device=x.device)
    chosen = configuration or REDUCTION_TUNING.choose(x.shape, x)
    programs = min(chosen["PROGRAMS"], triton.cdiv(x.numel(), chosen["BLOCK"]))
    dense = _is_dense(x)
    if strategy == "atomic":
        return _by_atomics(_launch(x.numel(), programs, x.get_device(), chosen, ATOMIC=True), dense)
    spread = _launch(x.numel(), programs, x.get_device(), chosen, ATOMIC=False)
    block = min(4096, triton.next_power_of_2(programs))
    join = Configuration.of(BLOCK=block, num_warps=max(1, min(8, block // 256)))
    return _by_tree(spread, programs, _launch(programs, 1, x.get_device(), join, ATOMIC=False), dense)


_LAUNCHES = Launches(_prepare)


def _launch(elements: int, programs: int, device: int, chosen: Configuration, *, ATOMIC: bool) -> Launch:
    return Launch(
        _reduction_kernel, programs, device, elements,
        num_warps=chosen.num_warps, num_stages=chosen.num_stages, BLOCK=chosen["BLOCK"], ATOMIC=ATOMIC,
    )  # fmt: skip


def _by_atomics(launch: Launch, dense: bool) -> Callable[[Tensor], Tensor]:
    def run(x: Tensor) -> Tensor:
        y = torch.zeros((), dtype=torch.float32, device=x.device)
        launch(x if dense else x.contiguous(), y)
        return y

    return run


def _by_tree(spread: Launch, programs: int, join: Launch, dense: bool) -> Callable[[Tensor], Tensor]:
    def run(x: Tensor) -> Tensor:
        y = torch.empty((), dtype=torch.float32, device=x.device)
        sums = torch.empty(programs, dtype=torch.float32, device=x.device) if programs > 1 else y
        spread(x if dense else x.contiguous(), sums)
        if programs > 1:
            join(sums, y)
        return y

    return run


def _is_dense(x: Tensor) -> bool:
    """Whether the elements are in memory without gaps and without overlap, in any order."""
    expected = 1
    for stride, size in sorted((stride, size) for size, stride in zip(x.shape, x.stride(), strict=True) if size > 1):
        if stride != expected:
            return False
        expected *= size
    return True


def reduction_rule(shape: tuple[int, ...], itemsize: int) -> Configuration:
    """BLOCK elements of a tile, the most PROGRAMS, and warps: four loads of 16 bytes a thread in flight."""
    return Configuration.of(BLOCK=16_384 // itemsize, PROGRAMS=PROGRAMS, num_warps=8)


def reduction_choices(shape: tuple[int, ...], itemsize: int) -> Iterator[Configuration]:
    """The configurations that a search may try: 1 to 16 loads of 16 bytes a thread; programs for one wave, and more."""
    for block_bytes in (4096, 8192, 16_384, 32_768, 65_536):
        for num_warps in (4, 8, 16):
            for programs in (PROGRAMS // 2, PROGRAMS, 2 * PROGRAMS, 4 * PROGRAMS, 16 * PROGRAMS):
                if 1 <= block_bytes // (16 * 32 * num_warps) <= 16:
                    yield Configuration.of(BLOCK=block_bytes // itemsize, PROGRAMS=programs, num_warps=num_warps)


REDUCTION_TUNING = Tuning("reduction", __name__, reduction_rule, reduction_choices, by_elements, form="")


def reduction_reference(x: Tensor) -> Tensor:
    """The float64 result, on the device of `x`."""
    return x.double().sum()


def reduction_inputs(shape: tuple[int, ...], dtype: torch.dtype, device: str, seed: int) -> tuple[Tensor]:
    """(x,) of normal data."""
    generator = torch.Generator(device).manual_seed(seed)
    return (torch.randn(shape, dtype=dtype, device=device, generator=generator),)


def reduction_traffic(shape: tuple[int, ...], itemsize: int) -> Traffic:
    """Least work: read each element once, write one float32; an addition an element."""
    elements = math.prod(shape)
    return Traffic(read_bytes=elements * itemsize, written_bytes=4, flops=elements)
