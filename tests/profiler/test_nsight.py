"""Nsight Compute, played by small programs on the PATH: whatever it does, every cell gets a record."""

import hashlib
import os
import re
import stat
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from factory import plan_of

from lab.definition.plan import Plan
from lab.evidence.record import Counters
from lab.profiler import nsight
from lab.profiler.flushed import FOOTPRINT_BYTES
from lab.profiler.nsight import check_flush, parse_raw_page, profile_experiment

SAMPLE = (Path(__file__).parents[1] / "fixtures" / "ncu-raw.csv").read_text()
BASELINE = ("rmsnorm-4096x4096-float16", "torch-baseline")
TRITON = ("rmsnorm-4096x4096-float16", "triton-fused-rmsnorm")
Ncu = Callable[[str], None]


@pytest.fixture
def ncu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ncu:
    """Install a program as `ncu`: its body in Python, with `report` (the file to write) and `table` at hand."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")

    def install(body: str) -> None:
        head = f"""
            #!{sys.executable}
            import os, pathlib, subprocess, sys, time
            arguments = sys.argv[1:]
            if "--version" in arguments:
                print("Version 2025.3.1.0 (build 36398880)")
                sys.exit()
            reading = "--import" in arguments
            report = pathlib.Path(arguments[arguments.index("--import" if reading else "--export") + 1])
            table = {SAMPLE!r}
        """
        program = folder / "ncu"
        program.write_text(textwrap.dedent(head).lstrip() + textwrap.dedent(body))
        program.chmod(program.stat().st_mode | stat.S_IEXEC)

    return install


GOOD = """
    if reading:
        print(table)
    else:
        print("==PROF== Connected to process 425")
        report.write_bytes(b"a report")
