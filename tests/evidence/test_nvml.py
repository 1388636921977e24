"""NVML as the lab asks it: in SI units, of the right GPU, and never to change anything."""

import json
import re
import types
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from lab.evidence import nvml
from lab.evidence.nvml import GETTERS, Gpu, GpuState, gpu_names, visible_gpu
from lab.evidence.source import ROOT


class FakeError(Exception):
    pass


def fake_nvml(**answers: Any) -> types.SimpleNamespace:
    """An NVML that has two GPUs of one kind."""
    given: dict[str, Any] = {
        "NVMLError": FakeError, "NVML_CLOCK_MEM": 2, "NVML_CLOCK_SM": 1, "NVML_TEMPERATURE_GPU": 0,
        "nvmlInit": lambda: None, "nvmlShutdown": lambda: None, "nvmlDeviceGetCount": lambda: 2,
        "nvmlDeviceGetHandleByIndex": lambda index: f"GPU-{index}", "nvmlDeviceGetHandleByUUID": by_uuid,
        "nvmlDeviceGetName": lambda handle: "NVIDIA H100", "nvmlDeviceGetUUID": lambda handle: f"{handle}-planted",
        "nvmlDeviceGetMaxClockInfo": lambda handle, kind: {2: 2619, 1: 1980}[kind],
        "nvmlDeviceGetMemoryBusWidth": lambda handle: 5120,
        "nvmlDeviceGetEnforcedPowerLimit": lambda handle: 700_000,
        "nvmlDeviceGetEccMode": lambda handle: [1, 1], "nvmlDeviceGetMigMode": lambda handle: [0, 0],
        "nvmlDeviceGetPersistenceMode": lambda handle: 1, "nvmlSystemGetDriverVersion": lambda: "580.1",
        "nvmlDeviceGetCurrentClocksEventReasons": lambda handle: 0x24,
        "nvmlDeviceGetPowerUsage": lambda handle: 350_500, "nvmlDeviceGetTemperature": lambda handle, sensor: 61,
        "nvmlDeviceGetComputeRunningProcesses": lambda handle: [types.SimpleNamespace(pid=11)],
        "nvmlDeviceGetViolationStatus": violation_of, "nvmlDeviceGetClockInfo": lambda handle, kind: 1755,
        "nvmlDeviceGetTotalEnergyConsumption": lambda handle: 5_000_250,
    }  # fmt: skip
    return types.SimpleNamespace(**(given | answers))


def by_uuid(uuid: str) -> str:
    if not uuid.endswith("-planted"):
        raise FakeError
    return uuid.removesuffix("-planted")


def violation_of(handle: str, policy: int) -> Any:
    if policy == 5:
        raise FakeError
    return types.SimpleNamespace(referenceTime=1, violationTime=policy * 1_000_000_000)


def refuse(*_: Any) -> Any:
    raise FakeError


@contextmanager
def gpu_of(monkeypatch: pytest.MonkeyPatch, visible: str = "", **answers: Any) -> Iterator[Gpu]:
    monkeypatch.setattr(nvml, "pynvml", fake_nvml(**answers))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    with visible_gpu("cuda") as gpu:
        assert gpu is not None
        yield gpu


ASKED = [name for name in vars(fake_nvml()) if name.startswith(("nvmlDeviceGet", "nvmlSystem"))]
SILENT = {name: refuse for name in ASKED if "Handle" not in name}


def test_the_gpus_facts_are_in_si_units_and_its_uuid_is_hashed(monkeypatch: pytest.MonkeyPatch) -> None:
    with gpu_of(monkeypatch) as gpu:
        facts = gpu.facts()
    assert facts["peak_bytes_per_second"] == pytest.approx(3.35232e12)
    assert facts["power_limit_watts"] == 700.0
    assert facts["sm_clock_hertz"] == 1.98e9
    assert (facts["ecc"], facts["mig"], facts["persistence"]) == ("on", "off", "on")
    assert len(facts["gpu_id"]) == 12
    assert "planted" not in json.dumps(facts)


