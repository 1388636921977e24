"""Published runs of an experiment, oldest first → what changed: verdicts of claims, and speeds on one board. Pure.

A verdict holds for one kind of GPU, so a run is held against runs before it on a GPU of the same model, each case
against the last run that judged it. A run says nothing of cases that it has not, and one that agrees at all of its
cases changes nothing. All runs are judged by the rules of today: a change of the rules never shows as a change of a
verdict.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from lab.verdict.alarm import Followed, Night, Series, follow
from lab.verdict.judge import WITH_USABLE_RATIO, Status
from lab.website.addresses import short
from lab.website.data.differences import Difference, device_name, differences, redefined
from lab.website.data.judged import Judged
from lab.website.data.lost_commits import lost_commits
from lab.website.verdict_words import claim_word

# Where no cause can be told apart from chance.
ONLY_DATA = "nothing on record except the samples"
CARD = "another board of the same GPU model"
OTHER_CASES = "a case that was not judged before"
SILENT = ("ncu",)  # reads no time that a verdict rests on


@dataclass(frozen=True, kw_only=True, slots=True)
class VerdictChange:
    """A claim's verdict in a run, where it is not that of a run before on such a GPU: of the last one that came to
    another verdict at a case, or else, where a case was never judged before, of the last one.

    `causes` are what else changed between the two: any of them may be the cause, and none need be. Where a case
    decided that was not judged before, that is the one cause.
    """

    digest: str  # of the run
    claim: str
    was: str  # empty: the first verdict on this GPU
    now: str
    was_word: str = ""  # the two in plain words
    now_word: str = ""
    before: str = ""  # digest of the run that `was` stands in
    causes: tuple[str, ...] = ()

    @property
    def attribution(self) -> str:
        """What changed between the two runs, as a part of a sentence."""
        if not self.was:
            return "the first run on this GPU"
        return "; ".join(self.causes) or ONLY_DATA


def changes(history: Iterable[Judged]) -> tuple[VerdictChange, ...]:
    """Every change of a verdict, oldest first; within a run in the order of its plan's claims."""
    return _changes(tuple(history))


@lru_cache(maxsize=2)  # the pages of one experiment are made one after the other
def _changes(history: tuple[Judged, ...]) -> tuple[VerdictChange, ...]:
    found: list[VerdictChange] = []
    judged: dict[tuple[str, str, str], dict[str, int]] = {}  # by case the place in the history of its last run
    for place, item in enumerate(history):
        for claim, said in item.data["claims"].items():
            if cases := _judged(said):
                last = judged.setdefault((item.plan.name, device_name(item), claim), {})
                by_age = sorted(last, key=last.__getitem__)
                found += _change(item, claim, {case: history[last[case]] for case in by_age})
                last |= dict.fromkeys(cases, place)
    return tuple(found)


def _judged(said: Mapping[str, Any]) -> dict[str, str]:
    """The verdicts of a claim by case; of a claim that is not measured whole none, and none that is not measured: a run
    without counters says nothing of traffic."""
    by_case = {case: str(each["status"]) for case, each in said["cases"].items()}
    whole = said["status"] != Status.NO_EVIDENCE
    return {case: status for case, status in by_case.items() if status != Status.NO_EVIDENCE} if whole else {}


def _change(item: Judged, claim: str, last: Mapping[str, Judged]) -> Iterator[VerdictChange]:
    """One at most. `last`: by case the run that judged it last, the newest at the end."""
    said = item.data["claims"][claim]
    cases, now = _judged(said), said["status"]
    known = {"digest": item.digest, "claim": claim, "now": now, "now_word": claim_word(said)}
    if not last:
        yield VerdictChange(was="", **known)
        return
    moved = {case: run for case, run in last.items() if case in cases and _judged(_of(run, claim))[case] != cases[case]}
    if not moved and cases.keys() <= last.keys():
        return
    before = [run for run in (moved or last).values() if _of(run, claim)["status"] != now]
    if before:
        # a case that moved the other way is no cause: one that was not judged before decided
        explained = now == Status.SUPPORTED or any(cases[case] == now for case in moved)
        was = _of(before[-1], claim)
        causes = _causes(before[-1], item, claim) if moved and explained else (OTHER_CASES,)
        yield VerdictChange(
            was=was["status"], was_word=claim_word(was), before=before[-1].digest, causes=causes, **known
        )


def _of(run: Judged, claim: str) -> Mapping[str, Any]:
    said: Mapping[str, Any] = run.data["claims"][claim]
    return said


def _causes(older: Judged, newer: Judged, claim: str) -> tuple[str, ...]:
    """What is known to differ: the claim itself, the card, the host, the software, the protocol, the source."""
    said = [f"the claim's {what}" for what in redefined(older.plan, newer.plan, claim)]
    changed = [each for each in differences(older, newer) if each.known and each.path[-1] not in SILENT]
    said += [CARD if each.path[-1] == "gpu_id" else _told(each) for each in changed if each.kind != "source"]
    runs = (("the older", older), ("this", newer))
    said += [f"{when} run was cut short" for when, run in runs if run.evidence["cut_short"]]
    if _other_source(older, newer):
        said.append(f"the lab's source ({_diff(older, newer)})")
    return tuple(said)


def _told(difference: Difference) -> str:
    return f"{difference.name} {_said(difference.older)} → {_said(difference.newer)}"


def _said(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "not set" if value is None else "set to nothing" if value == "" else str(value)


def _other_source(older: Judged, newer: Judged) -> bool:
    """Whether both sources are known, and differ."""
    before, after = older.evidence["source_digest"], newer.evidence["source_digest"]
    return bool(before and after and before != after)


def _diff(older: Judged, newer: Judged) -> str:
    """What shows the difference, where both commits are known."""
    commits, lost = [each.evidence["commit"] for each in (older, newer)], lost_commits()
    before, after = (short(commit)[:7] for commit in commits)
    if all(commit and commit not in lost for commit in commits):
        return f"git diff {before} {after}"
    missing = ", ".join(short(commit)[:7] for commit in commits if commit in lost)
    told = f"; {missing} is not in the repository's history" if missing else ""
    return f"{before or 'no commit'} → {after or 'no commit'}{told}"


def followed_cases(history: Sequence[Judged]) -> tuple[Followed, ...]:
    """`history`: the published runs, oldest first; a night's run is named by its digest. None of a self-test."""
    return follow(night for item in history if not item.plan.self_test for night in _nights(item))


def _nights(item: Judged) -> Iterator[tuple[Series, Night]]:
    for claim in item.plan.claims:
        if claim.measure != "speedup":
            continue
        for case, verdict in item.data["claims"][claim.name]["cases"].items():
            if verdict["status"] in WITH_USABLE_RATIO and "ratio" in verdict:
                series = Series(
                    gpu=device_name(item), board=item.machine["gpu_id"], experiment=item.plan.name, claim=claim.name,
                    case=case, subject=claim.subject, baseline=claim.baseline, scope=claim.scope,
                    isolated=item.evidence["isolated"],
                )  # fmt: skip
                yield series, Night(run=item.digest, ratio=verdict["ratio"], low=verdict["low"], high=verdict["high"])
