"""Under which name a grid of winners shows an implementation."""

import torch

import lab
from experiments.headline_attention import HEADLINE_ATTENTION
from experiments.normalization_fusion import NORMALIZATION_FUSION
from lab.definition.experiment import Experiment
from lab.definition.families import families_of, heading, in_order
from lab.definition.planning import planned


def families(experiment: Experiment) -> dict[str, str]:
    return families_of(planned(experiment, frozenset()))


def test_a_baseline_is_written_out_where_it_is_several_operations_and_not_where_it_is_one_call() -> None:
    assert families(NORMALIZATION_FUSION)["torch-baseline"] == "eager"
    assert families(HEADLINE_ATTENTION) == {"torch-baseline": "fused", "sdpa-cudnn": "cudnn", "triton": "lab-triton"}


def test_profiles_that_are_all_of_one_family_each_stand_for_themselves() -> None:
    """Nobody knows the libraries of another project, and its grid compares its profiles."""
    mine = lab.experiment("doubling", shapes=[(4, 8)], reference=lambda x: 2 * x.double())
    mine.profile("plain", lambda x: x + x, baseline=True)
    mine.profile("shifted", lambda x: torch.ldexp(x, torch.tensor(1)))
    mine.claim("shifted")
    assert families(mine.definition()) == {"plain": "profile plain", "shifted": "profile shifted"}


def test_known_families_stand_in_their_order_and_profiles_after_them_by_name() -> None:
    assert in_order({"profile fused", "compile", "profile b", "lab-triton"}) == [
        "lab-triton", "compile", "profile b", "profile fused",
    ]  # fmt: skip
    assert [heading(family) for family in ("compile", "fused", "profile fused")] == [
        "torch.compile", "PyTorch, one call", "fused",
    ]  # fmt: skip
