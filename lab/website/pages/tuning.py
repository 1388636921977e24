"""A search for launch configurations on its page: every one tried, case by case, and what came of it, in words."""

from types import SimpleNamespace as View

from lab.definition.plan import PlannedCase, PlannedProfile
from lab.definition.search import RULE, is_search
from lab.verdict.judge import EQUIVALENCE_MARGIN, Status
from lab.website.charts.rows import Dot, axis_of, panel
from lab.website.charts.svg import series
from lab.website.data.judged import Judged
from lab.website.figure import DataView, Figure, Sentence, joined
from lab.website.pages.answer import where
from lab.website.pages.labels import begun, case_label, scope_words
from lab.website.table import PageTable, TableRow, VerdictChip, below, numbers, table_row, words

Trial = tuple[str, PlannedProfile]  # claim, configuration


def search_cases(shown: Judged, view: DataView) -> tuple[View, ...]:
    """Empty where the experiment is no search, or none was measured."""
    if not shown.evidence or not is_search(shown.plan):
        return ()
    return tuple(_case(case, _trials(shown, case), view) for case in shown.plan.included_cases)


def search_answer(shown: Judged, view: DataView) -> Sentence:
    """One sentence: what won where, and where nothing did how near the nearest came."""
    scopes = tuple(dict.fromkeys(scope_words(claim.scope, shown.on_cpu).told for claim in shown.plan.claims))
    won: list[Sentence] = []
    stayed: list[Sentence] = []
    for case in shown.plan.included_cases:
        chosen = _chosen(case, _trials(shown, case), view)
        label = case_label(case)
        if chosen is None:
            won.append((f"at {label} nothing could be compared with the rule",))
        elif view.value("searches", case.name, "winner"):
            won.append((f"at {label} {chosen[0]} ran ", chosen[1], " ", chosen[2], " as fast as the rule"))
        else:
            stayed.append((f"{label} (nearest: {chosen[0]}, ", chosen[1], " ", chosen[2], ")"))
    if stayed:
        won.append(("no configuration beat the rule by what its claim asks at ", *joined(stayed, ", ")))
    first, *rest = joined(won, "; ")
    return (begun(first) if isinstance(first, str) else first, *rest, f". Measured {where(shown, scopes)}.")


def _trials(shown: Judged, case: PlannedCase) -> list[Trial]:
    """Everything that was tried at a case, the fastest first."""
    claims = map(shown.plan.claim, shown.data["searches"][case.name]["claims"])
    return [(claim.name, shown.plan.profile(claim.subject)) for claim in claims]


def _case(case: PlannedCase, trials: list[Trial], view: DataView) -> View:
    dots = [dot for trial in trials if (dot := _dot(case, trial, view))]
    title = f"{case_label(case)}: speed-up over the rule"
    band = (1 - EQUIVALENCE_MARGIN, 1 + EQUIVALENCE_MARGIN)
    axis = axis_of([dots], band, "Speed-up over the rule; right is faster")
    return View(
        name=case.name,
        label=case_label(case),
        chart=panel(f"search-chart-{case.name}", title, dots, axis) if dots else None,
        table=PageTable(
            label=f"Configurations at {case_label(case)}",
            heads=(*words("Configuration"), *numbers("p50, µs", "Speed-up", "Interval", "Ahead", "Registers", "Spills"),
                   *words("Verdict")),
            rows=(_rule(case, view), *(_row(case, trial, view) for trial in trials)),
            caption=("Each configuration against the rule, the fastest first. Ahead: sweeps in which it was faster.",),
        ),
        outcome=_outcome(case, trials, view),
    )  # fmt: skip


def _dot(case: PlannedCase, trial: Trial, view: DataView) -> Dot | None:
    claim, profile = trial
    ratio, verdict = view.ratio(*_verdict(case, claim)), view.value(*_verdict(case, claim)) or {}
    if not ratio:
        return None
    return Dot(
        label=profile.title, series=series(profile.name), value=verdict["ratio"],
        low=verdict["low"], high=verdict["high"], text=ratio.text, first=verdict["status"] == Status.SUPPORTED,
    )  # fmt: skip


def _rule(case: PlannedCase, view: DataView) -> TableRow:
    registers, spills = (_compiled(case, RULE, what, view) for what in ("registers_per_thread", "spills"))
    return table_row("the rule", _p50(case, RULE, view), (), (), (), registers, spills, ())


def _row(case: PlannedCase, trial: Trial, view: DataView) -> TableRow:
    claim, profile = trial
    path, counts = _verdict(case, claim), ("searches", case.name, "trials", profile.name)
    ahead, sweeps = view.figure(*counts, "sweeps_ahead"), view.figure(*counts, "sweeps")
    call = VerdictChip(view.value(*path, "status"), view.value(*path, "mark"))
    return table_row(
        profile.title,
        _p50(case, profile.name, view),
        view.ratio(*path),
        view.interval(*path),
        (ahead, " of ", sweeps) if ahead and sweeps else None,
        *(_compiled(case, profile.name, what, view) for what in ("registers_per_thread", "spills")),
        (call, below(view.value(*path, "reason"))),
    )


def _chosen(case: PlannedCase, trials: list[Trial], view: DataView) -> tuple[str, Figure, Figure] | None:
    """The winner, or the fastest where none won: title, ratio, interval; None where nothing could be compared."""
    winner = view.value("searches", case.name, "winner")
    claim, profile = next((trial for trial in trials if trial[1].name == winner), trials[0])
    ratio, interval = (figure(*_verdict(case, claim), brief=True) for figure in (view.ratio, view.interval))
    return (profile.title, ratio, interval) if ratio and interval else None


def _outcome(case: PlannedCase, trials: list[Trial], view: DataView) -> Sentence:
    place = ("searches", case.name)
    chosen = _chosen(case, trials, view)
    if chosen is None:
        return ("nothing could be compared with the rule",)
    title, ratio, interval = chosen
    winner = view.value(*place, "winner")
    if not winner:
        return (
            f"no configuration was faster than the rule by as much as its claim asks ({title}, the nearest, ran ",
            ratio, " ", interval, " as fast)",
        )  # fmt: skip
    fastest = view.figure(*place, "sweeps_fastest")
    sweeps = view.figure(*place, "trials", winner, "sweeps")
    return (
        f"{title} ran ", ratio, " ", interval, " as fast as the rule, the fastest of all in ",
        fastest or "", " of ", sweeps or "", " sweeps",
    )  # fmt: skip


def _verdict(case: PlannedCase, claim: str) -> tuple[str, ...]:
    return "claims", claim, "cases", case.name


def _p50(case: PlannedCase, profile: str, view: DataView) -> Figure | None:
    scope = view.value("searches", case.name, "scope")
    return view.figure("cells", case.name, profile, "scopes", scope, "p50_seconds")


def _compiled(case: PlannedCase, profile: str, what: str, view: DataView) -> Figure | None:
    return view.figure("cells", case.name, profile, "compiled", "kernels", "0", what)
