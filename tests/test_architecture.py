"""Who may import whom. Every import counts, also one inside a function."""

import ast
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from lab.source import ROOT

ROOMS = sorted((ROOT / "lab").rglob("*.py"))
# What a GPU box may lack.
ABSENT = {"mlflow", "plotly", "jinja2", "pandas", "yaml", "markdown_it"}
MEASURING = (
    "run", "worker", "measure", "profiled", "nsight", "results", "judge", "overview", "machine", "source", "journal",
    "record", "plan", "definition", "statistics", "correctness", "channel", "catalogue", "roofline", "progress",
    "instruments", "readings", "nvbench", "sweep", "crew", "process", "orphan", "ledger", "resume", "quarantine",
    "lock", "nvml", "watch", "moment", "sweeping", "sweep_case", "device", "cpu", "clock", "ring", "guard", "edges",
    "launches", "flushed", "tensors", "draws", "deferred", "watched", "stages", "compare", "spoiled",
    "precision", "cells", "sift", "hearing",
)  # fmt: skip


def name_of(path: Path) -> str:
    """'lab.kernels.rmsnorm' for lab/kernels/rmsnorm.py."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def imports(path: Path) -> frozenset[str]:
    """Every module that the file names in an import, in full."""
    return frozenset(_imports(ast.parse(path.read_text(encoding="utf-8")), name_of(path)))


def _imports(tree: ast.Module, name: str) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name}: imports are written in full here"
            yield node.module or ""
            # `from lab import plan` names a module too.
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def tops(path: Path) -> set[str]:
    return {module.partition(".")[0] for module in imports(path)}


@cache
def reached(module: str) -> frozenset[str]:
    """The rooms of the lab that a module imports, directly or through others, itself included."""
    known = {name_of(path): path for path in ROOMS}
    found: set[str] = set()
    waiting = {module}
    while waiting:
        name = waiting.pop()
        found.add(name)
        waiting |= {imported for imported in imports(known[name]) if imported in known} - found
    return frozenset(found)


def importers(package: str, folder: str = "lab") -> set[str]:
    return {name_of(path) for path in (ROOT / folder).rglob("*.py") if package in tops(path)}


def test_kernels_know_torch_triton_and_one_another_only() -> None:
    for path in (ROOT / "lab" / "kernels").glob("*.py"):
        strange = tops(path) - set(sys.stdlib_module_names) - {"torch", "triton", "lab"}
        assert not strange, f"{path.name} imports {strange}"
        rooms = {module for module in imports(path) if module.startswith("lab")}
        assert all(module.startswith("lab.kernels.") for module in rooms), f"{path.name} imports {rooms}"


@pytest.mark.parametrize(
    ("package", "rooms"),
    [
        ("mlflow", {"lab.tracking.fill"}),
        ("pynvml", {"lab.nvml"}),
        ("plotly", {"lab.charts.speedups", "lab.charts.overview"}),
        ("jinja2", {"lab.render"}),
        ("experiments", {"lab.catalogue"}),
        ("cuda", {"lab.nvbench"}),
    ],
)
def test_a_package_has_its_own_room(package: str, rooms: set[str]) -> None:
    assert importers(package) <= rooms


def test_the_gpu_is_touched_in_one_room_only() -> None:
    touching = {
        name_of(path)
        for path in ROOMS
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and ast.unparse(node).startswith("torch.cuda")
    } | {name_of(path) for path in ROOMS if any(module.startswith("torch.cuda") for module in imports(path))}
    assert touching == {"lab.device"}


@pytest.mark.parametrize("room", MEASURING)
def test_the_measuring_path_works_without_the_packages_that_a_gpu_box_may_lack(room: str) -> None:
    known = {name_of(path): path for path in ROOMS}
    for module in reached(f"lab.{room}"):
        assert not tops(known[module]) & ABSENT, f"lab.{room} reaches {module}"


@pytest.mark.parametrize(
    "room",
    [
        "definition", "record", "journal", "plan", "statistics", "judge", "results", "cells", "compare", "spoiled",
        "sift", "precision", "validity", "ranking", "roofline",
    ],
)  # fmt: skip
def test_what_is_measured_is_judged_without_torch(room: str) -> None:
    known = {name_of(path): path for path in ROOMS}
    for module in reached(f"lab.{room}"):
        assert not tops(known[module]) & {"torch", "triton", "pynvml"}, f"lab.{room} reaches {module}"


@pytest.mark.parametrize(
    ("room", "forbidden"),
    [
        ("errors", {"record", "plan", "definition"}),
        ("statistics", {"record", "plan", "measure", "results"}),
        ("definition", {"plan", "record", "measure", "judge"}),
        ("plan", {"measure", "worker", "run", "judge", "results"}),
        ("record", {"plan", "definition", "measure", "judge"}),
        ("judge", {"measure", "worker", "run", "journal", "results", "machine"}),
        ("results", {"measure", "worker", "run", "nsight", "machine", "tracking.fill"}),
        ("stages", {"clock", "plan", "record"}),
        ("clock", {"cpu", "device", "ring", "measure", "plan", "record"}),
        ("ring", {"clock", "measure", "plan", "record"}),
        ("cpu", {"device", "ring", "measure", "plan", "record"}),
        ("device", {"ring", "measure", "plan", "record", "nvml"}),
        ("measure", {"cpu", "device", "sweep_case", "results", "judge", "journal", "run", "machine"}),
        ("sweep_case", {"cpu", "device", "sweeping", "channel", "results", "judge", "journal", "run", "machine"}),
        ("watched", {"sweeping", "channel", "run", "results", "judge", "journal", "machine"}),
        ("sweeping", {"worker", "channel", "run", "results", "judge", "journal", "tracking.fill"}),
        ("worker", {"run", "results", "judge", "journal", "tracking.fill"}),
        ("run", {"results", "judge", "tracking.fill", "site", "worker", "sweeping"}),
    ],
)
def test_a_room_does_not_know_the_rooms_that_come_after_it(room: str, forbidden: set[str]) -> None:
    rooms = {f"lab.{name}" for name in forbidden}
    assert rooms <= {name_of(path) for path in ROOMS}, "a rule about a room that is gone"
    assert not reached(f"lab.{room}") & rooms


def test_experiments_use_the_labs_public_names_and_kernels() -> None:
    for path in (ROOT / "experiments").glob("*.py"):
        rooms = {module for module in imports(path) if module.partition(".")[0] == "lab"}
        public = {"lab", *(f"lab.{name}" for name in ("EDGES", "Case", "Claim", "Experiment", "Operator", "Profile"))}
        assert all(module in public or module.startswith("lab.kernels") for module in rooms), f"{path.name}: {rooms}"


def test_no_room_is_a_drawer() -> None:
    drawers = {"utils", "util", "common", "helpers", "helper", "misc"}
    assert not {path.stem for path in ROOMS} & drawers


def test_the_published_site_holds_no_python() -> None:
    assert not list((ROOT / "site").rglob("*.py"))


def test_these_rules_would_notice_a_forbidden_import(tmp_path: Path) -> None:
    tree = ast.parse("def late():\n    import mlflow.entities\n    from lab import run\n")
    assert set(_imports(tree, "x")) == {"mlflow.entities", "lab", "lab.run"}
