"""The fingerprint of a machine: what it says, and what it never says."""

import getpass
import json
import platform
import socket
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from lab import machine
from lab.machine import fingerprint, gpu_facts, gpu_names
from lab.record import canonical, to_data


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """Secrets, names and paths as a real machine's environment holds them."""
    values = {
        "USER": "planted-user", "LOGNAME": "planted-user", "HOSTNAME": "planted-host", "HOME": "/home/planted-user",
        "AWS_SECRET_ACCESS_KEY": "planted-secret", "MLFLOW_TRACKING_PASSWORD": "planted-password",
        "HF_TOKEN": "planted-token", "SSH_CONNECTION": "planted-address", "PYTHONPATH": "/home/planted-user/src",
        # Variables of the allow-list whose values nobody expects.
        "TRITON_ALWAYS_COMPILE": "/home/planted-user/cache", "OMP_NUM_THREADS": "2; curl planted-address",
        "PYTORCH_CUDA_ALLOC_CONF": "x" * 101,
    }  # fmt: skip
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(platform, "node", lambda: "planted-host")
    monkeypatch.setattr(socket, "gethostname", lambda: "planted-host")
    monkeypatch.setattr(getpass, "getuser", lambda: "planted-user")
    return [value for value in values.values() if len(value) > 3]


def test_it_holds_no_secret_user_name_host_name_or_path(planted: list[str]) -> None:
    text = canonical(to_data(fingerprint("cpu", {})))
    assert "planted" not in text
    assert "/home" not in text
    assert not [value for value in planted if value in text]


def test_a_variable_of_the_allow_list_with_an_unexpected_value_is_only_said_to_be_set(planted: list[str]) -> None:
    environment = fingerprint("cpu", {}).environment
    assert environment["TRITON_ALWAYS_COMPILE"] == "(set)"
    assert environment["OMP_NUM_THREADS"] == "(set)"
    assert environment["PYTORCH_CUDA_ALLOC_CONF"] == "(set)"


def test_a_variable_of_the_allow_list_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    monkeypatch.setenv("SOMETHING_ELSE", "3")
    environment = fingerprint("cpu", {}).environment
    assert environment["OMP_NUM_THREADS"] == "2"
    assert set(environment) <= set(machine.ENVIRONMENT)


def test_a_cpu_machine_names_its_software_and_has_no_gpu() -> None:
    import torch

    found = fingerprint("cpu", {"l2_bytes": 1 << 20})
    assert found.device == "cpu"
    assert (found.gpu, found.gpu_id, found.peak_bytes_per_second) == ("", "", 0.0)
    assert found.torch == torch.__version__.split("+")[0] or found.torch == torch.__version__
    assert found.python == platform.python_version()
    assert found.cpu
    assert found.cpu_count > 0
    assert found.l2_bytes == 1 << 20


def test_a_package_that_is_not_installed_has_no_version() -> None:
    assert machine.version("no-such-package-anywhere") == ""


class FakeError(Exception):
    pass


def nvml(**answers: Any) -> types.ModuleType:
    """An NVML that has two GPUs of one kind."""
    module = types.ModuleType("pynvml")
    given: dict[str, Any] = {
        "NVMLError": FakeError, "NVML_CLOCK_MEM": 2, "NVML_CLOCK_SM": 1,
        "nvmlInit": lambda: None, "nvmlShutdown": lambda: None, "nvmlDeviceGetCount": lambda: 2,
        "nvmlDeviceGetHandleByIndex": lambda index: f"GPU-{index}", "nvmlDeviceGetHandleByUUID": lambda uuid: uuid,
        "nvmlDeviceGetName": lambda handle: "NVIDIA H100", "nvmlDeviceGetUUID": lambda handle: f"planted-{handle}",
        "nvmlDeviceGetMaxClockInfo": lambda handle, kind: {2: 2619, 1: 1980}[kind],
        "nvmlDeviceGetMemoryBusWidth": lambda handle: 5120,
        "nvmlDeviceGetEnforcedPowerLimit": lambda handle: 700_000,
        "nvmlDeviceGetEccMode": lambda handle: [1, 1], "nvmlDeviceGetMigMode": lambda handle: [0, 0],
        "nvmlDeviceGetPersistenceMode": lambda handle: 1, "nvmlSystemGetDriverVersion": lambda: "580.1",
    }  # fmt: skip
    for name, value in (given | answers).items():
        setattr(module, name, value)
    return module


def test_the_gpus_facts_are_in_si_units_and_its_uuid_is_hashed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", nvml())
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    facts = gpu_facts()
    assert facts["peak_bytes_per_second"] == pytest.approx(3.35232e12)
    assert facts["power_limit_watts"] == 700.0
    assert facts["sm_clock_hertz"] == 1.98e9
    assert (facts["ecc"], facts["mig"], facts["persistence"]) == ("on", "off", "on")
    assert len(facts["gpu_id"]) == 12
    assert "planted" not in json.dumps(facts)


@pytest.mark.parametrize(("visible", "same_as"), [("0,1", "0"), ("1,0", "1"), ("GPU-1", "1"), ("", "0")])
def test_the_gpu_is_the_first_that_cuda_sees(monkeypatch: pytest.MonkeyPatch, visible: str, same_as: str) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", nvml())
    found = []
    for value in (visible, same_as):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", value)
        found.append(gpu_facts()["gpu_id"])
    assert found[0] == found[1]


def test_a_question_that_nvml_does_not_answer_stays_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> Any:
        raise FakeError

    asked = {name: refuse for name in vars(nvml()) if name.startswith(("nvmlDeviceGet", "nvmlSystem"))}
    asked["nvmlDeviceGetHandleByIndex"] = lambda index: "GPU-0"
    monkeypatch.setitem(sys.modules, "pynvml", nvml(**asked))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    facts = gpu_facts()
    assert facts["gpu_id"] == ""
    assert facts["peak_bytes_per_second"] == 0.0
    assert facts["mig"] == "unknown"


def test_a_machine_without_a_driver_lists_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise FakeError

    monkeypatch.setitem(sys.modules, "pynvml", nvml(nvmlInit=refuse))
    assert gpu_names() == ()
    monkeypatch.setitem(sys.modules, "pynvml", nvml())
    assert gpu_names() == ("NVIDIA H100", "NVIDIA H100")


@pytest.mark.gpu
def test_on_a_gpu_the_fingerprint_knows_the_memory_it_has() -> None:
    from lab.measure import make_clock

    found = fingerprint("cuda", make_clock("cuda", 3).properties())
    assert found.gpu
    assert found.peak_bytes_per_second > 1e11
    assert found.memory_bytes > 1 << 30
    assert found.driver
