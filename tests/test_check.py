"""`lab check`: right, wrong, failed or skipped, at a tiny shape, before anything is timed."""

import math
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from subprocess import PIPE
from typing import Any

import pytest
import torch
from torch import Tensor
from waiting import clock_that_runs_while, is_running, killed_at_the_limit, wait_until

import lab
from lab import check_supervisor
from lab.check import MOST_ELEMENTS, check, tiny
from lab.cli import main
from lab.evidence.source import child_environment
from lab.process import channel


def checked(**profiles: Callable[[], Any]) -> dict[str, tuple[str, str]]:
    draft = lab.experiment("doubling", shapes=[(4096, 4096)], reference=lambda x: 2 * x.double(), edges=("nan",))
    for name, load in profiles.items():
        draft.profile(name.replace("_", "-"), load=load, **({"package": "nowhere"} if name == "absent" else {}))
    draft.claim(next(iter(profiles)).replace("_", "-"), faster_than=list(profiles)[-1].replace("_", "-"))
    results = list(check([draft.definition()], "cpu"))
    assert {each.shape for each in results} == {(64, 64)}
    return {each.profile: (each.outcome, each.message) for each in results}


def test_each_profile_is_reported_apart() -> None:
    def raising() -> Callable[[Tensor], Tensor]:
        raise ImportError("no such kernel")

    results = checked(
        right=lambda: lambda x: x * 2, off=lambda: lambda x: x * 2.01, of_nan=lambda: lambda x: torch.nan_to_num(x) * 2,
        raising=raising, absent=lambda: lambda x: x * 2,
    )  # fmt: skip
    assert {name: outcome for name, (outcome, _) in results.items()} == {
        "right": "right", "off": "wrong", "of-nan": "wrong", "raising": "failed", "absent": "skipped",
    }  # fmt: skip
    assert results["raising"][1] == "ImportError: no such kernel"


def test_a_wrong_baseline_excuses_neither_itself_nor_a_rival_that_is_wrong_alike() -> None:
    gelu = torch.nn.functional.gelu
    draft = lab.experiment("halving", shapes=[(64, 64)], reference=lambda x: gelu(x.double()), tolerance=64)
    draft.profile("composed", lambda x: x * 0.5, baseline=True)
    draft.profile("fused", lambda x: x * 0.6)
    draft.profile("right", gelu)
    draft.claim("fused", faster_than="composed")
    results = {each.profile: each for each in check([draft.definition()], "cpu")}
    assert {name: each.outcome for name, each in results.items()} == {
        "composed": "wrong", "fused": "wrong", "right": "right",
    }  # fmt: skip
    assert "so the standard or the reference is wrong" in results["fused"].message


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        (lambda x: 2 * x, "the reference gives torch.float32; accepted is torch.float64, as of x.double()"),
        (lambda x: [2 * x.double()], "the reference gives a list; accepted is a tensor or a tuple of them"),
    ],
)
def test_a_reference_that_gives_no_float64_is_told(reference: Callable[[Tensor], Any], message: str) -> None:
    draft = lab.experiment("doubling", shapes=[(4, 8)], reference=reference, reads=1, writes=1)
    draft.profile("plain", lambda x: x + x, baseline=True)
    draft.profile("twice", lambda x: 2 * x)
    draft.claim("twice")
    results = list(check([draft.definition()], "cpu"))
    assert {each.outcome for each in results} == {"failed"}
    assert all(message in each.message for each in results)


