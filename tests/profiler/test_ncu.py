"""How ncu is asked, and what its end means."""

import hashlib
import json
import textwrap
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from fake_ncu import GOOD, NOTING, SAMPLE, Ncu
from waiting import clock_that_runs_while, wait_until, wait_until_ended

from lab.process.order import OrderPipe, awaited
from lab.profiler import ncu as room
from lab.profiler.ncu import CaptureReport, CaptureRequest, capture, load
from lab.profiler.raw_page import CHOSEN_METRICS


def request_of(metric_set: str = "chosen", metrics: tuple[str, ...] = CHOSEN_METRICS) -> CaptureRequest:
    return CaptureRequest(
        name="try", program=("lab.profiler.profiled", "run", "experiment", "failures"), metrics=metrics,
        metric_set=metric_set, cache_control="all",
    )  # fmt: skip


def captured(directory: Path, metric_set: str = "chosen", metrics: tuple[str, ...] = CHOSEN_METRICS) -> CaptureReport:
    return capture(request_of(metric_set, metrics), directory, "cuda")


def asked(directory: Path) -> str:
    return (directory / "ncu" / "arguments").read_text()


def test_the_report_is_kept_and_its_digest_and_size_are_reported(tmp_path: Path, ncu: Ncu) -> None:
    ncu(GOOD)
    report = captured(tmp_path)
    assert (tmp_path / "ncu" / "try.ncu-rep").read_bytes() == b"a report"
    assert (report.sha256, report.size_bytes) == (hashlib.sha256(b"a report").hexdigest(), 8)
    assert (report.blocker, report.reason) == ("", "")
    assert report.table.strip() == SAMPLE.strip()


def test_clocks_are_never_touched_and_caches_as_was_asked(tmp_path: Path, ncu: Ncu) -> None:
    ncu(NOTING)
    captured(tmp_path)
    assert "--clock-control none --cache-control all" in asked(tmp_path)
    assert "--profile-from-start off --nvtx" in asked(tmp_path)


def test_the_chosen_list_is_asked_for_in_one_run(tmp_path: Path, ncu: Ncu) -> None:
    ncu(NOTING)
    captured(tmp_path)
    assert f"--metrics {','.join(CHOSEN_METRICS)} " in asked(tmp_path)
    assert "--set" not in asked(tmp_path)


def test_the_full_set_is_asked_for_beside_the_list(tmp_path: Path, ncu: Ncu) -> None:
    ncu(NOTING)
    captured(tmp_path, "full")
    assert f"--set full --metrics {','.join(CHOSEN_METRICS)} " in asked(tmp_path)


UNKNOWING = """
named = arguments[arguments.index("--metrics") + 1].split(",") if not reading else []
strange = "launch__occupancy_limit_barriers", "dram__throughput", "regex:"
unknown = [name for name in named if name.startswith(strange)]
if unknown:
    with (report.parent / "runs").open("a") as runs:
        print("refused", file=runs)
    told = unknown[0] if unknown[0].startswith("regex") else f"regex:^{unknown[0].split('.')[0]}\\\\.(sum|min|max|avg)$"
    print("==PROF== Connected to process 425")
    print("==ERROR== Failed to find metric " + told)
    sys.exit(1)
"""


def test_metrics_that_ncu_does_not_know_cost_themselves_only(tmp_path: Path, ncu: Ncu) -> None:
    """ncu refuses to measure anything where it does not know one of them, and names the first."""
    ncu(textwrap.dedent(UNKNOWING) + NOTING)
    report = captured(tmp_path)
    assert (report.blocker, report.table.strip()) == ("", SAMPLE.strip())
    assert (tmp_path / "ncu" / "runs").read_text().split() == ["refused"] * 3
    metrics = asked(tmp_path).partition("--metrics ")[2].split()[0].split(",")
    assert len(metrics) == len(CHOSEN_METRICS) - 3
    assert "dram__bytes_read.sum" in metrics


def test_ncu_that_knows_no_metric_at_all_is_not_asked_for_ever(tmp_path: Path, ncu: Ncu) -> None:
    ncu("print('==ERROR== Failed to find metric dram__bytes_read.sum'); sys.exit(1)")
    report = captured(tmp_path, metrics=("dram__bytes_read.sum",))
    assert (report.blocker, report.reason) == (
        "crash", "ncu ended with code 1; ==ERROR== Failed to find metric dram__bytes_read.sum"
    )  # fmt: skip


