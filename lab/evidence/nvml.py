"""Reads the GPU's state from NVML by the getters below, and sets nothing. The only module that imports pynvml."""

import hashlib
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pynvml

GETTERS = frozenset({
    "SystemGetDriverVersion", "DeviceGetCount", "DeviceGetHandleByIndex", "DeviceGetHandleByUUID", "DeviceGetName",
    "DeviceGetUUID", "DeviceGetMaxClockInfo", "DeviceGetMemoryBusWidth", "DeviceGetEnforcedPowerLimit",
    "DeviceGetEccMode", "DeviceGetMigMode", "DeviceGetPersistenceMode", "DeviceGetCurrentClocksEventReasons",
    "DeviceGetPowerUsage", "DeviceGetTemperature", "DeviceGetComputeRunningProcesses", "DeviceGetViolationStatus",
    "DeviceGetClockInfo", "DeviceGetTotalEnergyConsumption",
})  # fmt: skip
POLICIES = {"power": 0, "thermal": 1, "sync_boost": 2, "board": 3, "low_utilisation": 4, "reliability": 5}


@dataclass(frozen=True, kw_only=True, slots=True)
class GpuState:
    """The GPU at one moment; what NVML does not answer is None, or absent among the violations."""

    reasons: int | None  # clock-event reasons, as NVML's bits
    sm_hertz: float | None
    energy_joules: float | None  # since the driver was loaded
    power_watts: float | None
    temperature_celsius: float | None
    processes: frozenset[int] | None  # that have a compute context
    violation_seconds: Mapping[str, float]  # by policy, since the driver was loaded: time at a reduced clock


class Gpu:
    """The GPU that CUDA calls device 0 in a process that the lab starts, where GPUs are in the order of the bus."""

    def __init__(self, handle: Any, identity: str) -> None:
        self._handle = handle
        self.uuid = str(self._ask("DeviceGetUUID", unknown=""))
        self.identity = self.uuid or identity

    @property
    def model(self) -> str:
        return str(self._ask("DeviceGetName", unknown=""))

    def facts(self) -> dict[str, Any]:
        """Fields of a `Machine`; a question that NVML does not answer stays unknown."""
        memory_clock = self._ask("DeviceGetMaxClockInfo", pynvml.NVML_CLOCK_MEM, unknown=0) * 1e6
        bus_bits = self._ask("DeviceGetMemoryBusWidth", unknown=0)
        return {
            "gpu_id": hashlib.sha256(self.uuid.encode()).hexdigest()[:12] if self.uuid else "",
            # Two transfers a clock: every memory of the GPUs that Triton supports is double data rate.
            "peak_bytes_per_second": 2.0 * memory_clock * bus_bits / 8,
            "power_limit_watts": self._ask("DeviceGetEnforcedPowerLimit", unknown=0) / 1e3,
            "sm_clock_hertz": self._ask("DeviceGetMaxClockInfo", pynvml.NVML_CLOCK_SM, unknown=0) * 1e6,
            "memory_clock_hertz": memory_clock,
            "ecc": _switch(self._ask("DeviceGetEccMode", unknown=(-1,))[0]),
            "mig": _switch(self._ask("DeviceGetMigMode", unknown=(-1,))[0]),
            "persistence": _switch(self._ask("DeviceGetPersistenceMode", unknown=-1)),
            "driver": str(_get("SystemGetDriverVersion", unknown="")),
        }

    def state(self) -> GpuState:
        megahertz = self._ask("DeviceGetClockInfo", pynvml.NVML_CLOCK_SM)
        millijoules = self._ask("DeviceGetTotalEnergyConsumption")
        milliwatts = self._ask("DeviceGetPowerUsage")
        celsius = self._ask("DeviceGetTemperature", pynvml.NVML_TEMPERATURE_GPU)
        processes = self._ask("DeviceGetComputeRunningProcesses")
        violations = {name: self._ask("DeviceGetViolationStatus", number) for name, number in POLICIES.items()}
        return GpuState(
            reasons=self._ask("DeviceGetCurrentClocksEventReasons"),
            sm_hertz=None if megahertz is None else megahertz * 1e6,
            energy_joules=None if millijoules is None else millijoules / 1e3,
            power_watts=None if milliwatts is None else milliwatts / 1e3,
            temperature_celsius=None if celsius is None else float(celsius),
            processes=None if processes is None else frozenset(process.pid for process in processes),
            violation_seconds={
                name: status.violationTime * 1e-9 for name, status in violations.items() if status is not None
            },
        )

    def _ask(self, question: str, *arguments: Any, unknown: Any = None) -> Any:
        return _get(question, self._handle, *arguments, unknown=unknown)


@contextmanager
def visible_gpu(device: str) -> Iterator[Gpu | None]:
    """The GPU to be measured on; None where that is the CPU, or where NVML does not know the GPU."""
    if device != "cuda" or not _initialise():
        yield None
        return
    try:
        first = first_visible()
        handle = _handle(first)
        yield None if handle is None else Gpu(handle, first)
    finally:
        pynvml.nvmlShutdown()


def first_visible() -> str:
    """What CUDA_VISIBLE_DEVICES says of CUDA's device 0: an index, or a UUID."""
    return os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")[0].strip() or "0"


def gpu_names() -> tuple[str, ...]:
    """The GPUs that NVML lists; empty without a driver."""
    if not _initialise():
        return ()
    try:
        return tuple(str(_get("DeviceGetName", handle, unknown="unknown")) for handle in _handles())
    finally:
        pynvml.nvmlShutdown()


def _handle(visible: str) -> Any:
    if not visible.startswith(("GPU-", "MIG-")):
        return _get("DeviceGetHandleByIndex", int(visible) if visible.isdigit() else 0)
    if (handle := _get("DeviceGetHandleByUUID", visible)) is not None:
        return handle
    # CUDA takes the beginning of a UUID too.
    return next((each for each in _handles() if str(_get("DeviceGetUUID", each)).startswith(visible)), None)


def _handles() -> list[Any]:
    return [_get("DeviceGetHandleByIndex", index) for index in range(_get("DeviceGetCount", unknown=0))]


def _initialise() -> bool:
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return False
    return True


def _get(question: str, *arguments: Any, unknown: Any = None) -> Any:
    """NVML's answer, or `unknown` where it has none."""
    if question not in GETTERS:
        raise ValueError(f"nvml{question} is not among the getters that the lab asks")
    ask = getattr(pynvml, f"nvml{question}", None)  # an older package lacks the newer questions
    try:
        return ask(*arguments) if ask else unknown
    except pynvml.NVMLError:
        return unknown


def _switch(state: int) -> str:
    return {0: "off", 1: "on"}.get(state, "unknown")