def test_a_profile_with_a_kernel_is_checked_where_there_is_no_triton(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on macOS, where it takes another way to its result."""
    monkeypatch.setitem(sys.modules, "triton", None)
    monkeypatch.setattr("lab.check.find_spec", lambda name: None)
    draft = lab.experiment("doubling", shapes=[(4, 8)], reference=lambda x: 2 * x.double())
    draft.profile("plain", lambda x: x + x, baseline=True)
    draft.profile("twice", lambda x: 2 * x, kernel="_double_kernel")
    draft.claim("twice")
    assert [each.outcome for each in check([draft.definition()], "cpu")] == ["right", "right"]


def test_inputs_that_are_no_tuple_are_told() -> None:
    draft = lab.experiment(
        "doubling", shapes=[(4, 8)], reference=lambda x: 2 * x.double(), reads=1, writes=1,
        inputs=lambda shape, dtype, device, seed: torch.ones(shape, dtype=dtype, device=device),
    )  # fmt: skip
    draft.profile("plain", lambda x: x + x, baseline=True)
    draft.profile("twice", lambda x: 2 * x)
    draft.claim("twice")
    results = list(check([draft.definition()], "cpu"))
    assert {(each.outcome, each.message) for each in results} == {
        ("failed", "inputs: TypeError: inputs() returned a Tensor; return a tuple, such as (x,)")
    }


def test_a_loader_that_gives_no_function_is_told() -> None:
    results = checked(result=lambda: torch.ones(3), right=lambda: lambda x: x * 2)
    assert results["result"] == ("failed", "its loader gives a Tensor; accepted is the function to call")


@pytest.mark.parametrize("shape", [(4096, 4096), (7,), (1, 100_003), (8, 32, 2048, 128), (1,)])
def test_a_tiny_shape_is_of_the_same_kind(shape: tuple[int, ...]) -> None:
    small = tiny(shape)
    assert len(small) == len(shape)
    assert math.prod(small) <= MOST_ELEMENTS or small == (1,) * len(shape)
    assert all(1 <= a <= b for a, b in zip(small, shape, strict=True))


def test_each_number_of_dimensions_and_dtype_is_checked() -> None:
    draft = lab.experiment(
        "doubling", shapes=[(64, 1024), (128,), (256,)], dtypes=["float32", "float16"],
        reference=lambda x: 2 * x.double(),
    )  # fmt: skip
    draft.profile("plain", lambda x: x + x, baseline=True)
    draft.profile("of-rows", lambda x: x * 2 if x.ndim > 1 else x * 3)
    draft.claim("of-rows")
    results = list(check([draft.definition()], "cpu"))
    assert len(results) == 8
    assert {(each.case, each.outcome) for each in results if each.profile == "of-rows"} == {
        ("doubling-64x64-float32", "right"), ("doubling-64x64-float16", "right"),
        ("doubling-128-float32", "wrong"), ("doubling-128-float16", "wrong"),
    }  # fmt: skip


def test_the_command_checks_an_experiment_of_the_project(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "cpu-fused-calls"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 8
    assert all(" right: worst error " in line for line in lines)


# An experiment with a profile between two that are sound.
DOUBLING = """\
import os, signal, subprocess, sys
from pathlib import Path
import lab
here = Path(__file__).parent
mine = lab.experiment('doubling', shapes=[(4, 8)], reference=lambda x: 2 * x.double())
mine.profile('plain', lambda x: x + x, baseline=True)
def odd(x):
    {odd}
mine.profile('odd', odd)
mine.profile('twice', lambda x: 2 * x)
mine.claim('twice')
"""
LOOPS = "(here / 'hangs').write_text(str(os.getpid()))\n    while True: pass"


@pytest.fixture
def project_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """The folder of an experiment whose middle profile does this."""

    def write(odd: str) -> Path:
        (tmp_path / "pyproject.toml").write_text("[tool.kernel-evidence-lab]\n")
        (tmp_path / "experiments").mkdir()
        (tmp_path / "experiments" / "mine.py").write_text(DOUBLING.format(odd=odd))
        monkeypatch.setenv("LAB_PROJECT", str(tmp_path))
        return tmp_path / "experiments"

    return write


LAUNCHES = """\
import lab, torch, triton, triton.language as tl
@triton.jit
def _double_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    lanes = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + lanes, tl.load(x_ptr + lanes, mask=lanes < n) * 2, mask=lanes < n)
@triton.jit
def _large_kernel(x_ptr):
    pass
def double(x):
    y = torch.empty_like(x)
    _double_kernel[(1,)](x, y, x.numel(), BLOCK=64)
    return y
