"""Published runs of an experiment → each case against its own past on its board. Pure."""

from collections.abc import Iterator, Sequence

from lab.verdict.alarm import Followed, Night, Series, follow
from lab.verdict.judge import WEIGHED
from lab.website.data.comparison import device_name
from lab.website.data.judged import Judged


def followed_cases(history: Sequence[Judged]) -> tuple[Followed, ...]:
    """`history`: the published runs, oldest first; a night's run is named by its digest. None of a self-test."""
    return follow(night for item in history if not item.plan.self_test for night in _nights(item))


def _nights(item: Judged) -> Iterator[tuple[Series, Night]]:
    for claim in item.plan.claims:
        if claim.measure != "speedup":
            continue
        for case, verdict in item.data["claims"][claim.name]["cases"].items():
            if verdict["status"] in WEIGHED and "ratio" in verdict:
                series = Series(
                    gpu=device_name(item), board=item.machine["gpu_id"], experiment=item.plan.name, claim=claim.name,
                    case=case, subject=claim.subject, baseline=claim.baseline, scope=claim.scope,
                )  # fmt: skip
                yield series, Night(run=item.digest, ratio=verdict["ratio"], low=verdict["low"], high=verdict["high"])
