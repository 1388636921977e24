"""Two published runs side by side: what differs between their machines first, then verdicts, then times."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import groupby
from types import SimpleNamespace as View

from lab.definition.claim_words import claim_sentence
from lab.definition.experiment import CEILINGS
from lab.definition.plan import PlannedProfile
from lab.verdict.cells import SCOPE
from lab.website import format
from lab.website.addresses import experiment_folder, pair_folder
from lab.website.data.comparison import comparison_data, run_pairs, shared
from lab.website.data.differences import OF_MACHINE, differences, one_machine, redefined
from lab.website.data.judged import Judged, json_text
from lab.website.figure import DataView, Sentence, sentence, span
from lab.website.outputs import Attachment, Document, Outlines, Output, PageGroup, SiteContext, grouped
from lab.website.pages.labels import case_label, clocks_of, field_figure
from lab.website.pages.outline import outlines
from lab.website.pages.pagination import leaves
from lab.website.pages.run_links import named_run, view_of
from lab.website.table import (
    PageTable,
    Strong,
    TableRow,
    VerdictChip,
    Words,
    below,
    column,
    csv_file,
    named,
    table_row,
    words,
)
from lab.website.verdict_words import claim_word

# Which runs are held against one another, and the list of these pairs; the page of each is made in compare.py.
Runs = Mapping[str, Sequence[View]]  # by digest, oldest first
Both = Sequence[tuple[Judged, Judged]]  # an experiment as the older and the newer run have it


@dataclass(frozen=True, kw_only=True, slots=True)
class RunPair:
    """Two runs that are held against one another, by their digests, and how their machines differ."""

    older: str
    newer: str
    folder: str
    older_id: str
    newer_id: str
    older_date: str
    newer_date: str
    one_machine: bool
    one_model: bool
    mixed: bool  # one of a CPU, and one of a GPU
    machines: str  # how they differ, in words; empty where they do not
    clock: str


def compare_list(context: SiteContext) -> Iterator[Document]:
    """compare/index.html, and the pages after it."""
    outlined = outlines(context)
    pairs = pairs_of(outlined.published)
    for leaf in leaves(list(_groups(outlined, pairs)), "compare"):
        yield Document(path=leaf.path, template="compare_index.html", view={"leaf": leaf})


def runs_of(published: Sequence[View]) -> Runs:
    """The experiments of each run, oldest run first."""
    return grouped(published, lambda item: str(item.digest))


def pairs_of(published: Sequence[View]) -> tuple[RunPair, ...]:
    """Every pair of runs that has a page, the newest last: not those that share the measurement of ceilings alone,
    which stands beside every experiment."""
    runs = runs_of(published)
    histories = grouped((item for item in published if item.name != CEILINGS), lambda item: str(item.name))
    return tuple(_pair(runs[older][0], runs[newer][0]) for older, newer in run_pairs(histories.values()))


def _pair(before: View, after: View) -> RunPair:
    """Of one outline of either run, whichever: all of a run say the same of its machine and its end."""
    return RunPair(
        older=before.digest, newer=after.digest, folder=pair_folder(before.digest, after.digest),
        older_id=before.run_id, newer_id=after.run_id, older_date=format.minute(before.finished_utc),
        newer_date=format.minute(after.finished_utc), one_machine=one_machine(before.machine, after.machine),
        one_model=before.machine_name == after.machine_name, mixed=before.on_cpu != after.on_cpu,
        machines=_machines(before, after), clock=clocks_of(SCOPE, [before.on_cpu, after.on_cpu]),
    )  # fmt: skip


def _machines(before: View, after: View) -> str:
    """How the machines of two runs differ; empty where they do not."""
    if before.on_cpu != after.on_cpu:
        return "a CPU and a GPU"
    if before.machine_name != after.machine_name:
        return "another model"
    return "" if one_machine(before.machine, after.machine) else "another board"


def _groups(outlined: Outlines, pairs: Sequence[RunPair]) -> Iterator[View]:
    """By experiment, in the order of the site; then those that are no longer defined."""
    titles = {item.name: item.title for item in outlined.current} | {
        item.name: item.title for item in outlined.published
    }
    holding: dict[str, set[str]] = {}
    for item in outlined.published:
        holding.setdefault(item.name, set()).add(item.digest)
    for name, title in titles.items():
        runs = holding.get(name, set())
        mine = tuple(pair for pair in reversed(pairs) if {pair.older, pair.newer} <= runs) if len(runs) > 1 else ()
        if mine:
            by_newer = tuple(tuple(group) for _, group in groupby(mine, key=lambda pair: pair.newer))
            yield View(title=title, slug=experiment_folder(name), newer=by_newer)


def compare_pages(context: SiteContext) -> Iterator[PageGroup]:
    """The page of each pair, and its data."""
    runs = context.runs()
    for pair in pairs_of(outlines(context).published):
        older, newer = runs[pair.older], runs[pair.newer]
        yield PageGroup(
            name=pair.folder,
            shows=[asdict(pair), [item.key for item in (*older, *newer)]],
            make=partial(_pages, pair, older, newer),
        )


def _pages(pair: RunPair, older: Sequence[Judged], newer: Sequence[Judged]) -> Iterator[Output]:
    runs = tuple(older), tuple(newer)
    data = comparison_data(*runs)
    both, view = shared(*runs), DataView(data)
    verdicts, times = _verdicts(pair, both), _times(pair, both, view)
    page = View(
        pair=pair, outcome=_outcome(view, pair.one_model), fields=_fields(pair, *both[0]), verdicts=verdicts,
        times=times,
    )  # fmt: skip
    yield Document(path=f"{pair.folder}/index.html", template="compare.html", view={"compare": page})
    yield csv_file(verdicts, f"{pair.folder}/verdicts.csv")
    yield csv_file(times, f"{pair.folder}/times.csv")
    yield Attachment(path=f"{pair.folder}/data.json", content=json_text(data))


def _outcome(view: DataView, one_model: bool) -> Sentence:
    """How many verdicts and times came out otherwise. Those of two models of GPU differ, and none of them changed."""
    differ = "came out otherwise" if one_model else "differ between the two"
    times = "; of {cells} times, {moved} moved" if view.value("counts", "cells") else ""
    return sentence(view.at("counts"), f"Of {{claims}} claims that both judged, {{changed}} {differ}{times}.")


def _fields(pair: RunPair, older: Judged, newer: Judged) -> PageTable:
    """Every recorded field in which the runs differ: of machine and software first, then of source and protocol."""
    found = differences(older, newer)
    rows = []
    for title, of_machine in (("Machine and software", True), ("Source and protocol", False)):
        those = [each for each in found if (each.kind in OF_MACHINE) == of_machine]
        rows.append(table_row(title if those else f"{title}: the same in every recorded field", kind="group"))
        for each in those:
            sides = (field_figure(view_of(item), each.path) or "not set" for item in (older, newer))
            rows.append(table_row(each.name, *sides))
    heads = words("Field", pair.older_id, pair.newer_id)
    return PageTable(label="Recorded fields that differ", kind="fields", heads=heads, rows=rows)


def _verdicts(pair: RunPair, both: Both) -> PageTable:
    """Of each claim that both runs have; within an experiment those that came out otherwise first."""
    rows = []
    for older, newer in both:
        claims = [claim for claim in newer.plan.claims if claim.name in older.data["claims"]]
        runs = [named_run(item) for item in (older, newer)]
        rows.append(table_row((Strong((newer.plan.title,)), below("in ", runs[0], " and in ", runs[1])), kind="group"))
        changed = {claim.name: _status(older, claim.name) != _status(newer, claim.name) for claim in claims}
        for claim in sorted(claims, key=lambda claim: not changed[claim.name]):
            mark = (Strong(("Changed." if pair.one_model else "Differs.",)), " ") if changed[claim.name] else ()
            other = redefined(older.plan, newer.plan, claim.name)
            told = below(other and f"defined otherwise: {'; '.join(other)}")
            sides = (cell for item in (older, newer) for cell in _side(item, claim.name))
            rows.append(table_row((*mark, claim_sentence(claim), told), *sides))
    heads = (
        named("claim", "Claim"), named("older_verdict", pair.older_id), named("older_speed_ups", "Speed-ups"),
        named("newer_verdict", pair.newer_id), named("newer_speed_ups", "Speed-ups"),
    )  # fmt: skip
    caption = (
        "Verdicts by today's rules, with the smallest and largest speed-up over the cases that could be judged.",
    )
    return PageTable(
        label="Verdicts in both runs", kind="claims stacks", group="experiment", heads=heads, rows=rows, caption=caption
    )


def _status(item: Judged, claim: str) -> str:
    return str(item.data["claims"][claim]["status"])


def _side(item: Judged, claim: str) -> tuple[Words, Words]:
    view, data = view_of(item), item.data["claims"][claim]
    least, most = (view.end(claim, name, show=format.times) for name in ("smallest_ratio", "largest_ratio"))
    return (VerdictChip(data["status"], data["mark"], word=claim_word(data)),), span(least, most) or (None,)


def _times(pair: RunPair, both: Both, view: DataView) -> PageTable:
    """The cells that at least one of the runs measured, and that both know."""
    rows = []
    for older, newer in both:
        sides, changes = (view_of(older), view_of(newer)), view.at("experiments", newer.plan.name, "times")
        for case in newer.plan.cases:
            before, after = (item.data["cells"].get(case.name, {}) for item in (older, newer))
            profiles = [
                each for each in newer.plan.profiles
                if each.name in before and "measured" in (before[each.name]["outcome"], after[each.name]["outcome"])
            ]  # fmt: skip
            if profiles:
                rows.append(table_row(f"{newer.plan.title}: {case_label(case)}", kind="group"))
            rows += [_cell(pair, sides, changes, case.name, each) for each in profiles]
    heads = [
        named("profile", "Implementation"), column("older_p50_seconds", f"{pair.older_id}, p50, µs"),
        column("newer_p50_seconds", f"{pair.newer_id}, p50, µs"),
    ]  # fmt: skip
    if pair.one_machine:
        heads += [column("newer_over_older_ratio", "Newer / older"), column("newer_over_older_low", "Interval")]
    return PageTable(label="Times in both runs", kind="times", group="case", heads=heads, rows=rows)


def _cell(
    pair: RunPair, sides: tuple[DataView, DataView], changes: DataView, case: str, profile: PlannedProfile
) -> TableRow:
    path, at = ("cells", case, profile.name), (case, profile.name)
    times = [side.figure(*path, "p50_seconds") or side.value(*path, "outcome") for side in sides]
    if not pair.one_machine:
        return table_row(profile.title, *times)
    mark = below(changes.value(*at, "moved") and Strong(("moved",)))
    return table_row(profile.title, *times, (changes.ratio(*at), mark), changes.interval(*at))
