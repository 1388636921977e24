"""The pages "How verdicts are made" and "Words": rules, terms and constants, out of the code that uses them."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from lab.definition.experiment import USUAL_THRESHOLD
from lab.definition.planning import make_protocol
from lab.verdict import (
    excluded_rounds,
    explained,
    judge,
    judge_memory,
    judge_traffic,
    precision,
    roofline,
    simulated,
    statistics,
    traffic,
    widening,
)
from lab.verdict.judge import RULES, Side, judge_case
from lab.verdict.plain_words import in_words
from lab.verdict.simulation import JUST_ABOVE, JUST_BELOW, TRUTHS
from lab.verdict.statistics import Latency, per_cent
from lab.website.figure import DataView
from lab.website.format import ratio_interval
from lab.website.outputs import Document, Output, SiteContext
from lab.website.pages.pooled_verdicts import TRUST
from lab.website.pages.trust_error_rates import self_comparison_errors
from lab.website.table import Constant, Head, PageTable, csv_table, numbers, table_row, words

PROTOCOL = make_protocol(judge.FULL_SWEEPS, "cuda")
FURTHER = tuple(truth for truth in TRUTHS if truth not in (JUST_BELOW, JUST_ABOVE))
SIMULATED = (
    "process", "false_supported", "false_refuted",
    *(f"decided_at_a_true_{truth:g}".replace(".", "_") for truth in FURTHER),
)  # fmt: skip
SHOWN = (
    *words("Kind of timing"), *numbers("Wrongly “holds”", "Wrongly “does not hold”"),
    *(Head(text=f"Decided at {truth:g}") for truth in FURTHER),
)  # fmt: skip
TIE = per_cent(judge.EQUIVALENCE_MARGIN)
MANY = 1_000  # comparisons, as an example


def policy_pages(context: SiteContext) -> Iterator[Output]:
    """policy/index.html, of the constants of the code and the error rates that were seen; and the constants alone."""
    page = policy_page()
    errors = self_comparison_errors(DataView(context.trust, TRUST)) if context.trust else ()
    yield Document(path="policy/index.html", template="policy.html", view={**page, "errors": errors})
    yield csv_table("policy/constants.csv", ("constant", "value"), page["constants"])
    yield csv_table("policy/simulation.csv", SIMULATED, page["simulated"])


def policy_page() -> dict[str, Any]:
    """The rules as the judge applies them, from its own constants."""
    table = simulated.load()
    simulated_rows = tuple(_simulated(table))
    return {
        "version": judge.POLICY_VERSION,
        "threshold": f"{USUAL_THRESHOLD:.2f}×",
        "history": tuple(sorted(judge.POLICY_HISTORY.items(), reverse=True)),
        "rules": tuple((str(status), text) for status, text in RULES),
        "tie": TIE,
        "wide": per_cent(judge.WIDEST_HALF_WIDTH),
        "shown": per_cent(statistics.CONFIDENCE),
        "deciding": per_cent(statistics.DECIDING_CONFIDENCE),
        "ranked": judge.FEWEST_RANKED,
        "typical": judge.RANKED,
        "wider": " and ".join(map(_wider, (PROTOCOL.sweeps, PROTOCOL.most_sweeps))),
        "early": per_cent(precision.EARLY_CONFIDENCE, 1),
        "wrong_of_many": f"{MANY * (1 - statistics.DECIDING_CONFIDENCE) / 2:.0f} of {MANY:,}",
        "marks": tuple(judge.MARKS.items()),
        "sources": (
            ("Between sessions", f"{widening.SESSION_SOURCE} {widening.BUSY_SESSION_SOURCE}"),
            ("Between choices", widening.DRAW_SOURCE),
        ),
        "traffic_rules": tuple((str(status), text) for status, text in judge_traffic.TRAFFIC_RULES.items()),
        "memory_rules": tuple((str(status), text) for status, text in judge_memory.MEMORY_RULES.items()),
        "example": tuple(_example()),
        "simulated": simulated_rows,
        "error_rates": PageTable(
            label="Error rates of the rules on simulated runs",
            kind="stacks",
            heads=SHOWN,
            rows=[table_row(*(Constant((cell,)) for cell in row)) for row in simulated_rows],
        ),
        "simulation": f"{table.comparisons:,} comparisons a row. Policy {table.policy_version}, seed {table.seed}.",
        "goals": "The goals, right at the threshold: at most "
        f"{per_cent(simulated.FALSE_SUPPORTED)} wrongly “holds” and {per_cent(simulated.FALSE_REFUTED)} wrongly “does "
        f"not hold”. At a true {simulated.CLEAR:g}× at least {per_cent(simulated.DECIDED['fixed'])} decided for fixed "
        f"kernels and {per_cent(simulated.DECIDED['torch.compile, fresh'])} for code that is compiled in every sweep; "
        f"at {simulated.VERY_CLEAR:g}× {per_cent(simulated.DECIDED_VERY_CLEAR, 1)} of every kind.",
        "missed": simulated.missed(table.rows),
        "constants": CONSTANTS,
    }


CONSTANTS = (
    ("Fewest sweeps for a verdict", str(judge.FEWEST_SWEEPS)),
    ("Sweeps below which a verdict is provisional", str(judge.FULL_SWEEPS)),
    ("Sweeps that can decide by their ranks where the interval is wide", f"{judge.FEWEST_RANKED} at least"),
    ("Noise ratio that is noisy", f"{judge.NOISY_RATIO:.2f} and above"),
    ("Half-width beyond which an interval is wide", per_cent(judge.WIDEST_HALF_WIDTH)),
    ("Largest share of void samples, or of spoiled rounds", per_cent(excluded_rounds.LARGEST_DROPPED_SHARE)),
    (
        "Standard deviation between sessions",
        f"{widening.SESSION_SHARE:.2f} of that between sweeps, {per_cent(widening.SESSION_FLOOR, 2)} at least; in "
        f"cases of more than {widening.FEW_OPERATIONS:g} floating-point operations for each byte written "
        f"{per_cent(widening.BUSY_SESSION_FLOOR, 2)} at least, and "
        f"{per_cent(widening.POWER_LIMITED_SESSION_FLOOR, 2)} where a board reached its power limit in any round, or "
        "its state is not known, as on a CPU",
    ),
    ("Standard deviation between an autotuner's choices", per_cent(widening.DRAW_SPREAD)),
    ("Margin around parity that counts as a tie", TIE),
    ("Confidence of intervals on the pages", per_cent(statistics.CONFIDENCE)),
    ("Confidence of the interval that decides", per_cent(statistics.DECIDING_CONFIDENCE)),
    ("Narrowest half-width of a run's own interval", per_cent(statistics.SMALLEST_HALF_WIDTH, 1)),
    ("Half-width that is precise enough", per_cent(PROTOCOL.target_half_width)),
    ("Confidence of the interval by which a claim may stop early", per_cent(precision.EARLY_CONFIDENCE, 1)),
    ("Sweeps of both sides of a claim that is near a threshold or imprecise", f"at most {PROTOCOL.most_sweeps}"),
    ("Time at a reduced clock that spoils a round", f"{per_cent(excluded_rounds.LARGEST_VIOLATION_SHARE)} of it"),
    (
        "Clock that spoils a round",
        f"below {per_cent(excluded_rounds.LOWEST_CLOCK_SHARE)} of its process's median, unless at the power limit",
    ),
    ("Canary that spoils the cases beside it", f"off by {per_cent(excluded_rounds.LARGEST_CANARY_DRIFT)}"),
    ("Margin around the threshold of a claim about traffic", per_cent(judge_traffic.TRAFFIC_MARGIN)),
    ("Traffic that is in excess", f"above {traffic.LARGEST_EXCESS:.2f}× the least"),
    ("Traffic that must be explained", f"below {traffic.SMALLEST_SHARE:.2f}× the least"),
    ("Times explained by traffic", f"within {per_cent(explained.EXPLAINED_WITHIN - 1)} of the ratio of bytes"),
    ("Rounds × samples of a profile", f"{PROTOCOL.rounds} × up to {PROTOCOL.block} in a sweep"),
)


def _simulated(table: simulated.SimulationTable) -> Iterator[tuple[str, ...]]:
    """Shares by process, in per cent: the false ones at the threshold's edge, the decided ones further from it."""
    rows = {(row.process, row.truth): row for row in table.rows}
    for process in dict.fromkeys(row.process for row in table.rows):
        edge = [rows[process, truth] for truth in (JUST_BELOW, JUST_ABOVE)]
        further = [rows[process, truth] for truth in FURTHER]
        yield (
            process,
            *(per_cent(row.false / row.comparisons, 2) for row in edge),
            *(per_cent(row.decided / row.comparisons, 1) for row in further),
        )


