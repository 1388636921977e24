"""Under which name a grid of winners shows an implementation."""

from experiments.headline_attention import HEADLINE_ATTENTION
from experiments.normalization_fusion import NORMALIZATION_FUSION
from lab.definition.experiment import Experiment
from lab.definition.families import family_of
from lab.definition.planning import planned


def families(experiment: Experiment) -> dict[str, str]:
    return {profile.name: family_of(profile) for profile in planned(experiment, frozenset()).profiles}


def test_a_baseline_is_written_out_where_it_is_several_operations_and_not_where_it_is_one_call() -> None:
    assert families(NORMALIZATION_FUSION)["torch-baseline"] == "eager"
    assert families(HEADLINE_ATTENTION) == {"torch-baseline": "fused", "sdpa-cudnn": "cudnn", "triton": "lab-triton"}
