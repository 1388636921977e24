"""The machine as it is: read, never set. The only room that imports pynvml."""

import hashlib
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from lab.record import Machine

# Variables that change how kernels are built or run, and whose values hold no path, name or secret.
ENVIRONMENT = (
    "CUDA_VISIBLE_DEVICES", "CUDA_LAUNCH_BLOCKING", "CUDA_MODULE_LOADING", "CUDA_DEVICE_MAX_CONNECTIONS",
    "NVIDIA_TF32_OVERRIDE", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "PYTORCH_CUDA_ALLOC_CONF",
    "PYTORCH_ALLOC_CONF", "TORCHINDUCTOR_MAX_AUTOTUNE", "TORCHINDUCTOR_COORDINATE_DESCENT_TUNING",
    "TRITON_INTERPRET", "TRITON_ALWAYS_COMPILE",
)  # fmt: skip
PLAIN = re.compile(r"[\w.,:=+-]{1,100}")


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
        "liger": version("liger-kernel"),
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
    if device == "cuda":
        known |= gpu_facts()
    return Machine(**(known | dict(properties)))


def gpu_facts() -> dict[str, Any]:
    """What NVML says of the first visible GPU; a question it does not answer stays unknown."""
    import pynvml as nvml

    nvml.nvmlInit()
    try:
        handle = _visible_gpu(nvml)
        memory_clock = _ask(lambda: nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_MEM), 0) * 1e6
        bus_bits = _ask(lambda: nvml.nvmlDeviceGetMemoryBusWidth(handle), 0)
        uuid = str(_ask(lambda: nvml.nvmlDeviceGetUUID(handle), ""))
        return {
            "gpu_id": hashlib.sha256(uuid.encode()).hexdigest()[:12] if uuid else "",
            # Two transfers a clock: every memory of the GPUs that Triton supports is double data rate.
            "peak_bytes_per_second": 2.0 * memory_clock * bus_bits / 8,
            "power_limit_watts": _ask(lambda: nvml.nvmlDeviceGetEnforcedPowerLimit(handle), 0) / 1e3,
            "sm_clock_hertz": _ask(lambda: nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_SM), 0) * 1e6,
            "memory_clock_hertz": memory_clock,
            "ecc": _switch(lambda: nvml.nvmlDeviceGetEccMode(handle)[0]),
            "mig": _switch(lambda: nvml.nvmlDeviceGetMigMode(handle)[0]),
            "persistence": _switch(lambda: nvml.nvmlDeviceGetPersistenceMode(handle)),
            "driver": str(_ask(nvml.nvmlSystemGetDriverVersion, "")),
        }
    finally:
        nvml.nvmlShutdown()


def gpu_names() -> tuple[str, ...]:
    """The GPUs that NVML lists; empty without a driver."""
    import pynvml as nvml

    try:
        nvml.nvmlInit()
    except nvml.NVMLError:
        return ()
    try:
        handles = [nvml.nvmlDeviceGetHandleByIndex(i) for i in range(nvml.nvmlDeviceGetCount())]
        return tuple(str(nvml.nvmlDeviceGetName(handle)) for handle in handles)
    finally:
        nvml.nvmlShutdown()


def version(package: str) -> str:
    """Installed version of a distribution, or nothing."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


def ncu_path() -> str:
    """Where Nsight Compute is, or nothing: on the PATH, else in NVIDIA's usual folders."""
    if found := shutil.which("ncu"):
        return found
    usual = [*Path("/opt/nvidia/nsight-compute").glob("*/ncu"), Path("/usr/local/cuda/bin/ncu")]
    return str(max((path for path in usual if path.is_file()), default=""))


def ncu_version() -> str:
    if not (ncu := ncu_path()):
        return ""
    try:
        told = subprocess.run([ncu, "--version"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    found = re.search(r"Version (\S+)", told.stdout)
    return found[1] if found else ""


def cpu_model() -> str:
    """The processor's name as Linux tells it, else its architecture."""
    cpuinfo = Path("/proc/cpuinfo")
    text = cpuinfo.read_text(errors="replace") if cpuinfo.is_file() else ""
    found = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    return found[1].strip() if found else platform.machine()


def _visible_gpu(nvml: Any) -> Any:
    """The GPU that CUDA calls device 0, honouring CUDA_VISIBLE_DEVICES by index or UUID."""
    first = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0].strip()
    if first.startswith(("GPU-", "MIG-")):
        return nvml.nvmlDeviceGetHandleByUUID(first)
    return nvml.nvmlDeviceGetHandleByIndex(int(first) if first.isdigit() else 0)


def _ask(question: Callable[[], Any], unknown: Any) -> Any:
    import pynvml as nvml

    try:
        return question()
    except nvml.NVMLError:
        return unknown


def _switch(question: Callable[[], Any]) -> str:
    return {0: "off", 1: "on"}.get(_ask(question, -1), "unknown")
