"""Whether a newer run says otherwise than the one that a page shows.

A page shows the fullest evidence, so that a quick look at a few cases does not take its place. But a verdict that a
newer run of fewer cases or sweeps contradicts is not to stand as if nothing had happened. Pure.
"""

from collections.abc import Sequence
from itertools import takewhile

from lab.verdict.judge import Status
from lab.website.data.judged import Judged

DEFINITE = (Status.SUPPORTED, Status.REFUTED, Status.REJECTED)
ASKED = ("subject", "baseline", "scope", "measure", "threshold")


def contradicting(item: Judged, claim: str, history: Sequence[Judged]) -> Judged | None:
    """The newest later run on such a machine that came to a verdict on the claim, if it is another than the shown one.

    `history`: published runs of the experiment, oldest first.
    """
    if not item.digest:
        return None
    later = takewhile(lambda run: run.digest != item.digest, reversed(history))
    found = next((run for run in later if run.machine_name == item.machine_name and _decides(run, claim, item)), None)
    return found if found and _status(found, claim) != _status(item, claim) else None


def _decides(run: Judged, claim: str, item: Judged) -> bool:
    return claim in run.data["claims"] and _status(run, claim) in DEFINITE and _asks(run, claim) == _asks(item, claim)


def _status(item: Judged, claim: str) -> str:
    return str(item.data["claims"][claim]["status"])


def _asks(item: Judged, claim: str) -> list[object]:
    asked = next(each for each in item.plan.claims if each.name == claim)
    return [getattr(asked, name) for name in ASKED]
