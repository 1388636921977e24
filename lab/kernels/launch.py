"""Launches kernels. How to launch is decided once for each kind of tensors and then kept, so that a call costs little.

Triton examines every argument at every launch, and the checks of an entry point add to that: together about as long as
a small kernel runs. The outcome is the same for tensors of the same shapes, strides, dtypes and alignment. So an
operator prepares its launch once for each such combination, and later calls only pass pointers.

Cache hints, tried on an H100 over all kernels. `evict_first` on loads costs 2 to 3 % in kernels that read everything
once and write as much, so they use plain loads. It gains if other data should stay in the cache: what a wide row reads
a second time (7 %), or float8 results, half the size of the input (3 to 5 % of a single call; a graph loses 1 %).
Streaming stores (`.cs`) gain up to 3 % for wide rows that are read twice; with plain loads elsewhere they change
nothing.
"""

import ctypes
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor
from torch._compile import _disable_dynamo
from torch.autograd import forward_ad
from torch.compiler import is_compiling
from triton.knobs import runtime
from triton.runtime import driver

from lab.kernels.checks import GradientNeeded
from lab.kernels.early import NEXT_BEGINS_AT_END, NEXT_BEGINS_EARLY

SPARE_ROOM = 1.1  # times a grid: from here on the blocks of the next are spread unevenly, until there is room for two
SCRATCH_BYTES = 1024  # of shared memory, besides a pipeline's tiles
MOST_KEPT = 1024  # launches that an operator keeps; with more, it drops them all and prepares them again when needed


@dataclass(frozen=True, slots=True)
class Configuration:
    """The tunable part of a launch: compile-time constants by name, warps, and stages of the software pipeline."""

    constants: tuple[tuple[str, int], ...]
    num_warps: int
    num_stages: int = 3

    @classmethod
    def of(cls, *, num_warps: int, num_stages: int = 3, **constants: int) -> "Configuration":
        return cls(tuple(constants.items()), num_warps, num_stages)

    def __getitem__(self, name: str) -> int:
        return dict(self.constants)[name]


class Launch:
    """A kernel with its grid, its last arguments and its constants. Call it with the arguments before those.

    device: the GPU's index, -1 for the CPU. settled: the arguments that depend only on the tensors' shapes and strides.
    constants: the compile-time ones, which come last in the kernel's signature, in its order. All calls must pass
    arguments that Triton specialises in the same way: tensors of the same dtypes and alignment on the same device, and
    floats where the first call passed floats. early: it may begin while the kernel before it on the stream still runs,
    if the GPU can do that, because the kernel calls `wait_for_previous` (see early.py); the first call may then compile
    it twice. registers: of a thread, at most; 0 leaves that to Triton. cluster: how many thread blocks a program of the
    grid is, which run on neighbouring multiprocessors.
    """

    __slots__ = (
        "_blocks", "_compiled", "_constants", "_device", "_grid", "_kernel", "_options", "_run", "_settled", "_tail",
    )  # fmt: skip

    def __init__(
        self, kernel: Any, programs: int, device: int, *settled: int,
        num_warps: int, num_stages: int = 3, registers: int = 0, early: bool = False, cluster: int = 1,
        **constants: Any,
    ) -> None:  # fmt: skip
        if (last := kernel.arg_names[-len(constants) :]) != list(constants):
            raise TypeError(f"the last parameters of {kernel} are {last}; the constants given are {list(constants)}")
        self._kernel = kernel
        self._grid = (programs, 1, 1)
        self._blocks = programs * cluster
        self._device = device
        self._settled = settled
        self._constants = constants
        self._options = {"num_warps": num_warps, "num_stages": num_stages}
        if registers:
            self._options["maxnreg"] = registers
        if early and starts_early(device):
            self._options["launch_pdl"] = NEXT_BEGINS_EARLY
        if cluster > 1:
            self._options["num_ctas"] = cluster
        self._tail = (*settled, *constants.values())
        self._run: Callable[..., Any] | None = None  # the launcher of the compiled kernel, after the first call
        self._compiled: tuple[Any, ...] = ()

    def __call__(self, *arguments: Any) -> None:
        self._launch(*arguments)

    def _launch(self, *arguments: Any) -> None:
        # If Triton has launch hooks, launch through Triton, so that they are called.
        if self._run is None or runtime.launch_enter_hook.calls or torch.cuda.current_device() != self._device:
            self._launch_by_triton(arguments)
        else:
            stream = driver.active.get_current_stream(self._device)
            self._run(*self._grid, stream, *self._compiled, None, None, None, *arguments, *self._tail)

    def _launch_by_triton(self, arguments: tuple[Any, ...]) -> None:
        arguments = (*arguments, *self._settled)
        if self._device < 0:  # on the CPU, by the interpreter
            self._kernel[self._grid](*arguments, **self._constants, **self._options)
            return
        with torch.cuda.device(self._device):
            if self._run is None and "launch_pdl" in self._options:
                self._options["launch_pdl"] = self._choose_when_next_begins(arguments)
            compiled = self._kernel[self._grid](*arguments, **self._constants, **self._options)
        self._compiled = (compiled.function, compiled.packed_metadata)
        self._run = compiled.run  # assigned last, because other threads then use both

    def _choose_when_next_begins(self, arguments: tuple[Any, ...]) -> int:
        """The value of launch_pdl. It may compile the kernel for that, and does not run it."""
        processors = multiprocessors(self._device)
        if self._blocks <= processors:  # some may be idle: 64 rows times a weight took 3.5 % longer otherwise
            return NEXT_BEGINS_EARLY
        options = {**self._options, "launch_pdl": NEXT_BEGINS_EARLY}
        compiled = self._kernel.warmup(*arguments, grid=self._grid, **self._constants, **options)
        compiled._init_handles()  # loads it, as its first launch would: only then its registers are known
        resident = blocks_per_multiprocessor(compiled.metadata.num_warps, compiled.n_regs, compiled.metadata.shared)
        return when_next_begins(self._blocks, resident * processors)


