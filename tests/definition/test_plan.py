"""Experiments + options → the plan that is registered before anything is measured."""

import dataclasses
import json
import re
from collections.abc import Collection, Mapping
from pathlib import Path

import pytest
from counting import PLAIN_MOVES_TWICE
from factory import DOUBLING, FAST, FAST_BEATS_PLAIN, LARGE, PLAIN, SMALL, plan_of, small_experiment

from lab.definition.catalogue import choose_experiments
from lab.definition.experiment import Experiment
from lab.definition.plan import Plan, case_order
from lab.definition.plan_file import load_plan, save_plan
from lab.definition.planning import LONGEST_RUN_ID, planned
from lab.errors import PlanError, RunError
from lab.evidence.codec import SCHEMA
from lab.kernels.traffic import Traffic


@pytest.mark.parametrize("run_id", ["a", "7", "h100-first-light", "2026-01-02", "x" * LONGEST_RUN_ID])
def test_a_plain_slug_names_a_run(run_id: str) -> None:
    assert plan_of(run_id).run_id == run_id


@pytest.mark.parametrize(
    "run_id",
    ["", "A", "a b", "a_b", "a/b", "..", "a.b", "-a", "a-", "a--b", "é", "a\n", "x" * (LONGEST_RUN_ID + 1)],
    ids=repr,
)
def test_another_run_id_is_refused_with_the_rule(run_id: str) -> None:
    with pytest.raises(PlanError, match=re.escape(f"run id {run_id!r} is not a plain slug; accepted are up to 80")):
        plan_of(run_id)


@pytest.mark.parametrize("sweeps", [0, -1, 61])
def test_a_number_of_sweeps_outside_1_to_60_is_refused(sweeps: int) -> None:
    with pytest.raises(PlanError, match=f"--sweeps {sweeps}: accepted are 1 to 60"):
        plan_of(sweeps=sweeps)


def included(plan: Plan) -> list[str]:
    return [case.name for case in plan.experiment("normalization-fusion").included_cases]


def test_without_the_sweep_flag_the_four_cases_of_the_seed_page_are_planned() -> None:
    assert included(plan_of(include=())) == [
        "rmsnorm-512x1024-float16",
        "rmsnorm-2048x4096-float16",
        "rmsnorm-4096x4096-float16",
        "layernorm-4096x4096-float32",
    ]


def test_with_the_sweep_flag_all_eleven_cases_are_planned() -> None:
    assert len(included(plan_of(include=("rmsnorm-shape-sweep",)))) == 11


def test_a_case_that_is_left_out_stays_in_the_plan_and_says_which_flag_brings_it() -> None:
    cases = plan_of(include=()).experiment("normalization-fusion").cases
    assert {case.only_with for case in cases if not case.included} == {"rmsnorm-shape-sweep"}


def test_a_profile_is_planned_only_where_it_implements_the_operator() -> None:
    cells = {(case.op, profile.name) for case, profile in plan_of().experiments[0].cells()}
    assert ("rmsnorm", "triton-fused-rmsnorm") in cells
    assert ("layernorm", "triton-fused-rmsnorm") not in cells
    assert ("layernorm", "liger") in cells


def test_cells_are_counted_over_all_included_cases() -> None:
    assert plan_of(experiments=[small_experiment()], include=()).cell_count() == 2
    assert plan_of(experiments=[small_experiment()], include=("large-sweep",)).cell_count() == 4


def test_the_control_is_a_baseline_of_times_before_one_of_bytes() -> None:
    bytes_of_fast = dataclasses.replace(PLAIN_MOVES_TWICE, subject=PLAIN, baseline=FAST)
    beats = dataclasses.replace(FAST_BEATS_PLAIN, cases=(LARGE,))
    for claims, control in (((bytes_of_fast, beats), "plain"), ((bytes_of_fast,), ""), ((beats,), "plain")):
        experiment = small_experiment(claims=claims, headlines=claims)
        assert planned(experiment, frozenset()).cases[1].control == control


def test_a_profile_is_timed_twice_where_a_claim_compares_it_and_nowhere_else() -> None:
    silent = dataclasses.replace(FAST_BEATS_PLAIN, cases=(SMALL,))
    experiment = small_experiment(claims=(silent,), headlines=(silent,))
    controls = {case.name: case.control for case in plan_of(experiments=[experiment]).experiments[0].cases}
    assert controls == {SMALL.name: "plain", LARGE.name: ""}


