"""SwiGLU in CUDA C++: computes the same as `swiglu`, with `cuda/swiglu.cu`, which nvcc compiles."""

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from lab.kernels.checks import check_adjacent, check_alike
from lab.kernels.cuda_launch import CudaLaunch, check_on_gpu, vector_width
from lab.kernels.launch import Launches, as_rows, nothing, result_like


@dataclass(frozen=True, slots=True)
class GluShape:
    """vectors: of 16 bytes that a thread loads of gate and of up. threads: of a block."""

    vectors: int = 1
    threads: int = 256


UNVECTORED = GluShape(vectors=4)  # single elements


class _GluPlan(ctypes.Structure):
    """The same fields, in the same order, as `GluPlan` in cuda/swiglu.cu."""

    _fields_ = (
        ("rows", ctypes.c_int64), ("columns", ctypes.c_int64), ("gate_stride", ctypes.c_int64),
        ("up_stride", ctypes.c_int64), ("width", ctypes.c_int32), ("vectors", ctypes.c_int32),
        ("threads", ctypes.c_int32),
    )  # fmt: skip


def swiglu_cuda(gate: Tensor, up: Tensor, *, shape: GluShape | None = None) -> Tensor:
    """SiLU(gate) · up, in one launch of a CUDA C++ kernel.

    gate, up: (..., N) of one shape and dtype on a GPU, adjacent columns, any distance between rows. shape: how many
    vectors a thread takes and how many threads a block has; if None, by rule. Returns a new contiguous tensor of
    their shape and dtype. Raises as `swiglu` does, and CompilerMissing or CompilerFailed if nvcc cannot compile the
    kernel.
    """
    launch = _SWIGLU(gate, up, options=(shape,))
    y = result_like(gate)
    launch(as_rows(gate), as_rows(up), y)
    return y


def _prepare(gate: Tensor, up: Tensor, shape: GluShape | None) -> Callable[..., Any]:
    check_on_gpu("swiglu_cuda", gate=gate, up=up)
    for name, tensor in (("gate", gate), ("up", up)):
        check_adjacent("swiglu_cuda", name, tensor)
    check_alike("swiglu_cuda", "up", up, "gate", gate)
    if gate.numel() == 0:
        return nothing
    one_run = gate.is_contiguous() and up.is_contiguous()
    form = (1, gate.numel()) if one_run else (-1, gate.shape[-1])
    gates, ups = gate.reshape(form), up.reshape(form)
    M, N = gates.shape
    width = vector_width(gates, ups, sizes=() if one_run else (N, gates.stride(0), ups.stride(0)))
    chosen = (shape or GluShape()) if width > 1 else UNVECTORED
    plan = _GluPlan(
        rows=M, columns=N, gate_stride=gates.stride(0), up_stride=ups.stride(0), width=width, vectors=chosen.vectors,
        threads=chosen.threads,
    )  # fmt: skip
    return CudaLaunch("swiglu", plan, chosen, chosen.threads, gate, tensors=3)


_SWIGLU = Launches(_prepare)
