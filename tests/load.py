"""What it costs to work on a run of ten thousand cells: time and memory of the real commands, each a process."""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

# Light on purpose: what the kernel calls the most memory of a process may be that of the one which began it.
MAKE = Path(__file__).with_name("large_run.py")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sweeps", nargs="*", type=int, default=[5], help="one run for each number (default: 5)")
    parser.add_argument("--cells", type=int, default=10_000, help="of a run (default: 10000)")
    parser.add_argument("--experiments", type=int, default=25, help="that the cells are of (default: 25)")
    parser.add_argument("--commands", default="judge", help="such as judge,track,preview (default: judge)")
    options = parser.parse_args()
    for sweeps in options.sweeps:
        with tempfile.TemporaryDirectory() as runs:
            _measure(Path(runs), sweeps, options)


def _measure(runs: Path, sweeps: int, options: argparse.Namespace) -> None:
    run = runs / "load"
    _told("made", [sys.executable, MAKE, run, sweeps, options.cells, options.experiments], runs)
    with (run / "journal.jsonl").open("rb") as file:
        records, size_bytes = sum(1 for _ in file), file.tell()
    print(f"{options.cells} cells, {sweeps} sweeps: {records} records, {size_bytes / 1e6:.0f} MB", flush=True)
    for command in options.commands.split(","):
        _told(f"lab {command}", [sys.executable, "-m", "lab.cli", command, run], runs)


def _told(what: str, command: list[object], runs: Path) -> None:
    """Run a process to its end, and print what it took."""
    began = time.monotonic()
    process = subprocess.Popen(
        list(map(str, command)), stdout=subprocess.DEVNULL, env=os.environ | {"LAB_RUNS": str(runs)}
    )
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{what} ended with {process.returncode}")
    print(
        f"  {what:16}{usage.ru_utime + usage.ru_stime:8.1f} CPU s{time.monotonic() - began:8.1f} s"
        f"{usage.ru_maxrss * 1024 / 1e6:8.0f} MB at most", flush=True,
    )  # fmt: skip


if __name__ == "__main__":
    main()
