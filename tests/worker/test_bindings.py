"""Rebound names of modules are reported and put back; a module's data may change."""

import types

from lab.worker.bindings import Bindings


def module() -> types.ModuleType:
    made = types.ModuleType("rivals")
    exec("import math\ncache = None\ndef fast(): return 1\ndef slow(): return 2\nclass Kernel: pass", made.__dict__)
    return made


def bindings_of(owner: types.ModuleType, shadowing: bool = True) -> Bindings:
    bindings = Bindings()
    bindings.remember([owner], shadowing=shadowing)
    return bindings


def test_a_function_a_class_and_a_module_are_put_back() -> None:
    rivals = module()
    bindings, fast, math = bindings_of(rivals), rivals.fast, rivals.math
    assert list(bindings.put_back()) == []
    rivals.fast, rivals.math = rivals.slow, types.ModuleType("math")  # type: ignore[attr-defined]
    del rivals.Kernel  # type: ignore[attr-defined]
    assert sorted(bindings.put_back()) == ["rivals.Kernel", "rivals.fast", "rivals.math"]
    assert rivals.fast is fast
    assert rivals.math is math
    assert list(bindings.put_back()) == []


def test_a_name_that_hides_a_built_in_function_is_removed_and_other_new_names_stay() -> None:
    rivals = module()
    bindings = bindings_of(rivals)
    rivals.cache, rivals.answers, rivals.len = {}, 3, lambda _: 0  # type: ignore[attr-defined]
    assert list(bindings.put_back()) == ["rivals.len"]
    assert rivals.answers == 3
    assert rivals.cache == {}
