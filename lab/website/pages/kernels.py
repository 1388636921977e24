"""Every kernel of every profiled call of a case, as the profiler's own pass saw it, and what Triton compiled."""

from collections.abc import Iterator, Mapping
from typing import Any

from lab.definition.plan import PlannedCase, PlannedProfile
from lab.quantities import COUNTERS, heading_of
from lab.website import format
from lab.website.data.judged import Judged
from lab.website.figure import DataView, Sentence, joined
from lab.website.table import (
    Code,
    Fold,
    PageTable,
    Strong,
    TableRow,
    Words,
    below,
    column,
    named,
    numbers,
    row,
    table_row,
    words,
)

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
HASH_DIGITS = 12
NO_DETAILS = "Not measured in this run: allowed occupancy, L2 hits, throughput of SMs and tensor pipe, and stalls."
COUNTED = tuple(name for name, counter in COUNTERS.items() if counter.shown)
COMPILED = (
    named("profile", "Implementation"), named("name", "Kernel"), column("registers_per_thread"),
    column("spills"), column("shared_bytes", "Shared, kB", show=format.kilobytes), column("warps"), column("stages"),
    named("configuration", "Configuration"),
    named("code", "Code"), column("compile_seconds", "Compiling, s"), column("autotune_seconds", "Tuning, s"),
)  # fmt: skip


def kernels_fold(shown: Judged, case: PlannedCase, view: DataView) -> Fold | None:
    """None where the profiler counted nothing of the case and Triton compiled nothing for it."""
    counted = _counted(shown, case, view)
    compiled = [kernel for profile in shown.plan.profiles_of(case) for kernel in _compiled(case, profile, view)]
    tables = [counted] if counted else []
    if compiled:
        caption = ("What Triton compiled, by its own metadata. Code is the beginning of a hash of what it generated.",)
        label = "What Triton compiled"
        tables.append(PageTable(label=label, heads=COMPILED, rows=compiled, caption=caption, kind="kernels"))
    if not tables:
        return None
    detailed = shown.evidence.get("schema_of_run", 0) >= DETAILED_SINCE
    lead: Words = (
        "Counters explain and never time: they come from a pass of their own, in which each kernel is stopped, "
        "replayed and counted. ", *_about(shown, case, view), "" if detailed else f" {NO_DETAILS}",
    )  # fmt: skip
    return Fold(id="kernels", title="Kernels as the profiler saw them", lead=lead, tables=tuple(tables))


def _counted(shown: Judged, case: PlannedCase, view: DataView) -> PageTable | None:
    rows: list[TableRow] = []
    for profile in shown.plan.profiles_of(case):
        counters = shown.cell(case.name, profile.name).get("counters")
        if counters is None:
            continue
        path = ("cells", case.name, profile.name, "counters")
        if not counters["kernels"]:
            kind = f" ({counters['blocker']})" if counters["blocker"] else ""
            why = f"{counters['outcome']}{kind}: {counters['reason']}"
            rows.append(table_row((profile.title, ": ", Strong((why,))), kind="group"))
            continue
        rows.append(table_row((profile.title, below(*essentials(case, profile, view))), kind="group"))
        rows += [_kernel(view, (*path, "kernels", str(number))) for number in range(len(counters["kernels"]))]
        if len(counters["kernels"]) > 1:
            name: Words = (f"all {len(counters['kernels'])} kernels", below("sums, and means of percentages"))
            rows.append(table_row(name, *_figures(view, (*path, "call")), (), kind="total"))
    heads = (*words("Kernel"), *numbers(*map(heading_of, COUNTED)), *words("Warps mostly"))
    return PageTable(label="Kernels", kind="kernels", heads=heads, rows=rows) if rows else None


