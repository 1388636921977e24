"""Experiments that the tests of lab.supervisor.run measure in real processes: LAB_PROJECT names `tests/toys`."""

import ctypes
import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from lab import EDGES, Case, Claim, Experiment, Operator, Profile
from lab.evidence.codec import to_data
from lab.evidence.record import Cell
from lab.kernels.traffic import Traffic
from lab.process.channel import send

HANGING_PROCESSES = "hanging-processes"
LEAVES = """
import os, subprocess, sys, time
grandchild = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(600)"], start_new_session=True)
with open("left.new", "w") as file:
    print(os.getpid(), grandchild.pid, file=file)
os.rename("left.new", "left")
time.sleep(600)
"""
CALLS_WHILE_CHECKED = 6  # one to prepare, one for each of three seeds, two with inputs that no edge names


class ReportTensor(Tensor):
    """Not a plain tensor."""


def inputs(shape: tuple[int, ...], dtype: torch.dtype, device: str, seed: int) -> tuple[Tensor]:
    return (torch.randn(shape, dtype=dtype, device=device, generator=torch.Generator(device).manual_seed(seed)),)


def no_inputs(shape: tuple[int, ...], dtype: torch.dtype, device: str, seed: int) -> tuple[Tensor]:
    raise MemoryError("no room for the inputs")


def operator(name: str, make: Callable[..., Any], edges: tuple[str, ...]) -> Operator:
    return Operator(
        name=name, inputs=make, reference=lambda x: 2 * x.double(), tolerance=1, edges=edges,
        traffic=lambda shape, itemsize: Traffic(read_bytes=itemsize, written_bytes=itemsize, flops=1),
    )  # fmt: skip


def double(x: Tensor) -> Tensor:
    return x * 2


def chatty(x: Tensor) -> Tensor:
    print("a library that talks on standard output", flush=True)
    return x * 2


def crash(x: Tensor) -> Tensor:
    ctypes.string_at(0)
    return x


def leave(x: Tensor) -> Tensor:
    sys.exit(3)


def refuse(x: Tensor) -> Tensor:
    raise ValueError(f"not today, said {os.path.expanduser('~')}/it\nand more")


def garble(x: Tensor) -> Tensor:
    os.write(int(sys.argv[2]), b"\xff" * 8)  # the pipe that the worker's frames go through
    return x * 2


def forge(x: Tensor) -> Tensor:
    """Write a record of its own, as good as any, to the pipe that the worker's go through."""
    cell = Cell(
        experiment="forged", case="doubling-64x64-float32", profile="forges", sweep=0, process=f"0-{os.getpid()}",
        outcome="measured", reason="", prepare_seconds=0.0, correctness=None, timings=(), finished_utc="",
    )  # fmt: skip
    send(int(sys.argv[2]), {"kind": "Cell", "content": to_data(cell)})
    return x * 2


def need_too_much(x: Tensor) -> Tensor:
    raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 8.00 TiB.")


def fork_and_crash(x: Tensor) -> Tensor:
    if os.fork() == 0:
        time.sleep(60)
        os._exit(0)
    return crash(x)


def leave_a_session(x: Tensor) -> Tensor:
    """Start a child, and by it a grandchild, each in a session of its own, and tell which processes these are."""
    if not os.path.exists("left"):
        child = subprocess.Popen([sys.executable, "-S", "-c", LEAVES], start_new_session=True)
        while not os.path.exists("left"):
            assert child.poll() is None
            time.sleep(0.02)
    return x * 2


def killed_once(x: Tensor) -> Tensor:
    """As by another process, or by a kernel that is out of memory: the first that calls this is killed."""
    if not os.path.exists("killed"):
        open("killed", "w").close()
        os.kill(os.getpid(), signal.SIGKILL)
    return x * 2


def kill_itself(x: Tensor) -> Tensor:
    os.kill(os.getpid(), signal.SIGKILL)
    return x


def hang(x: Tensor) -> Tensor:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    tell_that_it_hangs()
    while True:
        time.sleep(1)


def dawdle(x: Tensor) -> Tensor:
    """Never come to an end with sixteen rows."""
    if len(x) == 16:
        tell_that_it_hangs()
        while True:
            time.sleep(1)
    return x * 2


