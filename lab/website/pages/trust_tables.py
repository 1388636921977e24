"""The tables of the page on trust, each with its title and what it says: repeats, known answers, clocks and cost."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from lab.verdict.excluded_rounds import LARGEST_CANARY_DRIFT
from lab.verdict.repeatability import CHANGED, HOLDING, ZERO
from lab.verdict.statistics import per_cent
from lab.verdict.validity import AGREES_WITHIN, AGREES_WITHIN_SECONDS, REPEATED_WITHIN
from lab.website import format
from lab.website.data.published_cells import INSTRUMENTS
from lab.website.data.published_trust import OTHERS
from lab.website.figure import DataView, Sentence
from lab.website.table import Head, PageTable, TableRow, column, named, row

Part = dict[str, Any]  # of the page: anchor, title, about, table, summary
ONE_DRAW, OTHER_CLAIMS = "torch.compile, one cache", "all others"
STAGES = ("load", "start", "inputs", "check", "time", "canaries")


def share(share: float) -> str:
    """A share in per cent; a count as it is."""
    return per_cent(share, 1) if isinstance(share, float) else str(share)


REPEATABILITY = (
    named("gpu", "GPU"), named("claims", "Claims"), column("changed_share", "Changed", show=share),
    column("flipped", "Reversed", show=str), column("holding_share", "Interval holds", show=share),
    column("zero_share", "Within error", show=share), column("runs", "Runs", show=str),
    column("boards", "Boards", show=str), column("pairs", "Pairs", show=str), named("which", "Which runs"),
)  # fmt: skip


def repeatability_part(view: DataView) -> Part:
    """Of pairs of runs of one source on one GPU model. No rows where no run was repeated."""
    rows = (
        row(
            view.at("repeatability", number),
            REPEATABILITY,
            gpu=pairs["gpu"],
            claims=_kind(pairs),
            which=", ".join(pairs["run_ids"]),
        )
        for number, pairs in (view.value("repeatability") or {}).items()
    )
    return _part(
        "repeatability", "Does a verdict hold when the run is repeated?",
        "Each row compares all pairs of runs of one source on one GPU model, claim by claim and case by case. "
        "“Interval holds”: one run's interval holds the other run's speed-up, which a right 95 % interval does in "
        "about 87 % of pairs, because the other run errs too. “Within error”: the two speed-ups agree "
        "within both intervals. "
        f"The goals: at most {per_cent(CHANGED)} changed, none reversed, at least {per_cent(HOLDING)} and "
        f"{per_cent(ZERO)}.",
        REPEATABILITY, rows,
    )  # fmt: skip


def _kind(pairs: Mapping[str, Any]) -> str:
    return ONE_DRAW if pairs["one_draw"] else OTHER_CLAIMS


def power_part(view: DataView) -> Part:
    columns = (
        column("known_ratio", "Known ratio", show=lambda v: f"{v:.2f}×"), column("trials", "Trials", show=str),
        column("right", "Right verdicts", show=str), column("withheld", "Too noisy to call", show=str),
        column("excluding_one", "Intervals without 1", show=str),
        column("covering", "Intervals that hold the ratio", show=str),
    )  # fmt: skip
    effects = view.value("power") or {}
    return _part(
        "power", "Does it find a difference of known size?",
        "A kernel against itself with 1, 2 or 5 % more work. At 5 % the lab must call it 2 % faster; at 1 % it must "
        "not; at 2 % the truth lies on the threshold, and the interval only has to exclude 1. The goals: 90 % right, "
        "90 % of intervals at 2 % without 1, and 93 % of intervals that hold the known ratio.",
        columns, (row(view.at("power", claim), columns) for claim in effects if effects[claim]["trials"]),
    )  # fmt: skip


def same_part(view: DataView) -> Part:
    columns = (
        named("case", "Case"), column("comparisons", "Comparisons", show=str),
        column("supported", "Called faster", show=str), column("excluding_one", "Intervals without 1", show=str),
    )  # fmt: skip
    places: list[tuple[tuple[str, ...], str]] = [
        (("same_by_case", case), case) for case in view.value("same_by_case") or {}
    ]
    totals = [(("same",), "All"), (("controls",), "Controls of all other runs")]
    places += [(path, name) for path, name in totals if places and view.value(*path, "comparisons")]
    return _part(
        "same", "The same function under two names, case by case",
        "Each session is judged like a run of its own. The goal: at most one called faster, and at most 16 in 200 "
        "intervals without 1.",
        columns, (row(view.at(*path), columns, case=name) for path, name in places),
    )  # fmt: skip


def repeats_part(view: DataView) -> Part:
    columns = (
        named("experiment", "Experiment"), named("gpu", "GPU"), column("gpus", "Boards", show=str),
        column("runs", "Runs", show=str), column("comparisons", "Claims at cases", show=str),
        column("flip_count", "Reversed", show=str), column("changed_count", "Changed", show=str),
        column("disjoint_count", "Intervals apart", show=str), column("cells", "Times", show=str),
        column("within", "Within", show=str),
        column("largest_deviation", "Largest deviation", show=lambda v: per_cent(v, 2)), named("largest_at", "Where"),
    )  # fmt: skip
    words = ("experiment", "gpu", "largest_at")
    return _part(
        "repeats", "Repeats of each experiment",
        "All published runs of an experiment under one protocol, changes of the source included, most of them on "
        "different boards. Boards run at different clocks, and torch.compile may choose other kernels, so times and "
        "intervals can move apart. The goal: times of 20 µs and more within "
        f"±{per_cent(REPEATED_WITHIN)} of their median over the runs, and no reversed verdict.",
        columns,
        (row(view.at("repeats", number), columns, **{word: str(repeat[word]) for word in words})
         for number, repeat in (view.value("repeats") or {}).items()),
    )  # fmt: skip


def instruments_part(view: DataView) -> Part:
    columns = (
        named("cell", "Cell"), column("p50_seconds", "device_cold, µs", show=format.microseconds),
        *(column(f"{name}_seconds", f"{name.replace('_flush', ' flush')}, µs", show=format.microseconds)
          for name in INSTRUMENTS),
        named("agrees", "Agrees after a writing flush"), named("agrees_cold", "Agrees with device_cold"),
    )  # fmt: skip
    return _part(
        "instruments", "Other benchmarking tools on the same cells",
        "do_bench and nvbench flush the cache by writing. It is then full of dirty lines, and writing those back falls "
        "into the timed window. device_cold reads them back first, so longer kernels look faster there. Very short "
        "kernels can look slower, because device_cold also cycles through fresh inputs and outputs. With a writing "
        "flush and one set of inputs, the lab's clock should agree with both: within "
        f"{per_cent(AGREES_WITHIN)} or {AGREES_WITHIN_SECONDS * 1e6:.1f} µs, whichever is more.",
        columns,
        (row(view.at("instruments", cell), columns, cell=cell, agrees=_agreeing(view, cell, "agrees"),
             agrees_cold=_agreeing(view, cell, "agrees_cold"))
         for cell in view.value("instruments") or {}),
        _agreement(view),
    )  # fmt: skip


def _agreeing(view: DataView, cell: str, how: str) -> str:
    return " and ".join(name for name in OTHERS if view.value("instruments", cell, f"{name}_{how}")) or "neither"


def _agreement(view: DataView) -> Sentence:
    names = ("cells", "do_bench_agrees", "nvbench_agrees", "do_bench_agrees_cold", "nvbench_agrees_cold")
    cells, dirty_do, dirty_nv, cold_do, cold_nv = (view.figure("agreement", name) or "–" for name in names)
    return (
        "Of ", cells, " cells, the lab's clock after a writing flush agrees with do_bench in ", dirty_do,
        " and with nvbench in ", dirty_nv, "; device_cold, on which most verdicts rest, in ", cold_do, " and ", cold_nv,
        ".",
    )  # fmt: skip


def flush_part(view: DataView) -> Part:
    columns = (
        named("run", "Run"), column("footprint_bytes", "Buffer, bytes", show=_thousands),
        column("flushed_read_bytes", "Read after flush", show=_thousands),
        column("warm_read_bytes", "Read again", show=_thousands),
    )  # fmt: skip
    return _part(
        "flush", "Does the cache flush work?",
        "Nsight Compute counts the bytes that one read of a buffer brings in from DRAM: right after the flush, where "
        "all of the buffer must come, and once more, where next to nothing may.",
        columns, _by_run(view, "flush", columns),
    )  # fmt: skip


def canaries_part(view: DataView) -> Part:
    columns = (
        named("run", "Run"), column("clock_step_seconds", "Clock step, ns", show=lambda v: f"{v * 1e9:.0f}"),
        column("empty_seconds", "Two events, µs", show=format.microseconds),
        column("launch_floor_seconds", "Empty kernel, µs", show=format.microseconds),
        column("canaries", "Canaries", show=str), column("off", "Off", show=str),
        column("largest_off", "Largest deviation", show=lambda v: per_cent(v, 1)),
    )  # fmt: skip
    return _part(
        "clock", "The clock and the canaries",
        "What the GPU's clock shows when nothing, or nearly nothing, is timed, and how far canaries (fixed copies and "
        "spins between the cases) were from their process's median. A canary that is off by more than "
        f"{per_cent(LARGEST_CANARY_DRIFT)} spoils the cases beside it.",
        columns, _by_run(view, "clock", columns),
    )  # fmt: skip


def cost_part(view: DataView) -> Part:
    stages = {f"{stage}_stage_seconds": stage for stage in STAGES}
    columns = (
        named("run", "Run"), column("cells", "Cells", show=str), column("sweeps", "Sweeps", show=str),
        column("wall_seconds", "Wall", show=_seconds), column("profiling_seconds", "Profiling", show=_seconds),
        column("timing_seconds_per_cell_and_sweep", "Timing per cell and sweep", show=_hundredths),
        column("gpu_seconds_per_cell_and_sweep", "GPU, at least", show=_hundredths), 
        *(column(key, stage.capitalize()) for key, stage in stages.items()),
    )  # fmt: skip
    rows = (
        row(
            view.at("cost", run),
            columns,
            run=run,
            **{key: view.figure("cost", run, "stage_seconds", stage, show=_seconds) for key, stage in stages.items()},
        )
        for run in view.value("cost") or {}
    )
    return _part(
        "cost", "What a run costs, in seconds",
        "Stages are summed over worker processes; five of them load side by side. Other tools count as profiling. Per "
        "cell and sweep: the wall time of timing, and the GPU's time of samples and spins alone. The goals: "
        "normalization-fusion with profiling in 240 s, and 1 s of GPU time a cell in five sweeps.",
        columns, rows,
    )  # fmt: skip


def _part(
    name: str, title: str, about: str, columns: tuple[Head, ...], rows: Iterable[TableRow], summary: Sentence = ()
) -> Part:
    table = PageTable(label=title, kind="stacks", heads=columns, rows=tuple(rows))
    return {"anchor": name, "title": title, "about": about, "table": table, "summary": summary}


def _by_run(view: DataView, place: str, columns: tuple[Head, ...]) -> Iterator[TableRow]:
    return (row(view.at(place, run), columns, run=run) for run in view.value(place) or {})


def _thousands(value: float) -> str:
    return f"{value:,.0f}"


def _hundredths(value: float) -> str:
    return f"{value:.2f}"


def _seconds(value: float) -> str:
    return f"{value:.0f}" if value >= 10 else f"{value:.1f}"
