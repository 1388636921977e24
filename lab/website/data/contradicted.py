"""Whether a newer run says otherwise than the one that a page shows. Pure."""

from collections.abc import Iterator, Sequence
from itertools import takewhile

from lab.definition.plan import PlannedClaim
from lab.verdict.judge import Status
from lab.website.data.differences import ASKED
from lab.website.data.judged import Judged

DEFINITE = (Status.SUPPORTED, Status.REFUTED, Status.REJECTED)
OPEN = (Status.INCONCLUSIVE, Status.RERUN_NOISE)


def contradicting(item: Judged, claim: str, history: Sequence[Judged]) -> Judged | None:
    """The newest later run on such a machine that came to a verdict on the claim, if it is another than the shown one,
    and is so at a case that both measured: a run of fewer cases says nothing of the others. None where a still newer
    run leaves open what the shown one does.

    `history`: published runs of the experiment, oldest first.
    """
    if not item.digest:
        return None
    later = takewhile(lambda run: run.digest != item.digest, reversed(history))
    newest = next((run for run in later if run.machine_name == item.machine_name and _speaks(run, claim, item)), None)
    if newest is None or _status(newest, claim) in (*OPEN, _status(item, claim)):
        return None
    return newest if any(_turned_cases(item, newest, item.plan.claim(claim))) else None


def contradicted_cases(item: Judged, history: Sequence[Judged]) -> Iterator[tuple[PlannedClaim, str, Judged]]:
    """Each contradicted claim with each of its cases at which the newer run, too, came to another verdict."""
    for claim in item.plan.claims:
        if run := contradicting(item, claim.name, history):
            yield from ((claim, case, run) for case in _turned_cases(item, run, claim))


def _turned_cases(item: Judged, run: Judged, claim: PlannedClaim) -> Iterator[str]:
    """The cases at which both measured the claim and the newer run came to another verdict."""
    shown, newer = (each.data["claims"][claim.name]["cases"] for each in (item, run))
    for case in claim.cases:
        said = newer[case]["status"] if case in newer else None
        if case in shown and said in DEFINITE and said != shown[case]["status"]:
            yield case


def _speaks(run: Judged, claim: str, item: Judged) -> bool:
    """Whether it came to a verdict on the same claim, or leaves open what the shown one leaves open."""
    if claim not in run.data["claims"] or _asks(run, claim) != _asks(item, claim):
        return False
    said = _status(run, claim)
    return said in DEFINITE or (said in OPEN and _status(item, claim) in OPEN)


def _status(item: Judged, claim: str) -> str:
    return str(item.data["claims"][claim]["status"])


def _asks(item: Judged, claim: str) -> list[object]:
    return [getattr(item.plan.claim(claim), name) for name in ASKED]
