"""Detects names in modules that were rebound, such as those of operators and rivals, and puts them back."""

import builtins
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from operator import is_not, itemgetter
from types import ModuleType
from typing import Any

# Importing torch._dynamo points the first three elsewhere, for its own sake; of the last, `settings` takes care.
REBOUND_BY_COMPILING = {
    ("torch", "manual_seed"), ("Module", "__init__"), ("Module", "__setstate__"), ("sys", "excepthook"),
}  # fmt: skip
BUILT_IN = frozenset(vars(builtins))
GONE = object()
Owner = ModuleType | type


@dataclass(slots=True)
class _Snapshot:
    """The names of one owner with their values, and how many names it has in all."""

    owner: Owner
    values: dict[str, Any]
    look: Callable[[Any], Any]
    objects: tuple[Any, ...]
    size: int
    shadowing: bool

    def is_unchanged(self, variables: Mapping[str, Any]) -> bool:
        try:
            now = self.look(variables)
        except KeyError:
            return False
        return (not self.shadowing or len(variables) == self.size) and not any(map(is_not, now, self.objects))


class Bindings:
    """Remembers to which functions, classes and modules the names of each owner are bound. Plain data may change."""

    def __init__(self) -> None:
        self._snapshots: dict[int, _Snapshot] = {}

    def remember(self, owners: Iterable[Owner], *, shadowing: bool = False) -> None:
        """Watch these owners from now on. With `shadowing`, new names that hide built-in functions are found too."""
        for owner in owners:
            values = {name: value for name, value in vars(owner).items() if _is_code(owner, name, value)}
            if len(values) > 1 and id(owner) not in self._snapshots:  # of one name, itemgetter gives no tuple
                look, objects = itemgetter(*values), tuple(values.values())
                self._snapshots[id(owner)] = _Snapshot(owner, values, look, objects, len(vars(owner)), shadowing)

    def put_back(self) -> Iterator[str]:
        """Put rebound names back; yields their labels."""
        for snapshot in self._snapshots.values():
            variables: Mapping[str, Any] = vars(snapshot.owner)
            if not snapshot.is_unchanged(variables):
                yield from _put_back(snapshot, variables)
                snapshot.size = len(variables)


def _put_back(snapshot: _Snapshot, variables: Mapping[str, Any]) -> Iterator[str]:
    for name, original in snapshot.values.items():
        if variables.get(name, GONE) is not original:
            setattr(snapshot.owner, name, original)
            yield f"{snapshot.owner.__name__}.{name}"
    for name in (
        sorted(BUILT_IN & variables.keys() - snapshot.values.keys() - _MODULES_OWN) if snapshot.shadowing else ()
    ):
        delattr(snapshot.owner, name)
        yield f"{snapshot.owner.__name__}.{name}"


_MODULES_OWN = frozenset(vars(ModuleType("any"))) | {"__builtins__", "__annotations__"}


def _is_code(owner: Owner, name: str, value: Any) -> bool:
    if (owner.__name__, name) in REBOUND_BY_COMPILING:
        return False
    return callable(value) or isinstance(value, ModuleType | property | staticmethod | classmethod)
