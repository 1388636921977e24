"""What this machine can measure, and what it lacks, each line with what to do about it."""

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

from lab.evidence.machine import cpu_model, ncu_path, ncu_version, version
from lab.evidence.nvml import gpu_names
from lab.profiler.ncu import FREED, GRANTED
from lab.project import project
from lab.worker.device import choose_device

PROC = Path("/proc")
PARAMETERS = PROC / "driver" / "nvidia" / "params"
CAP_SYS_ADMIN = 21
DCGM = "nv-hostengine"
FREE_BYTES = 200 << 20


def examine() -> Iterator[str]:
    """One line a finding: 'ok', 'lacks' or 'note', then the thing, then what it means."""
    yield from _devices()
    yield from _packages()
    yield from _profiler()
    free = shutil.disk_usage(Path.cwd()).free
    if free < FREE_BYTES:
        yield f"lacks  disk       {free >> 20} MiB free here; a run with counters needs about {FREE_BYTES >> 20} MiB"


def _devices() -> Iterator[str]:
    gpus = gpu_names()
    if choose_device("auto") == "cuda":
        yield f"ok     GPU        {', '.join(gpus)}: every profile can be measured"
    elif gpus:
        yield f"lacks  CUDA       the driver lists {', '.join(gpus)}, but torch {version('torch')} sees no CUDA device"
    else:
        yield "lacks  GPU        no NVIDIA driver answers: torch profiles are measured on the CPU, Triton cells skipped"
    yield f"ok     CPU        {cpu_model()}, {os.cpu_count()} cores"
    if not shutil.which("g++") and not shutil.which("c++"):
        yield "lacks  compiler   no C++ compiler: torch.compile fails on the CPU; install g++"


def _packages() -> Iterator[str]:
    yield f"ok     torch      {version('torch')}, triton {version('triton') or 'not installed'}"
    for package, name, use in (
        ("mlflow", "mlflow", f"`lab track` and {project().script('ui')}"),
        ("plotly", "plotly", "pictures in notebooks"),
        ("jinja2", "jinja2", "previews and the site"),
        ("liger_kernel", "Liger", "the liger profile (optional extra 'peers')"),
        ("quack", "quack", "the quack profile (optional extra 'peers', on Linux)"),
        ("flash_attn", "FA4", "the fa4 profile (optional extra 'peers', on Linux)"),
    ):
        installed = find_spec(package) is not None
        yield f"{'ok    ' if installed else 'lacks '} {name:10} {'for' if installed else 'needed for'} {use}"


def _profiler() -> Iterator[str]:
    if not ncu_path():
        yield "lacks  ncu        Nsight Compute is not on the PATH: --with-profiling records `counters: blocked`"
        return
    yield f"ok     ncu        {ncu_version() or 'version unknown'}"
    restricted = PARAMETERS.is_file() and "RmProfilingAdminOnly: 1" in PARAMETERS.read_text(errors="replace")
    if restricted and not _is_administrator():
        yield f"lacks  counters   the driver reserves them for administrators: {GRANTED}"
    if DCGM in _running():
        yield f"note   DCGM       {DCGM} runs, and may hold the counters while a run wants them: {FREED}"


def _is_administrator() -> bool:
    """As the driver sees it: root in a container may lack the capability."""
    status = (PROC / "self" / "status").read_text(errors="replace")
    match = re.search(r"^CapEff:\s*([0-9a-f]+)$", status, re.MULTILINE)
    return bool(match and int(match[1], 16) >> CAP_SYS_ADMIN & 1)


def _running() -> set[str]:
    """Names of the processes that can be seen from here."""
    names = set()
    for name in PROC.glob("[0-9]*/comm"):
        with suppress(OSError):  # it has ended meanwhile
            names.add(name.read_text(errors="replace").strip())
    return names