@pytest.mark.parametrize(
    ("visible", "uuid"),
    [
        ("", "GPU-0-planted"), ("0,1", "GPU-0-planted"), ("1,0", "GPU-1-planted"), ("GPU-1-planted", "GPU-1-planted"),
        ("GPU-1", "GPU-1-planted"),
    ],
)  # fmt: skip
def test_the_gpu_is_the_first_that_cuda_sees(monkeypatch: pytest.MonkeyPatch, visible: str, uuid: str) -> None:
    with gpu_of(monkeypatch, visible) as gpu:
        assert gpu.identity == uuid


def test_the_state_is_in_si_units_and_holds_what_was_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    with gpu_of(monkeypatch) as gpu:
        assert gpu.state() == GpuState(
            reasons=0x24, sm_hertz=1.755e9, energy_joules=5000.25, power_watts=350.5,
            temperature_celsius=61.0, processes=frozenset({11}),
            violation_seconds={"power": 0.0, "thermal": 1.0, "sync_boost": 2.0, "board": 3.0, "low_utilisation": 4.0},
        )  # fmt: skip


def test_a_question_that_nvml_does_not_answer_stays_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    with gpu_of(monkeypatch, "1", **SILENT) as gpu:
        facts = gpu.facts()
        assert gpu.state() == GpuState(
            reasons=None, sm_hertz=None, energy_joules=None, power_watts=None, temperature_celsius=None,
            processes=None, violation_seconds={},
        )  # fmt: skip
        assert gpu.identity == "1"
    assert facts["gpu_id"] == ""
    assert facts["peak_bytes_per_second"] == 0.0
    assert facts["mig"] == "unknown"


def test_a_question_that_an_older_package_lacks_stays_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    older = fake_nvml()
    del older.nvmlDeviceGetCurrentClocksEventReasons
    monkeypatch.setattr(nvml, "pynvml", older)
    with visible_gpu("cuda") as gpu:
        assert gpu is not None
        assert gpu.state().reasons is None
        assert gpu.state().power_watts == 350.5


def test_without_a_driver_there_is_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvml, "pynvml", fake_nvml(nvmlInit=refuse))
    assert gpu_names() == ()
    with visible_gpu("cuda") as gpu:
        assert gpu is None
    monkeypatch.setattr(nvml, "pynvml", fake_nvml())
    assert gpu_names() == ("NVIDIA H100", "NVIDIA H100")


def test_a_run_on_the_cpu_does_not_ask_nvml(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvml, "pynvml", None)
    with visible_gpu("cpu") as gpu:
        assert gpu is None


# Read, never set


def test_nothing_but_a_getter_can_be_asked() -> None:
    assert not [name for name in GETTERS if "Get" not in name]
    with pytest.raises(ValueError, match="not among the getters"):
        nvml._get("DeviceSetPowerManagementLimit", None, 1)


CHANGES_A_GPU = re.compile(r"nvml\w*(Set|Reset)|\bDevice(Set|Reset)|nvidia-smi|lock-gpu-clocks|applications-clocks")


def test_no_room_of_the_lab_can_change_a_gpu() -> None:
    rooms = [*(ROOT / "lab").rglob("*"), *(ROOT / "scripts").rglob("*")]
    texts = {path: path.read_text(errors="replace") for path in rooms if path.is_file() and path.suffix != ".pyc"}
    assert len(texts) > 30
    assert not [path for path, text in texts.items() if CHANGES_A_GPU.search(text)]
    assert CHANGES_A_GPU.search("nvmlDeviceSetGpuLockedClocks")
    assert CHANGES_A_GPU.search("nvmlDeviceResetApplicationsClocks")


def test_the_profiler_leaves_the_clocks_alone() -> None:
    for path in Path(ROOT / "lab").rglob("*.py"):
        for setting in re.findall(r'"--clock-control",\s*"(\w+)"', path.read_text()):
            assert setting == "none", path.name


@pytest.mark.gpu
def test_on_a_gpu_its_state_is_known() -> None:
    with visible_gpu("cuda") as gpu:
        assert gpu is not None
        state = gpu.state()
        assert state.reasons is not None
        assert state.power_watts is not None
        assert gpu.uuid.startswith(("GPU-", "MIG-"))
