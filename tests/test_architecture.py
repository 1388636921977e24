"""Who may import whom. Every import counts, also one inside a function."""

import ast
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import lab
from lab.evidence.source import ROOT

ROOMS = sorted((ROOT / "lab").rglob("*.py"))
# What a GPU box may lack.
ABSENT = {"mlflow", "plotly", "jinja2", "pandas", "yaml", "markdown_it"}
# The packages that a run needs on the box.
MEASURING = ("definition", "supervisor", "worker", "profiler", "verdict")


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
        ("pynvml", {"lab.evidence.nvml"}),
        ("plotly", {f"lab.website.charts.{chart}" for chart in ("speedups", "overview", "roofline")}),
        ("jinja2", {"lab.website.templates"}),
        ("experiments", {"lab.definition.catalogue"}),
        ("cuda", {"lab.profiler.nvbench"}),
    ],
)
def test_a_package_has_its_own_room(package: str, rooms: set[str]) -> None:
    assert importers(package) <= rooms


def test_the_gpu_is_touched_by_the_launch_and_in_one_room_of_the_worker() -> None:
    touching = {
        name_of(path)
        for path in ROOMS
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and ast.unparse(node).startswith("torch.cuda")
    } | {name_of(path) for path in ROOMS if any(module.startswith("torch.cuda") for module in imports(path))}
    assert touching == {"lab.worker.device", "lab.kernels.launch"}


def rooms_of(package: str) -> list[str]:
    return [name for name in map(name_of, ROOMS) if name.startswith(f"lab.{package}.")]


@pytest.mark.parametrize("name", [name for package in MEASURING for name in rooms_of(package)])
def test_the_measuring_path_works_without_the_packages_that_a_gpu_box_may_lack(name: str) -> None:
    known = {name_of(path): path for path in ROOMS}
    for module in reached(name):
        assert not tops(known[module]) & ABSENT, f"{name} reaches {module}"


@pytest.mark.parametrize(
    "name",
    ["lab.definition.experiment", "lab.definition.plan", "lab.evidence.record", "lab.evidence.journal",
     *rooms_of("verdict")],
)  # fmt: skip
def test_what_is_measured_is_judged_without_torch(name: str) -> None:
    known = {name_of(path): path for path in ROOMS}
    for module in reached(name):
        assert not tops(known[module]) & {"torch", "triton", "pynvml"}, f"{name} reaches {module}"


# Package → the packages that it may know, itself apart. The files at the top may know all.
KNOWS = {
    "kernels": set(),
    "definition": {"kernels", "evidence"},
    "evidence": {"definition"},
    "verdict": {"definition", "evidence", "profiler"},
    "worker": {"definition", "evidence", "kernels", "supervisor"},
    "profiler": {"definition", "evidence", "worker", "supervisor"},
    "supervisor": {"definition", "evidence", "verdict", "profiler"},
    "website": {"definition", "evidence", "verdict", "profiler"},
    "tracking": {"definition", "evidence", "verdict", "website"},
}


@pytest.mark.parametrize("package", KNOWS)
def test_a_package_knows_only_those_that_it_may(package: str) -> None:
    for path in (ROOT / "lab" / package).rglob("*.py"):
        known = {module.split(".")[1] for module in imports(path) if module.startswith("lab.")} & KNOWS.keys()
        assert known <= KNOWS[package] | {package}, f"{name_of(path)} knows {known - KNOWS[package]}"


@pytest.mark.parametrize(
    ("room", "forbidden"),
    [
        ("errors", {"evidence.record", "definition.plan", "definition.experiment"}),
        ("verdict.statistics", {"evidence.record", "definition.plan", "worker.measure", "verdict.results"}),
        ("definition.experiment", {"definition.plan", "evidence.record", "worker.measure", "verdict.judge"}),
        (
            "definition.plan",
            {"worker.measure", "worker.__main__", "supervisor.run", "verdict.judge", "verdict.results"},
        ),
        ("evidence.record", {"definition.plan", "definition.experiment", "worker.measure", "verdict.judge"}),
        (
            "verdict.judge",
            {
                "worker.measure",
                "worker.__main__",
                "supervisor.run",
                "evidence.journal",
                "verdict.results",
                "evidence.machine",
            },
        ),
        (
            "verdict.results",
            {
                "worker.measure",
                "worker.__main__",
                "supervisor.run",
                "profiler.nsight",
                "evidence.machine",
                "tracking.fill",
            },
        ),
        ("worker.stages", {"worker.clock", "definition.plan", "evidence.record"}),
        (
            "worker.clock",
            {"worker.cpu", "worker.device", "worker.ring", "worker.measure", "definition.plan", "evidence.record"},
        ),
        ("worker.ring", {"worker.clock", "worker.measure", "definition.plan", "evidence.record"}),
        ("worker.cpu", {"worker.device", "worker.ring", "worker.measure", "definition.plan", "evidence.record"}),
        ("worker.device", {"worker.ring", "worker.measure", "definition.plan", "evidence.record", "evidence.nvml"}),
        (
            "worker.measure",
            {
                "worker.cpu",
                "worker.device",
                "worker.sweep_case",
                "verdict.results",
                "verdict.judge",
                "evidence.journal",
                "supervisor.run",
                "evidence.machine",
            },
        ),
        (
            "worker.sweep_case",
            {
                "worker.cpu",
                "worker.device",
                "worker.sweeping",
                "supervisor.channel",
                "verdict.results",
                "verdict.judge",
                "evidence.journal",
                "supervisor.run",
                "evidence.machine",
            },
        ),
        (
            "worker.watched",
            {
                "worker.sweeping",
                "supervisor.channel",
                "supervisor.run",
                "verdict.results",
                "verdict.judge",
                "evidence.journal",
                "evidence.machine",
            },
        ),
        (
            "worker.sweeping",
            {
                "worker.__main__",
                "supervisor.channel",
                "supervisor.run",
                "verdict.results",
                "verdict.judge",
                "evidence.journal",
                "tracking.fill",
            },
        ),
        (
            "worker.__main__",
            {"supervisor.run", "verdict.results", "verdict.judge", "evidence.journal", "tracking.fill"},
        ),
        (
            "supervisor.run",
            {"verdict.results", "verdict.judge", "tracking.fill", "website.site", "worker.__main__", "worker.sweeping"},
        ),
    ],
)
def test_a_room_does_not_know_the_rooms_that_come_after_it(room: str, forbidden: set[str]) -> None:
    rooms = {f"lab.{name}" for name in forbidden}
    assert rooms <= {name_of(path) for path in ROOMS}, "a rule about a room that is gone"
    assert not reached(f"lab.{room}") & rooms


def test_experiments_use_the_labs_public_names_and_kernels() -> None:
    for path in (ROOT / "experiments").glob("*.py"):
        rooms = {module for module in imports(path) if module.partition(".")[0] == "lab"}
        public = {"lab", *(f"lab.{name}" for name in lab.__all__)}
        assert all(module in public or module.startswith("lab.kernels") for module in rooms), f"{path.name}: {rooms}"


def test_no_room_is_a_drawer() -> None:
    drawers = {"utils", "util", "common", "helpers", "helper", "misc"}
    assert not {path.stem for path in ROOMS} & drawers


def test_the_published_site_holds_no_python() -> None:
    assert not list((ROOT / "site").rglob("*.py"))


def test_these_rules_would_notice_a_forbidden_import(tmp_path: Path) -> None:
    tree = ast.parse("def late():\n    import mlflow.entities\n    from lab import run\n")
    assert set(_imports(tree, "x")) == {"mlflow.entities", "lab", "lab.run"}
