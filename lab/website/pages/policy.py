"""The page "How verdicts are made": rules in order, constants, error rates, and what changed between policies."""

import math
from collections.abc import Iterator
from typing import Any

from lab.definition.experiment import USUAL_THRESHOLD
from lab.definition.plan import make_protocol
from lab.verdict import (
    excluded_rounds,
    explained,
    judge,
    judge_memory,
    judge_traffic,
    precision,
    simulated,
    statistics,
    traffic,
    widening,
)
from lab.verdict.judge import RULES, Side, judge_case
from lab.verdict.plain_words import in_words
from lab.verdict.simulation import COMPARISONS, JUST_ABOVE, JUST_BELOW, TRUTHS
from lab.verdict.statistics import Latency, per_cent
from lab.website.figure import DataView
from lab.website.files.csv_tables import shown_table
from lab.website.format import ratio_interval
from lab.website.outputs import Document, Output, SiteContext
from lab.website.pages.trust import self_comparison_errors

PROTOCOL = make_protocol(5, "cuda")
FURTHER = tuple(truth for truth in TRUTHS if truth not in (JUST_BELOW, JUST_ABOVE))
SIMULATED = ("process", "false supported", "false refuted", *(f"decided at a true {truth:g}×" for truth in FURTHER))
SHOWN = ("Kind of timing", "Wrongly “holds”", "Wrongly “does not hold”", *(f"Decided at {t:g}×" for t in FURTHER))
TIE = per_cent(judge.EQUIVALENCE_MARGIN)
# What a decided verdict is called, by where its interval lies.
WORDS = (
    ("faster", "The whole interval is above 1. If the claim asks for more: “faster, but less than claimed”, or "
     "“faster, size unclear” if more may be true."),
    ("tie", f"The whole interval is within {TIE} of 1."),
    ("slower", "The whole interval is below 1. A claim may allow that, and then holds: “slower, within the claim”."),
    ("about as fast, not faster", "The interval includes 1 and is too wide for a tie; the claim holds, or fails."),
    ("holds, does not hold", "A claim about bytes, or one whose cases differ. “Mixed”: it holds at some of its cases "
     "and fails at others."),
)  # fmt: skip


def policy_pages(context: SiteContext) -> Iterator[Output]:
    """policy/index.html, of the constants of the code and the error rates that were seen; and the constants alone."""
    page = policy_page()
    errors = self_comparison_errors(DataView(context.trust)) if context.trust else ()
    yield Document(path="policy/index.html", template="policy.html", view={**page, "errors": errors})
    yield shown_table("policy/constants.csv", ("constant", "value"), page["constants"])
    yield shown_table("policy/simulation.csv", SIMULATED, page["simulated"])


def policy_page() -> dict[str, Any]:
    """The rules as the judge applies them, from its own constants."""
    table = simulated.load()
    return {
        "version": judge.POLICY_VERSION,
        "threshold": f"{USUAL_THRESHOLD:.2f}×",
        "history": tuple(sorted(judge.POLICY_HISTORY.items(), reverse=True)),
        "rules": tuple((str(status), text) for status, text in RULES),
        "words": WORDS,
        "marks": tuple(judge.MARKS.items()),
        "sources": (("Between sessions", widening.SESSION_SOURCE), ("Between choices", widening.DRAW_SOURCE)),
        "traffic_rules": tuple((str(status), text) for status, text in judge_traffic.TRAFFIC_RULES.items()),
        "memory_rules": tuple((str(status), text) for status, text in judge_memory.MEMORY_RULES.items()),
        "example": tuple(_example()),
        "headings": SHOWN,
        "simulated": tuple(_simulated(table)),
        "simulation": f"{table.runs:,} runs a row, {COMPARISONS} comparisons a run, policy {table.policy_version}, "
        f"seed {table.seed}.",
        "goals": f"The goals: at most {per_cent(simulated.FALSE_SUPPORTED)} and "
        f"{per_cent(simulated.FALSE_REFUTED)} wrong verdicts right at the threshold. At a true {simulated.CLEAR:g}× at "
        f"least {per_cent(simulated.DECIDED['fixed'])} decided for fixed kernels and "
        f"{per_cent(simulated.DECIDED['torch.compile, fresh'])} for code that is compiled in every sweep; at "
        f"{simulated.VERY_CLEAR:g}× all.",
        "missed": simulated.missed(table.rows),
        "constants": CONSTANTS,
    }


CONSTANTS = (
    ("Fewest sweeps for a verdict", str(judge.FEWEST_SWEEPS)),
    ("Sweeps below which a verdict is provisional", str(judge.FULL_SWEEPS)),
    ("Noise ratio that is noisy", f"{judge.NOISY_RATIO:.2f} and above"),
    ("Half-width beyond which an interval is wide", per_cent(judge.WIDEST_HALF_WIDTH)),
    ("Largest share of void samples, or of spoiled rounds", per_cent(judge.LARGEST_DROPPED_SHARE)),
    (
        "Standard deviation between sessions",
        f"{widening.SESSION_SHARE:.2f} of that between sweeps, {per_cent(widening.SESSION_FLOOR, 2)} at least",
    ),
    ("Standard deviation between an autotuner's choices", per_cent(widening.DRAW_SPREAD)),
    ("Margin around parity that counts as a tie", TIE),
    ("Confidence of intervals", per_cent(statistics.CONFIDENCE)),
    ("Narrowest half-width of a run's own interval", per_cent(statistics.SMALLEST_HALF_WIDTH, 1)),
    ("Half-width that is precise enough", per_cent(PROTOCOL.target_half_width)),
    (
        "Level at which a case needs no more sweeps",
        f"that of its family, and no more than {(1 - statistics.CONFIDENCE) / 2 / precision.EARLY:g}",
    ),
    ("Sweeps of a case that is near a threshold or imprecise", f"at most {PROTOCOL.most_sweeps}"),
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


def _example() -> Iterator[str]:
    """The rules at work on made-up sweeps, computed by the code that judges."""
    calm = Side(
        outcome="measured", reason="", void_share=0.0,
        latency=Latency(p50_seconds=2e-5, p95_seconds=2.1e-5, sweep_p50_seconds=(2e-5,) * 5, samples=600),
    )  # fmt: skip
    control = _made_up((1.0, 1.001, 0.999, 1.002, 1.0))
    for ratios in ((1.17, 1.18, 1.18, 1.19, 1.18), (1.01, 1.0, 1.015, 1.01, 1.005), (1.01, 1.03, 1.02, 1.04, 1.02)):
        speedup = widening.widened(_made_up(ratios), control)
        verdict = judge_case(calm, calm, speedup, USUAL_THRESHOLD, control)
        listed = ", ".join(f"{ratio:g}" for ratio in ratios)
        why = f"{verdict.status}, because {verdict.reason}" if verdict.reason else verdict.status
        yield f"Sweeps of {listed}: {ratio_interval(speedup)}. {in_words(verdict).capitalize()} ({why})."


def _made_up(ratios: tuple[float, ...]) -> statistics.Speedup:
    speedup = statistics.over_sweeps([[math.log(ratio)] for ratio in ratios], floor=0.0)
    assert speedup is not None, "five sweeps have an interval"
    return speedup
