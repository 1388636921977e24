"""Names of cases, profiles, machines and their fields as a reader sees them."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from lab.definition.catalogue import load_axes, load_titles
from lab.definition.plan import PlannedCase, PlannedClaim
from lab.website import format
from lab.website.data.differences import OF_MACHINE, VARIABLES, fields_of, is_known
from lab.website.data.judged import Judged
from lab.website.figure import DataView, Figure

TITLES, AXES = load_titles(), load_axes()
OF_CPU = "cpu-"  # how operators begin that a GPU's experiment has under the same name, with other inputs
DTYPES = {"float16": "fp16", "bfloat16": "bf16", "float32": "fp32", "float8_e4m3fn": "fp8"}  # as people type them
COMMON_WORD = re.compile(r"[a-z]+(?:,? |$)")  # and no name of code
COMMON = re.compile(r"[a-z]+'s ")  # of a title that is no name of its own


class ScopeWords(NamedTuple):
    told: str  # what a claim's times are of, after "on one GPU"
    clock: str  # what the clock covers, in a caption


SCOPES = {
    "device_cold": ScopeWords("in cold-cache GPU time", "GPU time of one call with a cold cache"),
    "device_warm": ScopeWords("in GPU time with inputs cached", "GPU time of one call with inputs cached"),
    "graph": ScopeWords("in CUDA graphs", "GPU time of one call in a replayed CUDA graph"),
    "eager": ScopeWords("as an eager caller waits", "what a caller of Python waits, launch included"),
    "device_dirty": ScopeWords("in GPU time after a flush that leaves dirty lines", "GPU time "
                               "of one call after a flush that leaves dirty lines, as in do_bench and nvbench"),
}  # fmt: skip
CPU_SCOPES = {
    "device_cold": ScopeWords("in wall time of the CPU with its cache flushed",
                              "wall time of one call on the CPU, its last-level cache flushed before"),
    "device_warm": ScopeWords("in wall time of the CPU with inputs cached",
                              "wall time of one call on the CPU with inputs cached"),
}  # fmt: skip


SCOPE_TITLES = {
    "device_cold": "Cold cache", "device_warm": "Warm cache", "graph": "In a CUDA graph", "eager": "Eager",
    "device_dirty": "Dirty cache",
}  # fmt: skip


# Call modes as the front page names them: at the head of a table, and within a sentence.
MODE_TITLES = {"device_cold": "Cold cache, GPU time", "graph": "In a CUDA graph", "eager": "Eager call"}
CPU_MODE_TITLES = {"device_cold": "Cold cache"}  # where it differs
MODES_WITHIN = {"device_cold": "with a cold cache", "graph": "in a CUDA graph", "eager": "called eagerly"}


def scope_title(scope: str) -> str:
    """At the head of a column."""
    return SCOPE_TITLES.get(scope, scope)


def scope_within(scope: str) -> str:
    """The same within a sentence: 'cold cache', 'in a CUDA graph'."""
    title = scope_title(scope)
    return title[:1].lower() + title[1:]


def scope_words(scope: str, on_cpu: bool) -> ScopeWords:
    """Of a CPU's run never the GPU's."""
    return (CPU_SCOPES if on_cpu else SCOPES).get(scope) or SCOPES[scope]


def clocks_of(scope: str, on_cpu: Sequence[bool]) -> str:
    """What the clock of several runs covers, of which some may have measured a CPU."""
    return "; of CPU evidence ".join(scope_words(scope, each).clock for each in sorted(set(on_cpu)) or [False])


def listed(names: Sequence[str]) -> str:
    """'a, b and c'."""
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else names[0]


def titled(op: str) -> str:
    """'RMSNorm', also of a CPU's operator of that name; of an operator that has no title here, its name."""
    return _title(op) or op.removeprefix(OF_CPU)


def operator_title(op: str) -> str:
    """The same with a capital and without hyphens: of an operator that has no title here, its name in words."""
    words = op.removeprefix(OF_CPU).replace("-", " ")
    return _title(op) or words[:1].upper() + words[1:]


def _title(op: str) -> str | None:
    return TITLES.get(op) or TITLES.get(op.removeprefix(OF_CPU))


def axes(op: str) -> str:
    """What the sizes of its shapes are, 'M×N×K'; nothing of an operator of which that is not known."""
    return AXES.get(op) or AXES.get(op.removeprefix(OF_CPU), "")


