"""What Triton or nvcc compiled for a profile: the kernels of one call, and the time that compiling took.

Collected during a profile's first two calls, which are not timed. Triton gives its hooks little more than a kernel's
name, so two of its methods are wrapped during these calls, and restored before anything is timed.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from lab.evidence.record import Compiled
from lab.kernels.cuda_build import compile_listeners
from lab.kernels.cuda_launch import CudaKernel, launch_listeners
from lab.worker import inductor
from lab.worker.ptx import code_digest


@dataclass(frozen=True, slots=True)
class Compilation:
    """What a profile's first call took, and the Triton and CUDA C++ kernels that each further call launches. `blind`
    says why those that Inductor generated are not among them, or not all."""

    seconds: float
    compile_seconds: float | None  # None: neither Triton nor nvcc compiled anything, or it was in a cache
    # Triton's own autotuner compiles its configurations meanwhile. None: there was nothing to choose.
    autotune_seconds: float | None
    compiled: tuple[Compiled, ...]
    blind: str = ""


def compilation_of(call: Callable[[], Any], *, again: bool, recompiles: bool = False) -> Compilation:
    """Make a profile's first call at a case, and `again`: the second launches what was chosen, and nothing on trial.

    On a CPU there is nothing to be seen a second time, for Triton's interpreter compiles no kernel. recompiles: whether
    Inductor is known to compile the profile.
    """
    compiled: list[float] = []
    tuned: list[float] = []
    expected = again and recompiles
    with _compilations(compiled), _autotuning(tuned), inductor.choosing(compiles=expected) as choice:
        began = time.perf_counter()
        call()
        seconds = time.perf_counter() - began
    kernels: list[Any] = []
    generated: tuple[Compiled, ...] = ()
    blind = ""
    if again:
        with _launches(kernels), inductor.launched() as tuners:
            call()
        generated, blind = inductor.describe(tuners, choice, compiles=expected)
    named = {each.name for each in generated}
    written = [described for kernel in dict.fromkeys(kernels) if (described := describe(kernel)).name not in named]
    return Compilation(
        seconds=round(seconds, 6),
        compile_seconds=_total(compiled),
        autotune_seconds=_total([*tuned, *([choice.seconds] if choice.seconds else [])]),
        compiled=(*written, *generated),
        blind=blind,
    )


def describe(kernel: Any) -> Compiled:
    """A CompiledKernel of Triton's that has been loaded, or a kernel of the lab's CUDA C++."""
    if isinstance(kernel, CudaKernel):
        return _describe_cuda(kernel)
    ptx = kernel.asm.get("ptx", "")
    return Compiled(
        name=str(kernel.name),
        registers_per_thread=int(kernel.n_regs),
        spills=int(kernel.n_spills),
        shared_bytes=int(kernel.metadata.shared),
        warps=int(kernel.metadata.num_warps),
        stages=int(kernel.metadata.num_stages),
        configuration=dict(_constants(kernel.src)),
        code_sha256=code_digest(ptx) if ptx else "",  # Triton can be told to keep the binary only
    )


def _describe_cuda(kernel: CudaKernel) -> Compiled:
    """A CUDA C++ kernel of the lab's; a register is four bytes."""
    return Compiled(
        name=kernel.name,
        registers_per_thread=kernel.registers_per_thread,
        spills=kernel.spilled_bytes // 4,
        shared_bytes=kernel.shared_bytes,
        warps=-(-kernel.threads // 32),
        stages=1,
        configuration=dict(kernel.configuration),
        code_sha256=kernel.code_sha256,
    )


def _constants(source: Any) -> Iterator[tuple[str, str]]:
    """Compile-time constants by the name of their parameter; Triton knows them by position."""
    names = list(source.signature)
    for path, value in source.constants.items():
        yield names[path[0]] + "".join(f"[{index}]" for index in path[1:]), str(value)


def _total(seconds: list[float]) -> float | None:
    return round(sum(seconds), 6) if seconds else None


@contextmanager
def _compilations(seconds: list[float]) -> Iterator[None]:
    """Records the compile time of each kernel that Triton or nvcc compiles."""
    from triton import knobs

    def listen(*, times: Any, cache_hit: bool, **_: Any) -> None:
        if not cache_hit:
            seconds.append(times.total * 1e-6)

    compile_listeners.append(seconds.append)
    try:
        with _replaced(knobs.compilation, "listener", lambda previous: listen):
            yield
    finally:
        compile_listeners.remove(seconds.append)


@contextmanager
def _autotuning(seconds: list[float]) -> Iterator[None]:
    """Notes how long each autotuner tries its configurations: it keeps that of the last time that it did."""
    from triton.runtime.autotuner import Autotuner

    def noting(run: Callable[..., Any]) -> Callable[..., Any]:
        def noted(tuner: Any, *arguments: Any, **named: Any) -> Any:
            before = vars(tuner).get("bench_time")
            result = run(tuner, *arguments, **named)
            if (spent := vars(tuner).get("bench_time")) is not before:
                seconds.append(float(spent))
            return result

        return noted

    with _replaced(Autotuner, "run", noting):
        yield


@contextmanager
def _launches(kernels: list[Any]) -> Iterator[None]:
    """Notes each compiled kernel launched: Triton asks it for metadata before, where someone listens, and CUDA C++
    tells its listeners."""
    from triton import knobs
    from triton.compiler import CompiledKernel

    def noting(launch_metadata: Callable[..., Any]) -> Callable[..., Any]:
        def noted(kernel: Any, *arguments: Any) -> Any:
            kernels.append(kernel)
            return launch_metadata(kernel, *arguments)

        return noted

    def listen(_: Any) -> None:
        """A kernel of the lab's passes Triton by, unless someone listens."""

    knobs.runtime.launch_enter_hook.add(listen)
    launch_listeners.append(kernels.append)
    try:
        with _replaced(CompiledKernel, "launch_metadata", noting):
            yield
    finally:
        launch_listeners.remove(kernels.append)
        knobs.runtime.launch_enter_hook.remove(listen)


@contextmanager
def _replaced(owner: Any, name: str, make: Callable[[Any], Any]) -> Iterator[None]:
    original = getattr(owner, name)
    setattr(owner, name, make(original))
    try:
        yield
    finally:
        setattr(owner, name, original)
