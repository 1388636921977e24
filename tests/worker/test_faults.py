"""Why a profile cannot run here."""

import pytest
from factory import profile

from lab.worker import faults
from lab.worker.faults import skip_reason


@pytest.mark.parametrize(
    ("package", "reason"),
    [
        ("transformers", "transformers is not installed; the optional extra 'models' brings it"),
        ("liger_kernel", "liger_kernel is not installed; the optional extra 'peers' brings it"),
        ("my_kernels", "my_kernels is not installed"),
    ],
)
def test_a_missing_package_is_named_and_the_extra_of_the_lab_that_brings_it(
    monkeypatch: pytest.MonkeyPatch, package: str, reason: str
) -> None:
    monkeypatch.setattr(faults, "find_spec", lambda name: None)
    assert skip_reason(profile("mine", package=package), "cpu") == reason
