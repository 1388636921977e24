"""Every kernel of every profiled call, as the profiler's own pass saw it, in words."""

from collections.abc import Mapping
from typing import Any

from lab.definition.plan import PlannedCase, PlannedProfile
from lab.website import format
from lab.website.data.judged import Judged
from lab.website.figure import Figure, Ledger, Sentence, pointer
from lab.website.pages.compiled import compiled_rows
from lab.website.pages.hardware_views import KernelRow, KernelsSection, ProfiledCall, ProfiledCase
from lab.website.pages.labels import case_label

# What Nsight Compute's names of stalls and limits mean.
STALLS = {
    "barrier": "waiting for other warps of the block (barrier)",
    "branch_resolving": "waiting for the target of a branch (branch resolving)",
    "dispatch_stall": "held back by the dispatcher (dispatch stall)",
    "drain": "waiting for stores to leave at the end (drain)",
    "gmma": "waiting for the tensor cores (GMMA)",
    "imc_miss": "waiting for a constant (IMC miss)",
    "lg_throttle": "waiting to issue a memory request (LG throttle)",
    "long_scoreboard": "waiting for memory (long scoreboard)",
    "math_pipe_throttle": "waiting for an arithmetic pipe (math pipe throttle)",
    "membar": "waiting for a memory barrier (membar)",
    "mio_throttle": "waiting to issue to shared memory (MIO throttle)",
    "misc": "waiting for something else (misc)",
    "no_instruction": "waiting for its next instruction (no instruction)",
    "not_selected": "ready, while another warp was issued (not selected)",
    "short_scoreboard": "waiting for shared memory or a special function (short scoreboard)",
    "sleeping": "asleep (sleeping)",
    "tex_throttle": "waiting for the texture unit (tex throttle)",
    "wait": "waiting for the instruction before it (wait)",
}
DETAILED_SINCE = 4  # the schema that has room for limits of occupancy, caches, pipes, stalls and what was compiled
LIMITS = {"shared_mem": "shared memory"}


def kernels_section(shown: Judged, ledger: Ledger) -> KernelsSection | None:
    """None where the run has neither counters nor anything that Triton compiled."""
    cases = [_case(shown, case, ledger) for case in shown.plan.included_cases]
    held = tuple(case for case in cases if case.calls or case.compiled)
    if not held:
        return None
    place = _profiled(shown)
    path = ("cells", *place, "counters") if place else ()
    return KernelsSection(
        about=_about(ledger, path) if path else (),
        report_sha256=ledger.value(*path, "report_sha256") if path else "",
        detailed=shown.evidence.get("schema_of_run", 0) >= DETAILED_SINCE,
        cases=held,
    )


def _case(shown: Judged, case: PlannedCase, ledger: Ledger) -> ProfiledCase:
    planned = shown.plan.profiles_of(case)
    return ProfiledCase(
        name=case.name,
        label=case_label(case),
        calls=tuple(call for profile in planned if (call := _call(shown, case, profile, ledger))),
        compiled=tuple(row for profile in planned for row in compiled_rows(case, profile, ledger)),
    )


def is_profiled(shown: Judged) -> bool:
    """Whether the profiler counted any kernel of the experiment."""
    return _profiled(shown) is not None


def _profiled(shown: Judged) -> tuple[str, str] | None:
    """A cell whose kernels were counted; what it tells of the pass holds for all."""
    places = ((case.name, profile.name) for case in shown.plan.cases for profile in shown.plan.profiles)
    return next((place for place in places if shown.cell(*place).get("counters", {}).get("kernels")), None)


def _about(ledger: Ledger, path: tuple[str, ...]) -> Sentence:
    """Who counted, under what conditions, and how large the report is."""
    counters = ledger.value(*path)
    caches = "emptied the caches before each kernel" if counters["cache_control"] == "all" else "left the caches alone"
    clocks = "left the clocks alone" if counters["clock_control"] == "none" else "held the clocks at their base"
    metrics = "the lab's chosen metrics" if counters["metric_set"] == "chosen" else "its full set of metrics"
    size = ledger.figure(*path, "report_bytes", show=format.megabytes) if counters["report_bytes"] else None
    report: Sentence = (" Its report has ", size, " MB.") if size else ()
    return (f"Nsight Compute {counters['ncu']} counted {metrics}, {caches} and {clocks}.", *report)


