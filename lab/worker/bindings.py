"""What names in modules stand for: which profiles, rivals and operators look up, and nobody may point elsewhere."""

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
class _Held:
    """Of one owner: its names with what they stand for, and how many names it has in all."""

    owner: Owner
    values: dict[str, Any]
    look: Callable[[Any], Any]
    objects: tuple[Any, ...]
    size: int
    shadowing: bool

    def is_unchanged(self, found: Mapping[str, Any]) -> bool:
        try:
            now = self.look(found)
        except KeyError:
            return False
        return (not self.shadowing or len(found) == self.size) and not any(map(is_not, now, self.objects))


class Bindings:
    """Remembers, of each owner, which functions, classes and modules its names stand for. Plain data may change."""

    def __init__(self) -> None:
        self._held: dict[int, _Held] = {}

    def remember(self, owners: Iterable[Owner], *, shadowing: bool = False) -> None:
        """From here on. With `shadowing`, new names that hide built-in functions are found too."""
        for owner in owners:
            values = {name: value for name, value in vars(owner).items() if _is_code(owner, name, value)}
            if len(values) > 1 and id(owner) not in self._held:  # of one name, itemgetter gives no tuple
                look, objects = itemgetter(*values), tuple(values.values())
                self._held[id(owner)] = _Held(owner, values, look, objects, len(vars(owner)), shadowing)

    def put_back(self) -> Iterator[str]:
        """Labels of the names that stood for something else, which are put right."""
        for held in self._held.values():
            found: Mapping[str, Any] = vars(held.owner)
            if not held.is_unchanged(found):
                yield from _put_back(held, found)
                held.size = len(found)


def _put_back(held: _Held, found: Mapping[str, Any]) -> Iterator[str]:
    for name, original in held.values.items():
        if found.get(name, GONE) is not original:
            setattr(held.owner, name, original)
            yield f"{held.owner.__name__}.{name}"
    for name in sorted(BUILT_IN & found.keys() - held.values.keys() - _MODULES_OWN) if held.shadowing else ():
        delattr(held.owner, name)
        yield f"{held.owner.__name__}.{name}"


_MODULES_OWN = frozenset(vars(ModuleType("any"))) | {"__builtins__", "__annotations__"}


def _is_code(owner: Owner, name: str, value: Any) -> bool:
    if (owner.__name__, name) in REBOUND_BY_COMPILING:
        return False
    return callable(value) or isinstance(value, ModuleType | property | staticmethod | classmethod)
