"""Every experiment of the lab is fit to be planned, measured and published."""

import pytest
import torch

from lab import Experiment
from lab.definition.catalogue import choose_experiments, experiments_of_run, load_experiments
from lab.definition.dtypes import ITEMSIZES
from lab.definition.experiment import CEILINGS, one_of
from lab.definition.planning import planned
from lab.errors import PlanError
from lab.evidence.codec import from_data, to_data
from lab.kernels.add_rmsnorm import ADD_RMSNORM_TUNING
from lab.kernels.attention import MOST_FEATURES
from lab.kernels.layernorm import LAYERNORM_TUNING
from lab.kernels.rmsnorm import RMSNORM_TUNING
from lab.kernels.softmax import SOFTMAX_TUNING
from lab.worker.correctness import check_profile

EXPERIMENTS = load_experiments()
every_experiment = pytest.mark.parametrize("experiment", EXPERIMENTS, ids=lambda experiment: experiment.name)


@every_experiment
def test_it_asks_a_question_and_says_why(experiment: Experiment) -> None:
    assert experiment.question.endswith("?")
    assert experiment.importance
    assert experiment.focus


@every_experiment
def test_it_says_what_it_does_not_show(experiment: Experiment) -> None:
    assert experiment.does_not_show
    assert all(sentence.endswith(".") for sentence in experiment.does_not_show)


@every_experiment
def test_each_profile_says_its_technique_hypothesis_and_signal(experiment: Experiment) -> None:
    for profile in experiment.profiles:
        assert profile.title
        assert profile.technique
        assert profile.hypothesis
        assert profile.signal


@every_experiment
def test_each_profile_is_of_use_at_some_case(experiment: Experiment) -> None:
    operators = {case.operator.name for case in experiment.cases}
    for profile in experiment.profiles:
        assert operators & set(profile.implementations)
        assert set(profile.implementations) <= {case.operator.name for each in EXPERIMENTS for case in each.cases}
        assert set(profile.kernels or {}) <= set(profile.implementations)


ROW_KERNELS = {
    "_rmsnorm": RMSNORM_TUNING, "_layernorm": LAYERNORM_TUNING, "_add_rmsnorm": ADD_RMSNORM_TUNING,
    "_softmax": SOFTMAX_TUNING,
}  # fmt: skip
FORMS = {"ROWS": "kernel", "HELD": "wide_kernel", "PART": "parts_kernel"}  # by a constant of the launch


@every_experiment
def test_a_profile_names_the_kernel_that_the_rule_launches_at_each_case(experiment: Experiment) -> None:
    """Else its result would be refused: it did not launch its own kernel."""
    for profile in experiment.profiles:
        for case in experiment.cases:
            named = one_of((profile.kernels or {}).get(case.operator.name, ""))
            for stem, tuning in ROW_KERNELS.items():
                if f"{stem}_kernel" in named or f"{stem}_wide_kernel" in named:
                    rule = tuning.rule(case.shape, ITEMSIZES[case.dtype])
                    assert {f"{stem}_{FORMS[name]}" for name, _ in rule.constants if name in FORMS} <= set(named)


@every_experiment
def test_each_case_can_be_reached(experiment: Experiment) -> None:
    for case in experiment.cases:
        assert case.dtype in ITEMSIZES
        assert planned(experiment, frozenset({case.only_with} - {""})).cases
    assert planned(experiment, frozenset()).included_cases, "no case without a flag"


@every_experiment
def test_each_claim_can_be_judged_with_one_flag_and_each_headline_without(experiment: Experiment) -> None:
    for claim in experiment.claims:
        flags = {case.only_with for case in claim.cases}
        assert "" in flags or len(flags) == 1, claim.name
    for headline in experiment.headlines:
        assert "" in {case.only_with for case in headline.cases}, headline.name


@every_experiment
def test_each_claim_names_a_rival(experiment: Experiment) -> None:
    assert all(claim.subject.name != claim.baseline.name for claim in experiment.claims if claim.baseline)


@every_experiment
def test_it_survives_the_trip_through_plain_data(experiment: Experiment) -> None:
    plan = planned(experiment, frozenset())
    assert from_data(type(plan), to_data(plan)) == plan


# Triton's interpreter cuts a float32 off where it makes it bfloat16. One such error goes unnoticed, but what is made of
# the result has its tolerance for a rounding.
ROUGH_WHEN_INTERPRETED = {"triton-unfused", "triton-flash-attention", "triton-decode-attention"}

# PyTorch has these backward passes on a GPU only, or takes other dtypes on a CPU.
ON_A_GPU_ONLY = {("torch-eager", f"{norm}-backward") for norm in ("rmsnorm", "add-rmsnorm", "layernorm")}