def _call(shown: Judged, case: PlannedCase, profile: PlannedProfile, ledger: Ledger) -> ProfiledCall | None:
    counters = shown.cell(case.name, profile.name).get("counters")
    if counters is None:
        return None
    path, at = ("cells", case.name, profile.name, "counters"), pointer("cells", case.name, profile.name)
    if not counters["kernels"]:
        kind = f" ({counters['blocker']})" if counters["blocker"] else ""
        blocked = f"{counters['outcome']}{kind}: {counters['reason']}"
        return ProfiledCall(
            at=at, profile=profile.title, blocked=blocked, essentials=("no counters",), kernels=(), total=None
        )
    numbers = range(len(counters["kernels"]))
    rows = tuple(_kernel(ledger, (*path, "kernels", str(number))) for number in numbers)
    several = len(rows) > 1
    return ProfiledCall(
        at=at,
        profile=profile.title,
        blocked="",
        essentials=essentials(case, profile, ledger),
        kernels=rows,
        total=_row(ledger, path, name=f"all {len(rows)} kernels") if several else None,
    )


def essentials(case: PlannedCase, profile: PlannedProfile, ledger: Ledger) -> Sentence:
    """'1 kernel, 1.00× the least bytes, 81.5 % DRAM, 93.2 % occupancy', as far as it was counted."""
    path = ("cells", case.name, profile.name)
    launches = ledger.figure(*path, "counters", "launches")
    ratio = ledger.figure(*path, "traffic", "ratio", show=format.times)
    dram = ledger.figure(*path, "counters", "dram_percent", show=format.percent)
    occupancy = ledger.figure(*path, "counters", "occupancy_percent", show=format.percent)
    parts: list[Figure | str] = [launches or "–", " kernel" if launches and launches.value == 1 else " kernels"]
    parts += [", ", ratio, " the least bytes"] if ratio else []
    parts += [", ", dram, " % DRAM"] if dram else []
    parts += [", ", occupancy, " % occupancy"] if occupancy else []
    return tuple(parts)


def _kernel(ledger: Ledger, path: tuple[str, ...]) -> KernelRow:
    kernel: Mapping[str, Any] = ledger.value(*path)
    return _row(
        ledger,
        path,
        name=kernel["name"],
        launch=f"{_size(kernel['grid'])} blocks of {_size(kernel['block'])}",
        limiter=" and ".join(_words(LIMITS, limit) for limit in kernel["limiters"]),
        stall=_words(STALLS, kernel["top_stall"]),
    )


def _row(
    ledger: Ledger, path: tuple[str, ...], *, name: str, launch: str = "", limiter: str = "", stall: str = ""
) -> KernelRow:
    """The figures under `path`: of a kernel, or of the call, which has no registers of its own."""
    return KernelRow(
        at=pointer(*path),
        name=name,
        launch=launch,
        duration=ledger.figure(*path, "duration_seconds", show=format.microseconds),
        read=ledger.figure(*path, "dram_read_bytes", show=format.megabytes),
        written=ledger.figure(*path, "dram_written_bytes", show=format.megabytes),
        dram=ledger.figure(*path, "dram_percent", show=format.percent),
        occupancy=ledger.figure(*path, "occupancy_percent", show=format.percent),
        theoretical=ledger.figure(*path, "theoretical_occupancy_percent", show=format.percent),
        limiter=limiter,
        registers=ledger.figure(*path, "registers_per_thread", show=format.count),
        shared=ledger.figure(*path, "shared_bytes_per_block", show=format.kilobytes),
        l2_hit=ledger.figure(*path, "l2_hit_percent", show=format.percent),
        sm=ledger.figure(*path, "sm_percent", show=format.percent),
        tensor=ledger.figure(*path, "tensor_percent", show=format.percent),
        stall=stall,
    )


def _size(dimensions: str) -> str:
    """'(4096, 1, 1)' as '4096', and '(32, 16, 1)' as '32×16'."""
    sizes = dimensions.strip("()").split(", ")
    while len(sizes) > 1 and sizes[-1] == "1":
        sizes.pop()
    return "×".join(sizes)


def _words(known: Mapping[str, str], name: str) -> str:
    return known.get(name, name.replace("_", " "))
