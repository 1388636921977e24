"""What differs between two runs besides their samples: machine, software, source and protocol. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from lab.definition.plan import PlannedClaim, PlannedExperiment
from lab.website.data.judged import Judged
from lab.website.figure import DataView

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
ASKED = ("subject", "baseline", "scope", "measure", "threshold")  # what a claim asks for, beside its cases


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
    for name in ASKED:
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
