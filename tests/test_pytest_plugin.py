"""The pytest plugin, in a pytest of its own; what is measured there was measured before."""

from pathlib import Path

import pytest
from factory import measured_run

from lab.notebook import Run  # here, so that the pytest inside shares this module, whose `measure` is replaced

pytest_plugins = ["pytester"]
TIMES = {"torch-baseline": 90e-6, "torch-fused": 30e-6, "triton-fused-rmsnorm": 20e-6}
TEST = """
    import pytest

    @pytest.mark.kernel_evidence(sweeps=4)
    def test_marked(kernel_evidence):
        run = kernel_evidence(abs, against=abs, shapes=[(4, 4)], reference=abs, by=1.5, device="cpu")
        run.require({required!r})

    def test_other():
        pass
"""


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose subject takes 20 µs, and an older one in which it took 15."""
    folder = tmp_path_factory.mktemp("kept")
    measured_run(folder, TIMES, run_id="newer", include=())
    measured_run(folder, TIMES | {"triton-fused-rmsnorm": 15e-6}, run_id="older", include=())
    return folder


@pytest.fixture
def asked(kept: Path, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, object]]:
    """What the fixture asks to measure; it is given the newer run."""
    requests: list[dict[str, object]] = []

    def measure(experiment: object, **how: object) -> object:
        requests.append({"experiment": experiment, **how})
        return Run(kept / "newer")

    monkeypatch.setattr("lab.notebook.measure", measure)
    monkeypatch.setenv("LAB_RUNS", str(kept))
    return requests


def outcome(pytester: pytest.Pytester, *options: str, required: str = "not-refuted") -> tuple[dict[str, int], str]:
    pytester.makepyfile(TEST.format(required=required))
    result = pytester.runpytest_inprocess("-p", "kernel_evidence", "-p", "no:cacheprovider", *options)
    return result.parseoutcomes(), result.stdout.str()


def test_a_test_measures_with_the_options_of_its_mark(
    pytester: pytest.Pytester, asked: list[dict[str, object]]
) -> None:
    assert outcome(pytester)[0] == {"passed": 2}
    (request,) = asked
    assert (request["sweeps"], request["device"]) == (4, "cpu")
    assert str(request["run_id"]).endswith("test-marked")
    definition = request["experiment"].definition()  # type: ignore[attr-defined]
    assert [profile.name for profile in definition.profiles] == ["baseline", "subject"]
    assert definition.claims[0].threshold == 1.5


def test_the_command_line_stands_above_the_mark(pytester: pytest.Pytester, asked: list[dict[str, object]]) -> None:
    outcome(pytester, "--kernel-evidence-sweeps=9")
    assert asked[0]["sweeps"] == 9


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("kernel_evidence(abs, shapes=[(4, 4)], reference=abs)", "against is not given; accepted is the function to"),
        (
            "kernel_evidence('cpu-fused-calls', shapes=[(4, 4)])",
            "shapes: only for a function; an experiment defines its own",
        ),
    ],
)
def test_what_is_asked_for_by_half_is_named_and_not_measured(
    pytester: pytest.Pytester, asked: list[dict[str, object]], call: str, message: str
) -> None:
    pytester.makepyfile(f"def test_half(kernel_evidence):\n    {call}\n")
    result = pytester.runpytest_inprocess("-p", "kernel_evidence", "-p", "no:cacheprovider")
    assert f"DefinitionError: kernel_evidence: {message}" in result.stdout.str()
    assert asked == []


def test_a_verdict_that_is_not_there_fails_the_test(pytester: pytest.Pytester, asked: list[dict[str, object]]) -> None:
    counts, output = outcome(pytester, required="supported")
    assert counts == {"failed": 1, "passed": 1}
    assert "and supported is required" in output


def test_what_is_slower_than_an_older_run_fails_the_test(
    pytester: pytest.Pytester, asked: list[dict[str, object]]
) -> None:
    counts, output = outcome(pytester, "--kernel-evidence-against=older")
    assert counts == {"failed": 1, "passed": 1}
    assert "older → newer: a regression" in output


def test_tests_that_measure_can_be_left_out(pytester: pytest.Pytester, asked: list[dict[str, object]]) -> None:
    assert outcome(pytester, "--kernel-evidence-skip")[0] == {"skipped": 1, "passed": 1}
    assert asked == []
