"""All runs of unchanged code taken together, beside the verdict of the newest, in words."""

from collections.abc import Mapping
from typing import Any

from lab.definition.plan import PlannedClaim
from lab.website import format
from lab.website.data.judged import Judged
from lab.website.figure import Figure, Sentence, pointer

DATA = "trust/data.json"  # from the root of the site


def pooled_sentence(trust: Mapping[str, Any], item: Judged, claim: PlannedClaim, case: str) -> Sentence:
    """'3 runs on 3 boards: 1.18× [1.16, 1.20]', into `DATA`; nothing where the run shown is not one of three or more.

    `trust`: lab.website.data.published_trust; empty in a preview.
    """
    path = ("pooled", item.plan.name, item.machine.get("gpu", ""), claim.name, case)
    found: Any = trust
    for name in path:
        found = found.get(name, {})
    if not found or item.evidence["run_id"] not in found["runs"]:
        return ()
    at, low, high = pointer(*path), found["low"], found["high"]
    asked = item.data["claims"][claim.name]["threshold"]
    return (
        Figure(str(found["run_count"]), found["run_count"], f"{at}/run_count"),
        " runs on ",
        Figure(str(found["boards"]), found["boards"], f"{at}/boards"),
        f" board{'s' if found['boards'] != 1 else ''}: ",
        Figure(format.ratio(found["ratio"], low, high, asked), found["ratio"], f"{at}/ratio"),
        " ",
        Figure(format.interval(low, high, asked), low, f"{at}/low"),
    )


def pooled_of(trust: Mapping[str, Any], experiment: str) -> dict[str, Any]:
    """The part of `trust` that the pages of one experiment show."""
    found = trust.get("pooled", {}).get(experiment)
    return {"pooled": {experiment: found}} if found else {}
