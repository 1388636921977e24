"""What every case of a sweep needs."""

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass
from typing import Any

from lab.definition.plan import Plan
from lab.worker.background_work import BackgroundWork
from lab.worker.clock import Clock
from lab.worker.guard import Guard
from lab.worker.stage_timer import StageTimer

Emit = Callable[[str, Any], None]
Loaded = Callable[..., Any] | Exception
Key = tuple[str, str, str]  # experiment, operator or case, profile


@dataclass(frozen=True, slots=True)
class SweepContext:
    plan: Plan
    sweep: int
    process: str
    clock: Clock
    functions: Mapping[Key, Loaded]  # by experiment, operator, profile
    guard: Guard
    stage_timer: StageTimer
    emit: Emit
    edges: Set[Key]  # the cells whose edge inputs must still be checked
    background: BackgroundWork
