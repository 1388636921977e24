"""How the lab's kernels stand at a sample of all shapes: the data of runs of `lab zoo` on each GPU."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from lab.verdict.judge import Status
from lab.verdict.standing import BySweep, Spread, Standing, bar_of, spread, standing, subjects, worst_first
from lab.website.data.judged import Judged
from lab.website.data.typed import DATA_SCHEMA, ByCase, ByScope, Digest, plain_json, taken
from lab.website.data.zoo_runs import Part, by_run, operator_of


@dataclass(frozen=True, kw_only=True, slots=True)
class ShapeOfZoo(Standing):
    """One case in one scope. `ratio` is the best rival's p50 over its subject's: above 1 the subject is the faster one,
    and from `bar` on it is as fast as is asked for. Both are of the sweeps of one run that measured the two."""

    run: Annotated[str, "The id of that run."]


@dataclass(frozen=True, kw_only=True, slots=True)
class BarOfZoo:
    """Of the operators with one bar together: their cases, as they are counted of each operator; at how many ours is
    within 2 % of the best rival or ahead, and at how many it reaches the bar."""

    cases: int
    level_cases: int
    bar_cases: int


@dataclass(frozen=True, kw_only=True, slots=True)
class ScopeOfZoo:
    """Of all shapes together, of each operator, and of each shape, the worst first; those at which the lab's kernel and
    a rival have a time, and in the counts those too at which its result was wrong."""

    cases: ByCase[ShapeOfZoo]
    proven: Annotated[int, "The cases at which the rules for claims find it at its bar against all that have a ratio."]
    operators: Annotated[Mapping[str, Spread], "By operator, against the best rival."]
    rivals: Annotated[Mapping[str, Spread], "By rival, against it alone."]
    by_bar: Annotated[Mapping[str, BarOfZoo], "By the ratio to the best rival that is asked for of operators."]
    all: Spread | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ZooRun:
    """`shapes`: how many of them are shown as this run measured them, of these operators."""

    digest: Digest
    finished_utc: str
    fewest_sweeps: int
    most_sweeps: int
    shapes: int
    operators: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class ZooOfGpu:
    runs: Annotated[Mapping[str, ZooRun], "By run id, the newest first."]
    bars: Annotated[Mapping[str, float], "By operator, the ratio to the best rival that is asked for."]
    shapes: int
    tried: Annotated[int, "The shapes that earlier runs of another source measured too."]
    measured_again: Annotated[int, "The shapes that a later run measured again by the usual protocol."]
    wrong: Annotated[tuple[str, ...], "The cases at which a result of the lab's kernel was wrong: they have no times."]
    scopes: ByScope[ScopeOfZoo]


@dataclass(frozen=True, kw_only=True, slots=True)
class ZooData:
    schema: int
    gpus: Annotated[Mapping[str, ZooOfGpu], "By GPU."]


def zoo_data(gpus: Mapping[str, Sequence[Part]]) -> dict[str, Any]:
    """`gpus`: what is shown of each, which has every operator's shapes once. Plain JSON values; SI units; the unit in
    the key."""
    data: dict[str, Any] = plain_json(
        ZooData(schema=DATA_SCHEMA, gpus={gpu: _gpu(parts) for gpu, parts in gpus.items()})
    )
    return data


def _gpu(parts: Sequence[Part]) -> ZooOfGpu:
    return ZooOfGpu(
        runs={run_id: _run(run) for run_id, run in by_run(parts).items()},
        bars=bars_of(parts),
        shapes=sum(len(part.cases) for part in parts),
        tried=sum(len(part.tried) for part in parts),
        measured_again=sum(len(part.cases) for part in parts if part.again),
        wrong=tuple(case.name for part in parts for case in part.cases if _is_wrong(part.item, case.name)),
        scopes={scope: _scope(parts, scope) for scope in parts[0].item.plan.scopes},
    )


def bars_of(parts: Sequence[Part]) -> dict[str, float]:
    """By operator, what is asked for of it."""
    return {operator_of(part.item): bar_of(part.item.plan) for part in parts}


def _run(parts: Sequence[Part]) -> ZooRun:
    items = [part.item for part in parts]
    return ZooRun(
        digest=items[0].digest, finished_utc=items[0].finished_utc,
        fewest_sweeps=min(item.evidence["fewest_sweeps"] for item in items),
        most_sweeps=max(item.evidence["most_sweeps"] for item in items),
        shapes=sum(len(part.cases) for part in parts), operators=tuple(map(operator_of, items)),
    )  # fmt: skip


def _scope(parts: Sequence[Part], scope: str) -> ScopeOfZoo:
    found: dict[str, list[Standing]] = {}
    against: dict[str, list[Standing]] = {}
    wrong: Counter[str] = Counter()  # by operator and by rival
    for part in parts:
        held, bar = subjects(part.item.plan, scope), bar_of(part.item.plan)
        for name in (operator_of(part.item), *held):
            wrong[name] += sum(_is_wrong(part.item, case.name) for case in part.cases)
        for case, seconds in _times(part, scope):
            found.setdefault(operator_of(part.item), []).extend(standing(case, scope, seconds, held, bar))
            for rival, subject in held.items():
                against.setdefault(rival, []).extend(standing(case, scope, seconds, {rival: subject}, bar))
    every = worst_first(one for standings in found.values() for one in standings)
    runs = {case.name: part.run_id for part in parts for case in part.cases}
    operators = {op: spread(standings, wrong[op]) for op, standings in found.items() if standings}
    return ScopeOfZoo(
        cases={each.case: taken(ShapeOfZoo, each, run=runs[each.case]) for each in every},
        proven=sum(_is_proven(part.item, case.name, scope) for part in parts for case in part.cases),
        operators=operators,
        by_bar=_by_bar(bars_of(parts), operators),
        rivals={rival: spread(against[rival], wrong[rival]) for rival in sorted(against) if against[rival]},
        all=spread(every, sum(wrong[op] for op in found)) if every else None,
    )


def _by_bar(bars: Mapping[str, float], operators: Mapping[str, Spread]) -> dict[str, BarOfZoo]:
    of_bar = {bar: [told for operator, told in operators.items() if bars[operator] == bar] for bar in bars.values()}
    return {
        str(bar): BarOfZoo(
            cases=sum(told.cases for told in alike),
            level_cases=sum(told.level_cases for told in alike),
            bar_cases=sum(told.bar_cases for told in alike),
        )
        for bar, alike in of_bar.items()
    }


def _is_wrong(item: Judged, case: str) -> bool:
    cells = item.data["cells"][case]
    ours = {claim.subject for claim in item.plan.claims}
    return any(cells[name]["outcome"] == "wrong" for name in ours & cells.keys())


def _is_proven(item: Judged, case: str, scope: str) -> bool:
    claims = (item.data["claims"][claim.name]["cases"] for claim in item.plan.claims if claim.scope == scope)
    statuses = [cases[case]["status"] for cases in claims if cases.get(case, {}).get("ratio") is not None]
    return bool(statuses) and all(status == Status.SUPPORTED for status in statuses)


def _times(part: Part, scope: str) -> Iterator[tuple[str, dict[str, BySweep]]]:
    """Of each case the medians of every implementation that has one."""
    for case in part.cases:
        scopes = {name: cell.get("scopes", {}) for name, cell in part.item.data["cells"][case.name].items()}
        yield case.name, {name: _by_sweep(timed[scope]) for name, timed in scopes.items() if scope in timed}


def _by_sweep(timed: Mapping[str, Any]) -> BySweep:
    """Where every sweep measured all implementations, the median of all sweeps stands for them."""
    by_sweep = timed.get("by_sweep_seconds") or {"0": timed["p50_seconds"]}
    return {int(sweep): seconds for sweep, seconds in by_sweep.items()}
