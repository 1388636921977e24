"""How far the lab itself can be trusted: its error rates and cost, as a page and as the data behind it."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from lab.verdict.spoiled import LARGEST_CANARY_DRIFT
from lab.verdict.statistics import CONFIDENCE, per_cent
from lab.verdict.validity import AGREES_WITHIN, AGREES_WITHIN_SECONDS, REPEATED_WITHIN
from lab.website import format
from lab.website.data.published_trust import INSTRUMENTS, OTHERS
from lab.website.figure import Figure, Ledger, Sentence
from lab.website.files.schemas import data_text
from lab.website.files.shown_tables import shown_table
from lab.website.outputs import Attachment, Document, Gathered, Output
from lab.website.pages.repeatability import repeatability_table
from lab.website.pages.trust_views import Row, TableView, one
from lab.website.wording.threats import HELD, STILL


@dataclass(frozen=True, kw_only=True, slots=True)
class TrustPage:
    lede: Sentence
    errors: Sentence  # how often the rule was wrong where nothing was to be found; empty where that was not tested
    tables: tuple[TableView, ...]
    data: Mapping[str, Any]
    held: str = HELD  # the threat model: what is guarded against, and what is not
    still: tuple[str, ...] = STILL


def trust_pages(gathered: Gathered) -> Iterator[Output]:
    """trust/index.html and its data; a preview of one run has none."""
    if gathered.trust:
        page = trust_page(gathered.trust)
        yield Document(path="trust/index.html", template="trust.html", view={"trust": page})
        yield Attachment(path="trust/data.json", content=data_text(page.data, "trust/data.json", "trust"))
        for table in page.tables:
            yield shown_table(f"trust/{table.anchor}.csv", table.headings, table.rows)


def trust_page(data: Mapping[str, Any]) -> TrustPage:
    """`data`: of lab.website.data.published_trust."""
    ledger = Ledger(data)
    makers = (_same, _power, repeatability_table, _repeats, _instruments, _flush, _canaries, _cost)
    tables = tuple(table for make in makers if (table := make(ledger)).rows)
    return TrustPage(lede=_lede(ledger), errors=_errors(ledger), tables=tables, data=data)


def _lede(ledger: Ledger) -> Sentence:
    count, supported = ledger.figure("same", "comparisons"), ledger.figure("same", "supported")
    excluding, sessions = ledger.figure("same", "excluding_one"), ledger.figure("sessions")
    if not ledger.value("same", "comparisons") or not (count and supported and excluding and sessions):
        return ("No run that tests the lab itself has been published yet.",)
    return (
        "A function was compared with itself, under another name, ", count, " times in ", sessions,
        " sessions of five sweeps: ", supported, " of these claims were supported, and ", excluding,
        " intervals excluded 1, where one in twenty may.", *_flips(ledger), *_repeated(ledger),
    )  # fmt: skip


def _errors(ledger: Ledger) -> Sentence:
    """Of the tests and of the controls of all other runs."""
    parts: list[Figure | str] = []
    told = {"same": " comparisons of a function with itself in tests", "controls": " in the controls of all other runs"}
    for place, where in told.items():
        if not ledger.value(place, "comparisons"):
            continue
        count, supported = ledger.figure(place, "comparisons") or "", ledger.figure(place, "supported") or ""
        excluding = ledger.figure(place, "excluding_one") or ""
        rate = ledger.figure(place, "largest_supported_rate", show=lambda v: per_cent(v, 1)) or "–"
        parts += [
            "; of " if parts else "Of ", count, where, ", ", supported, " were supported, so that at most ", rate,
            f" of such claims are (with {per_cent(CONFIDENCE)} confidence), and ", excluding, " intervals excluded 1",
        ]  # fmt: skip
    return (*parts, f", where {per_cent(1 - CONFIDENCE)} may.") if parts else ()


def _flips(ledger: Ledger) -> Sentence:
    """How often a claim was supported at a case in one run and refuted in another, over all repeats."""
    flips, compared = ledger.figure("repeated", "flip_count"), ledger.figure("repeated", "comparisons")
    if not flips or not compared or not compared.value:
        return ()
    told = " claims at cases flipped between supported and refuted."
    return (" Repeated on other boards and days, ", flips, " of ", compared, told)


def _repeated(ledger: Ledger) -> Sentence:
    """What of the repeated experiment with most cells out of bounds did not repeat, if anything."""
    repeats = ledger.value("repeats") or {}
    missed = {number: found["cells"] - found["within"] for number, found in repeats.items()}
    number = max(missed, key=lambda each: missed[each], default="")
    if not missed.get(number):
        return ()
    path = ("repeats", number)
    runs, cells, within = (ledger.figure(*path, name) or "–" for name in ("runs", "cells", "within"))
    worst = ledger.figure(*path, "largest_deviation", show=lambda v: per_cent(v, 1)) or "–"
    return (
        " Not all repeats: over ", runs, f" runs of {repeats[number]['experiment']}, ", within, " of ", cells,
        f" cells stayed within ±{per_cent(REPEATED_WITHIN)} of their median; the goal was all, and the worst, "
        f"{repeats[number]['largest_at']}, was off by ", worst, ".",
    )  # fmt: skip


def _same(ledger: Ledger) -> TableView:
    rows = [_counted((case,), ledger, "same_by_case", case) for case in ledger.value("same_by_case") or {}]
    if rows:
        rows.append(_counted(("All",), ledger, "same"))
    if ledger.value("controls", "comparisons"):
        rows.append(_counted(("Controls of all other runs",), ledger, "controls"))
    return TableView(
        anchor="same", title="The same function under two names",
        about="Each session is judged as a run of its own. Nothing here should be supported.",
        goal="At most one supported; at most 16 intervals in 200 exclude 1.",
        headings=("Case", "Comparisons", "Supported", "Intervals that exclude 1"), rows=tuple(rows),
    )  # fmt: skip


def _counted(first: Sentence, ledger: Ledger, *path: str) -> Row:
    return (first, *(one(ledger.figure(*path, name)) for name in ("comparisons", "supported", "excluding_one")))


def _power(ledger: Ledger) -> TableView:
    rows = []
    for claim in ledger.value("power") or {}:
        if ledger.value("power", claim, "trials"):
            known = ledger.figure("power", claim, "known_ratio", show=lambda v: f"{v:.2f}×")
            names = ("trials", "right", "withheld", "excluding_one", "covering")
            rows.append((one(known), *(one(ledger.figure("power", claim, name)) for name in names)))
    return TableView(
        anchor="power", title="Known extra work",
        about=(
            "A kernel against the same kernel with 1, 2 and 5 % more work of the kind that its time consists of. At "
            "5 % the claim of 1.02× is to be supported; at 2 % the ratio lies on that threshold, and the interval "
            "is only to exclude 1; at 1 % the claim is not to be supported."
        ),
        goal="Right in 90 % at 5 %; 1 excluded in 90 % at 2 %; the known ratio covered in 93 %.",
        headings=("Known ratio", "Trials", "Right verdicts", "Withheld as noise", "Intervals that exclude 1",
            "Intervals that hold it"),
        rows=tuple(rows),
    )  # fmt: skip


def _repeats(ledger: Ledger) -> TableView:
    rows = []
    for name in ledger.value("repeats") or {}:
        path = ("repeats", name)
        worst = ledger.figure(*path, "largest_deviation", show=lambda v: per_cent(v, 2))
        counts = [
            one(ledger.figure(*path, each)) for each in ("flip_count", "changed_count", "disjoint_count", "comparisons")
        ]
        rows.append(
            (
                (str(ledger.value(*path, "experiment")),), *counts,
                one(ledger.figure(*path, "gpus")), one(ledger.figure(*path, "runs")),
                one(ledger.figure(*path, "cells")), one(ledger.figure(*path, "within")),
                one(worst), (str(ledger.value(*path, "largest_at")),), (str(ledger.value(*path, "gpu")),),
            )
        )  # fmt: skip
    return TableView(
        anchor="repeats", title="The same experiment again",
        about=(
            "Whole runs under one protocol, most of them on another GPU of the same model. An interval speaks for the "
            "processes of one run on one machine. Another board may run at other clocks, and torch.compile may choose "
            "other kernels there, once a run: so intervals of two runs may lie apart, and a claim near its threshold "
            "may change its verdict. A flip is worse: a claim supported at a case in one run and refuted in another."
        ),
        goal=(
            f"p50 of cells of 20 µs and more within ±{per_cent(REPEATED_WITHIN)} of its median over the runs; no flips."
        ),
        headings=(
            "Experiment", "Flips", "Verdict changed", "Intervals apart", "Claims at cases", "Different GPUs", "Runs",
            "Cells", "Within", "Largest deviation", "Of", "GPU",
        ),
        rows=tuple(rows),
    )  # fmt: skip


def _instruments(ledger: Ledger) -> TableView:
    rows = []
    for place in ledger.value("instruments") or {}:
        path = ("instruments", place)
        times = [ledger.figure(*path, "p50_seconds", show=format.microseconds)]
        times += [ledger.figure(*path, f"{name}_seconds", show=format.microseconds) for name in INSTRUMENTS]
        agree = [[name for name in OTHERS if ledger.value(*path, f"{name}_{how}")] for how in ("agrees", "agrees_cold")]
        rows.append(((place,), *(one(time) for time in times), *((" and ".join(who) or "neither",) for who in agree)))
    return TableView(
        anchor="instruments", title="Other instruments",
        about=(
            "Triton's do_bench and NVIDIA's nvbench flush the cache by writing, and leave it full of written lines "
            "whose write-back falls into the timed window. The lab's device_cold reads them back first, so that no "
            "write-back is timed: longer kernels read less there. Very short ones can read more, because device_cold "
            "also goes round fresh inputs and outputs, where the others keep to one address. With a flush that only "
            "writes, on one set of inputs, the lab's clock is to say what they say; nvbench writes half as much as the "
            "other two and sees part of the effect, and do_bench waits for the host in very short kernels."
        ),
        goal=(
            f"Within {per_cent(AGREES_WITHIN)} or {AGREES_WITHIN_SECONDS * 1e6:.1f} µs of each other instrument, "
            "whichever is more."
        ),
        summary=_agreement_sentence(ledger),
        headings=(
            "Cell", "device_cold, µs", "Lab, dirty flush, µs", "do_bench, µs", "nvbench, µs", "Agree with dirty flush",
            "Agree with device_cold",
        ),
        rows=tuple(rows),
    )  # fmt: skip


def _agreement_sentence(ledger: Ledger) -> Sentence:
    names = ("cells", "do_bench_agrees", "nvbench_agrees", "do_bench_agrees_cold", "nvbench_agrees_cold")
    cells, dirty_do, dirty_nv, cold_do, cold_nv = (ledger.figure("agreement", name) or "–" for name in names)
    above = ledger.figure("agreement", "cold_above_dirty") or "–"
    return (
        "Of ", cells, " cells the lab's clock agrees with do_bench in ", dirty_do, " and with nvbench in ", dirty_nv,
        " after a flush like theirs; device_cold itself, on which the verdicts rest, in ", cold_do, " and ", cold_nv,
        ". It reads more than the dirty flush in ", above, ". Verdicts depend on the clock", *_turned(ledger),
    )  # fmt: skip


def _turned(ledger: Ledger) -> Sentence:
    """How many claims another clock would put on the other side of their threshold."""
    claims, turned = ledger.figure("agreement", "claims"), ledger.figure("agreement", "claims_turned")
    if not claims or not claims.value or not turned:
        return ("; where a run has asked other instruments, the page of a case shows its ratios by them.",)
    return (": of ", claims, " claims at cases that another clock has timed too, ", turned,
            " lie on the other side of their threshold by it. The page of a case shows them side by side.",
            )  # fmt: skip


def _flush(ledger: Ledger) -> TableView:
    rows = []
    for run_id in ledger.value("flush") or {}:
        names = ("footprint_bytes", "flushed_read_bytes", "warm_read_bytes")
        figures = [ledger.figure("flush", run_id, name, show=lambda v: f"{v:,.0f}") for name in names]
        rows.append(((run_id,), *(one(figure) for figure in figures)))
    return TableView(
        anchor="flush", title="Does the flush work?",
        about=(
            "Nsight Compute counts what one read of a buffer, smaller than the cache, brings in from DRAM: after the "
            "lab's flush, and at once again."
        ),
        goal="All of the buffer after the flush, next to nothing without it.",
        headings=("Run", "Buffer, bytes", "Read after the flush", "Read at once again"), rows=tuple(rows),
    )  # fmt: skip


def _canaries(ledger: Ledger) -> TableView:
    rows = []
    shown: dict[str, Callable[[Any], str]] = {
        "clock_step_seconds": lambda v: f"{v * 1e9:.0f}", "empty_seconds": format.microseconds,
        "launch_floor_seconds": format.microseconds, "canaries": str, "off": str,
        "largest_off": lambda v: per_cent(v, 1),
    }  # fmt: skip
    for run_id in ledger.value("clock") or {}:
        figures = [ledger.figure("clock", run_id, name, show=show) for name, show in shown.items()]
        rows.append(((run_id,), *(one(figure) for figure in figures)))
    return TableView(
        anchor="clock", title="The clock and the canaries",
        about=(
            "What the GPU's clock reads where nothing, or nearly nothing, is timed; and how far fixed copies and spins "
            "between the cases were from the median of their process."
        ),
        goal=f"A canary that is off by more than {per_cent(LARGEST_CANARY_DRIFT)} spoils the cases beside it.",
        headings=(
            "Run", "Step of the clock, ns", "Two events, µs", "Empty kernel, µs", "Canaries", "Off by more",
            "Largest deviation",
        ),
        rows=tuple(rows),
    )  # fmt: skip


def _cost(ledger: Ledger) -> TableView:
    rows = []
    stages = ("load", "start", "inputs", "check", "time", "canaries")
    for run_id in ledger.value("cost") or {}:
        path = ("cost", run_id)
        shown: list[tuple[str, Callable[[Any], str]]] = [
            ("cells", str), ("sweeps", str), ("wall_seconds", _seconds), ("profiling_seconds", _seconds),
            ("timing_seconds_per_cell_and_sweep", lambda v: f"{v:.2f}"),
            ("gpu_seconds_per_cell_and_sweep", lambda v: f"{v:.2f}"),
        ]  # fmt: skip
        found = [ledger.figure(*path, name, show=show) for name, show in shown]
        found += [ledger.figure(*path, "stage_seconds", stage, show=_seconds) for stage in stages]
        rows.append(((run_id,), *(one(figure) for figure in found)))
    return TableView(
        anchor="cost", title="What it costs, and where the time goes",
        about=(
            "Seconds. Stages are summed over worker processes; five load side by side, so that loading takes a fifth "
            "of its sum. Other instruments count as profiling. Time per cell is the timing stage's wall time, an upper "
            "bound of the GPU's; samples and spins alone are a lower bound."
        ),
        goal="normalization-fusion with profiling in at most 240 s; at most 1 s of GPU time a cell in five sweeps.",
        headings=(
            "Run", "Cells", "Sweeps", "Wall", "Profiling", "Timing per cell and sweep", "GPU, at least",
            *(stage.capitalize() for stage in stages),
        ),
        rows=tuple(rows),
    )  # fmt: skip


def _seconds(value: float) -> str:
    return f"{value:.0f}" if value >= 10 else f"{value:.1f}"
