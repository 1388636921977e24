"""Nsight Compute, played by a small program: it says, writes and leaves undone what a test tells it to.

`body` is Python, with `reading` (whether a report is to be read back), `report` (the file), `table` (a real one),
`arguments`, `order` (which waits for what the program under ncu is told), and `failures` (the file in which the
profiled program tells of cells that it could not show) at hand.
"""

import stat
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

SAMPLE = (Path(__file__).parent / "fixtures" / "ncu-raw.csv").read_text()
CASE = "rmsnorm-4096x4096-float16"
Ncu = Callable[[str], None]
GOOD = """
if reading:
    print(table)
else:
    print("==PROF== Connected to process 425")
    report.write_bytes(b"a report")
"""
NOTING = GOOD + "if not reading: (report.parent / 'arguments').write_text(' '.join(arguments))\n"
HEAD = f"""
#!{sys.executable}
import json, os, pathlib, subprocess, sys, time
arguments = sys.argv[1:]
if "--version" in arguments:
    print("Version 2025.3.1.0 (build 36398880)")
    sys.exit()
reading = "--import" in arguments
report = pathlib.Path(arguments[arguments.index("--import" if reading else "--export") + 1])
if "lab.profiler.profiled" in arguments:
    failures = pathlib.Path(arguments[arguments.index("lab.profiler.profiled") + 3])
table = {SAMPLE!r}


def order():
    return json.loads(pathlib.Path(arguments[-1]).read_text() or "null")


"""


def install(folder: Path, body: str) -> None:
    program = folder / "ncu"
    program.write_text(HEAD.lstrip() + textwrap.dedent(body))
    program.chmod(program.stat().st_mode | stat.S_IEXEC)


def printing(table: str) -> str:
    """A good ncu whose report reads as this table."""
    return GOOD.replace("print(table)", f"print({table!r})")


def sample_of(*profiles: str) -> str:
    """The launches of these profiles at CASE, as the sample has them."""
    header, units, *rows = SAMPLE.splitlines()
    return "\n".join([header, units, *(row for row in rows if any(f"|{name}:" in row for name in profiles))])
