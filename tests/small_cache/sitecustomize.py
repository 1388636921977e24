"""Python imports this at its start where PYTHONPATH names its folder: then workers flush a cache of 1 MiB.

A command line that a test starts has workers from scratch. To flush a cache of this machine's size before each cold
call takes them more time than all else that they do with a toy.
"""

import importlib.util
import sys
from types import ModuleType
from typing import Any

CLOCK = "lab.worker.cpu"
SMALL_CACHE_BYTES = 1 << 20


class WithSmallCache:
    """Finds the CPU's clock as ever, and changes what it takes for the size of the cache when it is imported."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        if name != CLOCK:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        assert spec is not None
        assert spec.loader is not None
        execute = spec.loader.exec_module

        def execute_and_change(module: ModuleType) -> None:
            execute(module)
            module.last_level_cache_bytes = lambda: SMALL_CACHE_BYTES

        spec.loader.exec_module = execute_and_change
        return spec


sys.meta_path.insert(0, WithSmallCache())