def _kernel(view: DataView, path: tuple[str, ...]) -> TableRow:
    kernel: Mapping[str, Any] = view.value(*path)
    name: Words = (Code(kernel["name"]), below(f"{_size(kernel['grid'])} blocks of {_size(kernel['block'])}"))
    limiters = " and ".join(_told(LIMITS, limit) for limit in kernel["limiters"])
    return table_row(name, *_figures(view, path, limiters), _told(STALLS, kernel["top_stall"]) or "–")


def _figures(view: DataView, path: tuple[str, ...], limiters: str = "") -> Iterator[Words]:
    """Under `path`: of a kernel, or of the call, which has no registers of its own."""
    for key in COUNTED:
        figure = view.figure(*path, key)
        yield figure, below(figure and key.startswith("theoretical") and limiters)


def _about(shown: Judged, case: PlannedCase, view: DataView) -> Sentence:
    """Who counted, under what conditions, and how large the report is."""
    counters_of = [
        (profile.name, shown.cell(case.name, profile.name).get("counters")) for profile in shown.plan.profiles
    ]
    profile, counters = next(((name, each) for name, each in counters_of if each and each["kernels"]), ("", None))
    if counters is None:
        return ()
    caches = "emptied the caches before each kernel" if counters["cache_control"] == "all" else "left the caches alone"
    clocks = "left the clocks alone" if counters["clock_control"] == "none" else "held the clocks at their base"
    metrics = "the lab's chosen metrics" if counters["metric_set"] == "chosen" else "its full set of metrics"
    path = ("cells", case.name, profile, "counters", "report_bytes")
    size = view.figure(*path, show=format.megabytes) if counters["report_bytes"] else None
    sha = f" Its SHA-256: {counters['report_sha256']}." if counters["report_sha256"] else ""
    report: Sentence = (" Its report has ", size, " MB.") if size else ()
    return (f"Nsight Compute {counters['ncu']} counted {metrics}, {caches} and {clocks}.", *report, sha)


def essentials(case: PlannedCase, profile: PlannedProfile, view: DataView) -> Sentence:
    """'1 kernel, 1.00× the least bytes, 81.5 % DRAM, 93.2 % occupancy', as far as it was counted."""
    at = view.at("cells", case.name, profile.name)
    one = at.value("counters", "launches") == 1
    told = {
        "counters/launches": " kernel" if one else " kernels", "traffic/ratio": " the least bytes",
        "counters/call/dram_percent": " % DRAM", "counters/call/occupancy_percent": " % occupancy",
    }  # fmt: skip
    counted = ((at.figure(*path.split("/")), what) for path, what in told.items())
    return joined(((figure, what) for figure, what in counted if figure), ", ")


def _compiled(case: PlannedCase, profile: PlannedProfile, view: DataView) -> Iterator[TableRow]:
    """The Triton kernels of a cell; none where the run did not record them."""
    path = ("cells", case.name, profile.name, "compiled")
    compiled = view.value(*path)
    for number, kernel in enumerate(compiled["kernels"] if compiled else ()):
        variants = compiled["variants"] > 1 and view.figure(*path, "variants")
        code = (Code(kernel["code_sha256"][:HASH_DIGITS]), below("one of ", variants, " over the sweeps"))
        yield row(
            view.at(*path, "kernels", str(number)), COMPILED, profile=profile.title, name=Code(kernel["name"]),
            code=code, configuration=", ".join(f"{name}={value}" for name, value in kernel["configuration"].items()),
            compile_seconds=view.figure(*path, "compile_seconds"),
            autotune_seconds=view.figure(*path, "autotune_seconds"),
        )  # fmt: skip


def _size(dimensions: str) -> str:
    """'(4096, 1, 1)' as '4096', and '(32, 16, 1)' as '32×16'."""
    sizes = dimensions.strip("()").split(", ")
    while len(sizes) > 1 and sizes[-1] == "1":
        sizes.pop()
    return "×".join(sizes)


def _told(known: Mapping[str, str], name: str) -> str:
    return known.get(name, name.replace("_", " "))
