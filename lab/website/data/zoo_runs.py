"""Which run of `lab zoo` stands for which shape: the fullest of its operator, or one that measured it again. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from lab.definition.catalogue import ZOO
from lab.definition.plan import PlannedCase, Protocol
from lab.definition.planning import make_protocol
from lab.verdict.judge import Status
from lab.website.data.judged import Judged

USUAL_BLOCK = make_protocol(Protocol().sweeps, "cuda").block  # samples


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """An experiment of a run, and those of its cases that are shown as it measured them. `again`: a screening measured
    them before. `tried`: the names of those that earlier runs of another source measured."""

    item: Judged
    cases: tuple[PlannedCase, ...]
    again: bool
    tried: frozenset[str] = frozenset()

    @property
    def run_id(self) -> str:
        return str(self.item.evidence["run_id"])


def parts_of(items: Sequence[Judged]) -> list[Part]:
    """`items`: the published experiments of one operator on one GPU. The fullest, and where that is a screening, the
    runs that measured some of its shapes again: each shape stands in the last of these."""
    fullest = max(items, key=_fullness)
    closer = sorted((each for each in items if _is_closer(each, fullest)), key=lambda each: each.finished_utc)
    stands = {case.name: fullest for case in fullest.plan.included_cases}
    for each in closer:
        stands |= dict.fromkeys(stands.keys() & _spoken(each), each)
    shown = ((each, tuple(case for case in each.plan.included_cases if stands.get(case.name) is each))
             for each in (fullest, *closer))  # fmt: skip
    return [
        Part(
            item=each, cases=cases, again=each is not fullest, tried=_tried(each, items) & {case.name for case in cases}
        )
        for each, cases in shown
        if cases or each is fullest
    ]


def _tried(item: Judged, items: Sequence[Judged]) -> frozenset[str]:
    """The cases that earlier runs of another source said something about: kernels may have been changed for them."""
    source = item.evidence["source_digest"]
    earlier = (each for each in items if each.finished_utc < item.finished_utc)
    return frozenset(case for each in earlier if each.evidence["source_digest"] != source for case in _spoken(each))


def is_screening(item: Judged) -> bool:
    """Whether `lab zoo` measured it, with fewer samples than the usual protocol takes."""
    return bool(item.evidence) and screens(item.name, item.evidence["block"])


def screens(experiment: str, block: int) -> bool:
    """Whether this is a screening: of the zoo, with so many samples in a block."""
    return experiment.startswith(ZOO) and block < USUAL_BLOCK


def _is_closer(item: Judged, screening: Judged) -> bool:
    """Whether it measured the same source later, and by the usual protocol."""
    source = screening.evidence["source_digest"]
    return (
        is_screening(screening)
        and not is_screening(item)
        and item.finished_utc > screening.finished_utc
        and bool(source)
        and item.evidence["source_digest"] == source
    )


def _fullness(item: Judged) -> tuple[int, str]:
    """At how many shapes it says something, and when. How many rivals took part does not count, or an older run could
    stand before a newer one."""
    return len(_spoken(item)), item.finished_utc


def _spoken(item: Judged) -> set[str]:
    """The cases that it says something about: a ratio does, even if sweeps are too few for a verdict."""
    return {
        case
        for claim in item.data["claims"].values()
        for case, verdict in claim["cases"].items()
        if verdict["status"] != Status.NO_EVIDENCE or verdict.get("ratio") is not None
    }


def operator_of(item: Judged) -> str:
    """The operator whose calls the experiment has."""
    return item.plan.cases[0].op


def by_run(parts: Sequence[Part]) -> dict[str, list[Part]]:
    """By run id, the newest first."""
    runs: dict[str, list[Part]] = {}
    for part in sorted(parts, key=lambda part: part.item.finished_utc, reverse=True):
        runs.setdefault(part.run_id, []).append(part)
    return runs
