"""Launches CUDA C++ kernels through a C entry, which takes a plan, pointers and PyTorch's current stream.

The plan is a C structure with sizes and strides. Python fills it once for each kind of tensors, and a call passes its
address. The entry enqueues one kernel and never waits, so a CUDA graph can capture it.
"""

import ctypes
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor
from torch.compiler import is_compiling
from triton.runtime import driver

from lab.kernels.checks import check_tensor
from lab.kernels.cuda_build import architecture, build_digest, compiler_version, library
from lab.kernels.launch import on_device_of, untraced

VECTOR_BYTES = 16  # the widest load of a thread


@dataclass(frozen=True, slots=True)
class CudaKernel:
    """A compiled kernel and how it is launched, for the record."""

    name: str  # of the function, such as 'rmsnorm_cuda'
    registers_per_thread: int
    spilled_bytes: int  # a thread
    shared_bytes: int  # a block
    threads: int  # a block
    configuration: tuple[tuple[str, str], ...]  # the fields of the launch's shape, the compiler and the architecture
    code_sha256: str  # of sources, compiler and flags, which determine the machine code


# Callbacks for every launch, like Triton's own launch hook.
launch_listeners: list[Callable[[CudaKernel], None]] = []


class _Facts(ctypes.Structure):
    _fields_ = (("registers", ctypes.c_int32), ("spilled_bytes", ctypes.c_int32), ("shared_bytes", ctypes.c_int32))


class CudaLaunch:
    """The kernel of `cuda/NAME.cu` with its plan. Call it with the tensors, then the numbers.

    plan: the structure that the source declares. spread: a dataclass that says how the work is divided; threads: of a
    block; both are for the record. like: a tensor of the dtype and device of the launch. tensors, numbers: how many
    arguments of each kind a call has. Every call must pass tensors of the shapes and strides in the plan. Raises
    RuntimeError with CUDA's message if a launch fails.
    """

    __slots__ = ("_device", "_error_text", "_kernel", "_plan", "_plan_address", "_run")

    def __init__(
        self, name: str, plan: ctypes.Structure, spread: Any, threads: int, like: Tensor, *,
        tensors: int, numbers: int = 0,
    ) -> None:  # fmt: skip
        self._device = like.get_device()
        self._plan = plan  # keeps the structure alive: the entry reads it at every call
        self._plan_address = ctypes.addressof(plan)
        with on_device_of(like):
            capability = int(driver.active.get_current_target().arch)
            loaded = library(name, like.dtype, capability)
            self._error_text = loaded.error_text
            self._error_text.restype = ctypes.c_char_p
            _check_layout(name, loaded, plan)
            facts = _Facts()
            self._check(loaded.prepare(ctypes.byref(plan), ctypes.byref(facts)), f"{name}.cu")
        arch = architecture(capability)
        configuration = {**asdict(spread), "compiler": compiler_version(), "architecture": arch}
        self._kernel = CudaKernel(
            f"{name}_cuda", facts.registers, facts.spilled_bytes, facts.shared_bytes, threads,
            tuple((key, str(value)) for key, value in configuration.items()), build_digest(name, like.dtype, arch),
        )  # fmt: skip
        self._run = _entry(loaded, tensors, numbers)

    def __call__(self, *arguments: Any) -> None:
        if is_compiling():
            untraced(self._launch, *arguments)
        else:
            self._launch(*arguments)

    def _launch(self, *arguments: Any) -> None:
        for listen in launch_listeners:
            listen(self._kernel)
        device = self._device
        if driver.active.get_current_device() != device:
            with on_device_of(arguments[0]):
                self._enqueue(arguments, device)
        else:
            self._enqueue(arguments, device)

    def _enqueue(self, arguments: tuple[Any, ...], device: int) -> None:
        passed = [argument.data_ptr() if isinstance(argument, Tensor) else argument for argument in arguments]
        error = self._run(self._plan_address, *passed, driver.active.get_current_stream(device))
        if error:
            self._check(error, self._kernel.name)

    def _check(self, error: int, what: str) -> None:
        if error:
            raise RuntimeError(f"CUDA error: {what}: {self._error_text(error).decode()} ({error})")


def _check_layout(name: str, loaded: ctypes.CDLL, plan: ctypes.Structure) -> None:
    if (there := loaded.plan_bytes()) != (here := ctypes.sizeof(plan)):
        raise TypeError(f"{name}.cu: its plan has {there} bytes; that of {type(plan).__name__} has {here}")


def _entry(loaded: ctypes.CDLL, tensors: int, numbers: int) -> Callable[..., int]:
    """The library's `run` function, with its C argument types: plan, pointers, floats, stream."""
    run = loaded.run
    run.argtypes = [ctypes.c_void_p, *[ctypes.c_void_p] * tensors, *[ctypes.c_float] * numbers, ctypes.c_void_p]
    entry: Callable[..., int] = run
    return entry


def check_on_gpu(op: str, **tensors: Tensor) -> None:
    """Raise unless every tensor is a strided one of floats on a CUDA device. CUDA C++ has no interpreter on a CPU."""
    for name, tensor in tensors.items():
        check_tensor(op, name, tensor)
        if not tensor.is_cuda:
            raise ValueError(f"{op}: {name} is on {tensor.device}; accepted is a CUDA device")


def vector_width(*tensors: Tensor, sizes: tuple[int, ...] = ()) -> int:
    """Elements of a vector: as many as 16 bytes hold if all addresses and sizes are multiples of 16 bytes, else 1.

    tensors: of one dtype. sizes: in elements, strides among them.
    """
    width = VECTOR_BYTES // tensors[0].element_size()
    aligned = all(tensor.data_ptr() % VECTOR_BYTES == 0 for tensor in tensors)
    return width if aligned and all(size % width == 0 for size in sizes) else 1


def is_float_beside(op: str, name: str, companion: Tensor, x: Tensor) -> bool:
    """Whether `companion` is float32 while `x` is not. ValueError unless it has the dtype of x or is float32."""
    if companion.dtype not in (x.dtype, torch.float32):
        accepted = f"that of x, {x.dtype}, and torch.float32"
        raise ValueError(f"{op}: {name} has dtype {companion.dtype}; accepted are {accepted}")
    return companion.dtype != x.dtype
