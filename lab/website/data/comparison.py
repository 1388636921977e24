"""Two published runs side by side, as data: only what neither run's own data can say. Pure.

Times of different machines are never divided. A speed-up may stand beside another: each is a ratio within its run.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace as View
from typing import Any

from lab.definition.plan import PlannedClaim, PlannedExperiment
from lab.verdict.between_runs import shift
from lab.verdict.judge import EQUIVALENCE_MARGIN
from lab.website.data.judged import Judged
from lab.website.data.typed import plain_json
from lab.website.figure import DataView

# What differs between two runs besides their samples: machine, software, source and protocol. Pure.
# Field of the machine or of the evidence → what a reader calls it; in the order in which they matter.
GPU = {
    "device": "Measured on", "gpu": "GPU", "gpu_id": "Card", "compute_capability": "Compute capability",
    "multiprocessors": "SMs", "memory_bytes": "Memory", "l2_bytes": "L2 cache",
    "peak_bytes_per_second": "Peak bandwidth", "power_limit_watts": "Power limit", "sm_clock_hertz": "Largest SM clock",
    "memory_clock_hertz": "Memory clock", "ecc": "ECC", "mig": "MIG", "persistence": "Persistence mode",
}  # fmt: skip
HOST = {"cpu": "CPU", "cpu_count": "CPU cores"}
SOFTWARE = {
    "driver": "Driver", "cuda": "CUDA", "torch": "torch", "triton": "triton",
    "ncu": "Nsight Compute", "python": "Python", "os": "OS",
}  # fmt: skip
SOURCE = {
    "commit": "Commit measured",
    "source_digest": "Source digest",
    "policy_version_of_run": "Policy when measured",
}
PROVENANCE = {
    "run_id": "Run", "started_utc": "Began", "finished_utc": "Ended", "digest": "Evidence digest",
    "plan_digest": "Plan digest", **SOURCE,
}  # fmt: skip
PROTOCOL = {
    "gpus": "GPUs", "in_turn": "One GPU at a time",
    "sweeps": "Sweeps asked for", "rounds": "Rounds a sweep", "block": "Samples a round, at most",
    "isolated": "Host waited for each call", "profiling": "Counters asked for",
    "instruments": "Other instruments asked for",
}  # fmt: skip
KINDS = {"gpu": GPU, "host": HOST, "software": SOFTWARE, "source": SOURCE, "protocol": PROTOCOL}
OF_MACHINE = ("gpu", "host", "software")
VARIABLES, LIBRARIES = ("machine", "environment"), ("machine", "libraries")
LIBRARY_NAMES = {"liger-kernel": "Liger", "quack-kernels": "QuACK", "flash-attn-4": "FlashAttention 4"}
UNKNOWN = ("", 0, None, "not on record")


@dataclass(frozen=True, slots=True)
class Difference:
    """A field that two runs do not share; `path` leads to it in the data of either."""

    kind: str  # a key of KINDS
    name: str
    path: tuple[str, ...]
    older: Any
    newer: Any

    @property
    def known(self) -> bool:
        """Whether both runs say what they had. A variable that is not set is known not to be."""
        if self.path[:-1] == VARIABLES:
            return True
        return is_known(self.older) and is_known(self.newer)


def is_known(value: Any) -> bool:
    """Whether a field of a record says anything: "no" does, where the question was whether."""
    return isinstance(value, bool) or value not in UNKNOWN


def differences(older: Judged, newer: Judged) -> tuple[Difference, ...]:
    left, right = DataView(older.data), DataView(newer.data)
    fields = dict.fromkeys((*fields_of(older), *fields_of(newer)))
    found = (Difference(kind, name, path, left.value(*path), right.value(*path)) for kind, name, path in fields)
    return tuple(each for each in found if each.older != each.newer)


def one_machine(older: Mapping[str, Any], newer: Mapping[str, Any]) -> bool:
    """Whether two machines have the same card. Of one without a card nothing tells that it is the same."""
    return bool(older["gpu_id"]) and all(older[name] == newer[name] for name in ("device", "gpu_id"))


def device_name(item: Judged) -> str:
    """The GPU's model, or the CPU's: what verdicts hold for."""
    return str(item.machine["cpu" if item.on_cpu else "gpu"])


def redefined(older: PlannedExperiment, newer: PlannedExperiment, claim: str) -> tuple[str, ...]:
    """What of a claim's definition changed between two plans, in words; nothing where it is the same."""
    before, after = older.claim(claim), newer.claim(claim)
    said = []
    for name in ("subject", "baseline", "scope", "measure", "threshold"):
        if getattr(before, name) != getattr(after, name):
            said.append(f"{name} {getattr(before, name)} → {getattr(after, name)}")
    if _judged_cases(older, before) != _judged_cases(newer, after):
        said.append("cases")
    return tuple(said)


def fields_of(item: Judged) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Kind, name and path of every field that is told of a run, variables of its environment included."""
    for kind, fields in KINDS.items():
        place = "machine" if kind in OF_MACHINE else "evidence"
        yield from ((kind, name, (place, field)) for field, name in fields.items())
        if kind == "software":
            for library in sorted(item.machine["libraries"]):
                yield kind, LIBRARY_NAMES.get(library, library), (*LIBRARIES, library)
            yield from ((kind, name, (*VARIABLES, name)) for name in sorted(item.machine["environment"]))


def _judged_cases(plan: PlannedExperiment, claim: PlannedClaim) -> set[str]:
    return {case.name for case in plan.included_cases} & set(claim.cases)


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