# Of the cheats, tests/worker/test_cheating.py says what they compute.
@pytest.mark.parametrize("experiment", [e for e in EXPERIMENTS if e.name != "cheating-kernels"], ids=lambda e: e.name)
@pytest.mark.parametrize("shape", [(4, 48), (3, 1008)], ids=str)
def test_each_profile_computes_what_its_operator_says(experiment: Experiment, shape: tuple[int, ...]) -> None:
    """On a small shape, so that a wrong profile is found without a GPU; compiled ones need a GPU's patience."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    for operator, dtype, rank in {(case.operator, case.dtype, len(case.shape)) for case in experiment.cases}:
        seeds = (1, 2)  # the second call must leave the first one's result alone
        small = (*(1, 2, 1)[: rank - 2], *shape) if rank > 3 else (*shape, 64)[:rank]
        if rank == 3:  # a product: a whole tile of any profile and a part of one
            small = (shape[0], min(shape[1], 272), 64)
        if "attention" in operator.name:
            small = (*small[:-1], min(small[-1], MOST_FEATURES))
        able = [
            profile
            for profile in experiment.profiles
            if operator.name in profile.implementations and not profile.package and "compile" not in profile.name
        ]
        if not able:  # its inputs may need the package too
            continue
        inputs = [operator.inputs(small, getattr(torch, dtype), device, seed) for seed in seeds]
        for profile in able:
            if device == "cpu" and (
                profile.name in ROUGH_WHEN_INTERPRETED
                or profile.needs_nvcc
                or (profile.name, operator.name) in ON_A_GPU_ONLY
            ):
                continue
            with torch.no_grad():
                function = profile.implementations[operator.name]()
                correctness = check_profile(operator, function, inputs, seeds, in_place=profile.in_place)
            assert correctness.passed, f"{profile.name}: {correctness.message}"


def test_all_names_every_experiment_but_those_about_the_lab_itself() -> None:
    assert choose_experiments(["all"]) == tuple(e for e in EXPERIMENTS if not e.self_test)
    assert choose_experiments([e.name for e in EXPERIMENTS]) == EXPERIMENTS


@pytest.mark.parametrize(
    ("asked", "device", "measured"),
    [
        (["all"], "cuda", ["normalization-fusion", CEILINGS]),
        (["normalization-fusion"], "cuda", ["normalization-fusion", CEILINGS]),
        ([CEILINGS, "normalization-fusion"], "cuda", ["normalization-fusion", CEILINGS]),
        ([CEILINGS], "cuda", [CEILINGS]),
        (["cheating-kernels", "measurement-validity"], "cuda", ["measurement-validity", "cheating-kernels"]),
        (["cheating-kernels", CEILINGS], "cuda", [CEILINGS, "cheating-kernels"]),
        (["all"], "cpu", ["normalization-fusion"]),
        (["normalization-fusion"], "cpu", ["normalization-fusion"]),
    ],
)
def test_a_gpus_ceilings_are_measured_once_beside_what_is_no_test_of_the_lab(
    asked: list[str], device: str, measured: list[str]
) -> None:
    names = [e.name for e in experiments_of_run(asked, device) if e.name in (*measured, *asked, CEILINGS)]
    assert names == measured


def test_asked_for_none_a_gpu_measures_the_first_with_its_ceilings_and_a_cpu_the_first_for_a_cpu() -> None:
    assert [e.name for e in experiments_of_run([], "cuda")] == ["normalization-fusion", CEILINGS]
    assert [e.name for e in experiments_of_run([], "cpu")] == ["cpu-fused-calls"]


def test_what_is_for_a_cpu_is_measured_on_a_gpu_only_when_asked_for_by_name() -> None:
    assert "cpu-fused-calls" not in [e.name for e in experiments_of_run(["all"], "cuda")]
    assert "cpu-fused-calls" in [e.name for e in experiments_of_run(["cpu-fused-calls"], "cuda")]
    assert "cpu-fused-calls" in [e.name for e in experiments_of_run(["all"], "cpu")]


def test_every_claim_of_an_experiment_for_a_cpu_can_be_judged_there() -> None:
    for experiment in EXPERIMENTS:
        if experiment.for_cpu:
            assert all("cpu" in profile.devices and not profile.package for profile in experiment.profiles)
            assert not any(case.only_with for case in experiment.cases)


@pytest.mark.parametrize("asked", [[CEILINGS], ["all", CEILINGS]])
def test_a_gpus_ceilings_are_not_asked_of_a_cpu(asked: list[str]) -> None:
    with pytest.raises(PlanError, match="'gpu-ceilings' measures what a GPU allows, and this run measures the CPU"):
        experiments_of_run(asked, "cpu")


def test_an_unknown_experiment_is_refused_with_the_known_ones() -> None:
    with pytest.raises(PlanError, match=r"no experiment 'nothing'; accepted are 'all' and \['normalization-fusion'"):
        choose_experiments(["nothing"])
