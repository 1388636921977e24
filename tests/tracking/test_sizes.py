"""The names of a shape's axes."""

import pytest

from lab.definition.catalogue import load_experiments
from lab.definition.planning import planned
from lab.tracking.sizes import axis_names, sizes


@pytest.mark.parametrize(
    ("operator", "axes", "names"),
    [
        ("softmax", 1, ("elements",)),
        ("softmax", 2, ("rows", "columns")),
        ("matmul", 3, ("M", "N", "K")),
        ("fp8-gemm-row", 3, ("M", "N", "K")),
        ("gemmology", 3, ("axis_1", "axis_2", "axis_3")),
        ("attention-causal", 5, ("batch", "q_heads", "k_heads", "tokens", "head_size")),
        ("attention-chunk", 6, ("batch", "q_heads", "k_heads", "queries", "keys", "head_size")),
        ("rope", 4, ("batch", "heads", "tokens", "head_size")),
        ("rmsnorm-rope", 4, ("batch", "tokens", "heads", "head_size")),
    ],
)
def test_axes_have_the_names_that_their_field_gives_them(operator: str, axes: int, names: tuple[str, ...]) -> None:
    assert axis_names(operator, axes) == names


def test_every_axis_of_the_labs_own_experiments_has_a_name() -> None:
    cases = [case for experiment in load_experiments() for case in planned(experiment, frozenset()).cases]
    assert not {case.name for case in cases for name in sizes(case) if name.startswith("axis_")}
