"""The rows of each CSV of an experiment, out of its data. A column is named as the datum, after where it stands."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from lab.website.data.judged import Judged

Data = Mapping[str, Any]
Rows = Callable[[Judged], Iterator[list[Any]]]

SCOPES = ("device_cold", "device_warm", "graph", "eager", "device_dirty")
CASE = ("op", "shape", "dtype", "included", "least_bytes", "flops")
TIMED = ("p50_seconds", "p95_seconds", "noise_ratio", "samples", "void_share")
CELL = (
    "outcome", "reason", "sweeps", "between_sweep_spread", "bytes_per_second", "enqueue_seconds", "prepare_seconds",
    "peak_memory_bytes", "launch_bound", "host_bound", "worst_absolute_error", "worst_tolerance_share",
    "correctness_checks",
)  # fmt: skip
LIT = ("attained", "distance_seconds")
COUNTED = (
    "outcome", "launches", "duration_seconds", "dram_bytes", "dram_read_bytes", "dram_written_bytes", "dram_percent",
    "occupancy_percent", "theoretical_occupancy_percent", "sm_percent", "tensor_percent", "l2_hit_percent",
)  # fmt: skip
TRAFFIC = ("ratio", "state", "reason")
EXPLAINED = ("fastest", "time_ratio", "bytes_ratio", "explained")
INTERVAL = ("ratio", "low", "high")
CLAIM = ("measure", "scope", "threshold", "expected")
VERDICT = ("status", "mark", "reason", *INTERVAL, "subject_bytes", "baseline_bytes")
PARTS = ("end_to_end", "device", "launch")
CONTROL = ("profile", "spoiled_share", "spoiled_because")
LIMIT = ("limit", "seconds")
LIMITED = ("device_cold", "graph")
WATCHED = (
    "rounds", "lowest_spin_hertz", "lowest_sm_hertz", "largest_power_watts", "largest_temperature_celsius",
    "energy_joules_per_sweep", "power_capped",
)  # fmt: skip
KERNEL = (
    "name", "grid", "block", "duration_seconds", "dram_read_bytes", "dram_written_bytes", "dram_percent",
    "l2_hit_percent", "sm_percent", "tensor_percent", "occupancy_percent", "theoretical_occupancy_percent",
    "registers_per_thread", "shared_bytes_per_block", "top_stall", "top_stall_warps", "limiters",
)  # fmt: skip
COMPILED = ("name", "registers_per_thread", "spills", "shared_bytes", "warps", "stages", "code_sha256")
RUNG = ("bytes", "seconds", "bytes_per_second", "peak_share", "profile")
RATE = ("seconds", "flops_per_second", "peak_share", "profile")


def _cells(item: Judged) -> Iterator[list[Any]]:
    data = item.data
    for case, cells in data["cells"].items():
        of_case = _values(data["cases"][case], CASE)
        limits = _in(data["limits"], case, "profiles")
        trials = _in(data["searches"], case, "trials")
        for profile, cell in cells.items():
            scopes, light = _in(cell, "scopes"), _in(limits, profile)
            yield [
                case, *of_case, profile, *_values(cell, CELL),
                *(value for scope in SCOPES for value in _values(_in(scopes, scope), TIMED)),
                light.get("flops_per_second"),
                *(value for scope in LIMITED for value in _values(_in(light, scope), LIT)),
                *_values(_in(cell, "counters"), COUNTED), *_values(_in(cell, "traffic"), TRAFFIC),
                *_values(_in(data["explained"], case, profile), EXPLAINED),
                _in(trials, profile).get("sweeps_ahead"),
            ]  # fmt: skip


def _claims(item: Judged) -> Iterator[list[Any]]:
    data = item.data
    for claim in item.plan.claims:
        found = data["claims"][claim.name]
        for case, verdict in found["cases"].items():
            split = _in(data["splits"], case, claim.name)
            yield [
                claim.name, claim.text, claim.name in item.plan.headlines, claim.subject, claim.baseline,
                *_values(found, CLAIM), found["status"], case, *_values(_in(data["cases"], case), CASE[:3]),
                *_values(verdict, VERDICT), len(verdict.get("sweep_ratios", ())),
                *(value for part in PARTS for value in _values(_in(split, part), INTERVAL)),
            ]  # fmt: skip


def _cases(item: Judged) -> Iterator[list[Any]]:
    data = item.data
    for case, known in data["cases"].items():
        limits, control = _in(data["limits"], case), _in(data["controls"], case)
        scopes = _in(control, "scopes")
        yield [
            case, *_values(known, CASE), limits.get("flops_per_byte"),
            *(value for scope in LIMITED for value in _values(_in(limits, "scopes", scope), LIMIT)),
            *_values(control, CONTROL),
            *(value for scope in SCOPES for value in _values(_in(scopes, scope), INTERVAL)),
            *_values(_in(data["gpu"], case), WATCHED),
        ]  # fmt: skip


def _comparisons(item: Judged) -> Iterator[list[Any]]:
    for case, subjects in item.data["against"].items():
        for subject, baselines in subjects.items():
            for baseline, found in baselines.items():
                yield [case, subject, baseline, *_values(found or {}, INTERVAL)]


def _kernels(item: Judged) -> Iterator[list[Any]]:
    for case, profile, cell in _each_cell(item.data):
        for kernel in _in(cell, "counters").get("kernels", ()):
            yield [case, profile, *_values(kernel, KERNEL)]


def _compiled(item: Judged) -> Iterator[list[Any]]:
    for case, profile, cell in _each_cell(item.data):
        for kernel in _in(cell, "compiled").get("kernels", ()):
            yield [case, profile, *_values(kernel, COMPILED)]


def _ceilings(item: Judged) -> Iterator[list[Any]]:
    """The memory's by size and scope, then the matrix units' by kind of product; only of what the run measured."""
    ceilings = item.data["ceilings"] or {}
    for kind in ("copies", "reads"):
        for scope, rungs in _in(ceilings, kind).items():
            for rung in rungs:
                yield [kind, scope, *_values(rung, RUNG), None]
    for kind, rate in _in(ceilings, "matrix").items():
        seconds, flops, share, profile = _values(rate, RATE)
        yield [f"products of {kind}", "device_cold", None, seconds, None, share, profile, flops]


def _each_cell(data: Data) -> Iterator[tuple[str, str, Data]]:
    return ((case, profile, cell) for case, cells in data["cells"].items() for profile, cell in cells.items())


def _values(found: Data, names: tuple[str, ...]) -> list[Any]:
    return [found.get(name) for name in names]


def _in(data: Data | None, *path: str) -> Data:
    """What stands at `path`; empty where nothing does."""
    for name in path:
        data = data.get(name) if data else None
    return data or {}


def _named(prefix: str, names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"{prefix}_{name}" for name in names)


def _by(prefixes: tuple[str, ...], names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"{prefix}_{name}" for prefix in prefixes for name in names)


TABLES: Mapping[str, tuple[tuple[str, ...], Rows]] = {
    "cells": (
        (
            "case", *CASE, "profile", *CELL, *_by(SCOPES, TIMED), "flops_per_second", *_by(LIMITED, LIT),
            *_named("ncu", COUNTED), *_named("traffic", TRAFFIC), *_named("beside_fastest", EXPLAINED),
            "search_sweeps_ahead",
        ),
        _cells,
    ),
    "claims": (
        (
            "claim", "text", "headline", "subject", "baseline", *CLAIM, "claim_status", "case", *CASE[:3], *VERDICT,
            "sweeps", *_by(PARTS, INTERVAL),
        ),
        _claims,
    ),
    "cases": (
        (
            "case", *CASE, "flops_per_byte", *_by(LIMITED, ("limit", "limit_seconds")),
            *_named("control", CONTROL), *_named("control", _by(SCOPES, INTERVAL)), *WATCHED,
        ),
        _cases,
    ),
    "comparisons": (("case", "subject", "baseline", *INTERVAL), _comparisons),
    "kernels": (("case", "profile", *KERNEL), _kernels),
    "compiled": (("case", "profile", *COMPILED), _compiled),
    "ceilings": (("of", "scope", *RUNG, "flops_per_second"), _ceilings),
}  # fmt: skip
