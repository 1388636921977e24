"""The page of the rules."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from lab.definition.experiment import USUAL_THRESHOLD
from lab.definition.plan import make_protocol
from lab.verdict import explained, judge, judge_traffic, precision, simulated, spoiled, statistics, traffic, widening
from lab.verdict.judge import RULES, Side, judge_case
from lab.verdict.simulation import COMPARISONS, JUST_ABOVE, JUST_BELOW, TRUTHS
from lab.verdict.statistics import Latency, per_cent
from lab.website.files.shown_tables import shown_table
from lab.website.format import ratio_interval
from lab.website.outputs import Document, Gathered, Output
from lab.website.pages.trust import trust_page

PROTOCOL = make_protocol(5, "cuda")
FURTHER = tuple(truth for truth in TRUTHS if truth not in (JUST_BELOW, JUST_ABOVE))
SIMULATED = ("process", "false supported", "false refuted", *(f"decided at a true {truth:g}×" for truth in FURTHER))


@dataclass(frozen=True, kw_only=True, slots=True)
class PolicyPage:
    version: int
    history: tuple[tuple[int, str], ...]
    rules: tuple[tuple[str, str], ...]
    marks: tuple[tuple[str, str], ...]
    sources: tuple[tuple[str, str], ...]  # of the constants that widen intervals
    traffic_rules: tuple[tuple[str, str], ...]
    example: tuple[str, ...]
    constants: tuple[tuple[str, str], ...]
    simulation: str  # what was simulated
    simulated: tuple[tuple[str, ...], ...]
    headings: tuple[str, ...]


def policy_pages(gathered: Gathered) -> Iterator[Output]:
    """policy/index.html, of the constants of the code and the error rates that were seen; and the constants alone."""
    errors = trust_page(gathered.trust).errors if gathered.trust else ()
    page = policy_page()
    yield Document(path="policy/index.html", template="policy.html", view={"policy": page, "errors": errors})
    yield shown_table("policy/constants.csv", ("constant", "value"), page.constants)
    yield shown_table("policy/simulation.csv", SIMULATED, page.simulated)


def policy_page() -> PolicyPage:
    """The rules as the judge applies them, from its own constants."""
    table = simulated.load()
    return PolicyPage(
        version=judge.POLICY_VERSION,
        history=tuple(sorted(judge.POLICY_HISTORY.items(), reverse=True)),
        rules=tuple((str(status), text) for status, text in RULES),
        marks=tuple(judge.MARKS.items()),
        sources=(("Between sessions", widening.SESSION_SOURCE), ("Between draws", widening.DRAW_SOURCE)),
        traffic_rules=tuple((str(status), text) for status, text in judge_traffic.TRAFFIC_RULES.items()),
        example=tuple(_example()),
        simulation=f"Policy {table.policy_version}, seed {table.seed}; each row is of {table.runs:,} runs with "
        f"{COMPARISONS} comparisons each.",
        simulated=tuple(_simulated(table)),
        headings=SIMULATED,
        constants=(
            ("Fewest sweeps for a verdict", str(judge.FEWEST_SWEEPS)),
            ("Sweeps below which a verdict is provisional", str(judge.FULL_SWEEPS)),
            ("Noise ratio that is noisy", f"{judge.NOISY_RATIO:.2f} and above"),
            ("Half-width beyond which an interval is wide", per_cent(judge.WIDEST_HALF_WIDTH)),
            ("Largest share of void samples, or of spoiled rounds", per_cent(judge.LARGEST_DROPPED_SHARE)),
            (
                "Standard deviation between sessions",
                f"{widening.SESSION_SHARE:.2f} of that between sweeps, {per_cent(widening.SESSION_FLOOR, 2)} at least",
            ),
            ("Standard deviation between an autotuner's draws", per_cent(widening.DRAW_SPREAD)),
            ("Margin around parity that counts as equivalent", per_cent(judge.EQUIVALENCE_MARGIN)),
            ("Confidence of intervals", per_cent(statistics.CONFIDENCE)),
            ("Narrowest half-width of a run's own interval", per_cent(statistics.SMALLEST_HALF_WIDTH, 1)),
            ("Half-width that is precise enough", per_cent(PROTOCOL.target_half_width)),
            (
                "Level at which a case needs no more sweeps",
                f"that of its family, and no more than {(1 - statistics.CONFIDENCE) / 2 / precision.EARLY:g}",
            ),
            ("Sweeps of a case that is near a threshold or imprecise", f"at most {PROTOCOL.most_sweeps}"),
            ("Time at a reduced clock that spoils a round", f"{per_cent(spoiled.LARGEST_VIOLATION_SHARE)} of it"),
            (
                "Clock that spoils a round",
                f"below {per_cent(spoiled.LOWEST_CLOCK_SHARE)} of its process's median, unless at the power limit",
            ),
            ("Canary that spoils the cases beside it", f"off by {per_cent(spoiled.LARGEST_CANARY_DRIFT)}"),
            ("Margin around the threshold of a claim about traffic", per_cent(judge_traffic.TRAFFIC_MARGIN)),
            ("Traffic that is in excess", f"above {traffic.LARGEST_EXCESS:.2f}× the least"),
            ("Traffic that must be explained", f"below {traffic.SMALLEST_SHARE:.2f}× the least"),
            ("Times explained by traffic", f"within {per_cent(explained.EXPLAINED_WITHIN - 1)} of the ratio of bytes"),
            ("Rounds × samples of a profile", f"{PROTOCOL.rounds} × up to {PROTOCOL.block} in a sweep"),
        ),
    )


def _simulated(table: simulated.Table) -> Iterator[tuple[str, ...]]:
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
    """The rule at work on made-up sweeps, computed by the code that judges."""
    calm = Side(
        outcome="measured", reason="", void_share=0.0,
        latency=Latency(p50_seconds=2e-5, p95_seconds=2.1e-5, sweep_p50_seconds=(2e-5,) * 5, samples=600),
    )  # fmt: skip
    control = _made_up((1.0, 1.001, 0.999, 1.002, 1.0))
    for ratios in ((1.17, 1.18, 1.18, 1.19, 1.18), (1.01, 1.0, 1.015, 1.01, 1.005), (1.01, 1.03, 1.02, 1.04, 1.02)):
        found = widening.widened(_made_up(ratios), control)
        verdict = judge_case(calm, calm, found, USUAL_THRESHOLD, control)
        told = ", ".join(f"{ratio:g}" for ratio in ratios)
        mark = f" and marked {verdict.mark}" if verdict.mark else ""
        why = f": {verdict.reason}" if verdict.reason else ""
        yield f"Five sweeps of {told}: the interval is {ratio_interval(found)}; {verdict.status}{mark}{why}."


def _made_up(ratios: tuple[float, ...]) -> statistics.Speedup:
    found = statistics.over_sweeps([[math.log(ratio)] for ratio in ratios], floor=0.0)
    assert found is not None, "five sweeps have an interval"
    return found
