"""An experiment's figures at a glance: each headline's largest ratio, the weakest baseline's, what the profiler saw."""

from lab.definition.experiment import CEILINGS
from lab.definition.plan import PlannedClaim
from lab.verdict.cells import SCOPE
from lab.verdict.judge import WEIGHED
from lab.website import format
from lab.website.data.judged import Judged
from lab.website.figure import Ledger, Sentence
from lab.website.pages.ceilings import EXACT, WORK, terabytes, teraflops
from lab.website.pages.labels import case_label, profile_title
from lab.website.pages.moved import traffic_card
from lab.website.pages.views import Card


def cards(shown: Judged, ledger: Ledger) -> tuple[Card, ...]:
    """None where nothing that was measured could be weighed."""
    if shown.plan.name == CEILINGS and ledger.value("ceilings"):
        return _of_ceilings(shown, ledger)
    claims = {claim.name: claim for claim in shown.plan.claims}
    found = [_of_claim(shown, claims[name], ledger) for name in shown.plan.headlines]
    first = claims[shown.plan.headlines[0]]
    asked = (first.subject, first.measure, first.scope)
    rivals = [claim for claim in claims.values() if (claim.subject, claim.measure, claim.scope) == asked]
    weakest = max(rivals, key=lambda c: ledger.value("claims", c.name, "largest_ratio") or 0.0)
    if weakest.name not in shown.plan.headlines:
        found.append(_of_claim(shown, weakest, ledger, ", the weakest baseline"))
    found.append(_of_counters(shown, first.subject, ledger))
    return tuple(card for card in found if card)


def _of_claim(shown: Judged, claim: PlannedClaim, ledger: Ledger, remark: str = "") -> Card | None:
    """The largest ratio with its interval, and the smallest, so that nobody takes the one for all."""
    if claim.measure == "traffic":
        return traffic_card(shown, claim, ledger)
    path = ("claims", claim.name, "cases")
    found = {c: ledger.value(*path, c, "ratio") for c in claim.cases if ledger.value(*path, c, "status") in WEIGHED}
    if not found:
        return None
    most, least = max(found, key=lambda name: found[name]), min(found, key=lambda name: found[name])
    value, interval, smallest = ledger.ratio(*path, most), ledger.interval(*path, most), ledger.ratio(*path, least)
    subject, baseline = (
        ledger.figure("cells", most, profile, "scopes", claim.scope, "p50_seconds", show=format.microseconds)
        for profile in (claim.subject, claim.baseline)
    )
    if value is None or interval is None or smallest is None or subject is None or baseline is None:
        return None
    case = next(c for c in shown.plan.cases if c.name == most)
    against: Sentence = (interval, f" at {case_label(case)}, ", subject, " µs against ", baseline, " µs")
    return Card(
        label=f"{profile_title(shown, claim.subject)}, largest over {profile_title(shown, claim.baseline)}{remark}",
        value=value,
        context=against if most == least else (*against, "; smallest ", smallest),
    )


def _of_counters(shown: Judged, profile: str, ledger: Ledger) -> Card | None:
    """DRAM throughput and occupancy of the subject's largest profiled case."""
    for case in reversed(shown.plan.included_cases):
        path = ("cells", case.name, profile, "counters")
        dram = ledger.figure(*path, "dram_percent", show=lambda v: f"{format.percent(v)} %")
        occupancy = ledger.figure(*path, "occupancy_percent", show=lambda v: f"{format.percent(v)} %")
        if dram and occupancy:
            return Card(
                label=f"{profile_title(shown, profile)}, DRAM throughput by the profiler",
                value=dram,
                context=(f"of its peak at {case_label(case)}, with ", occupancy, " occupancy"),
            )
    return None


def _of_ceilings(shown: Judged, ledger: Ledger) -> tuple[Card, ...]:
    """The largest copy and read with nothing cached, and each matrix rate, beside the datasheet's."""
    places: list[tuple[str, tuple[str, ...]]] = []
    for work, name in WORK.items():
        if rungs := ledger.value("ceilings", work, SCOPE):
            places.append((f"Largest {name}, with nothing cached", ("ceilings", work, SCOPE, str(len(rungs) - 1))))
    for kind in ledger.value("ceilings", "matrix"):
        places.append((f"Dense products in {EXACT.get(kind, kind)}", ("ceilings", "matrix", kind)))
    return tuple(card for label, path in places if (card := _of_ceiling(label, path, shown, ledger)))


def _of_ceiling(label: str, path: tuple[str, ...], shown: Judged, ledger: Ledger) -> Card | None:
    found = ledger.figure(*path, "bytes_per_second", show=terabytes)
    speed = found or ledger.figure(*path, "flops_per_second", show=teraflops)
    share = ledger.figure(*path, "peak_share", show=format.tenths_of_percent)
    by = f"by {profile_title(shown, ledger.value(*path, 'profile'))}"
    context: Sentence = (share, f" of the datasheet's peak, {by}") if share else (by,)
    return Card(label=label, value=speed, context=context) if speed else None
