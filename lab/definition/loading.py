"""Imports the project's folder of experiments as a package, also where another module has the same name."""

import importlib
import importlib.util
import os
import re
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from importlib.machinery import ModuleSpec
from pathlib import Path
from threading import get_ident
from types import ModuleType
from typing import NoReturn, TypeVar

from lab.definition.written import BEGUN, Place
from lab.errors import DefinitionError, LabError

Loaded = TypeVar("Loaded")
NOT_A_NAME = re.compile(r"\W")


@dataclass(frozen=True, slots=True)
class Folder:
    """The package, its modules by name, and of each file that cannot be read where it is wrong, and how. `begun`: name
    and place of every experiment that was begun in the short form while they were imported."""

    package: ModuleType
    modules: tuple[ModuleType, ...]
    unreadable: tuple[str, ...]
    begun: tuple[tuple[str, Place], ...] = ()


@cache
def load_folder(folder: Path) -> Folder:
    """DefinitionError where there is no such folder, or where the package's own file cannot be read.

    Where that file names its experiments, it decides which modules are imported.
    """
    if not folder.is_dir():
        raise DefinitionError(f"{folder}: no such folder; it holds the experiments, and `lab init` makes one")
    if str(folder.parent) not in sys.path:
        sys.path.append(str(folder.parent))  # an experiment imports the project's own kernels
    begun_before = len(BEGUN)
    package = _package(folder)
    if hasattr(package, "EXPERIMENTS"):
        return Folder(package, (), ())
    modules, unreadable = [], []
    for name in sorted(path.stem for path in folder.glob("*.py") if path.stem != "__init__"):
        try:
            modules.append(load_module(package, name))
        except DefinitionError as problem:
            unreadable.append(str(problem))
    return Folder(package, tuple(modules), tuple(unreadable), tuple(BEGUN[begun_before:]))


def load_module(package: ModuleType, name: str) -> ModuleType:
    """DefinitionError, with file and line, where the author's file cannot be read."""
    folder = Path(package.__path__[0])
    return _imported(folder / f"{name}.py", lambda: importlib.import_module(f"{package.__name__}.{name}"))


def has_module(package: ModuleType, name: str) -> bool:
    return any((Path(folder) / f"{name}.py").is_file() for folder in package.__path__)


def _package(folder: Path) -> ModuleType:
    name, file = NOT_A_NAME.sub("_", folder.name), folder / "__init__.py"
    if loaded := sys.modules.get(name):
        if str(folder) in [str(Path(place).resolve()) for place in getattr(loaded, "__path__", ())]:
            return loaded
        raise DefinitionError(
            f"{folder}: another module {name!r} is loaded already, from {getattr(loaded, '__file__', 'elsewhere')}; "
            "give the folder another name"
        )
    spec = (
        importlib.util.spec_from_file_location(name, file, submodule_search_locations=[str(folder)])
        if file.is_file()
        else ModuleSpec(name, None, is_package=True)
    )
    assert spec, "there is a loader for a Python file"
    if spec.loader is None:
        spec.submodule_search_locations = [str(folder)]
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        if spec.loader:
            _imported(file, partial(spec.loader.exec_module, module))
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _imported(file: Path, load: Callable[[], Loaded]) -> Loaded:
    """What `load` gives. DefinitionError names the line of the author's file, without a traceback."""
    try:
        with _exits_raised():
            return load()
    except LabError as problem:
        raise DefinitionError(f"{_place(file, problem)}: {problem}") from None
    except (Exception, SystemExit) as problem:
        raise DefinitionError(f"{_place(file, problem)}: {_in_words(file.parent, problem)}") from problem


@contextmanager
def _exits_raised() -> Iterator[None]:
    """Let `os._exit` raise SystemExit as `sys.exit` does: it would end the command without a word, perhaps with 0.

    It still ends what was forked meanwhile, and a file that keeps it as its own gets to use it afterwards. A file that
    catches what it raises is not loaded either: it would go on after a call that does not return.
    """
    real, importing = os._exit, (os.getpid(), get_ident())
    raised: list[SystemExit] = []

    def leave(status: int) -> NoReturn:
        if os._exit is leave and (os.getpid(), get_ident()) == importing:
            raised.append(SystemExit(f"os._exit({status!r})"))
            raise raised[-1]
        real(status)

    os._exit = leave
    try:
        yield
    finally:
        os._exit = real
    if raised:
        raise raised[0]


def _in_words(folder: Path, problem: BaseException) -> str:
    """With what to do about a module that is not found."""
    text = problem.msg if isinstance(problem, SyntaxError) else str(problem)  # whose text has its place a second time
    words = f"{type(problem).__name__}: {text}"
    if not isinstance(problem, ModuleNotFoundError) or not problem.name:
        return words
    package = NOT_A_NAME.sub("_", folder.name)
    if problem.name.startswith(f"{package}."):
        return f"{words}; the folder of experiments has no such file"
    if (folder / f"{problem.name}.py").is_file():
        return f"{words}; it lies in the folder of experiments: import {package}.{problem.name}"
    return f"{words}; install it, or import it in a profile's load= only, with package={problem.name.split('.')[0]!r}"


def _place(file: Path, problem: BaseException) -> str:
    """The file and the line of the author's folder at which it went wrong, the innermost there is."""
    if isinstance(problem, SyntaxError):
        return f"{problem.filename}, line {problem.lineno}"
    for frame in reversed(traceback.extract_tb(problem.__traceback__)):
        if Path(frame.filename).is_relative_to(file.parent):
            return f"{frame.filename}, line {frame.lineno}"
    return str(file)
