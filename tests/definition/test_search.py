"""A search is an experiment whose name says all that it is made of."""

import dataclasses
import functools
from pathlib import Path
from typing import Any

import pytest
import torch

from lab.definition.catalogue import choose_experiments, experiments_of_run, load_tunables
from lab.definition.experiment import CEILINGS, Experiment
from lab.definition.planning import planned
from lab.definition.search import (
    RULE,
    Tunable,
    candidates,
    configuration_name,
    configuration_title,
    is_search,
    search_name,
    search_of,
)
from lab.errors import PlanError
from lab.kernels.launch import Configuration, Launch, gpu_of
from lab.kernels.rmsnorm import rmsnorm_choices
from lab.kernels.rope import ROPE_TUNING, rope, rope_, rope_inputs
from lab.kernels.rows import norm_rule
from lab.kernels.tuned import keep
from lab.worker.correctness import check_profile

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
TUNABLES = load_tunables()
every_tunable = pytest.mark.parametrize("tunable", TUNABLES.values(), ids=TUNABLES)


def shape_for(tunable: Tunable, rows: int, columns: int) -> tuple[int, ...]:
    """In the form that the operator takes: so many rows, or so many positions of a few heads."""
    heads = {"BxHxSxD": (2, 3, rows), "BxHqxHkxSxD": (2, 4, 2, rows), "BxSxNxD": (2, rows, 3)}
    return (*heads.get(tunable.tuning.form, (rows,)), columns)


def search(name: str) -> Experiment:
    (experiment,) = choose_experiments([name])
    return experiment


def test_a_search_holds_every_candidate_against_the_rule() -> None:
    experiment = search("tune-rmsnorm-4096x4096-float16")
    rule = configuration_name(norm_rule((4096, 4096), 2))
    names = {configuration_name(choice) for choice in rmsnorm_choices((4096, 4096), 2)}
    assert rule in names
    assert experiment.profiles[0].name == RULE
    assert {profile.name for profile in experiment.profiles[1:]} == names - {rule}
    assert [claim.subject for claim in experiment.claims] == list(experiment.profiles[1:])
    assert {(claim.baseline.name, claim.threshold) for claim in experiment.claims if claim.baseline} == {(RULE, 1.02)}
    assert [case.name for case in experiment.cases] == ["rmsnorm-4096x4096-float16"]
    assert is_search(planned(experiment, frozenset()))


@pytest.mark.parametrize("scope", ["device_cold", "graph"])
@pytest.mark.parametrize("only", [(), (0,), (2, 0)])
@pytest.mark.parametrize("dtype", ["float16", "float8_e4m3fn"])
def test_the_name_of_a_search_gives_the_search_again(scope: str, only: tuple[int, ...], dtype: str) -> None:
    name = search_name("layernorm", (64, 896), dtype, scope, only)
    experiment = search(name)
    everyone = [configuration_name(each) for each in candidates(TUNABLES["layernorm"], (64, 896), dtype)]
    assert experiment.name == name
    assert [profile.name for profile in experiment.profiles[1:]] == [
        everyone[place] for place in only or range(len(everyone))
    ]
    assert {claim.scope for claim in experiment.claims} == {scope}
    assert scope in experiment.scopes


def test_a_profile_launches_its_configuration() -> None:
    seen = []
    tunable = dataclasses.replace(
        TUNABLES["rmsnorm"], entry=lambda x, weight, configuration: seen.append(configuration)
    )
    experiment = search_of("tune-rmsnorm-8x4096-float16-of-1", {"rmsnorm": tunable})
    experiment.profiles[1].implementations["rmsnorm"]()("x", "weight")
    assert seen == [candidates(tunable, (8, 4096), "float16")[1]]


def test_names_and_titles_of_configurations() -> None:
    usual = Configuration.of(ROWS=1, BLOCK_SIZE=4096, num_warps=8)
    other = Configuration.of(BLOCK=64, num_warps=1, num_stages=2)
    assert (configuration_name(usual), configuration_name(other)) == (
        "rows-1-block-size-4096-warps-8", "block-64-warps-1-stages-2"
    )  # fmt: skip
    assert (configuration_title(usual), configuration_title(other)) == (
        "ROWS 1, BLOCK_SIZE 4096, 8 warps", "BLOCK 64, 1 warp, 2 stages"
    )  # fmt: skip


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("tune-nothing-4x4-float16", r"no search 'tune-nothing-4x4-float16'; accepted is tune-OPERATOR-MxN-DTYPE"),
        ("tune-rmsnorm-4x4-int8", "no search"),
        ("tune-rmsnorm-0x4-float16", "no search"),
        ("tune-rmsnorm-4x4096-float16-of-999", "has no candidate 999; there are"),
        ("tune-rmsnorm-4-float16", r"rmsnorm of shape \(4,\), float16: is no shape that its inputs can have"),
    ],
)
def test_a_name_of_no_search_is_refused(name: str, complaint: str) -> None:
    with pytest.raises(PlanError, match=complaint):
        choose_experiments([name])


