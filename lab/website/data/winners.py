"""Who is fastest at each shape that was measured, as data: one row for each GPU, call mode and case. Pure.

The rows of one experiment are plain JSON values, remembered with its outline; `grid` merges those of all experiments.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from lab.definition.experiment import CEILINGS
from lab.definition.families import FAMILIES
from lab.definition.plan import PlannedCase
from lab.definition.search import is_search
from lab.verdict.judge import EQUIVALENCE_MARGIN
from lab.website.data.judged import Judged

MODES = ("device_cold", "graph", "eager")  # those that a reader chooses between
DIGITS = 3  # of times and ratios in a row, as pages show them; the experiment's data hold all
Row = Mapping[str, Any]


def winners(item: Judged, history: Sequence[Judged]) -> list[Row]:
    """Of each GPU, call mode and case the row of the evidence that the experiment's page shows, else of the newest run.

    `history`: its published runs, oldest first. Tests of the lab, searches and ceilings compare no implementations.
    """
    if item.plan.self_test or item.plan.name == CEILINGS or is_search(item.plan):
        return []
    rows: dict[tuple[str, str, str], Row] = {}
    for each in (item, *reversed(history)):
        if not each.evidence or (each.on_cpu and not item.on_cpu):
            continue
        for case in each.plan.included_cases:
            for scope in MODES:
                key = (gpu_of(each), scope, case.name)
                if key not in rows and (row := _row(each, case, scope, history)):
                    rows[key] = row
    return list(rows.values())


def grid(rows: Iterable[Row]) -> dict[str, dict[str, dict[str, Row]]]:
    """By GPU, call mode and case; of several experiments the row with the most implementations, then the newest."""
    best: dict[tuple[str, str, str], Row] = {}
    for row in rows:
        key = (row["gpu"], row["mode"], row["case"])
        if key not in best or _worth(row) > _worth(best[key]):
            best[key] = row
    boards: dict[str, dict[str, dict[str, Row]]] = {}
    for (gpu, mode, case), row in sorted(best.items(), key=lambda pair: _order(pair[1])):
        boards.setdefault(gpu, {}).setdefault(mode, {})[case] = row
    return boards


def gpu_of(item: Judged) -> str:
    """'H100' of 'NVIDIA H100 80GB HBM3'; 'CPU' of evidence from a CPU."""
    if item.on_cpu:
        return "CPU"
    words = [word for word in str(item.machine["gpu"]).split() if word not in ("NVIDIA", "Tesla", "GeForce")]
    return words[0] if words else "GPU"


def _worth(row: Row) -> tuple[int, str]:
    return len(row["cells"]), row["date"]


def _order(row: Row) -> tuple[Any, ...]:
    """Operators by name, dtypes, then small shapes before large ones."""
    size = 1
    for length in row["shape"]:
        size *= length
    return row["gpu"], MODES.index(row["mode"]), row["op"], size, row["shape"], row["dtype"]


def _row(item: Judged, case: PlannedCase, scope: str, history: Sequence[Judged]) -> Row | None:
    """None where fewer than two families were timed: that is no contest."""
    contest = item.data["contest"].get(case.name, {}).get(scope, ())
    if len(contest) < 2:
        return None
    cells = item.data["cells"][case.name]
    best, runner_up = contest[0], contest[1]
    return {
        "gpu": gpu_of(item),
        "mode": scope,
        "case": case.name,
        "op": case.op,
        "shape": list(case.shape),
        "dtype": case.dtype,
        "experiment": item.plan.name,
        "digest": item.digest,
        "date": item.measured_utc,
        "cells": {
            each["family"]: {
                "profile": each["profile"],
                "p50_seconds": _brief(cells[each["profile"]]["scopes"][scope]["p50_seconds"]),
                "call": call_of(each, first=each is best),
                **({"times_fastest": _brief(each.get("ratio", each["times_fastest"]))} if each is not best else {}),
            }
            for each in sorted(contest, key=lambda each: list(FAMILIES).index(each["family"]))
        },
        "best": best["family"],
        "margin": _margin(runner_up),
        "range": _range(item, case.name, best["profile"], scope, history),
    }


def call_of(place: Mapping[str, Any], *, first: bool) -> str:
    """'best', 'tie', 'slower', or 'unproven' where too few sweeps were measured, or they scatter too much, to tell."""
    if first:
        return "best"
    if place["proven"] and not place["level"]:
        return "slower"
    near = place.get("ratio", place["times_fastest"]) <= 1 + EQUIVALENCE_MARGIN
    return "tie" if place["proven"] and near else "unproven"


def _margin(runner_up: Mapping[str, Any]) -> Mapping[str, Any]:
    """How many times as fast as the next one the fastest is, with its interval where there is one."""
    known = {name: runner_up[name] for name in ("ratio", "low", "high") if name in runner_up}
    return {"over": runner_up["family"], **known}


def _range(item: Judged, case: str, profile: str, scope: str, history: Sequence[Judged]) -> dict[str, Any]:
    """From where to where the fastest one's time went: over runs of the same source on the same GPU model, or else over
    the sweeps of the one run, each of which is a fresh process."""
    runs = [each for each in history if _same(each, item)]
    times = list(filter(None, (_p50(each, case, profile, scope) for each in runs)))
    if len(times) > 1:
        boards = len({board for each in runs for board in each.machine["gpu_id"].split("+")})
        return {"least_seconds": min(times), "most_seconds": max(times), "runs": len(times), "boards": boards}
    cell = item.data["cells"][case][profile]
    times_of_scope = cell["scopes"][scope]
    return {
        "least_seconds": times_of_scope["fastest_sweep_seconds"],
        "most_seconds": times_of_scope["slowest_sweep_seconds"],
        "sweeps": cell["sweeps"],
    }


def _same(one: Judged, other: Judged) -> bool:
    alike: bool = one.evidence["source_digest"] == other.evidence["source_digest"]
    return alike and bool(one.machine["gpu"] == other.machine["gpu"])


def _p50(item: Judged, case: str, profile: str, scope: str) -> float | None:
    scopes = item.data["cells"].get(case, {}).get(profile, {}).get("scopes", {})
    seconds: float | None = scopes.get(scope, {}).get("p50_seconds")
    return seconds


def _brief(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")
