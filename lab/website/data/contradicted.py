"""Whether a newer run says otherwise than the one that a page shows. Pure."""

from collections.abc import Iterator, Sequence
from itertools import takewhile

from lab.definition.plan import PlannedClaim
from lab.verdict.judge import Status
from lab.website.data.differences import ASKED
from lab.website.data.judged import Judged

DEFINITE = (Status.SUPPORTED, Status.REFUTED, Status.REJECTED)
OPEN = {Status.INCONCLUSIVE, Status.RERUN_NOISE}


def contradicting(item: Judged, claim: str, history: Sequence[Judged]) -> Judged | None:
    """The newest later run on such a machine that came to another verdict on the claim than the shown one, and did so
    at a case that both measured, where no still newer run came to the shown verdict or leaves open what it does.

    `history`: published runs of the experiment, oldest first.
    """
    run, _ = _contradiction(item, item.plan.claim(claim), history)
    return run


def newer_runs(item: Judged, claim: str, history: Sequence[Judged]) -> Iterator[Judged]:
    """The runs on such a machine after the shown one that measured a case of the claim, the newest first."""
    for run in takewhile(lambda run: run.digest != item.digest, reversed(history)):
        if run.machine_name == item.machine_name and _asks_the_same(run, item, claim):
            cases = run.data["claims"][claim]["cases"].values()
            if any(case["status"] != Status.NO_EVIDENCE for case in cases):
                yield run


def contradicted_cases(item: Judged, history: Sequence[Judged]) -> Iterator[tuple[PlannedClaim, str, Judged]]:
    """Each contradicted claim with each of its cases at which the newer run, too, came to another verdict."""
    for claim in item.plan.claims:
        run, cases = _contradiction(item, claim, history)
        if run:
            yield from ((claim, case, run) for case in cases)


def _contradiction(
    item: Judged, claim: PlannedClaim, history: Sequence[Judged]
) -> tuple[Judged | None, tuple[str, ...]]:
    """The run, and the cases. A run answers only for the cases that it measured."""
    if not item.digest:
        return None, ()
    answered: set[str] = set()
    for run in newer_runs(item, claim.name, history):
        shown, newer = (each.data["claims"][claim.name]["cases"] for each in (item, run))
        said = {case: (shown[case]["status"], newer[case]["status"]) for case in shown if case in newer}
        turned = tuple(
            case for case, (was, now) in said.items() if now in DEFINITE and now != was and case not in answered
        )
        if turned and _status(run, claim.name) in DEFINITE and _status(run, claim.name) != _status(item, claim.name):
            return run, turned
        answered |= {case for case, (was, now) in said.items() if now == was or {was, now} <= OPEN}
    return None, ()


def _asks_the_same(run: Judged, item: Judged, claim: str) -> bool:
    return claim in run.data["claims"] and _asks(run, claim) == _asks(item, claim)


def _status(item: Judged, claim: str) -> str:
    return str(item.data["claims"][claim]["status"])


def _asks(item: Judged, claim: str) -> list[object]:
    return [getattr(item.plan.claim(claim), name) for name in ASKED]
