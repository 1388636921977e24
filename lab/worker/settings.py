"""Process-wide settings that one profile could leave to the next: read, and put back where they were changed.

Honest code leaves some too, such as a number of threads, so a changed setting is no reason to reject a
profile. It is noted in the record.
"""

import decimal
import os
import resource
import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch

SMALLEST, ONE = 5e-324, 1.0
Read = Callable[[], Any]
Write = Callable[[Any], Any]


class ProcessSettings:
    """Remembers the process's settings as they are when it is made."""

    def __init__(self) -> None:
        self._access = accesses()
        self._usual = {name: read() for name, (read, _) in self._access.items()}
        self._environment = dict(os.environ)

    def put_back(self) -> list[str]:
        """Those that had been changed, as "name: was → became", in the table's order; all are as they were again."""
        changed = []
        for name, (read, write) in self._access.items():
            now, usual = read(), self._usual[name]
            if now != usual:
                write(usual)
                changed.append(f"{name}: {_shown(usual)} → {_shown(now)}")
        return [*changed, *self._environment_put_back()]

    def _environment_put_back(self) -> list[str]:
        now = dict(os.environ)
        if now == self._environment:
            return []
        names = sorted(name for name in {*now, *self._environment} if now.get(name) != self._environment.get(name))
        os.environ.clear()
        os.environ.update(self._environment)
        return [f"variable {name}" for name in names]


def accesses() -> Mapping[str, tuple[Read, Write]]:
    """How each setting is read and written. The functions are bound here, before any profile is loaded."""
    settings: dict[str, tuple[Read, Write]] = {
        "torch threads": (torch.get_num_threads, torch.set_num_threads),
        "default dtype": (torch.get_default_dtype, torch.set_default_dtype),
        "default device": (_default_device, lambda _: torch.set_default_device(None)),
        "matmul precision": (torch.get_float32_matmul_precision, torch.set_float32_matmul_precision),
        "deterministic algorithms": (_deterministic, _set_deterministic),
        "gradients": (torch.is_grad_enabled, torch._C._set_grad_enabled),
        "denormals": (_keeps_denormals, lambda kept: torch.set_flush_denormal(not kept)),
        "recursion limit": (sys.getrecursionlimit, sys.setrecursionlimit),
        "decimal precision": (lambda: decimal.getcontext().prec, _set_decimal_precision),
        "working directory": (os.getcwd, os.chdir),
        "exception hook": (partial(getattr, sys, "excepthook"), partial(setattr, sys, "excepthook")),
        "cores": (partial(os.sched_getaffinity, 0), partial(os.sched_setaffinity, 0)),
        "largest address space": (
            partial(resource.getrlimit, resource.RLIMIT_AS), partial(resource.setrlimit, resource.RLIMIT_AS),
        ),
    }  # fmt: skip
    for device in ("cuda", "cpu"):
        settings[f"autocast on {device}"] = (
            partial(torch.is_autocast_enabled, device), partial(torch.set_autocast_enabled, device),
        )  # fmt: skip
    return settings | _backend_flags()


def _backend_flags() -> dict[str, tuple[Read, Write]]:
    owners: dict[str, tuple[Any, tuple[str, ...]]] = {
        "cudnn": (torch.backends.cudnn, ("enabled", "benchmark", "deterministic", "allow_tf32")),
        "cuda matmul": (torch.backends.cuda.matmul, (
            "allow_tf32", "allow_fp16_reduced_precision_reduction", "allow_bf16_reduced_precision_reduction",
        )),
        "mkldnn": (torch.backends.mkldnn, ("enabled",)),
    }  # fmt: skip
    flags: dict[str, tuple[Read, Write]] = {
        f"{name} {flag}": (partial(getattr, owner, flag), partial(setattr, owner, flag))
        for name, (owner, names) in owners.items()
        for flag in names
        if hasattr(owner, flag)
    }
    for kind in ("flash", "mem_efficient", "math", "cudnn"):
        read = getattr(torch.backends.cuda, f"{kind}_sdp_enabled", None)
        write = getattr(torch.backends.cuda, f"enable_{kind}_sdp", None)
        if read and write:
            flags[f"{kind} attention"] = (read, write)
    return flags


def _deterministic() -> tuple[bool, bool]:
    return torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()


def _set_deterministic(setting: tuple[bool, bool]) -> None:
    torch.use_deterministic_algorithms(setting[0], warn_only=setting[1])


def _default_device() -> str:
    """Empty if none was chosen. Not by torch's own function, because active modes intercept that."""
    chosen = getattr(getattr(torch, "_GLOBAL_DEVICE_CONTEXT", None), "device_context", None)
    return str(chosen.device) if chosen else ""


def _keeps_denormals() -> bool:
    """Nothing else tells: whether the smallest number of all is kept in a product."""
    return SMALLEST * ONE != 0.0


def _set_decimal_precision(digits: int) -> None:
    decimal.getcontext().prec = digits


def _shown(value: Any) -> str:
    return ", ".join(map(str, sorted(value))) if isinstance(value, set) else str(value)
