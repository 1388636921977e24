"""GPUs in a run's name. A name never changes, so it should not tell of a GPU that was not measured."""

import re
from collections.abc import Sequence

# In a name these words mean a GPU. Shorter ones, such as a10 and l4, may count attempts.
MODELS = frozenset(("v100", "a100", "l40s", "h100", "h200", "h800", "gh200", "b100", "b200", "b300", "gb200", "gb300"))


def other_gpus(run_id: str, gpus: Sequence[str]) -> list[str]:
    """The models that a name holds where none of `gpus`, as their driver calls them, is of one; none where no GPU is
    known."""
    named = [word for word in run_id.split("-") if word in MODELS]
    here = {word for gpu in gpus for word in re.split(r"[^a-z0-9]+", gpu.lower())}
    return named if here and here.isdisjoint(named) else []
