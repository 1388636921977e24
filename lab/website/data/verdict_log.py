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
from lab.verdict.judge import WITH_USABLE_RATIO
from lab.website.addresses import short
from lab.website.data.differences import Difference, device_name, differences, redefined
from lab.website.data.judged import Judged
from lab.website.data.lost_commits import lost_commits
from lab.website.verdict_words import claim_word

# Where no cause can be told apart from chance.
ONLY_DATA = "nothing on record except the samples"
CARD = "another board of the same GPU model"
OTHER_CASES = "other cases; those judged in both runs came out alike"
SILENT = ("ncu",)  # reads no time that a verdict rests on


@dataclass(frozen=True, kw_only=True, slots=True)
class VerdictChange:
    """A claim's verdict in a run, where it is not that of a run before on such a GPU: of the last one that came to
    another verdict at a case, or else, where a case was never judged before, of the last one.

    `causes` are what else changed between the two: any of them may be the cause, and none need be. Where no case that
    both runs judged came out otherwise, the one cause is that other cases were judged.
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
            last = judged.setdefault((item.plan.name, device_name(item), claim), {})
            found += _change(item, claim, {case: history[each] for case, each in sorted(last.items(), key=_place)})
            last |= dict.fromkeys(said["cases"], place)
    return tuple(found)


def _place(last: tuple[str, int]) -> int:
    return last[1]


def _change(item: Judged, claim: str, last: Mapping[str, Judged]) -> Iterator[VerdictChange]:
    """One at most. `last`: by case the run that judged it last, the newest at the end."""
    said = item.data["claims"][claim]
    cases, known = said["cases"], {"digest": item.digest, "claim": claim, "now": said["status"]}
    known |= {"now_word": claim_word(said)}
    if cases and not last:
        yield VerdictChange(was="", **known)
    moved = [
        run for case, run in last.items() if case in cases and _came_out(run, claim, case) != cases[case]["status"]
    ]
    if last and (moved or cases.keys() - last.keys()):
        before = (moved or [*last.values()])[-1]
        was = before.data["claims"][claim]
        if was["status"] != said["status"]:
            causes = _causes(before, item, claim) if moved else (OTHER_CASES,)
            yield VerdictChange(
                was=was["status"], was_word=claim_word(was), before=before.digest, causes=causes, **known
            )


def _came_out(run: Judged, claim: str, case: str) -> str:
    return str(run.data["claims"][claim]["cases"][case]["status"])


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
