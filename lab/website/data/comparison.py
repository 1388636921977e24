"""Two published runs side by side, as data: only what neither run's own data can say. Pure.

Times of different machines are never divided. A speed-up may stand beside another: each is a ratio within its run.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import SimpleNamespace as View
from typing import Any

from lab.verdict.between_runs import shift
from lab.verdict.judge import EQUIVALENCE_MARGIN
from lab.website.data.differences import one_machine
from lab.website.data.judged import Judged
from lab.website.data.typed import plain_json

RUNS_BEFORE = 2  # of an experiment, that a run is held against: a pair is a page; `lab compare` takes any two runs


def run_pairs(histories: Iterable[Sequence[View]]) -> tuple[tuple[str, str], ...]:
    """Digests of the runs to hold against one another, older first: each against those just before it, and against
    the one before it on its GPU model. A newer run adds pairs and takes none away, so that their addresses stay.
    `histories`: the runs of each experiment, oldest first."""
    ended: dict[tuple[str, str], tuple[str, str]] = {}
    for history in histories:
        for older, newer in _pairs(history):
            ended[older.digest, newer.digest] = (newer.finished_utc, older.finished_utc)
    return tuple(sorted(ended, key=lambda pair: (ended[pair], pair)))


def has_page(older: str, newer: str, history: Sequence[View | Judged]) -> bool:
    """Whether two runs of an experiment, told by their digests, are held against one another."""
    return (older, newer) in {(one.digest, other.digest) for one, other in _pairs(history)}


def shared(older: Sequence[Judged], newer: Sequence[Judged]) -> tuple[tuple[Judged, Judged], ...]:
    """Each experiment that both runs have, in the order of the newer."""
    before = {item.plan.name: item for item in older}
    return tuple((before[item.plan.name], item) for item in newer if item.plan.name in before)


def comparison_data(older: Sequence[Judged], newer: Sequence[Judged]) -> dict[str, Any]:
    """Plain JSON values: by experiment, case and profile how much longer a call took in the newer run."""
    comparable = one_machine(older[0].machine, newer[0].machine)
    experiments = {
        after.plan.name: {
            "times": _times(before, after) if comparable else {},
            "verdicts": _verdicts(before, after),
        }
        for before, after in shared(older, newer)
    }
    return {
        "older": older[0].digest,
        "newer": newer[0].digest,
        "one_machine": comparable,
        "counts": _counts(experiments),
        "experiments": experiments,
    }


def _pairs(history: Sequence[View | Judged]) -> Iterator[tuple[View | Judged, View | Judged]]:
    last: dict[tuple[str, str], View | Judged] = {}
    for place, newer in enumerate(history):
        model = (newer.machine["device"], newer.machine["gpu"])
        near = history[max(0, place - RUNS_BEFORE) : place]
        yield from ((older, newer) for older in near)
        if model in last and last[model] not in near:
            yield last[model], newer
        last[model] = newer


def _times(older: Judged, newer: Judged) -> dict[str, dict[str, Any]]:
    times: dict[str, dict[str, Any]] = {}
    for case, cells in newer.data["cells"].items():
        for profile, cell in cells.items():
            before = older.data["cells"].get(case, {}).get(profile, {})
            if moved := _shift(before, cell):
                times.setdefault(case, {})[profile] = moved
    return times


def _shift(older: Mapping[str, Any], newer: Mapping[str, Any]) -> dict[str, Any] | None:
    if "sweep_p50_seconds" not in older or "sweep_p50_seconds" not in newer:
        return None
    change = shift(older["sweep_p50_seconds"], newer["sweep_p50_seconds"])
    if change is None:
        return None
    moved = change.low > 1 + EQUIVALENCE_MARGIN or change.high < 1 / (1 + EQUIVALENCE_MARGIN)
    return {**plain_json(change), "moved": moved}


def _verdicts(older: Judged, newer: Judged) -> dict[str, dict[str, str]]:
    """Of each claim that both have."""
    before, after = older.data["claims"], newer.data["claims"]
    return {name: {"older": before[name]["status"], "newer": after[name]["status"]} for name in after if name in before}


def _counts(experiments: Mapping[str, Any]) -> dict[str, int]:
    verdicts = [both for both_runs in experiments.values() for both in both_runs["verdicts"].values()]
    times = [
        time for both_runs in experiments.values() for cells in both_runs["times"].values() for time in cells.values()
    ]
    return {
        "claims": len(verdicts),
        "changed": sum(both["older"] != both["newer"] for both in verdicts),
        "cells": len(times),
        "moved": sum(time["moved"] for time in times),
    }
