"""What a profile replaced is noticed and put back."""

import types

from lab.guard import Guard


def test_a_replaced_function_is_named_and_put_back() -> None:
    module = types.ModuleType("clockwork")
    module.tick = original = lambda: 1  # type: ignore[attr-defined]
    guard = Guard([(module, "tick")])
    assert guard.broken() == ""
    module.tick = lambda: 2  # type: ignore[attr-defined]
    assert guard.broken() == "replaced clockwork.tick"
    assert module.tick is original
    assert guard.broken() == ""


def test_methods_of_a_class_are_watched_and_built_in_ones_are_not_taken_for_replaced() -> None:
    class Clock:
        def read(self) -> int:
            return 1

    guard = Guard([(Clock, "read"), (list, "append"), (Clock, "__new__"), (Clock, "no_such_thing")])
    assert guard.broken() == ""
    Clock.read = lambda self: 0  # type: ignore[method-assign]
    assert guard.broken() == "replaced Clock.read"
    assert Clock().read() == 1
