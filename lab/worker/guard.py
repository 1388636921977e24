"""Checks that a profile changed neither the clock that times it nor the code that checks its results."""

from collections.abc import Iterable, Iterator, Sequence
from types import CodeType, FunctionType, ModuleType
from typing import Any

from lab.worker.bindings import Bindings, Owner
from lab.worker.deferred import remove_modes
from lab.worker.hook_check import HookCheck
from lab.worker.settings import ProcessSettings

ABSENT = object()
LAZY = {"__annotations__", "__annotations_cache__", "__warningregistry__"}  # Python adds them when it needs them


class Tampering(Exception):
    """What a profile did, while it was loaded, to what it must leave alone."""


class Guard:
    """Remembers attributes as they are when it is made, by (owner, name); of `rooms` all that they and their
    classes hold; of functions what they are made of; of `libraries` what their names stand for; the process's
    settings and variables; and what could run code later."""

    def __init__(
        self,
        watched: Iterable[tuple[object, str]],
        rooms: Sequence[ModuleType] = (),
        libraries: Iterable[Owner] = (),
    ) -> None:
        self._originals = [(owner, name, getattr(owner, name, ABSENT)) for owner, name in watched]
        self._rooms = [(owner, dict(vars(owner))) for room in rooms for owner in (room, *_classes(room))]
        values = [value for _, _, value in self._originals]
        values += [value for _, originals in self._rooms for value in originals.values()]
        functions = {id(function): function for value in values for function in _functions(value)}
        self._functions = [(function, _makings(function)) for function in functions.values()]
        self._bindings = Bindings()
        self._bindings.remember(libraries)
        self._settings, self._hooks = ProcessSettings(), HookCheck()
        self._left: list[str] = []

    def remember(self, modules: Iterable[ModuleType]) -> None:
        """Have an eye on the names of these modules too, such as those of the authors, once they are imported."""
        self._bindings.remember(modules, shadowing=True)

    def left(self) -> list[str]:
        """Settings and variables that were left changed since this was asked last. They are as they were again.

        No tampering, for honest code leaves some: torch.compile has Triton use another assembler (TRITON_PTXAS_PATH)
        for whatever this process compiles next, and only in a sweep that finds its cache empty.
        """
        left, self._left = self._left, []
        return left

    def broken_by_loading(self) -> str:
        """As `broken`, right after a profile was loaded. What libraries install when they are imported, such as a
        callback of the garbage collector or a signal handler, is removed and told as left: nothing is timed yet."""
        self._hooks.run(())
        if violation := self._hooks.tampering():
            self._left.append(violation)
        return self.broken()

    def broken(self) -> str:
        """What was replaced or left active since, which is undone; empty where nothing was."""
        self._hooks.run(())
        replaced = [
            *self._attributes_put_back(), *self._rooms_put_back(), *self._functions_put_back(),
            *self._bindings.put_back(),
        ]  # fmt: skip
        self._left += self._settings.put_back()
        violations = (f"replaced {_listed(replaced)}" if replaced else "", self._hooks.tampering(), remove_modes())
        return "; ".join(filter(None, violations))

    def _attributes_put_back(self) -> Iterator[str]:
        for owner, name, original in self._originals:
            now = getattr(owner, name, ABSENT)
            if now is not original and not _same_method(now, original):
                setattr(owner, name, original)
                yield _label(owner, name)

    def _rooms_put_back(self) -> Iterator[str]:
        for owner, originals in self._rooms:
            now = dict(vars(owner))
            for name in now.keys() - originals.keys() - LAZY:  # it may hide a built-in function
                delattr(owner, name)
                yield _label(owner, name)
            for name, original in originals.items():
                if now.get(name, ABSENT) is not original:
                    setattr(owner, name, original)
                    yield _label(owner, name)

    def _functions_put_back(self) -> Iterator[str]:
        for function, makings in self._functions:
            if _makings(function) != makings:
                function.__code__, function.__defaults__, function.__kwdefaults__ = makings
                yield f"the code of {function.__qualname__}"


def used(rooms: Iterable[ModuleType], owners: Iterable[Any]) -> Iterator[tuple[object, str]]:
    """Attributes of `owners` whose names occur in the code of `rooms`."""
    codes = [
        function.__code__
        for room in rooms
        for owner in (room, *_classes(room))
        for value in vars(owner).values()
        for function in _functions(value)
        if function.__module__ == room.__name__
    ]
    names = {name for code in codes for name in _names(code)}
    return ((owner, name) for owner in owners for name in sorted(names & set(dir(owner))))


def _classes(room: ModuleType) -> list[type]:
    return [value for value in vars(room).values() if isinstance(value, type) and value.__module__ == room.__name__]


def _functions(value: Any) -> Iterator[FunctionType]:
    """The Python functions behind an attribute, whatever they are wrapped in."""
    if isinstance(value, property):
        yield from (function for part in (value.fget, value.fset) for function in _functions(part))
    elif isinstance(value, FunctionType):
        yield value
    if wrapped := getattr(value, "__wrapped__", None):
        yield from _functions(wrapped)


def _makings(function: FunctionType) -> tuple[CodeType, Any, Any]:
    return function.__code__, function.__defaults__, function.__kwdefaults__


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _listed(replaced: Sequence[str]) -> str:
    """Each once, and not so many that a record grows without bound."""
    names = list(dict.fromkeys(replaced))
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")


def _label(owner: object, name: str) -> str:
    return f"{getattr(owner, '__name__', type(owner).__name__)}.{name}"


def _same_method(now: object, original: object) -> bool:
    """Built-in methods are made anew each time they are looked up; equal ones are the same."""
    return type(now) is type(original) and now == original
