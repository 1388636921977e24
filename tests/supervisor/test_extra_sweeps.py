"""Which cells are measured in more sweeps than all are."""

import dataclasses

import pytest
from factory import DOUBLING, FAST, FAST_BEATS_PLAIN, PLAIN, SMALL, plan_of, profile, small_experiment

from lab.definition.experiment import Case, Claim
from lab.definition.plan import Plan
from lab.definition.planning import make_protocol
from lab.supervisor.extra_sweeps import all_cells, another_sweep, extra_cells, recompiled_cells

OTHER = Case(operator=DOUBLING, shape=(8, 8), dtype="float32", description="where no claim is about a compiler")
COMPILED = profile("compiled", recompiles=True)
ASIDE = profile("aside")
FAST_BEATS_COMPILED = Claim(
    name="fast-beats-compiled", text="It is.", subject=FAST, baseline=COMPILED, cases=(SMALL,)
)  # fmt: skip
CLAIM = dataclasses.replace(FAST_BEATS_PLAIN, cases=(SMALL, OTHER))


def plan(sweeps: int = 5, device: str = "cuda", **changes: object) -> Plan:
    facts: dict[str, object] = {
        "cases": (SMALL, OTHER), "profiles": (PLAIN, FAST, COMPILED, ASIDE), "claims": (CLAIM, FAST_BEATS_COMPILED),
        "headlines": (CLAIM,),
    }  # fmt: skip
    experiment = small_experiment(**(facts | changes))
    return plan_of(device=device, sweeps=sweeps, experiments=[experiment])


def test_what_is_compared_with_a_compiler_is_drawn_anew_with_the_control() -> None:
    assert plan().experiments[0].cases[0].control == "plain"
    assert recompiled_cells(plan()) == [("doubling", SMALL.name, name) for name in ("plain", "fast", "compiled")]


def test_a_claim_about_traffic_needs_no_draws() -> None:
    claim = dataclasses.replace(FAST_BEATS_COMPILED, measure="traffic")
    assert recompiled_cells(plan(claims=(CLAIM, claim))) == []


def test_few_sweeps_a_cpu_and_a_test_of_the_lab_are_left_as_they_are() -> None:
    assert recompiled_cells(plan(sweeps=3)) == []
    assert recompiled_cells(plan(device="cpu", sweeps=3)) == []
    assert recompiled_cells(plan(self_test=True)) == []


def test_both_sides_of_an_imprecise_claim_come_beside_what_is_drawn_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """And no profile that only other claims are about, precise ones."""
    aside = dataclasses.replace(FAST_BEATS_PLAIN, name="aside-beats-plain", subject=ASIDE, cases=(OTHER,))
    several = plan(claims=(CLAIM, FAST_BEATS_COMPILED, aside))
    imprecise = {("doubling", OTHER.name, CLAIM.name)}
    monkeypatch.setattr("lab.supervisor.extra_sweeps.imprecise_claims", lambda plan, records: imprecise)
    keys = extra_cells(several, [])
    assert set(keys) == {*recompiled_cells(several), *(("doubling", OTHER.name, name) for name in ("plain", "fast"))}
    assert [key for key in all_cells(several) if key in keys] == keys


def test_what_an_extra_sweep_measures_is_counted_in_cells() -> None:
    keys = [("doubling", case.name, name) for case in (SMALL, OTHER) for name in ("plain", "fast")]
    assert another_sweep(keys[:3]) == "3 cells of 2 cases are measured in another sweep"
    assert another_sweep(keys[:2]) == "2 cells of 1 case are measured in another sweep"


def test_caches_are_fresh_on_a_gpu_where_something_is_compiled_at_run_time() -> None:
    assert plan().protocol.fresh_caches
    assert not plan(device="cpu", sweeps=3).protocol.fresh_caches
    assert not plan(profiles=(PLAIN, FAST), claims=(CLAIM,)).protocol.fresh_caches
    assert not make_protocol(5, "cuda").fresh_caches
