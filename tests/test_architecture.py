"""Who may import whom. Every import counts, also one inside a function."""

import ast
import itertools
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import lab
from lab.evidence.source import ROOT

FILES = sorted((ROOT / "lab").rglob("*.py"))
# What a GPU box may lack.
ABSENT = {"mlflow", "plotly", "jinja2", "pandas", "yaml", "markdown_it", "ray"}
# Imported by an experiment in short form when its author has it measured from a notebook, and never in a run.
NOTEBOOK = {"lab.notebook", "lab.notebook.measure"}
# The packages that a run needs on the box.
MEASURING = ("definition", "process", "supervisor", "worker", "profiler", "verdict")


@cache
def name_of(path: Path) -> str:
    """'lab.kernels.rmsnorm' for lab/kernels/rmsnorm.py."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def imports(path: Path) -> frozenset[str]:
    """Every module that the file names in an import, in full."""
    named = frozenset(_imports(ast.parse(path.read_text(encoding="utf-8")), name_of(path)))
    return named - NOTEBOOK if name_of(path) == "lab.definition.short" else named


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
    """The files of the lab that a module imports, directly or through others, itself included."""
    known = {name_of(path): path for path in FILES}
    names: set[str] = set()
    waiting = {module}
    while waiting:
        name = waiting.pop()
        names.add(name)
        waiting |= {imported for imported in imports(known[name]) if imported in known} - names
    return frozenset(names)


def importers(package: str, folder: str = "lab") -> set[str]:
    return {name_of(path) for path in (ROOT / folder).rglob("*.py") if package in tops(path)}


def test_kernels_know_torch_triton_and_one_another_only() -> None:
    for path in (ROOT / "lab" / "kernels").glob("*.py"):
        strange = tops(path) - set(sys.stdlib_module_names) - {"torch", "triton", "lab"}
        assert not strange, f"{path.name} imports {strange}"
        files = {module for module in imports(path) if module.startswith("lab")}
        assert all(module.startswith("lab.kernels.") for module in files), f"{path.name} imports {files}"


TRACKING = {
    f"lab.tracking.{name}"
    for name in (
        "attempts", "client_writer", "database_writer", "fill", "mlflow_experiment", "opening", "quick_client", "rows",
        "server",
    )
}  # fmt: skip


@pytest.mark.parametrize(
    ("package", "files"),
    [
        ("mlflow", TRACKING),
        ("pynvml", {"lab.evidence.nvml"}),
        ("plotly", {"lab.interval_figure", "lab.notebook"}),
        ("jinja2", {"lab.website.render"}),
        ("experiments", {"lab.definition.catalogue"}),
        ("cuda", {"lab.profiler.nvbench"}),
        ("ray", {"lab.cluster.on_ray"}),
    ],
)
def test_a_package_is_imported_by_few_files(package: str, files: set[str]) -> None:
    assert importers(package) <= files


def test_the_gpu_is_touched_by_the_launch_and_in_one_file_of_the_worker() -> None:
    touching = {
        name_of(path)
        for path in FILES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and ast.unparse(node).startswith("torch.cuda")
    } | {name_of(path) for path in FILES if any(module.startswith("torch.cuda") for module in imports(path))}
    assert touching == {"lab.worker.device", "lab.kernels.launch"}


def files_of(package: str) -> list[str]:
    return [name for name in map(name_of, FILES) if name.startswith(f"lab.{package}.")]


def test_the_measuring_path_works_without_the_packages_that_a_gpu_box_may_lack() -> None:
    names = [name for package in MEASURING for name in files_of(package)]
    assert not [f"{name} reaches {module}" for name in names for module in sorted(reached(name) & importing(ABSENT))]


def test_what_is_measured_is_judged_without_torch() -> None:
    definitions = ("lab.definition.experiment", "lab.definition.plan", "lab.evidence.record", "lab.evidence.journal")
    names, packages = (*definitions, *files_of("verdict")), {"torch", "triton", "pynvml"}
    assert not [f"{name} reaches {module}" for name in names for module in sorted(reached(name) & importing(packages))]


def importing(packages: set[str]) -> set[str]:
    """The files of the lab that import one of these packages."""
    return {name_of(path) for path in FILES if tops(path) & packages}


# Package → the packages that it may know, itself apart. The files at the top may know all.
KNOWS = {
    "kernels": set(),
    "definition": {"kernels", "evidence"},
    "evidence": {"definition"},
    "verdict": {"definition", "evidence", "profiler"},
    "process": {"evidence"},
    "worker": {"definition", "evidence", "kernels", "process"},
    "profiler": {"definition", "evidence", "worker", "process"},
    "supervisor": {"definition", "evidence", "process", "verdict", "profiler"},
    "cluster": {"definition", "evidence", "process", "supervisor"},
    "remote": {"evidence"},
    "website": {"definition", "evidence", "verdict", "profiler"},
    "tracking": {"definition", "evidence", "process", "verdict", "website"},
}


@pytest.mark.parametrize("package", KNOWS)
def test_a_package_knows_only_those_that_it_may(package: str) -> None:
    for path in (ROOT / "lab" / package).rglob("*.py"):
        known = {module.split(".")[1] for module in imports(path) if module.startswith("lab.")} & KNOWS.keys()
        assert known <= KNOWS[package] | {package}, f"{name_of(path)} knows {known - KNOWS[package]}"


RECORDS = {"definition.plan", "evidence.record"}


@pytest.mark.parametrize(
    ("file", "forbidden"),
    [
        ("errors", {*RECORDS, "definition.experiment"}),
        ("definition.experiment", RECORDS),
        ("evidence.record", {"definition.plan", "definition.experiment"}),
        ("verdict.statistics", {*RECORDS, "verdict.results"}),
        ("verdict.judge", {"evidence.journal", "evidence.machine", "verdict.results"}),
        ("verdict.results", {"evidence.machine", "profiler.nsight", "verdict.judge_run"}),
        ("verdict.judge_run", {"evidence.machine", "profiler.nsight"}),
        ("worker.stage_timer", {*RECORDS, "worker.clock"}),
        ("worker.clock", {*RECORDS, "worker.cpu", "worker.device", "worker.input_pool", "worker.measure"}),
        ("worker.input_pool", {*RECORDS, "worker.clock", "worker.measure"}),
        ("worker.cpu", {*RECORDS, "worker.device", "worker.input_pool", "worker.measure"}),
        ("worker.device", {*RECORDS, "worker.input_pool", "worker.measure", "evidence.nvml"}),
        (
            "worker.measure",
            {"worker.cpu", "worker.device", "worker.sweep_case", "evidence.journal", "evidence.machine"},
        ),
        (
            "worker.sweep_case",
            {
                "worker.cpu", "worker.device", "worker.measure_sweep", "process.channel", "evidence.journal",
                "evidence.machine",
            },
        ),
        (
            "worker.guarded_names",
            {"worker.measure_sweep", "process.channel", "evidence.journal", "evidence.machine"},
        ),
        ("worker.measure_sweep", {"worker.__main__", "process.channel", "evidence.journal"}),
        ("worker.__main__", {"evidence.journal"}),
        ("supervisor.run", {"verdict.results", "verdict.judge"}),
    ],
)  # fmt: skip
def test_a_file_does_not_know_the_files_that_come_after_it(file: str, forbidden: set[str]) -> None:
    files = {f"lab.{name}" for name in forbidden}
    assert files <= {name_of(path) for path in FILES}, "a rule about a file that is gone"
    assert not reached(f"lab.{file}") & files


def test_no_two_files_need_each_other() -> None:
    known = {name_of(path): path for path in FILES}
    for name, path in known.items():
        behind = {module for module in imports(path) if module in known} - {name}
        assert not [module for module in behind if name in reached(module)], name


def test_no_two_folders_need_each_other() -> None:
    """Those of the website are its own affair."""
    folders = {name: {name} for name in KNOWS}
    for path in FILES:
        folder = name_of(path).split(".")[1] if path.parent.name != "lab" and "." in name_of(path) else ""
        if folder in folders:
            folders[folder] |= {module.split(".")[1] for module in imports(path) if module.startswith("lab.")}
    for one, other in itertools.combinations(KNOWS, 2):
        assert not (one in folders[other] and other in folders[one]), f"{one} and {other}"


def test_experiments_use_the_labs_public_names_and_kernels() -> None:
    for path in (ROOT / "experiments").glob("*.py"):
        files = {module for module in imports(path) if module.partition(".")[0] == "lab"}
        public = {"lab", *(f"lab.{name}" for name in lab.__all__)}
        assert all(module in public or module.startswith("lab.kernels") for module in files), f"{path.name}: {files}"


def test_no_file_is_a_drawer() -> None:
    drawers = {"utils", "util", "common", "helpers", "helper", "misc"}
    assert not {path.stem for path in FILES} & drawers


def test_the_published_site_holds_no_python() -> None:
    assert not list((ROOT / "site").rglob("*.py"))


def test_these_rules_would_notice_a_forbidden_import(tmp_path: Path) -> None:
    tree = ast.parse("def late():\n    import mlflow.entities\n    from lab import run\n")
    assert set(_imports(tree, "x")) == {"mlflow.entities", "lab", "lab.run"}