def test_permission_to_read_counters_refused_says_what_grants_it(tmp_path: Path, ncu: Ncu) -> None:
    ncu("print('==ERROR== ERR_NVGPUCTRPERM - The user does not have permission'); sys.exit(1)")
    report = captured(tmp_path)
    assert report.blocker == "no-permission"
    assert "ERR_NVGPUCTRPERM" in report.reason
    assert "`options nvidia NVreg_RestrictProfilingToAdminUsers=0` in a file of /etc/modprobe.d/" in report.reason
    assert "--cap-add=SYS_ADMIN" in report.reason


@pytest.mark.parametrize("between", [" ", "\\n"])
def test_counters_that_another_tool_holds_are_busy(tmp_path: Path, ncu: Ncu, between: str) -> None:
    ncu(f"""
        print("==ERROR== An error was reported by the driver:")
        print("==ERROR== Profiling failed because a driver{between}resource was unavailable. Ensure that no other tool "
              "(like DCGM) is concurrently collecting profiling data.")
        print("==ERROR== Failed to profile \\"reduce_kernel\\" in process 7508")
        sys.exit(9)
    """)
    report = captured(tmp_path)
    assert report.blocker == "busy"
    assert "`dcgmi profile --pause`" in report.reason


def test_a_crash_is_reported_with_its_code_and_what_ncu_complained_of(tmp_path: Path, ncu: Ncu) -> None:
    ncu("""
        print("==PROF== fine")
        print("==ERROR== Failed to open/create lock file /tmp/nsight-compute-lock.")
        print("==ERROR== The application returned an error code (9).")
        print("==ERROR== An error occurred while trying to profile.")
        sys.exit(9)
    """)
    report = captured(tmp_path)
    assert report.blocker == "crash"
    assert report.reason == (
        "ncu ended with code 9; ==ERROR== Failed to open/create lock file (path); "
        "==ERROR== The application returned an error code (9)."
    )


def test_ncu_that_is_killed(tmp_path: Path, ncu: Ncu) -> None:
    ncu("import signal; os.kill(os.getpid(), signal.SIGSEGV)")
    assert captured(tmp_path) == CaptureReport(blocker="crash", reason="ncu ended with code 139")


def test_ncu_that_cannot_be_started(tmp_path: Path, ncu: Ncu) -> None:
    ncu(GOOD)
    (tmp_path / "bin" / "ncu").write_text("#!/nowhere/python\n")
    report = captured(tmp_path)
    assert report.blocker == "crash"
    assert "it does not start: " in report.reason


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("", "ncu wrote no report"),
        ("print('==WARNING== No kernels were profiled.')", "ncu wrote no report"),
        ("print('==ERROR== no room')", "ncu wrote no report; ==ERROR== no room"),
    ],
)
def test_ncu_that_succeeds_without_a_report(tmp_path: Path, ncu: Ncu, body: str, reason: str) -> None:
    ncu(body)
    assert captured(tmp_path) == CaptureReport(blocker="empty", reason=reason)


def test_a_report_of_an_earlier_pass_does_not_pass_for_this_ones(tmp_path: Path, ncu: Ncu) -> None:
    ncu(GOOD)
    captured(tmp_path)
    ncu("if reading: print(table)")
    assert captured(tmp_path).blocker == "empty"