"""


def profiled(tmp_path: Path, plan: Plan | None = None) -> dict[tuple[str, str], Counters]:
    plan = plan or plan_of(profiling=True)
    directory = tmp_path / "run"
    directory.mkdir(exist_ok=True)
    found = list(profile_experiment(plan, plan.experiments[0], directory))
    return {(counters.case, counters.profile): counters for counters in found}


def blocked_for(found: dict[tuple[str, str], Counters]) -> str:
    """The one reason for which every cell of the plan is blocked."""
    assert len(found) == plan_of().cell_count()
    assert {counters.outcome for counters in found.values()} == {"blocked"}
    assert all(counters.kernels == () for counters in found.values())
    (reason,) = {counters.reason for counters in found.values()}
    return reason


def test_a_good_capture_gives_each_kernel_of_the_cells_call(tmp_path: Path, ncu: Ncu) -> None:
    ncu(GOOD)
    found = profiled(tmp_path)[BASELINE]
    assert (found.outcome, found.reason, found.ncu) == ("measured", "", "2025.3.1.0")
    assert [kernel.name.split("<")[0] for kernel in found.kernels] == [
        "void vectorized_elementwise_kernel", "void unrolled_elementwise_kernel", "void reduce_kernel",
    ]  # fmt: skip
    kernel = found.kernels[2]
    assert (kernel.grid, kernel.block) == ("(1, 528, 1)", "(512, 1, 1)")
    assert kernel.duration_seconds == pytest.approx(29.44e-6)
    assert kernel.dram_read_bytes == 67_173_632
    assert kernel.dram_written_bytes == 21_248
    assert kernel.dram_percent == 68.21
    assert kernel.occupancy_percent == 98.14
    assert kernel.registers_per_thread == 32
    assert kernel.shared_bytes_per_block == 3088


def test_the_report_is_kept_and_its_digest_recorded(tmp_path: Path, ncu: Ncu) -> None:
    ncu(GOOD)
    found = profiled(tmp_path)[BASELINE]
    assert (tmp_path / "run" / "ncu" / "normalization-fusion.ncu-rep").read_bytes() == b"a report"
    assert found.report_sha256 == hashlib.sha256(b"a report").hexdigest()


def test_a_cell_whose_range_ncu_did_not_see_is_blocked_and_the_others_are_not(tmp_path: Path, ncu: Ncu) -> None:
    ncu(GOOD)
    found = profiled(tmp_path)
    assert found[TRITON].outcome == "blocked"
    assert found[TRITON].reason == "ncu saw no kernel in this cell's range"
    assert found[BASELINE].outcome == "measured"


def test_clocks_are_never_touched(tmp_path: Path, ncu: Ncu) -> None:
    note = "if not reading: (report.parent / 'arguments').write_text(' '.join(arguments))"
    ncu(f"{textwrap.dedent(GOOD)}\n{note}")
    profiled(tmp_path)
    assert "--clock-control none" in (tmp_path / "run" / "ncu" / "arguments").read_text()


def table_for(cell: tuple[str, str], kernel: str) -> str:
    """The sample as if `cell` had launched one kernel of that name."""
    lines = SAMPLE.replace("|".join(BASELINE), "|".join(cell)).splitlines()
    row = re.sub(r'"void vectorized_elementwise_kernel[^"]*"', f'"{kernel}"', lines[2])
    return "\n".join([*lines[:2], row])


def test_the_profiles_own_kernel_is_looked_for(tmp_path: Path, ncu: Ncu) -> None:
    ncu(textwrap.dedent(GOOD).replace("print(table)", f"print({table_for(TRITON, '_rmsnorm_kernel')!r})"))
    found = profiled(tmp_path)[TRITON]
    assert found.outcome == "measured"
    assert [kernel.name for kernel in found.kernels] == ["_rmsnorm_kernel"]


def test_another_kernel_than_the_profiles_own_is_refused(tmp_path: Path, ncu: Ncu) -> None:
    ncu(textwrap.dedent(GOOD).replace("print(table)", f"print({table_for(TRITON, 'flush_cache')!r})"))
    found = profiled(tmp_path)[TRITON]
    assert found.outcome == "blocked"
    assert found.reason == "wrong kernel: _rmsnorm_kernel is not among the captured ['flush_cache']"
    assert found.kernels == ()


def test_a_profile_that_cannot_run_on_this_device_has_no_counters(tmp_path: Path, ncu: Ncu) -> None:
    ncu(GOOD)
    assert TRITON not in profiled(tmp_path, plan_of(device="cpu", profiling=True))


def test_ncu_that_is_not_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("lab.evidence.machine.Path", lambda text: tmp_path / "nothing" / text.lstrip("/"))
    assert blocked_for(profiled(tmp_path)) == (
        "ncu is not installed: install NVIDIA Nsight Compute and put ncu on the PATH"
    )


def test_permission_to_read_counters_refused_says_what_grants_it(tmp_path: Path, ncu: Ncu) -> None:
    ncu("print('==ERROR== ERR_NVGPUCTRPERM - The user does not have permission'); sys.exit(1)")
    reason = blocked_for(profiled(tmp_path))
    assert "ERR_NVGPUCTRPERM" in reason
    assert "NVreg_RestrictProfilingToAdminUsers=0" in reason


def test_ncu_that_fails_says_its_code_and_its_complaint(tmp_path: Path, ncu: Ncu) -> None:
    ncu("print('fine'); print('==ERROR== No kernels were profiled.'); sys.exit(9)")
    assert blocked_for(profiled(tmp_path)) == "ncu ended with code 9; ==ERROR== No kernels were profiled."


def test_ncu_that_succeeds_without_a_report(tmp_path: Path, ncu: Ncu) -> None:
    ncu("")
    assert blocked_for(profiled(tmp_path)) == "ncu wrote no report"


def test_a_report_of_an_earlier_pass_does_not_pass_for_this_ones(tmp_path: Path, ncu: Ncu) -> None:
    ncu(GOOD)
    profiled(tmp_path)
    ncu("if reading: print(table)")
    assert blocked_for(profiled(tmp_path)) == "ncu wrote no report"


def test_ncu_that_cannot_be_started(tmp_path: Path, ncu: Ncu) -> None:
    ncu(GOOD)
    (tmp_path / "bin" / "ncu").write_text("#!/nowhere/python\n")
    assert "it does not start: " in blocked_for(profiled(tmp_path))


def test_ncu_that_hangs_is_ended_with_all_its_children(
    tmp_path: Path, ncu: Ncu, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nsight, "TIMEOUT_SECONDS", 1.0)
    beats = tmp_path / "beats"
    ncu(f"""
        beat = "import time\\nfor _ in range(600): open({str(beats)!r}, 'a').write('.'); time.sleep(0.05)"
        subprocess.Popen([sys.executable, "-c", beat])
        time.sleep(60)
    """)
    began = time.monotonic()
    assert blocked_for(profiled(tmp_path)) == "time-out after 1 s"
    assert time.monotonic() - began < 10
    last = beats.stat().st_size
    time.sleep(0.5)
    assert beats.stat().st_size == last, "a child of ncu outlived the time-out"


def test_a_report_that_cannot_be_read_back(tmp_path: Path, ncu: Ncu) -> None:
    ncu(textwrap.dedent(GOOD).replace("print(table)", "sys.exit(3)"))
    found = profiled(tmp_path)
    assert blocked_for(found) == "the report could not be read back: ncu ended with code 3"
    assert found[BASELINE].report_sha256


@pytest.mark.parametrize(
    ("table", "complaint"),
    [
        pytest.param("", "no table", id="empty"),
        pytest.param("==WARNING== nothing here", "no table", id="prose"),
        pytest.param(
            SAMPLE.replace('"ns"', '"us"'),
            r"gpu__time_duration\.sum has unit 'us'; known are \['%', 'byte',", id="another unit",
        ),
        pytest.param(
            SAMPLE.replace("gpu__time_duration.sum", "gpu__time"),
            r"column gpu__time_duration\.sum is missing", id="missing metric",
        ),
        pytest.param(SAMPLE.replace('"Kernel Name"', '"Function"'), "column Kernel Name is missing", id="no name"),
        pytest.param(SAMPLE[:-60], "a row has not as many fields as the header", id="cut short"),
    ],
)  # fmt: skip
def test_a_table_of_another_form_is_refused(tmp_path: Path, ncu: Ncu, table: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        parse_raw_page(table)
    ncu(textwrap.dedent(GOOD).replace("print(table)", f"print({table!r})"))
    assert re.search(f"^the report's table is not as expected: {complaint}", blocked_for(profiled(tmp_path)))


@pytest.mark.parametrize("text", ["n/a", "", "nan", "inf"])
def test_a_counter_without_a_number_is_unknown_and_not_zero(text: str) -> None:
    (first, *_) = parse_raw_page(SAMPLE.replace('"68.12"', f'"{text}"'))[BASELINE]
    assert first.dram_percent is None
    assert first.dram_read_bytes == 33_562_880


def test_launches_outside_any_range_are_left_out() -> None:
    nowhere = re.sub(r'"425  ""<default[^,]*,', '"",', SAMPLE)
    assert parse_raw_page(nowhere) == {}


def test_launches_go_to_the_cell_whose_range_they_lie_in() -> None:
    found = parse_raw_page(SAMPLE)
    assert {cell: len(kernels) for cell, kernels in found.items()} == {BASELINE: 3, ("a-b", "c-d"): 3}


# Does the flush work?


def flush_table(*launches: tuple[str, str]) -> str:
    """The sample as if it held reads only: (range, DRAM bytes) for each launch."""
    header, units, first = SAMPLE.splitlines()[:3]
    rows = [first.replace("|".join(BASELINE), f"read|{name}").replace("33,562,880", told) for name, told in launches]
    return "\n".join([header, units, *rows])


def test_the_bytes_of_a_read_are_told_apart_by_range(tmp_path: Path, ncu: Ncu) -> None:
    table = flush_table(("flushed", "16,777,216"), ("flushed", "1,024"), ("warm", "2,048"))
    ncu(textwrap.dedent(GOOD).replace("print(table)", f"print({table!r})"))
    found = check_flush(tmp_path, "cuda")
    assert (found.footprint_bytes, found.reason) == (FOOTPRINT_BYTES, "")
    assert found.flushed_read_bytes == 16_777_216 + 1_024
    assert found.warm_read_bytes == 2_048


def test_the_profiler_does_not_flush_by_itself_when_the_labs_flush_is_looked_at(tmp_path: Path, ncu: Ncu) -> None:
    note = "if not reading: (report.parent / 'arguments').write_text(' '.join(arguments))"
    ncu(f"{textwrap.dedent(GOOD)}\n{note}")
    check_flush(tmp_path, "cuda")
    told = (tmp_path / "ncu" / "arguments").read_text()
    assert "--cache-control none" in told
    assert "--metrics dram__bytes_read.sum " in told
    assert "--clock-control none" in told


@pytest.mark.parametrize(
    ("launches", "reason"),
    [
        ([("flushed", "16,777,216")], "ncu saw no kernel in the ranges"),
        ([("flushed", "n/a"), ("warm", "1")], ""),
    ],
)
def test_what_the_profiler_does_not_tell_is_unknown_and_never_zero(
    tmp_path: Path, ncu: Ncu, launches: list[tuple[str, str]], reason: str
) -> None:
    ncu(textwrap.dedent(GOOD).replace("print(table)", f"print({flush_table(*launches)!r})"))
    found = check_flush(tmp_path, "cuda")
    assert found.reason == reason
    assert None in (found.flushed_read_bytes, found.warm_read_bytes)


def test_without_a_gpu_the_flush_is_not_looked_at(tmp_path: Path) -> None:
    found = check_flush(tmp_path, "cpu")
    assert found.flushed_read_bytes is None
    assert found.reason == "counters are a GPU's, and this run measures the CPU"
