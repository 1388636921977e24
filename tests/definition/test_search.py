"""A search is an experiment whose name says all that it is made of."""

import dataclasses
import functools

import pytest
import torch

from lab.definition.catalogue import choose_experiments, experiments_of_run, load_tunables
from lab.definition.experiment import CEILINGS, Experiment
from lab.definition.plan import planned
from lab.definition.search import (
    RULE,
    candidates,
    configuration_name,
    configuration_title,
    is_search,
    search_name,
    search_of,
)
from lab.errors import PlanError
from lab.kernels.launch import Configuration
from lab.kernels.rows import norm_choices, norm_rule
from lab.worker.correctness import check_profile

TUNABLES = load_tunables()


def search(name: str) -> Experiment:
    (found,) = choose_experiments([name])
    return found


def test_a_search_holds_every_candidate_against_the_rule() -> None:
    found = search("tune-rmsnorm-4096x4096-float16")
    rule = configuration_name(norm_rule((4096, 4096), 2))
    names = {configuration_name(choice) for choice in norm_choices((4096, 4096), 2)}
    assert rule in names
    assert found.profiles[0].name == RULE
    assert {profile.name for profile in found.profiles[1:]} == names - {rule}
    assert [claim.subject for claim in found.claims] == list(found.profiles[1:])
    assert {(claim.baseline.name, claim.threshold) for claim in found.claims if claim.baseline} == {(RULE, 1.02)}
    assert [case.name for case in found.cases] == ["rmsnorm-4096x4096-float16"]
    assert is_search(planned(found, frozenset()))


@pytest.mark.parametrize("scope", ["device_cold", "graph"])
@pytest.mark.parametrize("only", [(), (0,), (2, 0)])
@pytest.mark.parametrize("dtype", ["float16", "float8_e4m3fn"])
def test_the_name_of_a_search_gives_the_search_again(scope: str, only: tuple[int, ...], dtype: str) -> None:
    name = search_name("layernorm", (64, 896), dtype, scope, only)
    found = search(name)
    everyone = [configuration_name(each) for each in candidates(TUNABLES["layernorm"], (64, 896), dtype)]
    assert found.name == name
    assert [profile.name for profile in found.profiles[1:]] == [
        everyone[place] for place in only or range(len(everyone))
    ]
    assert {claim.scope for claim in found.claims} == {scope}
    assert scope in found.scopes


def test_a_profile_launches_its_configuration() -> None:
    seen = []
    tunable = dataclasses.replace(
        TUNABLES["rmsnorm"], entry=lambda x, weight, configuration: seen.append(configuration)
    )
    found = search_of("tune-rmsnorm-8x4096-float16-of-1", {"rmsnorm": tunable})
    found.profiles[1].implementations["rmsnorm"]()("x", "weight")
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


@pytest.mark.parametrize("tunable", TUNABLES.values(), ids=TUNABLES)
def test_what_can_be_tuned_agrees_with_its_experiment(tunable) -> None:
    """Its key is of its operator, and the rule is among the choices at ordinary shapes."""
    assert tunable.tuning.key((64, 896), "float16", "a GPU").operator == tunable.operator.name
    assert tunable.tuning.rule((64, 896), 2) in list(tunable.tuning.choices((64, 896), 2))


@pytest.mark.parametrize("tunable", TUNABLES.values(), ids=TUNABLES)
def test_every_candidate_computes_what_its_operator_says(tunable) -> None:
    """The first and the last of them, on a small shape."""
    shape, device = (6, 48), "cuda" if torch.cuda.is_available() else "cpu"
    held = candidates(tunable, shape, "float16")
    for configuration in (held[0], held[-1]):
        inputs = [tunable.operator.inputs(shape, torch.float16, device, seed) for seed in (1, 2, 3)]
        call = functools.partial(tunable.entry, configuration=configuration)
        found = check_profile(tunable.operator, call, inputs, (1, 2, 3))
        assert found.passed, f"{configuration_name(configuration)}: {found.message}"
