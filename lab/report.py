"""A judged experiment → a report in Markdown and a table, for those who browse runs. Pure."""

from collections.abc import Iterator, Sequence
from typing import Any

from lab.format import day, interval, microseconds, noise, ratio_interval, significant
from lab.judge import READING_ORDER, Status, Verdict
from lab.naming import case_name, machine_name, run_title
from lab.plan import PlannedCase
from lab.ranking import baselines, rank
from lab.results import ClaimResult, ExperimentResult, RunResult
from lab.statistics import geometric_mean

JUDGED = (Status.SUPPORTED, Status.REFUTED, Status.INCONCLUSIVE)
NOTHING = "–"


def write_report(run: RunResult, experiment: ExperimentResult) -> str:
    """The question, its answer, who wins at which shape, each claim with its verdict, and the machine."""
    parts = (
        f"# {experiment.plan.title}: {run_title(run)}",
        f"**{experiment.plan.question}**",
        *_warnings(run),
        "\n".join(f"- {line}" for line in answers(experiment)),
        "## Which profile wins at which shape",
        _shape_table(experiment),
        "Fastest by p50; *level* means not shown to be more than 2 % apart. Speed-up and verdict are of the "
        "headline claim at that shape: how many times as fast, with its 95 % interval over sweeps.",
        "## Claims",
        _claim_table(experiment),
        "## What this does not show",
        "\n".join(f"- {sentence}" for sentence in experiment.plan.does_not_show),
        "## Machine and provenance",
        _machine_table(run),
    )
    return "\n\n".join(part for part in parts if part) + "\n"


def answers(experiment: ExperimentResult) -> Iterator[str]:
    """One line for each headline claim."""
    headlines = [result for result in experiment.claims if result.claim.name in experiment.plan.headlines]
    for result in headlines or experiment.claims:
        gain = geomean(result)
        judged = sum(verdict.status in JUDGED for verdict in result.verdicts.values())
        size = f" {significant(gain, 3)}× in the geometric mean of {judged} judged shapes." if gain else ""
        yield f"**{result.status}** – {result.claim.text}{size}"


def geomean(result: ClaimResult) -> float | None:
    """Mean speed-up over the cases whose samples were good enough to judge; None where none were."""
    ratios = [v.speedup.ratio for v in result.verdicts.values() if v.speedup and v.status in JUDGED]
    return geometric_mean(ratios) if ratios else None


def summary_table(experiment: ExperimentResult) -> dict[str, Any]:
    """Every planned cell, by case and place, as MLflow stores tables: columns, and rows of data."""
    rivals = baselines(experiment)
    columns = ["case", "place", "profile", "outcome", "p50_us", "p95_us", "noise", *(f"vs {name}" for name in rivals)]
    rows: list[list[Any]] = []
    for case in experiment.plan.included_cases:
        places = rank(experiment, case.name)
        order = {profile: number for number, profile in enumerate(places)}
        names = sorted((p.name for p in experiment.plan.profiles_of(case)), key=lambda n: order.get(n, len(order)))
        for name in names:
            cell = experiment.cells[case.name, name]
            p95 = cell.latency.p95_seconds if cell.latency else None
            rows.append(
                [
                    case_name(case),
                    places[name].text if name in places else "",
                    name,
                    cell.outcome + (f": {cell.reason}" if cell.reason else ""),
                    microseconds(cell.latency.p50_seconds) if cell.latency else "",
                    microseconds(p95) if p95 is not None else "",
                    noise(cell.latency.noise_ratio if cell.latency else None),
                    *(_speedup_text(experiment, case.name, name, rival) for rival in rivals),
                ]
            )
    return {"columns": columns, "data": rows}


