"""Every cell of an experiment as a table: its time, how far it is from the best of its case, and how much of what the
hardware allows it reaches."""

from lab.definition.plan import PlannedCase, PlannedProfile
from lab.verdict.cells import SCOPE
from lab.website import format
from lab.website.addresses import case_address
from lab.website.data.judged import Judged
from lab.website.data.standing_words import SHARES_FIRST
from lab.website.figure import DataView, Sentence, joined
from lab.website.pages.labels import case_label, listed, scope_within
from lab.website.pages.standing import Rival, Standing, against_best
from lab.website.table import Head, Link, PageTable, Strong, Words, below, numbers, table_row, words

MOST_COLUMNS = 10
OUTCOMES = {"wrong": "wrong result"}


def every_cell(item: Judged, standing: Standing, view: DataView) -> PageTable:
    """Cases are rows; implementations, where they are more than a page is wide."""
    cases = item.plan.included_cases
    planned = {profile.name for case in cases for profile in item.plan.profiles_of(case)}
    profiles = [profile for profile in item.plan.profiles if profile.name in planned]

    def cell(case: PlannedCase, profile: PlannedProfile) -> Words:
        return _cell(item, case, profile, standing[case.name].get(profile.name), view)

    if len(profiles) > max(MOST_COLUMNS, len(cases)):
        links = [Head(text=case_label(c), link=case_address(c.name), id=f"case-{c.name}") for c in cases]
        heads = (*words("Implementation"), *links)
        rows = [table_row(each.title, *(cell(case, each) for case in cases)) for each in profiles]
    else:
        heads = (*words("Case"), *numbers(*(each.title for each in profiles)))
        named = [(case, Link(case_label(case), case_address(case.name))) for case in cases]
        rows = [table_row(name, *(cell(c, each) for each in profiles), id=f"case-{c.name}") for c, name in named]
    return PageTable(label="Every cell", kind="cells stacks", heads=heads, rows=rows)


def _cell(item: Judged, case: PlannedCase, profile: PlannedProfile, rival: Rival | None, view: DataView) -> Words:
    if profile not in item.plan.profiles_of(case):
        return ()
    path = ("cells", case.name, profile.name)
    p50 = view.figure(*path, "p50_seconds", show=format.brief_microseconds)
    if p50 is None:
        cell = item.cell(case.name, profile.name)
        outcome, scopes = cell["outcome"], [scope_within(each) for each in cell.get("scopes", ())]
        return (below(f"{listed(scopes)} only" if scopes else OUTCOMES.get(outcome, outcome)),)
    first = rival is not None and rival.word in SHARES_FIRST
    tokens = view.figure(*path, "scopes", SCOPE, "tokens_per_second")
    return (
        Strong((p50,)) if first else p50, below(*_beneath(case, profile, rival, view)), below(tokens, " tokens/s"),
    )  # fmt: skip


def _beneath(case: PlannedCase, profile: PlannedProfile, rival: Rival | None, view: DataView) -> Sentence:
    """'tie, 92 %', '1.08×, 85 %': against the best, and of the reference."""
    against: Sentence = against_best(rival) if rival else ()
    attained = view.figure("limits", case.name, "profiles", profile.name, SCOPE, "attained", show=format.whole_percent)
    return joined(filter(None, (against, (attained, " %") if attained else ())), ", ")
