"""The machine as it is: read, never set."""

import os
import platform
import re
import shutil
import subprocess
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from lab.evidence.nvml import visible_gpu
from lab.evidence.record import Machine

# Variables that change how kernels are built or run, and whose values hold no path, name or secret.
ENVIRONMENT = (
    "CUDA_VISIBLE_DEVICES", "CUDA_LAUNCH_BLOCKING", "CUDA_MODULE_LOADING", "CUDA_DEVICE_MAX_CONNECTIONS",
    "NVIDIA_TF32_OVERRIDE", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "PYTORCH_CUDA_ALLOC_CONF",
    "PYTORCH_ALLOC_CONF", "TORCHINDUCTOR_MAX_AUTOTUNE", "TORCHINDUCTOR_COORDINATE_DESCENT_TUNING",
    "TRITON_INTERPRET", "TRITON_ALWAYS_COMPILE", "LAB_TUNED",
)  # fmt: skip
# Distributions whose kernels are measured, or that build or call them; torch and triton stand by themselves.
LIBRARIES = (
    "liger-kernel", "quack-kernels", "flash-attn-4", "nvidia-cutlass-dsl", "apache-tvm-ffi", "transformers",
    "cuda-bench", "numpy",
)  # fmt: skip
PLAIN = re.compile(r"[\w.,:=+-]{0,100}")


def fingerprint(device: str, properties: Mapping[str, Any]) -> Machine:
    """All that is known of this machine. `properties` is what the clock says of its device."""
    known: dict[str, Any] = {
        "device": device,
        "gpu": "", "gpu_id": "", "compute_capability": "", "multiprocessors": 0,
        "memory_bytes": 0, "l2_bytes": 0, "peak_bytes_per_second": 0.0, "power_limit_watts": 0.0,
        "sm_clock_hertz": 0.0, "memory_clock_hertz": 0.0, "ecc": "", "mig": "", "persistence": "",
        "driver": "", "cuda": "",
        "torch": version("torch"),
        "triton": version("triton"),
        "ncu": ncu_version() if device == "cuda" else "",
        "libraries": {name: installed for name in LIBRARIES if (installed := version(name))},
        "python": platform.python_version(),
        "os": f"{platform.system()} {platform.release()} {platform.machine()}",
        "cpu": cpu_model(),
        "cpu_count": os.cpu_count() or 0,
        "environment": {
            name: os.environ[name] if PLAIN.fullmatch(os.environ[name]) else "(set)"
            for name in ENVIRONMENT
            if name in os.environ
        },
    }  # fmt: skip
    with visible_gpu(device) as gpu:
        known |= gpu.facts() if gpu else {}
    return Machine(**(known | dict(properties)))


def version(package: str) -> str:
    """Installed version of a distribution, or nothing."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


def ncu_path() -> str:
    """Where Nsight Compute is, or nothing: on the PATH, else in NVIDIA's usual folders."""
    if on_path := shutil.which("ncu"):
        return on_path
    usual = [*Path("/opt/nvidia/nsight-compute").glob("*/ncu"), Path("/usr/local/cuda/bin/ncu")]
    return str(max((path for path in usual if path.is_file()), default=""))


def ncu_version() -> str:
    if not (ncu := ncu_path()):
        return ""
    try:
        completed = subprocess.run([ncu, "--version"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    match = re.search(r"Version (\S+)", completed.stdout)
    return match[1] if match else ""


def cpu_model() -> str:
    """The processor's name as Linux tells it, else its architecture."""
    cpuinfo = Path("/proc/cpuinfo")
    text = cpuinfo.read_text(errors="replace") if cpuinfo.is_file() else ""
    match = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    return match[1].strip() if match else platform.machine()