def test_ncu_that_hangs_is_ended_with_all_its_children(
    tmp_path: Path, ncu: Ncu, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = tmp_path / "started"
    monkeypatch.setattr("lab.profiler.ncu.monotonic", clock_that_runs_while(started))
    ncu(f"""
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        with open({str(started)!r}, "w") as file:
            file.write(str(child.pid))
        time.sleep(600)
    """)
    assert captured(tmp_path) == CaptureReport(blocker="time-out", reason="ncu said nothing for 420 s")
    wait_until_ended(int(started.read_text()))


def test_a_long_pass_that_goes_on_is_not_taken_for_a_hang(
    tmp_path: Path, ncu: Ncu, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its clock moves by 400 s with each kernel, and ncu goes on when that was looked at."""
    log, looks, told = tmp_path / "ncu" / "try.log", Counter[int](), list[str]()

    def clock() -> float:
        kernels = log.read_text().count("Profiling") if log.exists() else 0
        looks[kernels] += 1
        if looks[kernels] > 12:
            (tmp_path / f"seen-{kernels}").touch()
        return 400.0 * kernels

    monkeypatch.setattr(room, "monotonic", clock)
    seen = str(tmp_path / "seen-")
    ncu(
        textwrap.dedent(f"""
        if not reading:
            order()
            for kernel in range(1, 6):
                print("==PROF== Profiling", kernel, flush=True)
                while not os.path.exists({seen!r} + str(kernel)):
                    time.sleep(0.01)
        """)
        + GOOD
    )
    assert capture(request_of(), tmp_path, "cuda", tell=told.append).blocker == ""
    assert told == [f"  {kernels} kernels so far" for kernels in range(1, 6)]


def test_a_program_that_was_loaded_ahead_is_used_and_the_time_that_it_waited_does_not_count(
    tmp_path: Path, ncu: Ncu, monkeypatch: pytest.MonkeyPatch
) -> None:
    ncu(f"if not reading: (report.parent / 'order').write_text(json.dumps([os.getpid(), order()]))\n{GOOD}")
    loaded = load(request_of(), tmp_path, "cuda")
    assert loaded
    assert loaded.wait_until_loaded(600.0)
    assert not (tmp_path / "ncu" / "order").exists()
    assert not list((tmp_path / "ncu").glob("*.order"))  # whoever copies the folder would wait for it
    monkeypatch.setattr(room, "monotonic", lambda: time.monotonic() + 10_000.0)
    report = capture(request_of(), tmp_path, "cuda", {"left_out": ["that"]}, loaded)
    assert (report.blocker, report.table.strip()) == ("", SAMPLE.strip())
    process, order = json.loads((tmp_path / "ncu" / "order").read_text())
    assert order == {"left_out": ["that"]}
    wait_until_ended(process)


def test_a_program_that_nobody_gives_an_order_is_told_so() -> None:
    """The pipe is closed when the process that would give the order ends, however it does."""
    pipe = OrderPipe()
    with ThreadPoolExecutor() as pool:
        told = pool.submit(awaited, pipe.path)
        wait_until(pipe.is_awaited, "nobody awaits the order")
        pipe.close()
        assert told.result() is None


@pytest.mark.parametrize("body", ["sys.exit(9)", "open(arguments[-1]); sys.exit(9)"])
def test_one_that_ends_before_its_order_is_not_loaded(tmp_path: Path, ncu: Ncu, body: str) -> None:
    ncu(body)
    loaded = load(request_of(), tmp_path, "cuda")
    assert loaded
    loaded.wait_until_loaded(600.0)
    wait_until(lambda: not loaded.lives(), "it goes on")
    assert not loaded.wait_until_loaded(600.0)
    loaded.end()


def test_where_nothing_can_be_captured_nothing_is_loaded(
    tmp_path: Path, ncu: Ncu, monkeypatch: pytest.MonkeyPatch
) -> None:
    ncu(GOOD)
    assert load(request_of(), tmp_path, "cpu") is None
    assert load(request_of(), tmp_path / "absent", "cuda") is None
    monkeypatch.setattr(room, "ncu_path", lambda: "")
    assert load(request_of(), tmp_path, "cuda") is None


def test_a_report_that_cannot_be_read_back_is_kept_all_the_same(tmp_path: Path, ncu: Ncu) -> None:
    ncu(GOOD.replace("print(table)", "sys.exit(3)"))
    report = captured(tmp_path)
    assert (report.blocker, report.table) == ("crash", "")
    assert report.reason == "the report could not be read back: ncu ended with code 3"
    assert report.sha256


def test_ncu_that_is_not_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "ncu_path", lambda: "")
    assert captured(tmp_path) == CaptureReport(
        blocker="not-installed", reason="ncu is not installed: install NVIDIA Nsight Compute and put ncu on the PATH"
    )


def test_without_a_gpu_ncu_is_not_started(tmp_path: Path, ncu: Ncu) -> None:
    ncu(NOTING)
    request = CaptureRequest(name="try", program=(), metrics=CHOSEN_METRICS, metric_set="chosen", cache_control="all")
    assert capture(request, tmp_path, "cpu").blocker == "no-gpu"
    assert not (tmp_path / "ncu").exists()


def test_a_report_that_cannot_be_kept_costs_the_counters_and_not_the_run(tmp_path: Path, ncu: Ncu) -> None:
    ncu(GOOD)
    run = tmp_path / "run"
    run.mkdir()
    (run / "ncu").write_text("a file where the folder should be")
    report = captured(run)
    assert (report.blocker, report.table) == ("crash", "")
    assert report.reason.startswith("the report could not be made or kept: ")
