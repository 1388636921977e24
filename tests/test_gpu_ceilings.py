"""The ceilings' ladder, and products that are as exact as their inputs and no less."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from experiments.gpu_ceilings import (
    COPY,
    COPY_CASES,
    CUBLAS,
    GPU_CEILINGS,
    MATMUL,
    MATMUL_CASES,
    READ,
    READ_CASES,
    TF32_MATMUL,
    tf32_matmul,
)
from lab.definition.experiment import CEILINGS, Operator
from lab.definition.plan import PlannedCase
from lab.definition.planning import planned
from lab.worker.correctness import check_profile
from lab.worker.edges import edge_inputs
from lab.worker.measure import rotation

CASES = {case.name: case for case in planned(GPU_CEILINGS, frozenset()).cases}
MIB = 1 << 20


def test_it_is_the_experiment_that_every_run_on_a_gpu_takes_along() -> None:
    assert GPU_CEILINGS.name == CEILINGS
    assert not GPU_CEILINGS.self_test
    assert all(profile.devices == ("cuda",) for profile in GPU_CEILINGS.profiles)
    assert all(case.included for case in CASES.values())


def test_copies_move_2_mib_to_2_gib_and_reads_next_to_nothing_else() -> None:
    copies = [CASES[case.name].least_bytes for case in COPY_CASES]
    assert copies == [size * MIB for size in (2, 4, 8, 16, 32, 64, 128, 256, 512, 2048)]
    reads = [CASES[case.name] for case in READ_CASES]
    assert [case.read_bytes for case in reads] == [size * MIB for size in (64, 512, 2048)]
    assert all(case.written_bytes < 0.001 * case.read_bytes for case in reads)


def test_every_matrix_type_is_multiplied_at_one_size() -> None:
    cases = {(case.operator.name, case.dtype): CASES[case.name] for case in MATMUL_CASES}
    assert [*cases] == [
        ("matmul", "float16"), ("matmul", "bfloat16"), ("matmul", "float8_e4m3fn"), ("matmul-tf32", "float32")
    ]  # fmt: skip
    assert {case.flops for case in cases.values()} == {2 * 8192**3}
    float8 = cases["matmul", "float8_e4m3fn"]
    assert (float8.read_bytes, float8.written_bytes) == (2 * 8192**2, 2 * 8192**2)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_on_80_gb_every_case_has_its_graphs(case: PlannedCase) -> None:
    assert rotation(case, 50 * MIB, 80_000_000_000, len(GPU_CEILINGS.profiles), 3) >= 3


@pytest.mark.parametrize("operator", [COPY, READ], ids=lambda operator: operator.name)
def test_unusual_inputs_come_out_right(operator: Operator) -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    asked = (4, 1024), torch.float32, device
    inputs = [operator.inputs(*asked, seed) for seed in (1, 2, 3)]
    for profile in GPU_CEILINGS.profiles:
        if operator.name in profile.implementations:
            function = profile.implementations[operator.name]()
            correctness = check_profile(operator, function, inputs, (1, 2, 3), edges=edge_inputs(operator, *asked))
            assert correctness.passed, f"{profile.name}: {correctness.message}"
            assert {edge.outcome for edge in correctness.edges} == {"passed"}


# How exact a product must be


def cut(x: Tensor, bits: int) -> Tensor:
    """Float32 with that many bits of its mantissa, the others dropped: as TF32 is made at worst."""
    return (x.view(torch.int32) >> (23 - bits) << (23 - bits)).view(torch.float32)


def product(
    operator: Operator, dtype: torch.dtype, function: Callable[..., Tensor], sums: tuple[int, int] = (64, 96)
) -> bool:
    """Whether `function` is right enough at K = 8192."""
    inputs = [operator.inputs((*sums, 8192), dtype, "cpu", seed) for seed in (1, 2, 3)]
    return check_profile(operator, function, inputs, (1, 2, 3)).passed


@pytest.mark.parametrize(("bits", "right"), [(23, True), (10, True), (9, False), (7, False)])
def test_a_tf32_product_may_cut_its_inputs_to_10_bits(bits: int, right: bool) -> None:
    many = (512, 512)  # the tolerance allows for the tails of the errors: few sums would not show them
    assert product(TF32_MATMUL, torch.float32, lambda a, b: cut(a, bits) @ cut(b, bits), many) is right


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_a_half_precision_product_may_round_its_result_and_not_its_inputs(dtype: torch.dtype) -> None:
    def through(narrow: torch.dtype) -> Callable[..., Tensor]:
        return lambda a, b: (a.to(narrow).float() @ b.to(narrow).float()).to(dtype)

    assert product(MATMUL, dtype, through(torch.float32))
    assert not product(MATMUL, dtype, through(torch.float8_e5m2))
    assert not product(MATMUL, dtype, lambda a, b: a[:, :-64] @ b[:-64])


def test_a_float8_product_is_that_of_all_its_inputs_and_scales() -> None:
    operator = next(case.operator for case in MATMUL_CASES if case.dtype == "float8_e4m3fn")
    function = CUBLAS.implementations["matmul"]()
    few = (16, 32)  # a CPU takes seconds for a large one
    assert product(operator, torch.float8_e4m3fn, function, few)
    assert not product(operator, torch.float8_e4m3fn, lambda a, b, *scales: function(a, b, *scales) * 1.05, few)
    assert not product(operator, torch.float8_e4m3fn, lambda a, b, s, t: function(a, b, s, s), few)
    assert not product(operator, torch.float8_e4m3fn, lambda a, b, *s: function(a[:, :-64], b[:-64], *s), few)


def test_tf32_is_allowed_for_one_call_and_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = torch.backends.cuda.matmul
    before, seen = settings.fp32_precision, []

    def refuse(a: Tensor, b: Tensor) -> Tensor:
        seen.append(settings.fp32_precision)
        raise RuntimeError("not today")

    x = torch.ones(4, 4)
    assert torch.equal(tf32_matmul(x, x), x @ x)
    assert settings.fp32_precision == before
    monkeypatch.setattr(torch, "matmul", refuse)
    with pytest.raises(RuntimeError, match="not today"):
        tf32_matmul(x, x)
    assert seen == ["tf32"]
    assert settings.fp32_precision == before
    assert not torch.backends.cuda.matmul.allow_tf32
