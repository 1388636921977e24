"""The primitives' cases fit a GPU and the ladder that they are held against; their profiles differ as they say."""

import pytest
import torch

from experiments.gpu_ceilings import GPU_CEILINGS
from experiments.memory_primitives import (
    COPY_TRANSPOSED,
    MEMORY_PRIMITIVES,
    TRITON_BLOCKS,
    copy_in_blocks,
    transposed_inputs,
)
from experiments.softmax_fusion import SOFTMAX_FUSION
from lab import Experiment
from lab.definition.plan import PlannedCase
from lab.definition.planning import planned
from lab.worker.correctness import check_profile
from lab.worker.edges import edge_inputs
from lab.worker.measure import rotation

PLANNED = planned(MEMORY_PRIMITIVES, frozenset())
CASES = {case.name: case for case in PLANNED.cases}
MIB = 1 << 20


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_on_80_gb_every_case_has_its_graphs(case: PlannedCase) -> None:
    assert rotation(case, 50 * MIB, 80_000_000_000, len(PLANNED.profiles_of(case)), 3) >= 3


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_every_case_is_within_the_ladder_of_the_ceilings(case: PlannedCase) -> None:
    ladder = planned(GPU_CEILINGS, frozenset()).cases
    largest = max(rung.least_bytes for rung in ladder if rung.op == ("read" if case.op == "reduction" else "copy"))
    assert 1024 * MIB <= case.least_bytes <= largest


@pytest.mark.parametrize(("experiment", "few", "all_shapes"), [(MEMORY_PRIMITIVES, 9, 16), (SOFTMAX_FUSION, 19, 34)])
def test_a_run_has_few_cells(experiment: Experiment, few: int, all_shapes: int) -> None:
    assert len([*planned(experiment, frozenset()).cells()]) == few
    assert len([*planned(experiment, frozenset({"all-shapes"})).cells()]) == all_shapes


def test_a_transposed_matrix_has_its_columns_side_by_side() -> None:
    (x,) = transposed_inputs((3, 5), torch.float32, "cpu", seed=1)
    assert (x.shape, x.stride()) == ((3, 5), (1, 3))


@pytest.mark.parametrize("experiment", [MEMORY_PRIMITIVES, SOFTMAX_FUSION], ids=lambda experiment: experiment.name)
def test_unusual_inputs_come_out_right(experiment: Experiment) -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    for operator in {case.operator.name: case.operator for case in experiment.cases}.values():
        asked = (4, 1024), torch.float32, device
        inputs = [operator.inputs(*asked, seed) for seed in (1, 2, 3)]
        for profile in experiment.profiles:
            if operator.name not in profile.implementations or profile.package or "compile" in profile.name:
                continue
            if profile.needs_nvcc and device == "cpu":
                continue
            function = profile.implementations[operator.name]()
            correctness = check_profile(operator, function, inputs, (1, 2, 3), edges=edge_inputs(operator, *asked))
            assert correctness.passed, f"{profile.name}: {correctness.message}"
            assert {edge.outcome for edge in correctness.edges} == {"passed"}


def test_blocks_of_each_size_copy() -> None:
    x = torch.randn(70, 130, device="cuda" if torch.cuda.is_available() else "cpu")
    for profile in TRITON_BLOCKS:
        assert torch.equal(copy_in_blocks(int(profile.name.rpartition("-")[2]))(x), x)
    assert torch.equal(COPY_TRANSPOSED.reference(x.t()), x.t().double())