def tell_that_it_hangs() -> None:
    with open(HANGING_PROCESSES, "a") as file:
        file.write(f"{os.getpid()}\n")


def flooding_until_cut() -> Callable[[Tensor], Tensor]:
    """Writes more than its log may hold, once, and then waits until that was cut."""
    count = itertools.count()

    def flood(x: Tensor) -> Tensor:
        if next(count) == 0:
            os.write(1, b"out " * 1_000_000)
            while os.fstat(1).st_size > 2 << 20:
                time.sleep(0.02)
        return x * 2

    return flood


def gated() -> Callable[[Tensor], Tensor]:
    """Waits in the second case of its process while there is a file `gate`."""
    seen: set[int] = set()

    def wait(x: Tensor) -> Tensor:
        seen.add(len(x))
        while len(seen) == 2 and os.path.exists("gate"):
            time.sleep(0.02)
        return x * 2

    return wait


def flooding() -> Callable[[Tensor], Tensor]:
    """More output than any pipe holds, on both streams."""
    count = itertools.count(1)

    def flood(x: Tensor) -> Tensor:
        if next(count) <= 2:
            sys.stdout.write("out " * 500_000)
            sys.stderr.write("err " * 500_000)
        return x * 2

    return flood


def load_and_crash() -> Callable[[Tensor], Tensor]:
    ctypes.string_at(0)
    return double


def crash_on_zeros(x: Tensor) -> Tensor:
    return double(x) if bool(x.any()) else crash(x)


def load_once_alone() -> Callable[[Tensor], Tensor]:
    """What a process that was short of memory for once does: the first that loads this dies."""
    mark = os.path.join(os.path.dirname(sys.argv[1]), "loaded-before")
    if not os.path.exists(mark):
        with open(mark, "w"):
            os.kill(os.getpid(), signal.SIGKILL)
    return double


def once_checked(then: Callable[[Tensor], Tensor]) -> Callable[[], Callable[[Tensor], Tensor]]:
    """Right while it is checked, and another once it is timed."""

    def load() -> Callable[[Tensor], Tensor]:
        count = itertools.count(1)
        return lambda x: double(x) if next(count) <= CALLS_WHILE_CHECKED else then(x)

    return load


def profile(name: str, function: Callable[..., Any], load: Callable[[], Any] | None = None, **more: Any) -> Profile:
    loader = load or (lambda: function)
    return Profile(
        name=name, title=name, technique="As named.", hypothesis="As named.", signal="None.",
        implementations={"doubling": loader, "lost": loader}, **more,
    )  # fmt: skip


def note_caches(x: Tensor) -> Tensor:
    """Tell what lies in the compilers' folders, then leave there what compilers would: a binary and two choices."""
    triton, inductor = (Path(os.environ[name]) for name in ("TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR"))
    caches = {
        "triton": str(triton), "inductor": str(inductor), "ahead": "lab.worker.precompile" in sys.orig_argv,
        "binaries": sorted(file.name for file in triton.rglob("*.cubin")),
        "choices": sorted(file.name for file in triton.rglob("*.autotune.json")),
        "graphs": sorted(file.name for file in inductor.rglob("*.best_config")),
    }  # fmt: skip
    with open("caches-seen.jsonl", "a", encoding="utf-8") as file:
        file.write(json.dumps(caches) + "\n")
    kernel = triton / "KEY"
    kernel.mkdir(exist_ok=True)
    (kernel / "add.cubin").write_bytes(b"code")
    (kernel / "__grp__add.json").write_text(json.dumps({"child_paths": {"add.cubin": str(kernel / "add.cubin")}}))
    (kernel / "add.autotune.json").write_text("{}")
    inductor.mkdir(parents=True, exist_ok=True)
    (inductor / "graph.best_config").write_text("{}")
    return x * 2


def experiment(name: str, cases: tuple[Case, ...], profiles: tuple[Profile, ...]) -> Experiment:
    claim = Claim(name="one-beats-two", text="It is.", subject=profiles[0], baseline=profiles[1], cases=cases)
    return Experiment(
        name=name, title=name, question="Does it stay whole?", importance="It must.", focus="Faults", cases=cases,
        profiles=profiles, claims=(claim,), headlines=(claim,), does_not_show=("All else.",),
        metrics={"Latency": ("p50",)},
    )  # fmt: skip


