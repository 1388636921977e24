"""A search for launch configurations on its page: every one tried, case by case, and what came of it, in words."""

from lab.definition.plan import PlannedCase, PlannedProfile
from lab.definition.search import RULE, is_search
from lab.verdict.judge import EQUIVALENCE_MARGIN
from lab.website import format
from lab.website.charts.speedups import Point, speedup_chart
from lab.website.data.judged import Judged
from lab.website.figure import Figure, Ledger, Sentence
from lab.website.pages.answer import where
from lab.website.pages.labels import case_label, scope_told, series
from lab.website.pages.views import Card, SearchCase, SearchRow

Trial = tuple[str, PlannedProfile]  # claim, configuration


def search_cases(shown: Judged, ledger: Ledger) -> tuple[SearchCase, ...]:
    """Empty where the experiment is no search, or none was measured."""
    if not shown.evidence or not is_search(shown.plan):
        return ()
    return tuple(_case(case, _trials(shown, case), ledger) for case in shown.plan.included_cases)


def search_answer(shown: Judged, ledger: Ledger) -> Sentence:
    """One sentence: what won where, and where nothing did how near the nearest came."""
    scopes = tuple(dict.fromkeys(scope_told(claim.scope, shown.on_cpu) for claim in shown.plan.claims))
    won: list[Sentence] = []
    stayed: list[Sentence] = []
    for case in shown.plan.included_cases:
        found = _chosen(case, _trials(shown, case), ledger)
        label = case_label(case)
        if found is None:
            won.append((f"at {label} nothing could be compared with the rule",))
        elif ledger.value("searches", case.name, "winner"):
            won.append((f"at {label} {found[0]} ran ", found[1], " ", found[2], " as fast as the rule"))
        else:
            stayed.append((f"{label} (nearest: {found[0]}, ", found[1], " ", found[2], ")"))
    parts: list[Figure | str] = [f"{where(shown, scopes)}: ", *_joined(won, "; ")]
    if stayed:
        parts += ["; " if won else "", "no configuration beat the rule by what its claim asks at "]
        parts += _joined(stayed, ", ")
    return (*parts, ".")


def _joined(sentences: list[Sentence], between: str) -> list[Figure | str]:
    found: list[Figure | str] = []
    for number, sentence in enumerate(sentences):
        found += [between] if number else []
        found += sentence
    return found


def search_cards(shown: Judged, ledger: Ledger) -> tuple[Card, ...]:
    """The fastest rival of each case."""
    cards = []
    for case in shown.plan.included_cases:
        claim, profile = _trials(shown, case)[0]
        path = _verdict(case, claim)
        ratio, status = ledger.ratio(*path), ledger.value(*path, "status")
        p50, rule_p50 = _p50(case, profile.name, ledger), _p50(case, RULE, ledger)
        interval = ledger.interval(*path)
        if ratio and interval and p50 and rule_p50:
            label = f"{case_label(case)}: {profile.title}, the fastest rival, over the rule"
            against: Sentence = (interval, ", ", p50, " µs against ", rule_p50, f" µs: {status}")
            cards.append(Card(label=label, value=ratio, context=against))
    return tuple(cards)


def _trials(shown: Judged, case: PlannedCase) -> list[Trial]:
    """Everything that was tried at a case, the fastest first."""
    subjects = {claim.name: claim.subject for claim in shown.plan.claims}
    profiles = {profile.name: profile for profile in shown.plan.profiles}
    return [(claim, profiles[subjects[claim]]) for claim in shown.data["searches"][case.name]["claims"]]


def _case(case: PlannedCase, trials: list[Trial], ledger: Ledger) -> SearchCase:
    points = [point for trial in trials if (point := _point(case, trial, ledger))]
    return SearchCase(
        name=case.name,
        label=case_label(case),
        chart=speedup_chart(points, EQUIVALENCE_MARGIN) if points else None,
        rule_p50=_p50(case, RULE, ledger),
        rule_registers=_compiled(case, RULE, "registers_per_thread", ledger),
        rule_spills=_compiled(case, RULE, "spills", ledger),
        rows=tuple(_row(case, trial, ledger) for trial in trials),
        outcome=_outcome(case, trials, ledger),
    )


def _point(case: PlannedCase, trial: Trial, ledger: Ledger) -> Point | None:
    claim, profile = trial
    path = _verdict(case, claim)
    ratio, interval = ledger.ratio(*path), ledger.interval(*path)
    if not ratio or not interval:
        return None
    found = ledger.value(*path)
    return Point(
        case=profile.title, profile="a configuration", series=series(profile.name),
        ratio=found["ratio"], low=found["low"], high=found["high"], text=f"{ratio.text} {interval.text}",
    )  # fmt: skip


def _row(case: PlannedCase, trial: Trial, ledger: Ledger) -> SearchRow:
    claim, profile = trial
    path, counts = _verdict(case, claim), ("searches", case.name, "trials", profile.name)
    return SearchRow(
        title=profile.title,
        p50=_p50(case, profile.name, ledger),
        ratio=ledger.ratio(*path),
        interval=ledger.interval(*path),
        ahead=ledger.figure(*counts, "sweeps_ahead"),
        sweeps=ledger.figure(*counts, "sweeps"),
        registers=_compiled(case, profile.name, "registers_per_thread", ledger),
        spills=_compiled(case, profile.name, "spills", ledger),
        status=ledger.value(*path, "status"),
        mark=ledger.value(*path, "mark"),
        reason=ledger.value(*path, "reason"),
    )


def _chosen(case: PlannedCase, trials: list[Trial], ledger: Ledger) -> tuple[str, Figure, Figure] | None:
    """The winner, or the fastest where none won: title, ratio, interval; None where nothing could be compared."""
    winner = ledger.value("searches", case.name, "winner")
    claim, profile = next((trial for trial in trials if trial[1].name == winner), trials[0])
    ratio, interval = ledger.ratio(*_verdict(case, claim)), ledger.interval(*_verdict(case, claim))
    return (profile.title, ratio, interval) if ratio and interval else None


def _outcome(case: PlannedCase, trials: list[Trial], ledger: Ledger) -> Sentence:
    place = ("searches", case.name)
    found = _chosen(case, trials, ledger)
    if found is None:
        return ("nothing could be compared with the rule",)
    title, ratio, interval = found
    winner = ledger.value(*place, "winner")
    if not winner:
        return (
            f"no configuration was faster than the rule by as much as its claim asks ({title}, the nearest, ran ",
            ratio, " ", interval, " as fast)",
        )  # fmt: skip
    fastest = ledger.figure(*place, "sweeps_fastest")
    sweeps = ledger.figure(*place, "trials", winner, "sweeps")
    return (
        f"{title} ran ", ratio, " ", interval, " as fast as the rule, the fastest of all in ",
        fastest or "", " of ", sweeps or "", " sweeps",
    )  # fmt: skip


def _verdict(case: PlannedCase, claim: str) -> tuple[str, ...]:
    return "claims", claim, "cases", case.name


def _p50(case: PlannedCase, profile: str, ledger: Ledger) -> Figure | None:
    scope = ledger.value("searches", case.name, "scope")
    return ledger.figure("cells", case.name, profile, "scopes", scope, "p50_seconds", show=format.microseconds)


def _compiled(case: PlannedCase, profile: str, what: str, ledger: Ledger) -> Figure | None:
    return ledger.figure("cells", case.name, profile, "compiled", "kernels", "0", what)
