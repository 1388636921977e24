"""`lab init`: makes a folder a project of the lab, and overwrites no file."""

from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

from lab.errors import LabError
from lab.project import FILE, SECTION, settings_of

SETTINGS = f"""\
[tool.{SECTION}]
# Folders are relative to this file. Runs may also be kept elsewhere: LAB_RUNS names the folder.
experiments = "experiments"
evidence = "experiments/evidence"
decisions = "experiments/decisions"
site = "site"
runs = "runs"
title = "{{title}}"
base-url = ""
"""
IGNORED = ("/runs/", "/.cache/", "__pycache__/")
EXAMPLE = "gelu.py"
WORKFLOWS = {
    ".github/workflows/kernel-evidence.yml": "plain_runner.yml",
    ".github/workflows/kernel-evidence-gpu.yml": "gpu_runner.yml",
}


def start_project(folder: Path) -> Iterator[str]:
    """Write what a project needs; says what was written and what was there already."""
    folder = folder.absolute()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        experiments = settings_of(folder).experiments
        yield _add_settings(folder)
        yield _write_example(folder / experiments)
        for path, name in WORKFLOWS.items():
            yield _write(folder / path, _text(name))
        yield _ignore(folder / ".gitignore")
    except OSError as refusal:
        raise LabError(f"{folder}: cannot be made a project: {refusal.strerror}; choose another folder") from None
    yield "next: lab check; lab benchmark --run-id first; lab judge first"


def _add_settings(folder: Path) -> str:
    path = folder / FILE
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    if f"[tool.{SECTION}]" in text:
        return f"{path}: has [tool.{SECTION}] already"
    title = folder.name.replace("-", " ").replace("_", " ").replace('"', "").replace("\\", "").capitalize()
    settings = SETTINGS.format(title=f"{title}: kernel evidence".strip(": "))
    path.write_text(f"{text.rstrip()}\n\n{settings}".lstrip(), encoding="utf-8")
    return f"{path}: [tool.{SECTION}] added"


def _write_example(experiments: Path) -> str:
    """Only where there is no other file: the example would be measured before those whose names come later."""
    others = sorted(path.name for path in experiments.glob("*.py") if path.name != EXAMPLE)
    if others and not (experiments / EXAMPLE).exists():
        return f"{experiments}: has {others[0]} already, so no example is added"
    return _write(experiments / EXAMPLE, _text(EXAMPLE))


def _text(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _write(path: Path, text: str) -> str:
    if path.exists():
        return f"{path}: is there already, and stays as it is"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return f"{path}: written"


def _ignore(path: Path) -> str:
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    lacking = [line for line in IGNORED if line not in lines]
    path.write_text("".join(f"{line}\n" for line in [*lines, *lacking]), encoding="utf-8")
    return f"{path}: ignores {', '.join(IGNORED)}"