mine = lab.experiment('doubling', shapes=[(4, 8)], reference=lambda x: 2 * x.double())
mine.profile('plain', lambda x: x + x, baseline=True, kernel='_kernel_on_a_gpu')
mine.profile('named', double, kernel='_other or _double_kernel')
mine.profile('other', double, kernel='_large_kernel')
mine.profile('misspelt', double, kernel='_dubble_kernel')
mine.profile('elsewhere', double, kernel='_matmul_of_a_module_that_is_imported_later')
@triton.autotune([triton.Config({'BLOCK': size}) for size in (64, 128)], key=[])
@triton.jit
def _tuned_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    lanes = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + lanes, tl.load(x_ptr + lanes, mask=lanes < n) * 2, mask=lanes < n)
def tuned(x):
    y = torch.empty_like(x)
    _tuned_kernel[(1,)](x, y, x.numel())
    return y
mine.profile('tuned', tuned)
mine.claim('named')
"""


def test_a_misspelt_kernel_is_told(project_with: Callable[[str], Path], capsys: pytest.CaptureFixture[str]) -> None:
    (project_with("return x") / "mine.py").write_text(LAUNCHES)
    assert main(["check"]) == 1
    plain, named, other, misspelt, elsewhere, tuned = (
        line.split(maxsplit=3)[3] for line in capsys.readouterr().out.splitlines()
    )
    assert plain.startswith("right: ")  # without a GPU it may launch none
    assert named.startswith("right: ")
    assert other.startswith("right: ")  # which a rule may launch at larger shapes
    assert elsewhere.startswith("right: ")
    assert tuned == "skipped: its Triton kernel needs a CUDA GPU, and this run measures the CPU"
    assert misspelt == ("wrong: kernel= names _dubble_kernel, which it does not launch; did you mean '_double_kernel'?")


@pytest.mark.parametrize(
    ("odd", "message"),
    [
        ("raise ValueError('no luck')", "failed: ValueError: no luck (mine.py, line 8)"),
        ("return x", "wrong: the result shares memory with an input"),
        ("return input()", "failed: EOFError: EOF when reading a line (mine.py, line 8)"),
        ("os._exit(3)", "failed: it ended its process with code 3"),
        ("os.kill(os.getpid(), signal.SIGSEGV)", "failed: it had its process killed by SIGSEGV"),
    ],
)
def test_a_kernel_that_fails_costs_its_own_result_alone(
    project_with: Callable[[str], Path], capsys: pytest.CaptureFixture[str], odd: str, message: str
) -> None:
    project_with(odd)
    assert main(["check"]) == 1
    first, second, third = capsys.readouterr().out.splitlines()
    assert first.split()[:4] == ["doubling", "doubling-4x8-float32", "plain", "right:"]
    assert second.split(maxsplit=3)[:3] == ["doubling", "doubling-4x8-float32", "odd"]
    assert second.split(maxsplit=3)[3].startswith(message)
    assert third.split()[:4] == ["doubling", "doubling-4x8-float32", "twice", "right:"]


def test_what_a_kernel_prints_stands_below_its_result(
    project_with: Callable[[str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    project_with("print(*x.shape); return 2 * x")
    assert main(["check"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if "printed" not in line] == [lines[0], lines[1], lines[-1]]
    assert set(lines[2:-1]) == {"    it printed: 4 8"}


@pytest.mark.parametrize(
    "what", ["sys.stdout.close()", "sys.stdout = None", "os.dup2(os.open(os.devnull, os.O_WRONLY), 1)"]
)
def test_a_kernel_that_takes_stdout_away_costs_nothing(
    project_with: Callable[[str], Path], capsys: pytest.CaptureFixture[str], what: str
) -> None:
    project_with(f"{what}; return 2 * x")
    assert main(["check"]) == 0
    assert [line.split()[2:4] for line in capsys.readouterr().out.splitlines()] == [
        ["plain", "right:"], ["odd", "right:"], ["twice", "right:"],
    ]  # fmt: skip


def test_a_flood_of_a_kernel_that_ends_is_cut_and_no_fault_of_the_next(
    project_with: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(check_supervisor.CheckingProcess, "_floods", lambda _: False)  # not seen before it ends
    project_with("sys.stdout.write('x' * 80 * 230_000); return 2 * x")
    assert main(["check"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[2] == f"    it printed: {'x' * 1024}"
    assert lines[3].split()[2:4] == ["twice", "right:"]
    assert len(lines) == 4


def test_a_kernel_that_prints_without_end_is_stopped(
    project_with: Callable[[str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    project_with("while True: print('x' * 10_000)")
    assert main(["check"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].endswith("failed: it printed more than 16 MiB and was stopped")
    assert lines[2] == f"    it printed: {'x' * 1024}"
    assert lines[3].split()[2:4] == ["twice", "right:"]


@pytest.mark.parametrize(
    "hangs",
    [
        LOOPS,
        f"signal.signal(signal.SIGTERM, signal.SIG_IGN); {LOOPS}",
        "other = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'], start_new_session=True); "
        + LOOPS.replace("str(os.getpid())", "f'{other.pid} {os.getpid()}'"),
    ],
    ids=["loops", "ignores the signal to end", "starts another process"],
)
def test_a_kernel_that_does_not_end_is_stopped_and_the_next_is_checked(
    project_with: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], hangs: str
) -> None:
    process = project_with(hangs) / "hangs"
    monkeypatch.setattr(channel, "monotonic", clock_that_runs_while(process))
    monkeypatch.setattr(check_supervisor, "TERM_SECONDS", 0.5)
    assert main(["check"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[2] for line in lines] == ["plain", "odd", "twice"]
    assert "failed: it took longer than 300 s and was stopped" in lines[1]
    assert lines[1].endswith("; mend that, or allow more: lab check --seconds S")
    if hangs == LOOPS:
        assert "stopped at experiments/mine.py, line 9, in odd; " in lines[1]
    assert not any(is_running(int(each)) for each in process.read_text().split())


def test_a_file_that_does_not_end_when_it_is_imported_is_stopped_and_named(
    project_with: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = project_with("pass")
    (folder / "slow.py").write_text("import os\nfrom pathlib import Path\nhere = Path(__file__).parent\ndef slow():\n"
                                    f"    {LOOPS}\nslow()\n")  # fmt: skip
    monkeypatch.setattr(channel, "monotonic", clock_that_runs_while(folder / "hangs"))
    assert main(["check", "doubling"]) == 2
    message = "lab: the experiments cannot be loaded: one of their files took longer than 300 s and was stopped"
    assert f"{message} at experiments/slow.py, line 6, in slow; mend that" in capsys.readouterr().err
    assert not is_running(int((folder / "hangs").read_text()))


def test_ctrl_c_ends_a_kernel_that_does_not_end(project_with: Callable[[str], Path]) -> None:
    process = project_with(LOOPS) / "hangs"
    command = subprocess.Popen([sys.executable, "-m", "lab.cli", "check"], env=child_environment(), stderr=PIPE)
    with killed_at_the_limit(command.pid):
        wait_until(lambda: process.exists() and process.read_text(), "the kernel was not called")
        command.send_signal(signal.SIGINT)
        _, said = command.communicate()
    assert (command.returncode, said.strip()) == (130, b"lab: stopped")
    assert not is_running(int(process.read_text()))


@pytest.mark.parametrize("seconds", ["0", "-3", "nan", "inf", "soon"])
def test_a_limit_that_is_none_is_refused(seconds: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["check", f"--seconds={seconds}"])
    assert f"--seconds: '{seconds}'; accepted is a number above 0, and at most 86,400" in capsys.readouterr().err


def test_a_kernel_that_asks_to_exit_has_failed() -> None:
    def leave(x: Tensor) -> Tensor:
        raise SystemExit(7)

    assert checked(leaving=lambda: leave, right=lambda: lambda x: x * 2) == {
        "leaving": ("failed", "SystemExit: 7"), "right": ("right", "worst error 0.00 of the tolerance"),
    }  # fmt: skip
