"""Cases that became faster or slower than their own past on their board: a part of the history."""

from collections.abc import Iterator, Mapping, Sequence

from lab.definition.claim_words import claim_sentence
from lab.verdict.alarm import Alarm
from lab.website.addresses import verdict_folder
from lab.website.data.alarms import followed_cases
from lab.website.data.judged import Judged
from lab.website.figure import DataView
from lab.website.pages.labels import case_label
from lab.website.table import Fold, Link, PageTable, TableRow, Words, words


def alarm_folds(runs: Sequence[Judged], root: str) -> Iterator[Fold]:
    """None before a board has a past. `runs`: those of the experiment on one GPU model, oldest first."""
    followed = followed_cases(runs)
    if not any(each.past or each.alarms for each in followed):
        return
    by_digest = {run.digest: run for run in runs}
    order = list(by_digest)
    alarms = sorted((alarm for each in followed for alarm in each.alarms), key=lambda each: order.index(each.first_run))
    heads = words("Claim", "Case", "Change", "Last run before", "First run after", "Confirmed by")
    rows = tuple(_row(alarm, by_digest, root) for alarm in reversed(alarms))
    table = PageTable(label="Changes of speed", kind="claims", heads=heads, rows=rows)
    lead = (
        "The speed-up left the scatter of the runs before on the same board, and the next run there confirmed it."
        if alarms
        else "No case has left the scatter of its own past in two runs in a row on one board."
    )
    yield Fold(
        id="alarms", title="Faster or slower than before", lead=(lead,), tables=(table,) if alarms else (),
    )  # fmt: skip


def _row(alarm: Alarm, runs: Mapping[str, Judged], root: str) -> TableRow:
    before, first, confirmed = (runs[digest] for digest in (alarm.before_run, alarm.first_run, alarm.confirmed_by))
    text = next(claim_sentence(claim) for claim in confirmed.plan.claims if claim.name == alarm.series.claim)
    case = next(case for case in confirmed.plan.cases if case.name == alarm.series.case)
    return TableRow(
        cells=(
            (Link(text, f"#claim-{alarm.series.claim}"),), (case_label(case),), (alarm.direction,),
            *(_ratio_of(run, alarm, root) for run in (before, first, confirmed)),
        )
    )  # fmt: skip


def _ratio_of(run: Judged, alarm: Alarm, root: str) -> Words:
    """The speed-up with its interval, and the run that measured it."""
    folder = f"{root}{verdict_folder(run.digest, run.plan.name)}"
    view = DataView(run.data, f"{folder}/data.json#")
    path = ("claims", alarm.series.claim, "cases", alarm.series.case)
    figures = (figure for figure in (view.ratio(*path), view.interval(*path)) if figure)
    return (
        *(part for figure in figures for part in (figure, " ")),
        Link(run.evidence["run_id"], f"{folder}/index.html"),
    )