@pytest.mark.parametrize(("flops", "arithmetic"), [(300 * 1000, True), (299 * 1000, False)])
@pytest.mark.parametrize("sustained", [True, False])
def test_cases_of_300_operations_a_byte_are_measured_back_to_back_where_their_experiment_asks_for_it(
    flops: int, arithmetic: bool, sustained: bool
) -> None:
    operator = dataclasses.replace(
        DOUBLING, traffic=lambda shape, itemsize: Traffic(read_bytes=600, written_bytes=400, flops=flops)
    )
    case = dataclasses.replace(SMALL, operator=operator)
    claim = dataclasses.replace(FAST_BEATS_PLAIN, cases=(case,))
    experiment = small_experiment(cases=(case,), claims=(claim,), headlines=(claim,), sustained=sustained)
    assert planned(experiment, frozenset()).cases[0].sustained is (sustained and arithmetic)


def test_the_same_options_give_the_same_digest_twice() -> None:
    assert plan_of().digest == plan_of().digest


@pytest.mark.parametrize(
    "change",
    [{"sweeps": 3}, {"device": "cpu"}, {"profiling": True}, {"include": ("rmsnorm-shape-sweep",)}, {"run_id": "other"}],
    ids=str,
)
def test_any_option_changes_the_digest(change: dict[str, object]) -> None:
    assert plan_of(**change).digest != plan_of().digest  # type: ignore[arg-type]


def test_a_plan_is_read_as_it_was_saved(tmp_path: Path) -> None:
    plan = plan_of()
    save_plan(plan, tmp_path)
    assert load_plan(tmp_path) == plan
    assert load_plan(tmp_path).digest == plan.digest


def test_a_folder_without_a_plan_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"no plan\.json there; a run directory is what `lab run` writes"):
        load_plan(tmp_path)


def test_a_threshold_written_as_a_whole_number_keeps_the_plans_digest(tmp_path: Path) -> None:
    """The journal names its plan by digest: 3 in the definition must not come back as 3.0."""
    claim = dataclasses.replace(FAST_BEATS_PLAIN, threshold=3)
    experiment = dataclasses.replace(small_experiment(), claims=(claim,), headlines=(claim,))
    plan = plan_of(experiments=[experiment])
    save_plan(plan, tmp_path)
    assert load_plan(tmp_path).digest == plan.digest


def test_a_plan_of_another_schema_is_refused_with_both_numbers(tmp_path: Path) -> None:
    save_plan(plan_of(), tmp_path)
    data = json.loads((tmp_path / "plan.json").read_text())
    (tmp_path / "plan.json").write_text(json.dumps(data | {"schema": 99}))
    with pytest.raises(RunError, match=rf"plan\.json: schema 99; this version of the lab reads schemas 1 to {SCHEMA}"):
        load_plan(tmp_path)


@pytest.mark.parametrize("text", ["", "{", "[]", "7", '{"schema": 1}'])
def test_a_plan_that_is_none_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "plan.json").write_text(text)
    with pytest.raises(RunError, match=r"plan\.json"):
        load_plan(tmp_path)


@pytest.mark.parametrize("kind", ["cases", "profiles", "claims"])
@pytest.mark.parametrize("name", ["../../elsewhere", "a/b", "", "<b>", "a\u202eb", "UPPER"])
def test_a_plan_with_a_name_that_would_leave_its_folder_is_refused(tmp_path: Path, kind: str, name: str) -> None:
    """Names become addresses of pages and paths of files."""
    save_plan(plan_of(), tmp_path)
    data = json.loads((tmp_path / "plan.json").read_text())
    data["experiments"][0][kind][0]["name"] = name
    (tmp_path / "plan.json").write_text(json.dumps(data))
    with pytest.raises(RunError, match=re.escape(f"the name {name!r} is not a plain slug")):
        load_plan(tmp_path)


def test_the_order_of_cases_is_random_by_sweep_and_the_same_when_asked_again() -> None:
    plan = plan_of()
    experiment = plan.experiments[0]
    orders = [case_order(plan, experiment, sweep) for sweep in range(5)]
    assert orders == [case_order(plan, experiment, sweep) for sweep in range(5)]
    assert len({tuple(case.name for case in order) for order in orders}) > 1
    assert all(sorted(c.name for c in order) == sorted(included(plan)) for order in orders)


def test_an_experiment_that_is_not_in_the_plan_is_an_error() -> None:
    with pytest.raises(PlanError, match=r"'nothing' is not in this plan; it holds \['normalization-fusion'"):
        plan_of().experiment("nothing")


def test_counters_explain_all_but_ceilings_that_come_along() -> None:
    (ceilings,), (norms,) = (choose_experiments([name]) for name in ("gpu-ceilings", "normalization-fusion"))
    some = {ceilings.name: {ceilings.cases[0].name}}

    def counted(*experiments: Experiment, cases: Mapping[str, Collection[str]] = {}) -> list[str]:
        return [each.name for each in plan_of(experiments=experiments, cases=cases).counted]

    assert counted(norms, ceilings, cases=some) == [norms.name]
    assert counted(norms, ceilings) == [norms.name, ceilings.name], "asked for: all of them"
    assert counted(ceilings, cases=some) == [ceilings.name]
