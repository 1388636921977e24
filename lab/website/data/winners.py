"""Who is fastest at each shape that was measured, as data: one row for each GPU, call mode and case. Pure.

The rows of one experiment are plain JSON values, remembered with its outline; `grid` merges those of all experiments.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from lab.definition.claim_words import claim_sentence
from lab.definition.experiment import CEILINGS
from lab.definition.families import FAMILIES, in_order
from lab.definition.plan import PlannedCase
from lab.definition.search import is_search
from lab.verdict.judge import EQUIVALENCE_MARGIN
from lab.website.data.contradicted import contradicted_cases
from lab.website.data.judged import Judged
from lab.website.data.published_clocks import apart
from lab.website.data.standing_words import StandingWord, standing_word_of, word_of_fastest
from lab.website.data.typed import Digest, plain_json, taken
from lab.website.format import day
from lab.website.verdict_words import case_word

CPU = "CPU"  # what stands for the GPU of evidence from a CPU
MODES = ("device_cold", "graph", "eager")  # those that a reader chooses between
DIGITS = 3  # of times and ratios in a row, as pages show them; the experiment's data hold all
Row = Mapping[str, Any]  # of the fields of WinnerRow


@dataclass(frozen=True, kw_only=True, slots=True)
class WinnerCell:
    """`call`: `best` is the fastest, `best?` where others may be as fast; `tie` where the whole interval is within 2 %
    of it, and of the fastest itself where there is such a one; `unproven` where it may or may not be within 2 %.
    `times_fastest` compares rounds that were timed one after the other."""

    profile: str
    p50_seconds: float
    call: StandingWord
    times_fastest: float | None = None
    quotient_of_medians: Annotated[float | None, "Of the two times, where it is off `times_fastest` by 2 %."] = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Margin:
    """Of the fastest over the next, with its interval where there is one."""

    over: str
    ratio: float | None = None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Range:
    """Of the fastest one's median, over repeated runs of the same source, or else over sweeps of one run."""

    least_seconds: float
    most_seconds: float
    runs: int | None = None
    boards: int | None = None
    sweeps: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class NewerVerdict:
    """What a newer run says of a claim about this case in this call mode, where the evidence shown says otherwise."""

    run_id: str
    digest: Digest
    date: str
    claim: str
    sentence: str
    was_word: Annotated[str, "The verdict at this case in the evidence shown, in plain words."]
    now_word: Annotated[str, "That of the newer run."]


@dataclass(frozen=True, kw_only=True, slots=True)
class WinnerRow:
    gpu: str
    mode: str
    case: str
    op: str
    shape: list[int]
    dtype: str
    experiment: str
    digest: str
    date: str
    cells: Annotated[dict[str, WinnerCell], "By family."]
    best: str
    ahead: Annotated[bool, "Whether each other that may be within 2 % is shown to be slower than the fastest."]
    margin: Margin
    range: Range
    newer: NewerVerdict | None = None


def winners(item: Judged, history: Sequence[Judged]) -> list[Row]:
    """Of each GPU, call mode and case the row of the evidence that the experiment's page shows, else of the newest run.

    `history`: its published runs, oldest first. Tests of the lab, searches and ceilings compare no implementations.
    """
    if item.plan.self_test or item.plan.name == CEILINGS or is_search(item.plan):
        return []
    rows: dict[tuple[str, str, str], Row] = {}
    for each in (item, *reversed(history)):
        if not each.evidence or (each.on_cpu and not item.on_cpu):
            continue
        newer = _newer_verdicts(each, history)
        for case in each.plan.included_cases:
            for scope in MODES:
                key = (gpu_of(each), scope, case.name)
                if key not in rows and (row := _row(each, case, scope, history, newer)):
                    rows[key] = row
    return list(rows.values())


def grid(rows: Iterable[Row]) -> dict[str, dict[str, dict[str, Row]]]:
    """By GPU, call mode and case; of several experiments the row with the most implementations, then the newest.

    Profiles that stand for themselves would be columns of their own experiment alone: on a GPU on which others compare
    known implementations, their rows are left out.
    """
    every = list(rows)
    compared = {row["gpu"] for row in every if row["best"] in FAMILIES}
    best: dict[tuple[str, str, str], Row] = {}
    for row in every:
        if row["gpu"] in compared and row["best"] not in FAMILIES:
            continue
        key = (row["gpu"], row["mode"], row["case"])
        if key not in best or _worth(row) > _worth(best[key]):
            best[key] = row
    boards: dict[str, dict[str, dict[str, Row]]] = {}
    for (gpu, mode, case), row in sorted(best.items(), key=lambda pair: _order(pair[1])):
        boards.setdefault(gpu, {}).setdefault(mode, {})[case] = row
    return boards


