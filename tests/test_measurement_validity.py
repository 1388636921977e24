"""The experiment that asks about the lab itself: what is known in it must really be so."""

import pytest
import torch
from torch import Tensor

from experiments.measurement_validity import CASES, CHAIN_CASES, KNOWN_CASES, MEASUREMENT_VALIDITY, STREAM_CASES
from lab import Case
from lab.definition.planning import planned
from lab.kernels.chain import OVERHEAD_STEPS, extra_steps
from lab.kernels.stream import extra_rows

CLAIMS = {claim.name: claim for claim in MEASUREMENT_VALIDITY.claims}
PROFILES = {profile.name: profile for profile in MEASUREMENT_VALIDITY.profiles}
SHARES = {"extra-1": 0.01, "extra-2": 0.02, "extra-5": 0.05}


def functions(name: str) -> dict[str, object]:
    return {operator: load() for operator, load in PROFILES[name].implementations.items()}


def test_the_self_comparisons_compare_the_very_same_functions() -> None:
    for name in ("plain", "triton"):
        assert functions(f"{name}-again") == functions(name)
        claim = CLAIMS[f"{name}-again"]
        assert (claim.subject.name, claim.baseline.name) == (f"{name}-again", name)
        assert "supported" not in claim.expected


def test_what_is_expected_of_known_differences_follows_from_them() -> None:
    for name, share in SHARES.items():
        claim = CLAIMS[name]
        assert (claim.subject.name, claim.baseline.name) == ("plain", name)
        assert claim.cases == KNOWN_CASES
        assert ("supported" in claim.expected) == (1 + share >= claim.threshold)
        assert ("refuted" in claim.expected) == (1 + share <= claim.threshold)


def test_there_are_at_least_eight_cases_of_self_comparison() -> None:
    assert len(CLAIMS["plain-again"].cases) == len(CASES) >= 8


def test_without_its_flag_it_is_small_enough_for_a_cpu() -> None:
    plan = planned(MEASUREMENT_VALIDITY, frozenset())
    assert sum(case.least_bytes for case in plan.included_cases) < 4 << 20
    assert len(planned(MEASUREMENT_VALIDITY, frozenset({"full-validity"})).included_cases) == len(CASES)


def test_it_is_measured_in_one_scope_only() -> None:
    assert MEASUREMENT_VALIDITY.scopes == ("device_cold",)
    assert MEASUREMENT_VALIDITY.self_test


@pytest.mark.parametrize("share", SHARES.values())
@pytest.mark.parametrize("case", CHAIN_CASES, ids=lambda case: case.name)
def test_whole_steps_come_near_enough_to_the_known_ratio(case: Case, share: float) -> None:
    whole = case.shape[1] + OVERHEAD_STEPS
    assert abs(extra_steps(case.shape[1], share) / whole - share) < 0.0003


@pytest.mark.parametrize("case", STREAM_CASES, ids=lambda case: case.name)
def test_the_streams_have_all_the_rows_that_their_extra_work_needs(case: Case) -> None:
    rows, columns = case.shape
    x = torch.empty((rows + rows // 16, columns), device="meta")
    assert extra_rows(x, rows, 0.05) < len(x) - rows
    assert rows * columns * 4 >= 256 << 20


@pytest.mark.parametrize("name", ["plain", "plain-again"])
@pytest.mark.parametrize("operator", ["chain", "stream"])
def test_on_the_cpu_the_copies_are_exact_in_plain_pytorch(
    name: str, operator: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRITON_INTERPRET", "0")  # the kernels themselves refuse the CPU now
    definition = next(case.operator for case in CASES if case.operator.name == operator)
    arguments = definition.inputs((37, 12), torch.float32, "cpu", 1)
    output: Tensor = PROFILES[name].implementations[operator]()(*arguments)
    assert torch.equal(output.double(), definition.reference(*arguments))
    assert output.data_ptr() != arguments[0].data_ptr()


@pytest.mark.parametrize("name", SHARES)
def test_extra_work_leaves_the_result_as_it_is(name: str) -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    for operator, function in functions(name).items():
        definition = next(case.operator for case in CASES if case.operator.name == operator)
        arguments = definition.inputs((40, 12), torch.float32, device, 1)
        assert torch.equal(function(*arguments).double(), definition.reference(*arguments))  # type: ignore[operator]


@pytest.mark.parametrize("shape", [(64, 64, 2048), (33, 17, 129)])
def test_the_matrix_product_is_within_its_tolerance_by_far(shape: tuple[int, ...]) -> None:
    """On the CPU, in float32 sums rounded once: what the tolerance was derived for."""
    definition = next(case.operator for case in CASES if case.operator.name == "matmul")
    a, b = definition.inputs(shape, torch.float16, "cpu", 1)
    truth = definition.reference(a, b)
    output = (a.float() @ b.float()).half()
    allowed = definition.tolerance * torch.finfo(torch.float16).eps * (truth.abs() + definition.scale)
    assert float(((output.double() - truth).abs() / allowed).max()) < 0.6
    assert 0.5 < float(truth.std()) < 2