def test_a_search_can_be_run_by_name_and_is_not_part_of_all() -> None:
    name = "tune-rmsnorm-64x896-float16"
    assert [e.name for e in experiments_of_run([name], "cuda")] == [CEILINGS, name]
    assert [e.name for e in experiments_of_run([name], "cpu")] == [name]
    assert not [e for e in choose_experiments(["all"]) if e.name.startswith("tune-")]


@every_tunable
def test_what_can_be_tuned_agrees_with_its_experiment(tunable) -> None:
    """Its key is of its operator, and the rule is among the choices at ordinary shapes."""
    shape = shape_for(tunable, 64, 896)
    assert tunable.tuning.key(shape, "float16", "a GPU").operator == tunable.operator.name
    assert tunable.tuning.rule(shape, 2) in list(tunable.tuning.choices(shape, 2))


@every_tunable
def test_a_shape_of_too_few_or_too_many_sizes_is_reported_the_form(tunable) -> None:
    if form := tunable.tuning.form:
        shape = shape_for(tunable, 64, 896)
        for wrong in (shape[1:], (1, *shape)):
            with pytest.raises(PlanError, match=f"is no shape that its inputs can have; accepted is {form}$"):
                candidates(tunable, wrong, "float16")


@pytest.mark.parametrize(
    ("name", "features", "accepted"),
    [
        ("rope", 1, "2 or more"),
        ("rope-qk", 1, "2 or more"),
        ("rmsnorm-rope", 1, "even numbers from 2"),
        ("rmsnorm-rope", 33, "even numbers from 2"),
        ("qk-norm-rope", 33, "even numbers from 2"),
    ],
)
def test_a_head_that_is_no_pairs_is_refused(name: str, features: int, accepted: str) -> None:
    with pytest.raises(PlanError, match=f"a head has {features} features; accepted are {accepted}$"):
        candidates(TUNABLES[name], shape_for(TUNABLES[name], 4, features), "float16")


@every_tunable
def test_every_candidate_computes_what_its_operator_says(tunable) -> None:
    """The first and the last of them, on a small shape."""
    shape = shape_for(tunable, 6, 48)
    configurations = candidates(tunable, shape, "float16")
    for configuration in (configurations[0], configurations[-1]):
        inputs = [tunable.operator.inputs(shape, torch.float16, DEVICE, seed) for seed in (1, 2, 3)]
        call = functools.partial(tunable.entry, configuration=configuration)
        correctness = check_profile(tunable.operator, call, inputs, (1, 2, 3))
        assert correctness.passed, f"{configuration_name(configuration)}: {correctness.message}"


@every_tunable
def test_what_was_found_is_what_its_entry_launches(tunable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At a shape that is settled here for the first time."""
    launched = noting_launches(monkeypatch)
    monkeypatch.setenv("LAB_TUNED", str(tmp_path / "tuned.json"))
    shape = shape_for(tunable, 5, 208)
    inputs = tunable.operator.inputs(shape, torch.bfloat16, DEVICE, 1)
    configuration = candidates(tunable, shape, "bfloat16")[-1]
    assert configuration != tunable.tuning.rule(shape, 2)
    keep(
        tmp_path / "tuned.json",
        tunable.tuning.key(shape, "bfloat16", gpu_of(inputs[0].get_device())),
        configuration,
        {},
    )
    tunable.entry(*inputs)
    wanted = {"num_warps": configuration.num_warps, **dict(configuration.constants)}
    wanted.pop("PROGRAMS", None)  # not as it is: times the multiprocessors
    assert any(wanted.items() <= each.items() for each in launched)


@pytest.mark.parametrize("how", [{}, {"layout": "interleaved"}, {"inverse": True}], ids=str)
@pytest.mark.parametrize("entry", [rope, rope_])
def test_what_was_found_for_rope_holds_in_place_and_in_every_layout(
    entry: Any, how: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    launched = noting_launches(monkeypatch)
    monkeypatch.setenv("LAB_TUNED", str(tmp_path / "tuned.json"))
    shape = (1, 3, 5, 80)
    inputs = rope_inputs(shape, torch.bfloat16, DEVICE, 1)
    configuration = candidates(TUNABLES["rope"], shape, "bfloat16")[-1]
    keep(tmp_path / "tuned.json", ROPE_TUNING.key(shape, "bfloat16", gpu_of(inputs[0].get_device())), configuration, {})
    entry(*inputs, **how)
    assert [(each["TOKENS"], each["HEADS"], each["num_warps"]) for each in launched] == [
        (configuration["TOKENS"], configuration["HEADS"], configuration.num_warps)
    ]


def noting_launches(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What is named of each launch that is settled from here on."""
    noted: list[dict[str, Any]] = []
    original = Launch.__init__

    def noting(self: Launch, *arguments: Any, **named: Any) -> None:
        noted.append(named)
        original(self, *arguments, **named)

    monkeypatch.setattr(Launch, "__init__", noting)
    return noted