def _wider(sweeps: int) -> str:
    """The half-width of the interval that decides, in half-widths of the one that is shown."""
    shown = statistics.Speedup(ratio=1.0, low=1 / math.e, high=math.e, sweep_ratios=(1.0,) * sweeps)
    return f"{math.log(shown.interval(statistics.DECIDING_CONFIDENCE)[1]):.2f} times as wide with {sweeps} sweeps"


def _example() -> Iterator[str]:
    """The rules at work on made-up sweeps, computed by the code that judges."""
    calm = Side(
        outcome="measured", reason="", void_share=0.0,
        latency=Latency(p50_seconds=2e-5, p95_seconds=2.1e-5, sweep_p50_seconds=(2e-5,) * 5, samples=600),
    )  # fmt: skip
    control = _made_up((1.0, 1.001, 0.999, 1.002, 1.0))
    for ratios in ((1.17, 1.18, 1.18, 1.19, 1.18), (1.01, 1.0, 1.015, 1.01, 1.005), (1.01, 1.03, 1.02, 1.04, 1.02)):
        speedup = widening.widened(_made_up(ratios), widening.SESSION_FLOOR, control)
        verdict = judge_case(calm, calm, speedup, USUAL_THRESHOLD, control)
        listed = ", ".join(f"{ratio:g}" for ratio in ratios)
        why = f"{verdict.status}, because {verdict.reason}" if verdict.reason else verdict.status
        yield f"Sweeps of {listed}: {ratio_interval(speedup)}. {in_words(verdict).capitalize()} ({why})."


