"""What a profile must leave alone: the clock that times it, and the judges of its results."""

from collections.abc import Sequence

from lab.deferred import remove_modes

ABSENT = object()


class Tampering(Exception):
    """What a profile did, while it was loaded, to what it must leave alone."""


class Guard:
    """Remembers attributes as they are when it is made, by (owner, name)."""

    def __init__(self, watched: Sequence[tuple[object, str]]) -> None:
        self._held = [(owner, name, getattr(owner, name, ABSENT)) for owner, name in watched]

    def broken(self) -> str:
        """What was replaced since, or left active, which is put right; nothing where all is as it was."""
        replaced = []
        for owner, name, original in self._held:
            now = getattr(owner, name, ABSENT)
            if now is not original and not _same_method(now, original):
                setattr(owner, name, original)
                replaced.append(f"{getattr(owner, '__name__', type(owner).__name__)}.{name}")
        found = (f"replaced {', '.join(replaced)}" if replaced else "", remove_modes())
        return "; ".join(filter(None, found))


def _same_method(now: object, original: object) -> bool:
    """Built-in methods are made anew each time they are looked up; equal ones are the same."""
    return type(now) is type(original) and now == original
