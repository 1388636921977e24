"""The fingerprint of a machine: what it says, and what it never says."""

import getpass
import platform
import socket
from pathlib import Path

import pytest

from lab.evidence import machine
from lab.evidence.codec import canonical, to_data
from lab.evidence.machine import fingerprint


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

    fingerprinted = fingerprint("cpu", {"l2_bytes": 1 << 20})
    assert fingerprinted.device == "cpu"
    assert (fingerprinted.gpu, fingerprinted.gpu_id, fingerprinted.peak_bytes_per_second) == ("", "", 0.0)
    assert fingerprinted.torch == torch.__version__.split("+")[0] or fingerprinted.torch == torch.__version__
    assert fingerprinted.python == platform.python_version()
    assert fingerprinted.cpu
    assert fingerprinted.cpu_count > 0
    assert fingerprinted.l2_bytes == 1 << 20


def test_a_package_that_is_not_installed_has_no_version() -> None:
    assert machine.version("no-such-package-anywhere") == ""


@pytest.mark.gpu
def test_on_a_gpu_the_fingerprint_knows_the_memory_it_has() -> None:
    from lab.worker.device import make_clock

    fingerprinted = fingerprint("cuda", make_clock("cuda").properties())
    assert fingerprinted.gpu
    assert fingerprinted.peak_bytes_per_second > 1e11
    assert fingerprinted.memory_bytes > 1 << 30
    assert fingerprinted.driver