def case(name: str, rows: int, make: Callable[..., Any] = inputs, edges: tuple[str, ...] = ()) -> Case:
    return Case(operator=operator(name, make, edges), shape=(rows, 64), dtype="float32", description=f"{rows} rows")


CASE, LOST = case("doubling", 64), case("lost", 64, no_inputs)
ONE, TWO, CRASHES = profile("one", double), profile("two", double), profile("crashes", crash)

STEADY = experiment("steady", (CASE,), (ONE, TWO))
MISCHIEF = experiment(
    "mischief",
    (CASE,),
    (
        profile("good", double),
        profile("chatty", chatty),
        profile("floods", double, flooding),
        profile("spoils-its-input", lambda x: x.mul_(2).clone()),
        CRASHES,
        profile("crashes-when-timed", double, once_checked(crash)),
        profile("hangs-deaf-to-sigterm", hang),
        profile("leaves", leave),
        profile("garbles", garble),
        profile("refuses", refuse),
        profile("needs-too-much", need_too_much),
        profile("wrong", lambda x: x * 3),
        profile("wrong-when-timed", double, once_checked(lambda x: x * 3)),
        profile("no-tensor", lambda x: (x * 2).as_subclass(ReportTensor)),
        profile("needs-a-gpu", double, devices=("cuda",)),
        profile("needs-a-package", double, package="no_such_package_anywhere"),
    ),
)
NO_ROOM = experiment("no-room", (LOST, CASE), (ONE, TWO))
FRAGILE = experiment("fragile", tuple(case("doubling", rows) for rows in (8, 16, 32)), (ONE, TWO, CRASHES))
UNLOADABLE = experiment("unloadable", (CASE,), (ONE, TWO, profile("crashes-when-loaded", double, load_and_crash)))
SLOW = experiment("slow", (case("doubling", 8), case("doubling", 16)), (ONE, TWO, profile("dawdles", dawdle)))
HANGING = experiment("hanging", (CASE,), (profile("hangs", hang), ONE))
PAIR = experiment("pair", (case("doubling", 8), case("doubling", 16)), (ONE, TWO))
EDGY = experiment("edgy", (case("doubling", 8, edges=EDGES),), (ONE, TWO, profile("crashes-on-zeros", crash_on_zeros)))
FORGED = experiment(
    "forged", (CASE,), (ONE, TWO, profile("forges", forge), profile("forges-when-timed", double, once_checked(forge)))
)
OUT_OF_MEMORY_ONCE = experiment("short-of-memory", (CASE,), (ONE, TWO, profile("killed-once", double, load_once_alone)))
FORKING = experiment("forking", (CASE,), (ONE, TWO, profile("forks-and-crashes", fork_and_crash)))
NEEDY = experiment(
    "needy", (CASE,), (profile("gpu-one", double, devices=("cuda",)), profile("gpu-two", double, devices=("cuda",)))
)
CACHING = experiment("caching", (CASE,), (ONE, profile("notes-its-caches", note_caches)))
FLOODING = experiment("flooding", (CASE,), (profile("floods-until-cut", double, flooding_until_cut), ONE))
LEAVING = experiment("leaving", (CASE,), (ONE, profile("leaves-a-session", leave_a_session)))
KILLED = experiment("killed", (CASE,), (ONE, profile("killed-once", killed_once), profile("kills-itself", kill_itself)))
GATED = experiment(
    "gated", tuple(case("doubling", rows) for rows in (8, 16, 32)), (ONE, profile("waits", double, gated))
)

EXPERIMENTS = (
    STEADY,
    MISCHIEF,
    NO_ROOM,
    FRAGILE,
    UNLOADABLE,
    SLOW,
    HANGING,
    PAIR,
    EDGY,
    FORGED,
    OUT_OF_MEMORY_ONCE,
    FORKING,
    FLOODING,
    LEAVING,
    KILLED,
    GATED,
    NEEDY,
    CACHING,
)
