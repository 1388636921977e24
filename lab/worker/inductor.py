"""What Inductor made of a profile: the kernels that its own launcher launches, and how it chose among its candidates.

Triton's hooks do not see these launches. Three names of torch's are relied upon, which torch may change: the class
CachingAutotuner, whose method `run` launches a kernel and whose method `bench` times one configuration. Where they are
not there, the record says so.
"""

import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import torch

from lab.evidence.record import Compiled
from lab.worker.ptx import code_digest

ROOM = "torch._inductor.runtime.triton_heuristics"
GENERATOR = "inductor"


def import_compiler() -> None:
    """Import what the first compilation needs, which takes two seconds: better while another process measures."""
    for name in ("torch._dynamo", "torch._inductor.compile_fx"):
        import_module(name)


@dataclass(slots=True)
class Choosing:
    """Seconds that each configuration of a kernel took to be timed, those that were refused left out; by autotuner."""

    timed: dict[int, list[float]] = field(default_factory=dict)
    seconds: float = 0.0

    def note(self, tuner: Any, result: Any, seconds: float) -> None:
        self.seconds += seconds
        if isinstance(result, float) and math.isfinite(result):
            self.timed.setdefault(id(tuner), []).append(seconds)


@contextmanager
def choosing(*, compiles: bool) -> Iterator[Choosing]:
    """Notes what Inductor's autotuners time inside the block. compiles: whether the profile is known to use Inductor;
    of others it is noted only where something has loaded it, which takes seconds."""
    choice = Choosing()
    tuner = _tuner(load=compiles)
    with _wrapped(tuner, "bench", lambda bench: _noting_bench(bench, choice)):
        yield choice


@contextmanager
def launched() -> Iterator[list[Any]]:
    """The autotuners whose kernels are launched inside the block, in order."""
    tuners: list[Any] = []
    with _wrapped(_tuner(load=False), "run", lambda run: _noting_run(run, tuners)):
        yield tuners


def describe(tuners: list[Any], choice: Choosing, *, compiles: bool) -> tuple[tuple[Compiled, ...], str]:
    """The kernels launched, and why one or all of them are not on record. compiles: whether there should be some."""
    kernels: list[Compiled] = []
    blind = "" if tuners or not compiles else _why_none()
    for tuner in {id(tuner): tuner for tuner in tuners}.values():
        try:
            kernels.append(_described(tuner, choice))
        except (AttributeError, TypeError, ValueError, OSError) as change:
            blind = f"torch {torch.__version__} keeps a kernel otherwise: {type(change).__name__}"
    return tuple(kernels), blind


def _described(tuner: Any, choice: Choosing) -> Compiled:
    (launcher,) = tuner.launchers
    name = str(tuner.fn.__name__)
    timed = choice.timed.get(id(tuner))
    ptx = _ptx(str(launcher.cache_hash), name)
    return Compiled(
        name=name,
        registers_per_thread=int(launcher.n_regs),
        spills=int(launcher.n_spills),
        shared_bytes=int(launcher.shared),
        warps=int(launcher.config.num_warps),
        stages=int(launcher.config.num_stages),
        configuration={key: str(value) for key, value in launcher.config.kwargs.items()},
        code_sha256=code_digest(ptx) if ptx else "",
        generator=GENERATOR,
        candidates=len(timed) if timed else None,
        autotune_seconds=round(sum(timed), 6) if timed else None,
    )


def _ptx(key: str, name: str) -> str:
    """The code as Triton keeps it; nothing where it does not."""
    path = Path(import_module("triton").knobs.cache.dir) / key / f"{name}.ptx"
    return path.read_text(encoding="utf-8") if path.is_file() else ""


def _why_none() -> str:
    if _tuner(load=False) is None:
        return f"torch {torch.__version__} has no CachingAutotuner with run and bench"
    return "no kernel was seen to be launched by Inductor"


def _tuner(*, load: bool) -> Any:
    """Inductor's class, or None where it is not loaded or not as it was."""
    try:
        room = import_module(ROOM) if load else sys.modules.get(ROOM)
    except ImportError:
        return None
    tuner = getattr(room, "CachingAutotuner", None)
    return tuner if callable(getattr(tuner, "run", None)) and callable(getattr(tuner, "bench", None)) else None


def _noting_bench(bench: Callable[..., Any], choice: Choosing) -> Callable[..., Any]:
    def noted(tuner: Any, *arguments: Any, **named: Any) -> Any:
        began = time.perf_counter()
        result = bench(tuner, *arguments, **named)
        choice.note(tuner, result, time.perf_counter() - began)
        return result

    return noted


def _noting_run(run: Callable[..., Any], tuners: list[Any]) -> Callable[..., Any]:
    def noted(tuner: Any, *arguments: Any, **named: Any) -> Any:
        tuners.append(tuner)
        return run(tuner, *arguments, **named)

    return noted


@contextmanager
def _wrapped(owner: Any, name: str, make: Callable[[Any], Any]) -> Iterator[None]:
    """A method replaced inside the block; of no class, nothing."""
    if owner is None:
        yield
        return
    original = getattr(owner, name)
    setattr(owner, name, make(original))
    try:
        yield
    finally:
        setattr(owner, name, original)
