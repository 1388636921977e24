"""The profiler's pass over an experiment: whatever Nsight Compute does, every cell gets a record."""

import dataclasses
import hashlib
import json
from pathlib import Path

import pytest
from factory import cell, plan_of, triton_kernel
from fake_ncu import CASE, GOOD, NOTING, SAMPLE, Ncu, printing, sample_of

from lab.definition.plan import Plan
from lab.evidence.record import BLOCKERS, Cell, Counters
from lab.profiler.flushed import FOOTPRINT_BYTES
from lab.profiler.nsight import check_flush, profile_experiment

BASELINE, TRITON, COMPILED = (CASE, "torch-baseline"), (CASE, "triton-fused-rmsnorm"), (CASE, "torch-compile")
EXPERIMENT = "normalization-fusion"
Cells = dict[tuple[str, str], Counters]


def profiled(tmp_path: Path, plan: Plan | None = None, timed: tuple[Cell, ...] = ()) -> Cells:
    plan = plan or plan_of(profiling=True)
    directory = tmp_path / "run"
    directory.mkdir(exist_ok=True)
    records = list(profile_experiment(plan, plan.experiment(EXPERIMENT), directory, timed))
    assert all((c.outcome == "blocked") == bool(c.blocker) == bool(c.reason) == (not c.kernels) for c in records)
    assert {counters.blocker for counters in records} <= {"", *BLOCKERS}
    return {(counters.case, counters.profile): counters for counters in records}


def blocked_for(cells: Cells) -> tuple[str, str]:
    """The one blocker and reason for which every cell of the plan is blocked."""
    assert len(cells) == len(list(plan_of().experiment(EXPERIMENT).cells()))
    (why,) = {(counters.blocker, counters.reason) for counters in cells.values()}
    return why


def timed_with(name: str, profile: str, *, registers: int, code: str = "cd") -> Cell:
    made = (triton_kernel(name, registers=registers, code=code),)
    return dataclasses.replace(cell(EXPERIMENT, CASE, profile, 0), compiled=made)


def test_a_good_capture_gives_each_kernel_of_the_cells_call(tmp_path: Path, ncu: Ncu) -> None:
    ncu(GOOD)
    cells = profiled(tmp_path)
    assert cells[BASELINE].outcome == "measured"
    assert len(cells[BASELINE].kernels) == 8
    assert [kernel.name for kernel in cells[TRITON].kernels] == ["_rmsnorm_kernel"]
    assert cells[TRITON].kernels[0].theoretical_occupancy_percent == 75


def test_what_the_pass_was_is_on_record(tmp_path: Path, ncu: Ncu) -> None:
    ncu(GOOD)
    counters = profiled(tmp_path)[BASELINE]
    assert (counters.ncu, counters.report_bytes) == ("2025.3.1.0", 8)
    assert counters.report_sha256 == hashlib.sha256(b"a report").hexdigest()
    assert (counters.clock_control, counters.cache_control, counters.metric_set) == ("none", "all", "chosen")


def test_the_full_set_is_captured_where_the_plan_says_so(tmp_path: Path, ncu: Ncu) -> None:
    ncu(NOTING)
    cells = profiled(tmp_path, dataclasses.replace(plan_of(profiling=True), metric_set="full"))
    assert cells[BASELINE].metric_set == "full"
    assert "--set full" in (tmp_path / "run" / "ncu" / "arguments").read_text()


def test_a_cell_whose_range_ncu_did_not_see_is_blocked_and_the_others_are_not(tmp_path: Path, ncu: Ncu) -> None:
    ncu(printing(sample_of("torch-baseline")))
    cells = profiled(tmp_path)
    assert (cells[TRITON].blocker, cells[TRITON].reason) == ("empty", "ncu saw no kernel in this cell's range")
    assert cells[BASELINE].outcome == "measured"


@pytest.mark.parametrize("table", ["", "==WARNING== nothing here"])
def test_an_empty_table_is_reported_of_every_cell(tmp_path: Path, ncu: Ncu, table: str) -> None:
    ncu(printing(table))
    assert blocked_for(profiled(tmp_path)) == ("empty", "ncu saw no kernel in this cell's range")


