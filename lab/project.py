"""The project that the lab works for: a folder whose pyproject.toml has [tool.kernel-evidence-lab], and its places.

It is searched in the current directory and upwards, or named by LAB_PROJECT. If there is none, a checkout of the lab is
its own project; elsewhere the current directory is a project with default places.
"""

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any

from lab.errors import DefinitionError
from lab.suggest import did_you_mean

CODE = Path(__file__).resolve().parents[1]  # the folder in which the package `lab` lies
FILE, SECTION = "pyproject.toml", "kernel-evidence-lab"
VARIABLE, RUNS_VARIABLE = "LAB_PROJECT", "LAB_RUNS"


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """What the section may say, and what is taken where it does not. Folders are relative to the file."""

    experiments: str = "experiments"
    evidence: str = "experiments/evidence"
    decisions: str = "experiments/decisions"
    site: str = "site"
    runs: str = "runs"
    title: str = "Kernel Evidence Lab"
    base_url: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Project:
    """Where everything of a project lies."""

    root: Path
    settings: Settings

    @property
    def file(self) -> Path:
        return self.root / FILE

    @property
    def experiments(self) -> Path:
        return self.root / self.settings.experiments

    @property
    def evidence(self) -> Path:
        return self.root / self.settings.evidence

    @property
    def decisions(self) -> Path:
        return self.root / self.settings.decisions

    @property
    def site(self) -> Path:
        return self.root / self.settings.site

    @property
    def runs(self) -> Path:
        return Path(os.environ.get(RUNS_VARIABLE) or self.root / self.settings.runs)

    @property
    def cache(self) -> Path:
        """What the website keeps from one build to the next; all of it may be deleted."""
        return self.root / ".cache"

    @property
    def is_the_labs_own(self) -> bool:
        return self.root == CODE

    @property
    def lab(self) -> str:
        """How the lab is called in it: from the environment that its scripts make, or as it was installed."""
        return ".venv/bin/lab" if self.is_the_labs_own else "lab"

    def script(self, name: str) -> str:
        """How a command is called that has a script in the lab's own repository, and nowhere else."""
        return f"./scripts/{name}" if self.is_the_labs_own else f"lab {name}"


def project() -> Project:
    """That of this process. DefinitionError where its section cannot be read."""
    named = os.environ.get(VARIABLE)
    if named and not Path(named).is_dir():
        raise DefinitionError(f"{VARIABLE} names {named}, and no folder is there; name that of a project, or unset it")
    return _project_above(Path(named).absolute() if named else Path.cwd(), bool(named))


def is_fallback() -> bool:
    """Whether the lab's own checkout was taken because no project is in the current directory or above it."""
    if os.environ.get(VARIABLE) or not project().is_the_labs_own:
        return False
    return CODE not in (Path.cwd(), *Path.cwd().parents)


def settings_of(folder: Path) -> Settings:
    """Those that the folder's own file gives, or else the usual ones. DefinitionError where it cannot be read."""
    return _settings(_section(folder) or {}, folder / FILE)


def is_checkout() -> bool:
    """Whether this lab runs from its own repository, and not from an installed package."""
    return _section(CODE) is not None


@cache
def _project_above(start: Path, named: bool) -> Project:
    for folder in (start,) if named else (start, *start.parents):
        if (section := _section(folder)) is not None:
            return Project(root=folder.resolve(), settings=_settings(section, folder / FILE))
    if not named and (section := _section(CODE)) is not None:
        return Project(root=CODE, settings=_settings(section, CODE / FILE))
    return Project(root=start.resolve(), settings=Settings())


def _section(folder: Path) -> Mapping[str, Any] | None:
    path = folder / FILE
    if not path.is_file():
        return None
    try:
        tools = tomllib.loads(path.read_text(encoding="utf-8")).get("tool", {})
    except (OSError, ValueError) as problem:
        raise DefinitionError(f"{path}: cannot be read: {problem}") from None
    section = tools.get(SECTION)
    if section is None or isinstance(section, dict):
        return section
    raise DefinitionError(f"{path}: tool.{SECTION} is {section!r}; accepted is a table, [tool.{SECTION}]")


def _settings(section: Mapping[str, Any], path: Path) -> Settings:
    accepted = {field.name.replace("_", "-"): field.name for field in fields(Settings)}
    for name, value in section.items():
        if name not in accepted:
            raise DefinitionError(
                f"{path}: [tool.{SECTION}]: unknown setting {name!r}; accepted are {list(accepted)}"
                f"{did_you_mean(name, accepted)}"
            )
        if not isinstance(value, str):
            raise DefinitionError(f"{path}: [tool.{SECTION}]: {name} is {value!r}; accepted is a text")
    return Settings(**{accepted[name]: value for name, value in section.items()})
