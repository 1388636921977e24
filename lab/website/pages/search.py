"""A search for launch configurations on its page: every one tried, case by case, and what came of it, in words."""

from lab.definition.search import RULE, is_search
from lab.verdict.judge import EQUIVALENCE_MARGIN
from lab.verdict.search import Search, Trial, searches
from lab.website import format
from lab.website.charts.speedups import Point, speedup_chart
from lab.website.figure import Figure, Ledger, Sentence
from lab.website.pages.labels import SCOPES, case_label, series
from lab.website.pages.views import Card, SearchCase, SearchRow, Shown


def search_cases(shown: Shown, ledger: Ledger) -> tuple[SearchCase, ...]:
    """None where the experiment is no search, or none was measured."""
    if shown.run is None or not is_search(shown.result.plan):
        return ()
    return tuple(_case(search, ledger) for search in searches(shown.result))


def search_answer(shown: Shown, found: tuple[SearchCase, ...]) -> Sentence:
    """One sentence: what won where."""
    assert shown.run is not None, "only what was measured is shown as a search"
    scopes = dict.fromkeys(SCOPES[claim.scope] for claim in shown.result.plan.claims)
    where = "On this machine's CPU" if shown.on_cpu else f"On one {shown.run.machine.gpu}, {' and '.join(scopes)}"
    parts: Sentence = (f"{where}: ",)
    for number, case in enumerate(found):
        parts = (*parts, "; " if number else "", f"for {case.label}, ", *case.outcome)
    return (*parts, ".")


def search_cards(shown: Shown, ledger: Ledger) -> tuple[Card, ...]:
    """The fastest rival of each case."""
    cards = []
    for search in searches(shown.result):
        best = search.trials[0]
        ratio = ledger.ratio(*_verdict(search, best))
        p50, rule_p50 = _p50(search, best.profile.name, ledger), _p50(search, RULE, ledger)
        if ratio and p50 and rule_p50:
            label = f"{case_label(search.case)}: {best.profile.title}, the fastest rival, over the rule"
            context = (p50, " µs against ", rule_p50, f" µs: {best.verdict.status}")
            cards.append(Card(label=label, value=ratio, context=context))
    return tuple(cards)


def _case(search: Search, ledger: Ledger) -> SearchCase:
    points = [point for trial in search.trials if (point := _point(search, trial, ledger))]
    return SearchCase(
        name=search.case.name,
        label=case_label(search.case),
        chart=speedup_chart(points, EQUIVALENCE_MARGIN) if points else None,
        rule_p50=_p50(search, RULE, ledger),
        rule_registers=_compiled(search, RULE, "registers_per_thread", ledger),
        rule_spills=_compiled(search, RULE, "spills", ledger),
        rows=tuple(_row(search, trial, ledger) for trial in search.trials),
        outcome=_outcome(search, ledger),
    )


def _point(search: Search, trial: Trial, ledger: Ledger) -> Point | None:
    path = _verdict(search, trial)
    ratio, interval = ledger.ratio(*path), ledger.interval(*path)
    if not ratio or not interval:
        return None
    found = ledger.value(*path)
    return Point(
        case=trial.profile.title, profile="a configuration", series=series(trial.profile.name),
        ratio=found["ratio"], low=found["low"], high=found["high"], text=f"{ratio.text} {interval.text}",
    )  # fmt: skip


def _row(search: Search, trial: Trial, ledger: Ledger) -> SearchRow:
    profile, counts = trial.profile, ("searches", search.case.name, "trials", trial.profile.name)
    return SearchRow(
        title=profile.title,
        p50=_p50(search, profile.name, ledger),
        ratio=ledger.ratio(*_verdict(search, trial)),
        interval=ledger.interval(*_verdict(search, trial)),
        ahead=ledger.figure(*counts, "sweeps_ahead"),
        sweeps=ledger.figure(*counts, "sweeps"),
        registers=_compiled(search, profile.name, "registers_per_thread", ledger),
        spills=_compiled(search, profile.name, "spills", ledger),
        status=trial.verdict.status,
        mark=trial.verdict.mark,
        reason=trial.verdict.reason,
    )


def _outcome(search: Search, ledger: Ledger) -> Sentence:
    trial = search.winner or search.trials[0]
    ratio, interval = ledger.ratio(*_verdict(search, trial)), ledger.interval(*_verdict(search, trial))
    if ratio is None or interval is None:
        return ("nothing could be compared with the rule",)
    if search.winner is None:
        return (
            f"no configuration was 2 % faster than the rule beyond noise ({trial.profile.title}, the nearest, ran ",
            ratio, " ", interval, " as fast)",
        )  # fmt: skip
    path = ("searches", search.case.name)
    fastest, sweeps = (
        ledger.figure(*path, "sweeps_fastest"),
        ledger.figure(*path, "trials", trial.profile.name, "sweeps"),
    )
    return (
        f"{trial.profile.title} ran ", ratio, " ", interval, " as fast as the rule, the fastest of all in ",
        fastest or "", " of ", sweeps or "", " sweeps",
    )  # fmt: skip


def _verdict(search: Search, trial: Trial) -> tuple[str, ...]:
    return "claims", trial.claim, "cases", search.case.name


def _p50(search: Search, profile: str, ledger: Ledger) -> Figure | None:
    path = ("cells", search.case.name, profile, "scopes", search.scope, "p50_seconds")
    return ledger.figure(*path, show=format.microseconds)


def _compiled(search: Search, profile: str, what: str, ledger: Ledger) -> Figure | None:
    return ledger.figure("cells", search.case.name, profile, "compiled", "kernels", "0", what)
