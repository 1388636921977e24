"""What a GPU is asked to do, with the records that its work rests on. Pure; lab/supervisor/board.py does it."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from lab.cluster.parts import Part
from lab.evidence.codec import to_data
from lab.evidence.record import Cell, Counters, Reading, Record, SweepStart
from lab.supervisor.quarantine import is_crash
from lab.supervisor.run_state import Key, RunState, answers_edges


def prepare_order(state: RunState, parts: Sequence[Part], sharing: int) -> dict[str, Any]:
    """To compile and load for these parts of sweeps. `sharing`: GPUs of this run on its host."""
    return {
        "kind": "prepare",
        "cells": sorted({key for part in parts for key in part.wanted}),
        "following": sorted({part.sweep for part in parts}),
        "sharing": sharing,
        "records": _as_data(_known_of(state, ())),
    }


def sweep_order(state: RunState, part: Part, following: Sequence[int]) -> dict[str, Any]:
    """To measure a part of a sweep. `following`: the sweeps of which it may be given parts later."""
    return {
        "kind": "sweep",
        "sweep": part.sweep,
        "wanted": part.wanted,
        "following": following,
        "records": _as_data(_known_of(state, part.wanted)),
    }


def pass_order(state: RunState, experiment: str, flush: bool) -> dict[str, Any]:
    """To make the passes after timing over an experiment. `flush`: also check the cache's flush."""
    return {
        "kind": "explain",
        "experiment": experiment,
        "flush": flush,
        "records": _as_data(_known_of_experiment(state, experiment)),
    }


def _as_data(records: Sequence[Record]) -> list[list[Any]]:
    return [[type(record).__name__, to_data(record)] for record in records]


def _known_of(state: RunState, wanted: Sequence[Key]) -> list[Record]:
    """What a sweep of these cells rests on: the start, crashes, and which edge inputs are answered."""
    keys = set(wanted)
    known = [cell for (_, key), cell in state.cells.items() if is_crash(cell) or (key in keys and answers_edges(cell))]
    return [*_first(state), *map(_brief, known)]


def _known_of_experiment(state: RunState, name: str) -> list[Record]:
    cells = [_brief(cell) for cell in state.cells.values() if cell.experiment == name]
    counted = [r for r in state.records if isinstance(r, Counters | Reading) and r.experiment == name]
    return [*_first(state), *cells, *counted]


def _first(state: RunState) -> list[Record]:
    """The start of the run, and of its first sweep."""
    start = next((record for record in state.records if isinstance(record, SweepStart)), None)
    return [state.records[0], *([start] if start else [])]


def _brief(cell: Cell) -> Cell:
    """A cell without its samples, which are large."""
    return replace(cell, timings=())