def _made_up(ratios: tuple[float, ...]) -> statistics.Speedup:
    speedup = statistics.over_sweeps([[math.log(ratio)] for ratio in ratios], floor=0.0)
    assert speedup is not None, "five sweeps have an interval"
    return speedup


@dataclass(frozen=True, slots=True)
class Term:
    anchor: str
    name: str
    text: str


CHAPTERS = {
    "What is asked": (
        Term("experiment", "experiment", "One question about GPU kernels, with the cases, implementations and claims "
             "that answer it."),
        Term("case", "case", "One problem: an operator, a shape, a data type and flags. It says what to compute, "
             "never how."),
        Term("profile", "implementation", "One way to compute a case: PyTorch, torch.compile, a library, or a kernel "
             "of the lab. Data files and the command line call it a profile."),
        Term("cell", "cell", "One implementation at one case, the smallest thing that is measured."),
        Term("claim", "claim", "A sentence that is written down before measuring: A is at least so many times as fast "
             f"as B at these cases. Where nothing else is said, {USUAL_THRESHOLD:.2f}×."),
    ),
    "What the clock covers": (
        Term("device_cold", "cold cache", "GPU time of one call with nothing in the L2 cache. Most claims are about "
             "it. In data: device_cold."),
        Term("device_warm", "warm cache", "GPU time of one call with the inputs in the cache, as far as they fit. In "
             "data: device_warm."),
        Term("graph", "in a CUDA graph", "One call's share of a replayed CUDA graph, where no launch waits for "
             "Python."),
        Term("eager", "eager", "How long a Python caller waits for the result of one call."),
        Term("device_dirty", "dirty cache", "GPU time after a flush that only writes, so that its write-back falls "
             "into the timed window, as with do_bench and nvbench. Shown for comparison. In data: device_dirty."),
    ),
    "How it is measured": (
        Term("sweep", "sweep", "A fresh process that measures every cell once, in random order. Results are repeated "
             "over sweeps, because calls within one process are not independent."),
        Term("run", "run", f"Several sweeps on one machine, usually {PROTOCOL.sweeps}. A published run never changes; "
             "its address is its digest."),
        Term("control", "control", "One implementation timed twice under two names. Any difference is the lab's own "
             "error."),
        Term("canary", "canary", "A fixed copy and a fixed spin loop, timed before the first case and after each. One "
             f"that is more than {per_cent(excluded_rounds.LARGEST_CANARY_DRIFT)} off the others of its process shows "
             "that something disturbed the GPU: the cases beside it are left out there."),
        Term("spoiled-rounds", "spoiled rounds", "Rounds of a case that are left out for all implementations alike, "
             "because of a reduced clock, another process on the GPU, or a canary that is off. Their times are not "
             f"looked at for that. With more than {per_cent(excluded_rounds.LARGEST_DROPPED_SHARE)} of a case's rounds "
             "spoiled there is no verdict."),
        Term("p50", "p50 and p95", "p50 is the median of the sweeps' medians; p95 is the time that 95 of 100 calls of "
             f"all sweeps do not exceed. When p95 is {judge.NOISY_RATIO:.2f} times p50 or more, the verdict is marked "
             "noisy."),
    ),
    "What the numbers say": (
        Term("speed-up", "speed-up", "How many times as fast A is as B. Above 1, A is faster."),
        Term("interval", "interval", f"The range that should hold the speed-up on {per_cent(statistics.CONFIDENCE)} of "
             "other boards of the same GPU model. How often it did is measured. "
             f"Verdicts are decided by the wider {per_cent(statistics.DECIDING_CONFIDENCE)} interval."),
        Term("floor", "launch floor", "The time of a kernel that does nothing. No launch takes less; a cell below "
             f"{roofline.NEAR_FLOOR:g} times that is launch-bound, and its bandwidth says little."),
        Term("ceiling", "ceiling", "The most this GPU was measured to do, in copying and in matmuls."),
        Term("least-traffic", "least traffic", "The bytes that any implementation of a case must read and write."),
    ),
    "What is concluded": (
        Term("verdict", "verdict", "What the rules say of a claim at a case. Code decides it, not a person."),
        Term("tie", "tie", f"The whole interval is within {per_cent(judge.EQUIVALENCE_MARGIN)} of 1."),
        Term("mixed", "mixed", "The claim holds at some of its cases, and not at others. Counts have it among the "
             "claims that do not hold."),
        Term("too-noisy", "too noisy to call", "Not decided, because the interval is wider than "
             f"±{per_cent(judge.WIDEST_HALF_WIDTH)} or too many samples were lost."),
        Term("one-draw", "one draw", "torch.compile chose its kernels once for the whole run. Another compilation may "
             f"be {per_cent(widening.DRAW_SPREAD)} faster or slower."),
        Term("boundary", "evidence boundary", "What was measured, what the evidence does not show, and what was left "
             "out."),
        Term("freshness", "freshness", "Whether the claims under a decision still say what it was based on. Computed "
             "from newer evidence of the same GPU model."),
    ),
}  # fmt: skip


def glossary_pages(context: SiteContext) -> Iterator[Document]:
    yield Document(path="glossary/index.html", template="glossary.html", view={"chapters": CHAPTERS})