def gpu_of(item: Judged) -> str:
    """'H100' of 'NVIDIA H100 80GB HBM3'; 'CPU' of evidence from a CPU."""
    if item.on_cpu:
        return CPU
    words = [word for word in str(item.machine["gpu"]).split() if word not in ("NVIDIA", "Tesla", "GeForce")]
    return words[0] if words else "GPU"


def _worth(row: Row) -> tuple[int, str]:
    return len(row["cells"]), row["date"]


def _order(row: Row) -> tuple[Any, ...]:
    """Operators by name, dtypes, then small shapes before large ones."""
    return row["gpu"], MODES.index(row["mode"]), row["op"], math.prod(row["shape"]), row["shape"], row["dtype"]


Newer = Mapping[tuple[str, str], NewerVerdict]  # by call mode and case


def _newer_verdicts(item: Judged, history: Sequence[Judged]) -> Newer:
    """Of several claims about the same times the first."""
    found: dict[tuple[str, str], NewerVerdict] = {}
    for claim, case, run in contradicted_cases(item, history):
        if claim.measure == "speedup":
            was, now = (case_word(each.data["claims"][claim.name]["cases"][case]) for each in (item, run))
            found.setdefault(
                (claim.scope, case),
                NewerVerdict(
                    run_id=run.evidence["run_id"], digest=run.digest, date=day(run.measured_utc), claim=claim.name,
                    sentence=claim_sentence(claim), was_word=was, now_word=now,
                ),
            )  # fmt: skip
    return found


def _row(item: Judged, case: PlannedCase, scope: str, history: Sequence[Judged], newer: Newer) -> Row | None:
    """None where fewer than two families were timed: that is no contest."""
    contest = item.data["contest"].get(case.name, {}).get(scope, ())
    if len(contest) < 2:
        return None
    cells, (best, runner_up, *_) = item.data["cells"][case.name], contest
    words = {each["family"]: standing_word_of(each) for each in contest if each is not best}
    words[best["family"]] = word_of_fastest(words.values())
    by_family = {each["family"]: each for each in contest}
    row: Row = plain_json(
        taken(
            WinnerRow, case,
            gpu=gpu_of(item), mode=scope, case=case.name, experiment=item.plan.name, digest=item.digest,
            date=item.measured_utc, best=best["family"],
            ahead=all(each.get("low", 0) > 1 for each in contest if words[each["family"]] == "unproven"),
            cells={
                each["family"]: WinnerCell(
                    profile=each["profile"],
                    p50_seconds=_brief(cells[each["profile"]]["scopes"][scope]["p50_seconds"]),
                    call=words[each["family"]],
                    times_fastest=None if each is best else _brief(each.get("ratio", each["times_fastest"])),
                    quotient_of_medians=None if each is best else _quotient(each),
                )
                for each in map(by_family.__getitem__, in_order(by_family))
            },
            margin=Margin(over=runner_up["family"], **{name: runner_up.get(name) for name in ("ratio", "low", "high")}),
            range=_range(item, case.name, best["profile"], scope, history),
            newer=newer.get((scope, case.name)),
        )
    )  # fmt: skip
    return row


def _quotient(place: Mapping[str, Any]) -> float | None:
    """The time of this one over that of the fastest, where the ratio beside them is another."""
    medians: float = place["times_fastest"]
    return _brief(medians) if apart(medians, place.get("ratio", medians), EQUIVALENCE_MARGIN) else None


def _range(item: Judged, case: str, profile: str, scope: str, history: Sequence[Judged]) -> Range:
    """From where to where the fastest one's time went: over runs of the same source on the same GPU model, or else over
    the sweeps of the one run, each of which is a fresh process."""
    runs = [each for each in history if _same(each, item)]
    times = list(filter(None, (_p50(each, case, profile, scope) for each in runs)))
    if len(times) > 1:
        boards = len({board for each in runs for board in each.machine["gpu_id"].split("+")})
        return Range(least_seconds=min(times), most_seconds=max(times), runs=len(times), boards=boards)
    cell = item.data["cells"][case][profile]
    of_scope = cell["scopes"][scope]
    least, most = of_scope["fastest_sweep_seconds"], of_scope["slowest_sweep_seconds"]
    return Range(least_seconds=least, most_seconds=most, sweeps=cell["sweeps"])


def _same(one: Judged, other: Judged) -> bool:
    alike: bool = one.evidence["source_digest"] == other.evidence["source_digest"]
    return alike and bool(one.machine["gpu"] == other.machine["gpu"])


def _p50(item: Judged, case: str, profile: str, scope: str) -> float | None:
    scopes = item.data["cells"].get(case, {}).get(profile, {}).get("scopes", {})
    seconds: float | None = scopes.get(scope, {}).get("p50_seconds")
    return seconds


def _brief(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")