def test_changed_units_are_no_numbers(tmp_path: Path, ncu: Ncu) -> None:
    ncu(printing(SAMPLE.replace('"ns"', '"us"')))
    blocker, reason = blocked_for(profiled(tmp_path))
    assert blocker == "changed-units"
    assert reason.startswith("the report's table is not as expected: gpu__time_duration.sum has unit 'us'; known are ")


def test_a_pass_that_failed_is_reported_of_every_cell(tmp_path: Path, ncu: Ncu) -> None:
    ncu("sys.exit(9)")
    assert blocked_for(profiled(tmp_path)) == ("crash", "ncu ended with code 9")


def test_the_digest_of_a_report_that_cannot_be_read_is_on_record(tmp_path: Path, ncu: Ncu) -> None:
    ncu(GOOD.replace("print(table)", "sys.exit(3)"))
    cells = profiled(tmp_path)
    assert blocked_for(cells)[0] == "crash"
    assert cells[BASELINE].report_sha256


def test_another_kernel_than_the_profiles_own_is_refused(tmp_path: Path, ncu: Ncu) -> None:
    ncu(printing(SAMPLE.replace('"_rmsnorm_kernel"', '"flush_cache"')))
    counters = profiled(tmp_path)[TRITON]
    assert counters.blocker == "wrong-kernel"
    expected = "_rmsnorm_kernel or _rmsnorm_cluster_kernel or _rmsnorm_wide_kernel"
    assert counters.reason == f"wrong kernel: {expected} is not among the captured ['flush_cache']"


def test_the_profiles_own_kernel_as_it_was_timed_is_taken(tmp_path: Path, ncu: Ncu) -> None:
    ncu(GOOD)
    timed = timed_with("_rmsnorm_kernel", "triton-fused-rmsnorm", registers=38)
    assert profiled(tmp_path, timed=(timed,))[TRITON].outcome == "measured"


def test_the_profiles_own_kernel_compiled_otherwise_than_it_was_timed_is_refused(tmp_path: Path, ncu: Ncu) -> None:
    ncu(GOOD)
    timed = timed_with("_rmsnorm_kernel", "triton-fused-rmsnorm", registers=40)
    cells = profiled(tmp_path, timed=(timed,))
    assert cells[TRITON].blocker == "wrong-kernel"
    assert cells[TRITON].reason == (
        "wrong kernel: _rmsnorm_kernel was timed with 40 registers and 256 threads a block, "
        "and captured with 38 registers and 256 threads a block"
    )
    assert cells[BASELINE].outcome == "measured"


def test_a_kernel_seen_under_the_name_of_another_profile_is_refused(tmp_path: Path, ncu: Ncu) -> None:
    ncu(printing(SAMPLE.replace('"_rms_norm_forward_kernel"', '"_rmsnorm_kernel"')))
    timed = tuple(timed_with("_rmsnorm_kernel", name, registers=38) for name in ("triton-fused-rmsnorm", "liger"))
    cells = profiled(tmp_path, timed=timed)
    assert cells[CASE, "liger"].blocker == "wrong-kernel"
    assert "_rmsnorm_kernel is the kernel of triton-fused-rmsnorm" in cells[CASE, "liger"].reason
    assert cells[TRITON].outcome == "measured"


def test_why_a_profile_could_not_be_shown_stands_in_its_record(tmp_path: Path, ncu: Ncu) -> None:
    line = json.dumps([*COMPILED, "inputs: MemoryError: no room"])
    ncu(f"{GOOD}\nif not reading: failures.write_text({line!r})")
    cells = profiled(tmp_path)
    assert (cells[COMPILED].blocker, cells[COMPILED].reason) == ("empty", "inputs: MemoryError: no room")
    assert cells[BASELINE].outcome == "measured"


@pytest.mark.parametrize("torn", ['["case", "pro', "[1, 2]", "{}", "[" * 9999, "\xff"])
def test_a_line_of_it_that_was_cut_off_costs_that_line_only(tmp_path: Path, ncu: Ncu, torn: str) -> None:
    """The program was killed as it wrote."""
    line = json.dumps([*COMPILED, "inputs: MemoryError: no room"])
    ncu(f"{GOOD}\nif not reading: failures.write_text({line + chr(10) + torn!r})")
    cells = profiled(tmp_path)
    assert (cells[COMPILED].blocker, cells[COMPILED].reason) == ("empty", "inputs: MemoryError: no room")
    assert cells[BASELINE].outcome == "measured"


