"""Published runs of an experiment, oldest first → each time a claim got a verdict that it did not have. Pure.

A verdict holds for one kind of GPU, so a run is held against the run before it on a GPU of the same model. All runs
are judged by the rules of today: a change of the rules never shows as a change of a verdict.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from lab.website.addresses import short
from lab.website.data.differences import Difference, device_name, differences, redefined
from lab.website.data.judged import Judged

# Where no cause can be told apart from chance.
ONLY_DATA = "nothing on record changed but the samples"
CARD = "another card of the same model"
OTHER_CASES = "other cases were judged, and those judged in both runs came out alike"
NO_CASE_BEFORE = "no case of the claim had been judged before"
NO_CASE_NOW = "no case of the claim was judged in this run"
SILENT = ("ncu",)  # reads no time that a verdict rests on


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """A claim's verdict in a run, where it is not that of the run before on such a GPU.

    `causes` are what else changed between the two: any of them may be the cause, and none need be. `certain`: no case
    that both runs judged came out otherwise, so that the one cause is that other cases were judged.
    """

    date: str  # when the run ended, as an ISO time
    digest: str
    experiment: str
    claim: str
    gpu: str  # its model, or that of the CPU
    was: str  # empty: the first verdict on this GPU
    now: str
    before: str = ""  # digest of the run that `was` stands in
    moved: tuple[str, ...] = ()  # the cases judged in both runs that came out otherwise
    causes: tuple[str, ...] = ()
    certain: bool = False

    @property
    def attribution(self) -> str:
        """The causes, as a part of a sentence."""
        if not self.was:
            return "the first run on this GPU"
        if self.certain:
            return self.causes[0]
        if not self.causes:
            return ONLY_DATA
        return f"{'this' if len(self.causes) == 1 else 'any of these'}, or chance: {'; '.join(self.causes)}"


def changes(history: Iterable[Judged]) -> tuple[Change, ...]:
    """Every change of a verdict, oldest first; within a run in the order of its plan's claims."""
    return tuple(_changes(history))


def _changes(history: Iterable[Judged]) -> Iterator[Change]:
    last: dict[tuple[str, str, str], Judged] = {}
    for item in history:
        for claim in item.data["claims"]:
            key = (item.plan.name, device_name(item), claim)
            change = _change(last.get(key), item, claim)
            last[key] = item
            if change.was != change.now:
                yield change


def _change(before: Judged | None, item: Judged, claim: str) -> Change:
    known = {
        "date": item.evidence["finished_utc"], "digest": item.digest, "experiment": item.plan.name, "claim": claim,
        "gpu": device_name(item), "now": item.data["claims"][claim]["status"],
    }  # fmt: skip
    if before is None:
        return Change(was="", **known)
    older, newer = (each.data["claims"][claim]["cases"] for each in (before, item))
    moved = tuple(case for case in newer if case in older and newer[case]["status"] != older[case]["status"])
    certain = not moved and older.keys() != newer.keys()
    return Change(
        was=before.data["claims"][claim]["status"],
        before=before.digest,
        moved=moved,
        causes=(_other_cases(older, newer),) if certain else _causes(before, item, claim),
        certain=certain,
        **known,
    )


def _other_cases(older: Mapping[str, Any], newer: Mapping[str, Any]) -> str:
    if not older:
        return NO_CASE_BEFORE
    return OTHER_CASES if newer else NO_CASE_NOW


def _causes(older: Judged, newer: Judged, claim: str) -> tuple[str, ...]:
    """What is known to differ: the claim itself, the card, the host, the software, the protocol, the source."""
    said = [f"the claim's {what}" for what in redefined(older.plan, newer.plan, claim)]
    found = [each for each in differences(older, newer) if each.known and each.path[-1] not in SILENT]
    said += [CARD if each.path[-1] == "gpu_id" else _told(each) for each in found if each.kind != "source"]
    said += [f"{when} run was cut short" for when, it in (("the older", older), ("this", newer)) if _cut_short(it)]
    if any(each.path[-1] == "source_digest" for each in found):
        said.append(f"the lab's source, {_commits(older, newer)}")
    return tuple(said)


def _told(difference: Difference) -> str:
    return f"{difference.name} {_said(difference.older)} → {_said(difference.newer)}"


def _said(value: Any) -> str:
    return "not set" if value is None else "set to nothing" if value == "" else str(value)


def _cut_short(item: Judged) -> bool:
    return bool(item.evidence["cut_short"])


def _commits(older: Judged, newer: Judged) -> str:
    """What shows the difference, where both commits are known."""
    names = [short(item.evidence["commit"])[:7] for item in (older, newer)]
    return f"git diff {' '.join(names)}" if all(names) else " → ".join(name or "no commit" for name in names)
