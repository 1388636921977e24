"""What large runs and sites cost: time and memory of the real commands, each in a process of its own.

A run of ten thousand cells is judged; with 60 sweeps it has a million records. Or, with --site, a site of so many
experiments is built and verified.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

# This process imports next to nothing: what the system calls the most memory of a process may be that of the one which
# began it.
HERE = Path(__file__).parent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sweeps", nargs="*", type=int, default=[5], help="one run for each number (default: 5)")
    parser.add_argument("--cells", type=int, default=10_000, help="of a run (default: 10000)")
    parser.add_argument("--experiments", type=int, default=25, help="that the cells are of (default: 25)")
    parser.add_argument("--commands", default="judge", help="such as judge,track,preview (default: judge)")
    parser.add_argument("--site", nargs="+", type=int, metavar="EXPERIMENTS", help="sites of so many experiments")
    options = parser.parse_args()
    for size in options.site or options.sweeps:
        with tempfile.TemporaryDirectory() as folder:
            if options.site:
                _site(Path(folder) / "project", size)
            else:
                _run(Path(folder), size, options)


def _site(project: Path, experiments: int) -> None:
    place = {"LAB_PROJECT": str(project)}
    print(f"{experiments} experiments", flush=True)
    _told("made", [sys.executable, HERE / "large_site.py", project, experiments], place)
    _told("lab build", [sys.executable, "-m", "lab.cli", "build", "--with-samples"], place)
    files = [path for path in (project / "site").rglob("*") if path.is_file()]
    print(f"  {len(files)} files, {sum(path.stat().st_size for path in files) / 1e6:.0f} MB", flush=True)
    _told("lab verify", [sys.executable, "-m", "lab.cli", "verify"], place)


def _run(runs: Path, sweeps: int, options: argparse.Namespace) -> None:
    run, place = runs / "load", {"LAB_RUNS": str(runs)}
    _told("made", [sys.executable, HERE / "large_run.py", run, sweeps, options.cells, options.experiments], place)
    with (run / "journal.jsonl").open("rb") as file:
        records, size_bytes = sum(1 for _ in file), file.tell()
    print(f"{options.cells} cells, {sweeps} sweeps: {records} records, {size_bytes / 1e6:.0f} MB", flush=True)
    for command in options.commands.split(","):
        _told(f"lab {command}", [sys.executable, "-m", "lab.cli", command, run], place)


def _told(what: str, command: list[object], place: dict[str, str]) -> None:
    """Run a process to its end, and print what it took."""
    began = time.monotonic()
    process = subprocess.Popen(list(map(str, command)), stdout=subprocess.DEVNULL, env=os.environ | place)
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