def test_a_profile_that_took_a_measuring_process_down_is_not_called(tmp_path: Path, ncu: Ncu) -> None:
    noting = "if not reading: (report.parent / 'order').write_text(json.dumps(order()))"
    ncu(f"{printing(sample_of('torch-baseline'))}\n{noting}")
    crashed = cell(EXPERIMENT, CASE, "torch-compile", 0, outcome="crashed", reason="was killed by SIGSEGV")
    other = dataclasses.replace(crashed, experiment="another", profile="torch-baseline")
    cells = profiled(tmp_path, timed=(crashed, other))
    assert cells[COMPILED].blocker == "crash"
    assert cells[COMPILED].reason == "not called, because it took a measuring process down: was killed by SIGSEGV"
    assert cells[BASELINE].outcome == "measured"
    order = json.loads((tmp_path / "run" / "ncu" / "order").read_text())
    assert order == {"left_out": [f"{CASE}|torch-compile"], "environment": {}}


def test_a_profile_that_cannot_run_on_this_device_has_no_counters(tmp_path: Path, ncu: Ncu) -> None:
    ncu(GOOD)
    cells = profiled(tmp_path, plan_of(device="cpu", profiling=True))
    assert TRITON not in cells
    assert cells[BASELINE].blocker == "no-gpu"


# Does the flush work?


def flush_table(*launches: tuple[str, str]) -> str:
    """The sample as if it held reads only: (range, DRAM bytes) for each launch."""
    header, units, first = SAMPLE.splitlines()[:3]
    rows = [
        first.replace("|".join(BASELINE), f"read|{name}").replace("33,592,832", bytes_read)
        for name, bytes_read in launches
    ]
    return "\n".join([header, units, *rows])


def test_the_bytes_of_a_read_are_reported_apart_by_range(tmp_path: Path, ncu: Ncu) -> None:
    ncu(printing(flush_table(("flushed", "16,777,216"), ("flushed", "1,024"), ("warm", "2,048"))))
    check = check_flush(tmp_path, "cuda")
    assert (check.footprint_bytes, check.reason) == (FOOTPRINT_BYTES, "")
    assert check.flushed_read_bytes == 16_777_216 + 1_024
    assert check.warm_read_bytes == 2_048


def test_the_profiler_does_not_flush_by_itself_when_the_labs_flush_is_looked_at(tmp_path: Path, ncu: Ncu) -> None:
    ncu(NOTING)
    check_flush(tmp_path, "cuda")
    arguments = (tmp_path / "ncu" / "arguments").read_text()
    assert "--cache-control none" in arguments
    assert "--metrics dram__bytes_read.sum " in arguments
    assert "--clock-control none" in arguments


@pytest.mark.parametrize(
    ("launches", "reason"),
    [
        ([("flushed", "16,777,216")], "ncu saw no kernel in the ranges"),
        ([], "ncu saw no kernel in the ranges"),
        ([("flushed", "n/a"), ("warm", "1")], ""),
    ],
)
def test_what_the_profiler_does_not_tell_is_unknown_and_never_zero(
    tmp_path: Path, ncu: Ncu, launches: list[tuple[str, str]], reason: str
) -> None:
    ncu(printing(flush_table(*launches)))
    check = check_flush(tmp_path, "cuda")
    assert check.reason == reason
    assert None in (check.flushed_read_bytes, check.warm_read_bytes)


def test_bytes_in_another_unit_are_not_those_of_a_flush(tmp_path: Path, ncu: Ncu) -> None:
    ncu(printing(flush_table(("flushed", "16"), ("warm", "0")).replace('"byte","byte"', '"Mbyte","Mbyte"')))
    check = check_flush(tmp_path, "cuda")
    assert "has unit 'Mbyte'" in check.reason
    assert check.flushed_read_bytes is None


def test_without_a_gpu_the_flush_is_not_looked_at(tmp_path: Path) -> None:
    check = check_flush(tmp_path, "cpu")
    assert check.flushed_read_bytes is None
    assert check.reason == "counters are a GPU's, and this run measures the CPU"
