"""A tracked run with all of its values, in plain types, and where a server takes many of them. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass

MANY_RUNS = "/api/2.0/lab/runs/create-many"
SERVED = "mlflow-artifacts"  # the scheme of artifacts that the tracking server takes and passes on


@dataclass(frozen=True, kw_only=True, slots=True)
class WholeRun:
    """Times in milliseconds since 1970; a point is (key, value, time, step)."""

    run_id: str
    name: str
    status: str
    started: int
    ended: int | None
    tags: Mapping[str, str]
    params: Mapping[str, str]
    points: tuple[tuple[str, float, int, int], ...]
    dataset: Mapping[str, str] | None  # name, digest, source, profile and context
