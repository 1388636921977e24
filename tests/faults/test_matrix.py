"""docs/reliability.md names tests that exist; and what it says of the time of day holds of every module."""

import ast
import re

import pytest

from lab.evidence.source import ROOT

DOCUMENT = (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8")
NAMED = sorted(set(re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", DOCUMENT)))
# Of the wall clock. Durations come from time.monotonic and time.perf_counter.
OF_THE_DAY = {"time.time", "time.time_ns", "datetime.now", "datetime.utcnow", "datetime.datetime.now"}


@pytest.mark.parametrize(("path", "name"), NAMED)
def test_every_test_that_a_row_names_exists(path: str, name: str) -> None:
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    assert not name or name in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_every_row_names_a_test() -> None:
    faults = DOCUMENT.partition("\n## Load\n")[0]
    rows = [line for line in faults.splitlines() if line.startswith("| ") and not line.startswith("| fault ")]
    assert len(rows) > 40
    assert [row for row in rows if "`tests/" not in row.split("|")[4]] == []


def test_no_duration_is_taken_from_the_time_of_day() -> None:
    asking = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "lab").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in OF_THE_DAY
    }
    assert asking == {"lab/evidence/moment.py", "lab/notebook.py"}  # the other names a run by it