def _warnings(run: RunResult) -> Iterator[str]:
    if run.machine.device == "cpu":
        yield "> **Measured on the CPU.** These times say nothing of any GPU."
    if not run.finished_utc:
        yield "> **Unfinished run.** Track it again when it is finished; these numbers will then be replaced."
    if run.damages:
        lines = ", ".join(str(damage.line_number) for damage in run.damages)
        yield f"> **Damaged journal.** Lines {lines} could not be trusted and were not used."


def _shape_table(experiment: ExperimentResult) -> str:
    profiles = [p.name for p in experiment.plan.profiles]
    rows = []
    for case in experiment.plan.included_cases:
        cells = [experiment.cells[case.name, name] for name in profiles]
        p50s = [_p50_text(cell.outcome, cell.latency.p50_seconds if cell.latency else None) for cell in cells]
        rows.append([case_name(case), _winners(experiment, case), *p50s, *_headline_at(experiment, case)])
    return _table(["shape", "fastest", *(f"{name}, µs" for name in profiles), "speed-up", "verdict"], rows)


def _winners(experiment: ExperimentResult, case: PlannedCase) -> str:
    places = rank(experiment, case.name)
    if not places:
        return NOTHING
    first = next(iter(places))
    level = [name for name, place in places.items() if place.level and name != first]
    unproven = "" if places[first].proven else " (too few sweeps to tell)"
    return f"**{first}**" + (f", level with {', '.join(level)}" if level else "") + unproven


def _headline_at(experiment: ExperimentResult, case: PlannedCase) -> tuple[str, str]:
    for result in experiment.claims:
        if result.claim.name in experiment.plan.headlines and case.name in result.verdicts:
            verdict = result.verdicts[case.name]
            gain = ratio_interval(verdict.speedup) if verdict.speedup else NOTHING
            return f"{gain} vs {result.claim.baseline}", _verdict_text(verdict)
    return NOTHING, NOTHING


def _claim_table(experiment: ExperimentResult) -> str:
    rows = []
    for result in sorted(experiment.claims, key=lambda result: READING_ORDER.index(result.status)):
        gain = geomean(result)
        counts = {s: sum(v.status == s for v in result.verdicts.values()) for s in READING_ORDER}
        split = ", ".join(f"{count} {status}" for status, count in counts.items() if count)
        mean = f"{significant(gain, 3)}×" if gain else NOTHING
        rows.append([f"**{result.status}**", result.claim.text, f"`{result.claim.name}`", mean, split or NOTHING])
    return _table(["verdict", "claim", "name", "geometric mean", "shapes"], rows)


def _machine_table(run: RunResult) -> str:
    machine, start, protocol = run.machine, run.start, run.plan.protocol
    facts = {
        "machine": machine_name(machine),
        "driver, CUDA": f"{machine.driver or NOTHING}, {machine.cuda or NOTHING}",
        "PyTorch, Triton": f"{machine.torch}, {machine.triton}",
        "Python, OS": f"{machine.python}, {machine.os}",
        "sweeps × rounds × samples": f"{protocol.sweeps} × {protocol.rounds} × {protocol.block}",
        "measured": f"{day(start.started_utc)}, {start.started_utc} to {run.finished_utc or 'now'}",
        "commit": (start.commit or "none: not a git tree") + (", with local changes" if start.dirty else ""),
        "source digest": start.source_digest,
        "plan digest": start.plan_digest,
    }
    return _table(["fact", "value"], [[name, value] for name, value in facts.items()])


def _p50_text(outcome: str, p50_seconds: float | None) -> str:
    if p50_seconds is not None:
        return microseconds(p50_seconds)
    return NOTHING if outcome == "not-planned" else outcome


def _speedup_text(experiment: ExperimentResult, case: str, profile: str, rival: str) -> str:
    speedup = None if profile == rival else experiment.compare(case, profile, rival)
    return f"{significant(speedup.ratio, 4)} {interval(speedup.low, speedup.high)}" if speedup else ""


def _verdict_text(verdict: Verdict) -> str:
    return f"{verdict.status} ({verdict.mark})" if verdict.mark else str(verdict.status)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
