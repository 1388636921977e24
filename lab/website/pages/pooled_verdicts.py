"""All runs of unchanged code taken together: what they say of a claim at a case, beside the verdict of the newest."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from lab.definition.plan import PlannedClaim
from lab.website import format
from lab.website.addresses import SITE
from lab.website.data.judged import Judged
from lab.website.figure import DataView, Sentence
from lab.website.verdict_words import verdict_word

TRUST = f"{SITE}trust/data.json#"
NO_TRUST: Mapping[str, Any] = MappingProxyType({})


def pooled_sentence(trust: Mapping[str, Any], item: Judged, claim: PlannedClaim, case: str) -> Sentence:
    """'3 runs on 3 boards: holds, 1.18× [1.16, 1.20]', into `TRUST`; nothing where the run shown is not one of three or
    more.

    `trust`: lab.website.data.published_trust; empty in a preview.
    """
    path = ("pooled", item.plan.name, item.machine.get("gpu", ""), claim.name, case)
    view = DataView(trust, TRUST).at(*path)
    if item.evidence.get("run_id") not in (view.value("runs") or ()):
        return ()
    return _over_runs(view, ": ")


def differing_pool_sentence(trust: Mapping[str, Any], item: Judged, claim: PlannedClaim, case: str) -> Sentence:
    """The same where runs on three boards of its GPU model come to another verdict than the run shown."""
    together = pooled_status(trust, item, claim, case)
    alone = DataView(item.data).value("claims", claim.name, "cases", case, "status")
    return other_pool_sentence(trust, item, claim, case) if together not in (None, alone) else ()


def together_sentence(trust: Mapping[str, Any], item: Judged, claim: PlannedClaim, case: str) -> Sentence:
    """'3 runs on 3 boards: holds, 1.18× [1.16, 1.20]', whether or not the run shown is one of them."""
    view = DataView(trust, TRUST).at("pooled", item.plan.name, item.machine.get("gpu", ""), claim.name, case)
    asked = (view.value("scope"), view.value("threshold")) == (claim.scope, claim.threshold)
    return _over_runs(view, ": ") if asked else ()


def pooled_status(trust: Mapping[str, Any], item: Judged, claim: PlannedClaim, case: str) -> str | None:
    """The verdict of runs on three boards of the GPU model of `item`; None where there are none."""
    path = ("pooled", item.plan.name, item.machine.get("gpu", ""), claim.name, case, "status")
    status: str | None = DataView(trust, TRUST).value(*path)
    return status


def other_pool_sentence(trust: Mapping[str, Any], item: Judged, claim: PlannedClaim, case: str) -> Sentence:
    """'Apart from this run, 3 runs of one source on 3 boards, the last on 2026-11-22: …': where the run shown is none
    of three; of its GPU model, or else of another, which is named. Nothing where the claim asked for something else."""
    data = DataView(trust, TRUST).at("pooled", item.plan.name)
    own = item.machine.get("gpu", "")
    for gpu in (own, *sorted({*(data.value() or ())} - {own})):
        view = data.at(gpu, claim.name, case)
        if (view.value("scope"), view.value("threshold")) == (claim.scope, claim.threshold):
            where = "" if gpu == own else f" of {gpu}"
            last = f"{where}, the last on {format.day(view.value('last_utc'))}: "
            return ("Apart from this run, ", *_over_runs(view, last, " of one source"))
    return ()


def _over_runs(view: DataView, close: str, which: str = "") -> Sentence:
    low, high, asked = view.value("low"), view.value("high"), view.value("threshold")
    parts = (
        view.figure("run_count"), f" runs{which} on ", view.figure("boards"),
        f" board{'s' if view.value('boards') != 1 else ''}{close}",
        f"{verdict_word(status)}, " if (status := view.value("status")) else "",
        view.figure("ratio", show=lambda value: format.ratio(value, low, high, asked)), " ",
        view.figure("low", show=lambda value: format.interval(value, high, asked)),
    )  # fmt: skip
    return tuple(part for part in parts if part)


def pooled_of(trust: Mapping[str, Any], experiment: str) -> dict[str, Any]:
    """The part of `trust` that the pages of one experiment show."""
    pooled = trust.get("pooled", {}).get(experiment)
    return {"pooled": {experiment: pooled}} if pooled else {}