def axes_of(ops: Iterable[str]) -> str:
    """Of most operators, and where others differ 'M×N×K; RoPE: batch×heads×tokens×head dim'."""
    alike: dict[str, list[str]] = {}
    for op in dict.fromkeys(ops):
        alike.setdefault(axes(op), []).append(titled(op))
    usual, *others = sorted(filter(None, alike), key=lambda names: -len(alike[names])) or [""]
    return "; ".join((usual, *(f"{listed(list(dict.fromkeys(alike[names])))}: {names}" for names in others)))


def case_label(case: PlannedCase) -> str:
    return f"{titled(case.op)} {shape_label(case)}"


def shape_label(case: PlannedCase) -> str:
    return f"{'×'.join(map(str, case.shape))} {DTYPES.get(case.dtype, case.dtype)}"


def within_sentence(title: str) -> str:
    """A profile's title within a sentence: 'the driver's copy', where it is no name of its own."""
    return f"the {title}" if COMMON.match(title) else title


def begun(title: str) -> str:
    """A profile's title at the beginning of a sentence: 'Fused PyTorch', and 'torch.compile' as it is written."""
    title = within_sentence(title)
    return title[:1].upper() + title[1:] if COMMON_WORD.match(title) else title


def profile_title(shown: Judged, profile: str) -> str:
    return shown.plan.profile(profile).title


def baseline_title(shown: Judged, claim: PlannedClaim) -> str:
    """What a claim compares with: a profile, or the least that must be moved."""
    return profile_title(shown, claim.baseline) if claim.baseline else "the least"


NOT_KNOWN = "not known"
# What the clock reads at least, as the median of the processes.
FLOORS = {"median_launch_floor_seconds": "An empty kernel", "median_empty_seconds": "Two events alone"}
CPU_FLOORS = {"median_launch_floor_seconds": "A call on one number", "median_empty_seconds": "An empty call"}
CPU_FIELDS = {"l2_bytes": "Last-level cache"}
SHOWS: Mapping[str, Callable[[Any], str]] = {
    **dict.fromkeys(("in_turn", "isolated", "profiling", "instruments"), lambda v: "yes" if v else "no"),
    "device": lambda v: "a CPU" if v == "cpu" else "a GPU",
    "memory_bytes": lambda v: f"{format.gigabytes(v)} GB",
    "l2_bytes": lambda v: f"{format.megabytes(v)} MB",
    "peak_bytes_per_second": lambda v: f"{format.terabytes_per_second(v)} TB/s",
    "power_limit_watts": lambda v: f"{v:.0f} W",
    "sm_clock_hertz": lambda v: f"{format.megahertz(v)} MHz",
    "memory_clock_hertz": lambda v: f"{format.megahertz(v)} MHz",
}


def environment(item: Judged, view: DataView) -> list[tuple[str, Figure]]:
    """What is known of the machine and its software, and what the clock reads at least."""
    renamed = CPU_FIELDS if item.on_cpu else {}
    fields = [
        (renamed.get(path[-1], name), field_figure(view, path))
        for kind, name, path in fields_of(item)
        if kind in OF_MACHINE
    ]
    floors = (
        (name, view.figure("evidence", field, show=lambda seconds: f"{format.microseconds(seconds)} µs"))
        for field, name in (CPU_FLOORS if item.on_cpu else FLOORS).items()
    )
    fields += [(name, value) for name, value in floors if value and value.value]
    return [(name, value) for name, value in fields if value and value.text != NOT_KNOWN]


def evidence_facts(view: DataView, fields: Mapping[str, str]) -> list[tuple[str, Figure]]:
    """Fields of the run's evidence, by what a reader calls them; none of GPUs where a CPU measured."""
    values = ((name, field_figure(view, ("evidence", field))) for field, name in fields.items())
    return [(name, value) for name, value in values if value and (value.text, value.value) != (NOT_KNOWN, 0)]


def field_figure(view: DataView, path: tuple[str, ...]) -> Figure | None:
    """A field of the machine or of the evidence, with its unit; None where the data lack it."""
    variable = path[:-1] == VARIABLES
    show = _variable if variable else _shown(path[-1])
    return view.figure(*path, show=show)


def _shown(field: str) -> Callable[[Any], str]:
    show = SHOWS.get(field, str)
    return lambda value: show(value) if is_known(value) else NOT_KNOWN


def _variable(value: str) -> str:
    return value or "set to nothing"
