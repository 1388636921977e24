"""A judged experiment → a report in Markdown and a table, for those who browse runs. Pure."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from lab.definition.claim_words import BYTES_WORDS, claim_sentence
from lab.definition.plan import PlannedCase
from lab.tracking.names import case_name, machine_name, run_title
from lab.verdict.cells import CellResult
from lab.verdict.judge import READING_ORDER, WITH_USABLE_RATIO, Verdict
from lab.verdict.ranking import Place, baselines, rank
from lab.verdict.results import ClaimResult, ExperimentResult, RunResult
from lab.website.format import day, interval, microseconds, noise, significant, verdict_ratio

NOTHING = "–"


def write_report(run: RunResult, experiment: ExperimentResult) -> str:
    """The question, its answer, who wins at which shape, each claim with its verdict, and the machine."""
    parts = (
        f"# {experiment.plan.title}: {run_title(run)}",
        f"**{experiment.plan.question}**",
        *_warnings(run),
        _bullets(answers(experiment)),
        "## Which profile wins at which shape",
        *_operator_sections(experiment),
        "Fastest by p50 (in µs); a *tie* is not shown to be 2 % slower, *unproven* has too few sweeps to tell. "
        "The headline is that claim's ratio at the shape, with its verdict: how many times as fast, with the 95 % "
        "interval over sweeps, or how many times the bytes, as the profiler counted them once.",
        "## Claims",
        _claim_table(experiment),
        "## What this does not show",
        _bullets(experiment.plan.does_not_show),
        "## Machine and provenance",
        _machine_table(run),
    )
    return "\n\n".join(part for part in parts if part) + "\n"


def describe_run(run: RunResult, experiment: ExperimentResult) -> str:
    """The answer and the winners, for the top of the run's own page."""
    rows = []
    for case in experiment.plan.included_cases:
        places = rank(experiment, case.name)
        if places:
            cell = experiment.cells[case.name, next(iter(places))]
            p50 = microseconds(cell.latency.p50_seconds) if cell.latency else NOTHING
            rows.append([case_name(case), _winners(experiment, case), p50, *_headline_at(experiment, case)])
    parts = (
        f"{run_title(run)}. {experiment.plan.question}",
        _bullets(answers(experiment)),
        _table(["shape", "fastest", "p50, µs", "headline", "verdict"], rows),
        "More under *Artifacts*: report.md, figure.html.",
    )
    return "\n\n".join(parts)


def describe_cell(
    run: RunResult, experiment: ExperimentResult, case: PlannedCase, cell: CellResult, place: Place | None
) -> str:
    """Where a cell stands at its case, and what the claims about it say there."""
    standing = place.text if place else cell.outcome
    reason = f" ({cell.reason})" if cell.reason else ""
    lines = [f"**{standing}**{reason} at {case_name(case)}, {run_title(run)}"]
    rows = []
    for result in experiment.claims:
        verdict = result.verdicts.get(case.name)
        if verdict and cell.profile in (result.claim.subject, result.claim.baseline):
            ratio = verdict_ratio(verdict) or NOTHING
            rows.append([claim_sentence(result.claim), ratio, _verdict_text(verdict), verdict.reason or NOTHING])
    if rows:
        lines.append(_table(["claim, at this shape", "ratio", "verdict", "why"], rows))
    return "\n\n".join(lines)


def answers(experiment: ExperimentResult) -> Iterator[str]:
    """One line for each headline claim."""
    headlines = [result for result in experiment.claims if result.claim.name in experiment.plan.headlines]
    for result in headlines or experiment.claims:
        yield f"**{result.status}** – {claim_sentence(result.claim)}{_size(result)}"


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


def _size(result: ClaimResult) -> str:
    gain = result.geometric_mean
    if gain is None:
        return ""
    judged = sum(verdict.status in WITH_USABLE_RATIO for verdict in result.verdicts.values())
    of_what = "× the bytes" if result.claim.measure in BYTES_WORDS else "×"
    return f" {significant(gain, 3)}{of_what} in the geometric mean ({judged} of {len(result.verdicts)} shapes judged)."


def _warnings(run: RunResult) -> Iterator[str]:
    if run.machine.device == "cpu":
        yield "> **Measured on the CPU.** These times say nothing of any GPU."
    if not run.finished_utc:
        yield "> **Unfinished run.** Track it again when it is finished; these numbers will then be replaced."
    if run.damages:
        lines = ", ".join(str(damage.line_number) for damage in run.damages)
        yield f"> **Damaged journal.** Lines {lines} could not be trusted and were not used."


def _operator_sections(experiment: ExperimentResult) -> Iterator[str]:
    """A table for each operator: its shapes, and the profiles that implement it."""
    operators = dict.fromkeys(case.op for case in experiment.plan.included_cases)
    for operator in operators:
        cases = [case for case in experiment.plan.included_cases if case.op == operator]
        profiles = [profile.name for profile in experiment.plan.profiles_of(cases[0])]
        rows = []
        for case in cases:
            cells = [experiment.cells[case.name, name] for name in profiles]
            p50s = [microseconds(cell.latency.p50_seconds) if cell.latency else cell.outcome for cell in cells]
            rows.append([case_name(case), _winners(experiment, case), *p50s, *_headline_at(experiment, case)])
        yield f"### {operator}"
        yield _table(["shape", "fastest", *profiles, "headline", "verdict"], rows)


def _winners(experiment: ExperimentResult, case: PlannedCase) -> str:
    places = rank(experiment, case.name)
    if not places:
        return NOTHING
    first = next(iter(places))
    ties = [name for name, place in places.items() if place.level and name != first]
    return f"**{first}**" + (f" (tie: {', '.join(ties)})" if ties else places[first].doubt)


def _headline_at(experiment: ExperimentResult, case: PlannedCase) -> tuple[str, str]:
    """Ratio and verdict of the first headline claim that speaks of the case."""
    for result in experiment.claims:
        if result.claim.name in experiment.plan.headlines and case.name in result.verdicts:
            verdict = result.verdicts[case.name]
            rival = f" vs {result.claim.baseline or 'the least'}" if verdict.ratio is not None else ""
            return (verdict_ratio(verdict) or NOTHING) + rival, _verdict_text(verdict)
    return NOTHING, NOTHING


def _claim_table(experiment: ExperimentResult) -> str:
    rows = []
    for result in sorted(experiment.claims, key=lambda result: READING_ORDER.index(result.status)):
        gain = result.geometric_mean
        counts = {s: sum(v.status == s for v in result.verdicts.values()) for s in READING_ORDER}
        split = ", ".join(f"{count} {status}" for status, count in counts.items() if count)
        mean = f"{significant(gain, 3)}×" if gain else NOTHING
        rows.append(
            [f"**{result.status}**", claim_sentence(result.claim), f"`{result.claim.name}`", mean, split or NOTHING]
        )
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


def _speedup_text(experiment: ExperimentResult, case: str, profile: str, rival: str) -> str:
    speedup = None if profile == rival else experiment.compare(case, profile, rival)
    return f"{significant(speedup.ratio, 4)} {interval(speedup.low, speedup.high)}" if speedup else ""


def _verdict_text(verdict: Verdict) -> str:
    return f"{verdict.status} ({verdict.mark})" if verdict.mark else str(verdict.status)


def _bullets(lines: Iterable[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
