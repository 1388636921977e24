"""A run's name that names a GPU must name the one that is measured: a run keeps its name for good."""

import re
from collections.abc import Sequence

from lab.errors import RunError

# In a name these words mean a GPU. Shorter ones, such as a10 and l4, may count attempts.
MODELS = frozenset(("v100", "a100", "l40s", "h100", "h200", "h800", "gh200", "b100", "b200", "b300", "gb200", "gb300"))


def refuse_other_gpu(run_id: str, gpus: Sequence[str]) -> None:
    """RunError where the name holds models of GPUs, and none of `gpus`, as their driver calls them, is of one."""
    named = [word for word in run_id.split("-") if word in MODELS]
    here = {word for gpu in gpus for word in re.split(r"[^a-z0-9]+", gpu.lower())}
    if named and here and here.isdisjoint(named):
        raise RunError(
            f"run id {run_id!r} names the GPU {' and '.join(named)}, and here is {' and '.join(sorted(set(gpus)))}: "
            "choose another --run-id, for a run keeps its name"
        )