def when_next_begins(blocks: int, at_once: int) -> int:
    """The value of launch_pdl for a grid of so many thread blocks, of which the GPU runs `at_once` together."""
    return NEXT_BEGINS_AT_END if blocks * SPARE_ROOM < at_once < 2 * blocks else NEXT_BEGINS_EARLY


def blocks_per_multiprocessor(warps: int, registers: int, shared_bytes: int) -> int:
    """How many thread blocks of so many warps, with so many registers for a thread, a Hopper's multiprocessor runs
    together (CUDA C++ Programming Guide, "Compute Capabilities"; registers are given out by 256 for a warp)."""
    of_a_warp = -(-registers // 8) * 256
    return min(32, 64 // warps, 65_536 // (of_a_warp * warps), 233_472 // (shared_bytes + 1024))


class Launches:
    """The results of `prepare(*tensors, *options)`, by the tensors' shapes, strides, dtypes, devices and alignment.

    prepare checks the arguments, raises an error if they are not accepted, and returns the launch. It must not depend
    on the tensors' values.
    """

    __slots__ = ("_known", "_prepare", "_refused")

    def __init__(self, prepare: Callable[..., Any]) -> None:
        self._prepare = prepare
        self._known: dict[Any, Any] = {}
        self._refused: dict[Any, str] = {}  # calls that need a gradient, which an operator may answer in another way

    def __call__(self, *tensors: Tensor, options: tuple[Any, ...] = ()) -> Any:
        if is_compiling():
            return _opaque(untraced(self._of, tensors, options))
        return self._of(tensors, options)

    def _of(self, tensors: tuple[Tensor, ...], options: tuple[Any, ...]) -> Any:
        if forward_ad._current_level >= 0:  # prepare refuses tangents, which are not part of the key
            return self._prepare(*tensors, *options)
        try:
            key = (options, torch.is_grad_enabled(), *[_key(tensor) for tensor in tensors])
            known = self._known.get(key)
        except (AttributeError, TypeError):  # not a tensor, or an unhashable option: prepare raises the error for it
            return self._prepare(*tensors, *options)
        except RuntimeError:  # a tensor without strides or memory: prepare raises its own error, else PyTorch's stays
            self._prepare(*tensors, *options)
            raise
        if known is None:
            if key in self._refused:
                raise GradientNeeded(self._refused[key])
            try:
                known = self._prepare(*tensors, *options)
            except GradientNeeded as needed:
                _keep(self._refused, key, str(needed))
                raise
            _keep(self._known, key, known)
        return known


def _keep(known: dict[Any, Any], key: Any, value: Any) -> None:
    if len(known) >= MOST_KEPT:
        known.clear()
    known[key] = value


def _key(tensor: Tensor) -> tuple[Any, ...]:
    """What a launch depends on. 16 bytes is the alignment for which Triton specialises."""
    return (
        tensor.shape, tensor.stride(), tensor.dtype, tensor.get_device(), tensor.data_ptr() % 16, tensor.requires_grad
    )  # fmt: skip


def _opaque(settled: Any) -> Any:
    """`settled` with every launch in it called untraced, as torch.compile needs it."""
    if isinstance(settled, tuple):
        return tuple(map(_opaque, settled))
    return partial(untraced, settled) if callable(settled) else settled


@_disable_dynamo  # torch.compiler.disable, without an import that would double the lab's start
def untraced(call: Callable[..., Any], *arguments: Any) -> Any:
    """Call without tracing, or torch.compile would trace into Triton, and keep a launch that fits one key only."""
    return call(*arguments)


@cache
def gpu_of(index: int) -> str:
    """The GPU with this index as tuned launches name it: its model and its number of multiprocessors."""
    if index < 0:
        return "interpreter"
    properties = torch.cuda.get_device_properties(index)
    return gpu_name(properties.name, properties.multi_processor_count)


def gpu_name(model: str, multiprocessors: int) -> str:
    """'NVIDIA H100 80GB HBM3, 132 multiprocessors'."""
    return f"{model}, {multiprocessors} multiprocessors"


def nothing(*_: Any) -> None:
    """The launch of an operator on no elements: does nothing, since a grid without programs would be an error."""


def as_rows(x: Tensor) -> Tensor:
    """`x` as (M, N): itself or a view if its strides allow one, else a contiguous copy."""
    return x if x.dim() == 2 or x.is_contiguous() else x.reshape(-1, x.shape[-1])


def result_like(x: Tensor) -> Tensor:
    """A new contiguous tensor of the shape, dtype and device of `x`."""
    return torch.empty_like(x) if x.is_contiguous() else torch.empty(x.shape, dtype=x.dtype, device=x.device)


def on_device_of(x: Tensor) -> AbstractContextManager[Any]:
    """A context in which the GPU of `x` is the current one, on which Triton launches."""
    return torch.cuda.device_of(x)


def multiprocessors(device: int) -> int:
    """The number of multiprocessors of the GPU with this index; 1 for the CPU, index -1."""
    return torch.cuda.get_device_properties(device).multi_processor_count if device >= 0 else 1


def starts_early(device: int) -> bool:
    """Whether kernels on the GPU with this index may begin before the one before them has finished, also in a graph: on
    a Hopper, on which it was tried, with a driver for CUDA 12.3 or newer, whose graphs have such edges. On GPUs of
    compute capability 12.0 captures have failed (github.com/sgl-project/sglang/pull/18596)."""
    return capability(device)[0] == 9 and _driver_version() >= 12_030


@cache
def _driver_version() -> int:
    """The newest CUDA that the driver knows, 12_030 for 12.3."""
    version = ctypes.c_int()
    ctypes.CDLL("libcuda.so.1").cuDriverGetVersion(ctypes.byref(version))
    return version.value


@cache
def shared_memory(device: int) -> int:
    """The bytes of shared memory that one program may have on the GPU with this index; 0 for the CPU, index -1."""
    if device < 0:
        return 0
    most: int = driver.active.utils.get_device_properties(device)["max_shared_mem"]
    return most


def stages_that_fit(stages: int, step_bytes: int, device: int) -> int:
    """`stages` of a software pipeline, or as many as fit into the shared memory of a program on the GPU with this
    index, if each holds `step_bytes`; at least one."""
    return max(1, min(stages, (shared_memory(device) - SCRATCH_BYTES) // step_bytes))


@cache
def capability(device: int) -> tuple[int, int]:
    """The compute capability of the GPU with this index, (9, 0) for a Hopper; (0, 0) for the CPU, index -1."""
    return torch.cuda.get_device_capability(device) if device >= 0 else (0, 0)
