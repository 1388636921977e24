"""Captured kernels against the profile: what is refused, and what an honest profile may do."""

import dataclasses
from collections.abc import Sequence

import pytest
from factory import FAST_BEATS_PLAIN, plan_of, profile, small_experiment, triton_kernel

from lab.evidence.record import Compiled, Kernel
from lab.profiler.wrong_kernel import wrong_kernel

Made = dict[str, Sequence[Compiled]]
KERNELS = {
    "plain": None, "fast": {"doubling": "_double"}, "twin": {"doubling": "_double"}, "library": None,
    "wide": {"doubling": "_double or _double_wide"},
}  # fmt: skip


def launch(name: str, registers: float | None = 32, threads: str = "(256, 1, 1)") -> Kernel:
    return Kernel(
        name=name, grid="(1, 1, 1)", block=threads, duration_seconds=1e-5, dram_read_bytes=1.0, dram_written_bytes=1.0,
        dram_percent=1.0, occupancy_percent=1.0, registers_per_thread=registers, shared_bytes_per_block=1056.0,
    )  # fmt: skip


def asked(subject: str, kernels: Sequence[Kernel], made: Made | None = None) -> str:
    """What is found of `subject`, of five profiles of which `fast` and its `twin` name the kernel _double."""
    profiles = tuple(profile(name, kernels=kernels) for name, kernels in KERNELS.items())
    claims = (dataclasses.replace(FAST_BEATS_PLAIN, subject=profiles[1], baseline=profiles[0]),)
    whole = small_experiment(profiles=profiles, claims=claims, headlines=claims)
    (experiment,) = plan_of(experiments=[whole]).experiments
    case = experiment.cases[0]
    (planned,) = [each for each in experiment.profiles if each.name == subject]
    compiled = {(case.name, name): kernels for name, kernels in (made or {}).items()}
    return wrong_kernel(experiment, case, planned, kernels, compiled)


def test_the_profiles_own_kernel_must_be_among_those_captured() -> None:
    assert asked("fast", [launch("_double")]) == ""
    assert asked("fast", [launch("flush"), launch("_double"), launch("cast")]) == ""
    assert asked("fast", [launch("flush"), launch("flush")]) == "_double is not among the captured ['flush']"


def test_of_two_kernels_that_a_profile_names_one_is_enough() -> None:
    assert asked("wide", [launch("_double_wide")]) == ""
    assert asked("wide", [launch("_double")]) == ""
    assert asked("wide", [launch("flush")]) == "_double or _double_wide is not among the captured ['flush']"
    made = {"wide": [triton_kernel("_double", registers=32, warps=8)]}
    assert asked("wide", [launch("_double", 40)], made).startswith("_double was timed with 32 registers")


def test_a_profile_that_names_no_kernel_may_launch_any() -> None:
    assert asked("plain", [launch("vectorized_elementwise_kernel"), launch("triton_red_fused_0")]) == ""


@pytest.mark.parametrize("kernel", [launch("_double", 40), launch("_double", threads="(128, 1, 1)")])
def test_a_kernel_of_that_name_that_was_compiled_otherwise_was_not_timed(kernel: Kernel) -> None:
    reason = asked("fast", [kernel], {"fast": [triton_kernel("_double", registers=32, warps=8)]})
    assert reason.startswith("_double was timed with 32 registers and 256 threads a block, and captured with ")


def test_a_kernel_that_was_compiled_as_in_any_sweep_is_the_one() -> None:
    made = [triton_kernel("_double", registers=24, warps=4), triton_kernel("_double", registers=32, warps=8)]
    assert asked("fast", [launch("_double")], {"fast": made}) == ""
    assert asked("fast", [launch("_double", 24, "(16, 8, 1)")], {"fast": made}) == ""


@pytest.mark.parametrize(
    ("kernels", "made"),
    [
        pytest.param([launch("_double", 99)], {}, id="nothing is known of what was timed"),
        pytest.param([launch("_double", 99)], {"fast": [triton_kernel("_other")]}, id="not of this kernel"),
        pytest.param(
            [launch("_double", 16)], {"fast": [triton_kernel("_double", registers=14)]}, id="no thread has fewer"
        ),
        pytest.param([launch("_double", 99, "n/a")], {"fast": [triton_kernel("_double")]}, id="ncu lacks the block"),
        pytest.param([launch("_double", None)], {"fast": [triton_kernel("_double")]}, id="ncu lacks the registers"),
        pytest.param(
            [launch("_double", 99), launch("_double")], {"fast": [triton_kernel("_double")]}, id="two specialisations"
        ),
    ],
)
def test_an_undecided_case_is_no_fault_of_a_profile(kernels: Sequence[Kernel], made: Made) -> None:
    assert asked("fast", kernels, made) == ""


def test_a_profile_that_launches_the_code_of_another_without_naming_it_is_that_other() -> None:
    made = {"fast": [triton_kernel("_double")], "library": [triton_kernel("_double")]}
    assert asked("library", [launch("_double")], made) == (
        "_double is the kernel of fast; a profile that launches it too must name it"
    )


def test_a_namesake_with_other_code_is_a_kernel_of_its_own() -> None:
    made = {"fast": [triton_kernel("_double", code="aa")], "library": [triton_kernel("_double", code="bb")]}
    assert asked("library", [launch("_double")], made) == ""


def test_profiles_that_both_name_a_kernel_may_share_it() -> None:
    made = {name: [triton_kernel("_double")] for name in ("fast", "twin")}
    assert asked("fast", [launch("_double")], made) == asked("twin", [launch("_double")], made) == ""


def test_code_that_is_not_on_record_is_nobodys() -> None:
    made = {name: [triton_kernel("_double", code="")] for name in ("fast", "library")}
    assert asked("library", [launch("_double")], made) == ""
