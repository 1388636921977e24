"""Published runs: the page of each with the files that it left behind, their list, and what each said, for ever."""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from types import SimpleNamespace as View

from lab.definition.catalogue import ZOO
from lab.definition.claim_words import claim_sentence
from lab.definition.search import is_search
from lab.evidence.run_name import other_gpus
from lab.project import project
from lab.verdict.judge import Status
from lab.website import format
from lab.website.addresses import experiment_folder, run_folder, short, verdict_folder
from lab.website.data.differences import PROTOCOL, PROVENANCE
from lab.website.data.judged import Judged, verdict_data
from lab.website.data.promoted import Evidence
from lab.website.data.verdict_log import VerdictChange, changes
from lab.website.figure import DataView, Figure, Sentence, joined, sentence
from lab.website.files.csv_tables import csv_files
from lab.website.files.schemas import data_text
from lab.website.outputs import Attachment, Document, Output, PageGroup, SiteContext
from lab.website.pages.answer import answer
from lab.website.pages.boundary import boundary, live_command, run_command
from lab.website.pages.claims import by_case, claim_view, claims_table
from lab.website.pages.compare import pairs_of, runs_of
from lab.website.pages.labels import environment, evidence_facts
from lab.website.pages.outline import outlines
from lab.website.pages.pagination import leaves
from lab.website.pages.run_links import compare_link, named_run
from lab.website.pages.tuning import search_answer
from lab.website.table import Link, Words, csv_table
from lab.website.verdict_words import samples_taken, status_counts, verdict_counts

FILES = (
    ("evidence.json", "digest, measured commit, and the SHA-256 of plan and journal"),
    ("plan.json", "what was registered before measuring: cases, implementations, claims, protocol"),
    ("journal.jsonl.gz", "every record and raw sample, one checksummed line each"),
)


def run_list(context: SiteContext) -> Iterator[Output]:
    """runs/index.html, the pages after it, and the table of them all."""
    rows = [_row(run) for run in reversed(tuple(runs_of(outlines(context).published).values()))]
    for leaf in leaves(rows, "runs"):
        yield Document(path=leaf.path, template="runs.html", view={"leaf": leaf})
    yield csv_table(
        "runs/runs.csv",
        ("run_id", "digest", "date", "measured_on", "experiments", *(s.replace("-", "_") for s in Status)),
        map(_cells, rows),
    )


def _cells(row: View) -> tuple[str | int, ...]:
    claims = {count.status: count.claims for count in row.counts}
    counts = (claims.get(status, 0) for status in Status)
    return row.run_id, row.digest, row.date, row.gpu, "; ".join(row.experiments), *counts


def run_pages(context: SiteContext) -> Iterator[PageGroup]:
    """The page of each run, and its files."""
    outlined = outlines(context)
    shown = {item.name: item.digest for item in outlined.current}
    pairs = pairs_of(outlined.published)
    files = {each.digest: each for each in context.files}
    for digest, items in context.runs().items():
        current = {each.name: shown[each.name] == digest for each in items if each.name in shown}
        mine = tuple(pair for pair in pairs if digest in (pair.older, pair.newer))
        signed = files[digest].signature.decode() if digest in files else ""
        yield PageGroup(
            name=run_folder(digest),
            shows=[[e.key for e in items], current, [*map(vars, mine)], digest in files, signed, context.samples],
            make=partial(_pages, items, current, mine, files.get(digest), context.samples),
        )


def _pages(
    run: Sequence[Judged], current: Mapping[str, bool], pairs: tuple[View, ...], files: Evidence | None, samples: bool
) -> Iterator[Output]:
    """`current`: of each experiment that is still defined, whether its page shows this run."""
    view = _page(tuple(run), current, pairs, samples)
    yield Document(path=f"{run_folder(view.first.digest)}/index.html", template="run.html", view={"run": view})
    for path, content in files.files(samples) if files else ():
        yield Attachment(path=path, content=content)


def _page(run: Sequence[Judged], current: Mapping[str, bool], pairs: tuple[View, ...], samples: bool) -> View:
    """Figures about the run as a whole point into the data of its first experiment."""
    first = run[0]
    evidence, view = first.evidence, DataView(first.data)
    return View(
        first=first, date=format.minute(evidence["finished_utc"]), other_date=_other_date(first),
        on=_measured_on(first, view), other_gpu=_other_gpu(first),
        damages=tuple(sorted(evidence["damages"].items(), key=lambda pair: int(pair[0]))),
        counts=status_counts(map(verdict_counts, run)), data=f"{experiment_folder(first.plan.name)}/data.json",
        command=run_command(run), protocol=evidence_facts(view, PROTOCOL), cost=_cost(view), stages=_stages(view),
        provenance=evidence_facts(view, PROVENANCE), environment=environment(first, view),
        experiments=tuple(_section(item, current) for item in run), pairs=pairs,
        files=FILES if samples else FILES[:1],
        samples_in="" if samples else f"{project().settings.evidence}/{evidence['run_id']}/",
    )  # fmt: skip


def _other_date(item: Judged) -> str:
    """The date that a run has in its name, where it is not that of its end."""
    named = re.search(r"\d{4}-\d\d-\d\d", item.evidence["run_id"])
    return named[0] if named and named[0] != format.day(item.evidence["finished_utc"]) else ""


def _measured_on(item: Judged, view: DataView) -> Sentence:
    several = (item.evidence["gpus"] or 1) > 1
    return (item.machine_name, *(sentence(view, ", {evidence/gpus} of them") if several else ()))


def _other_gpu(item: Judged) -> str:
    """The GPU that a run has in its name, where another was measured."""
    named = [] if item.on_cpu else other_gpus(item.evidence["run_id"], [item.machine["gpu"]])
    return " and ".join(word.upper() for word in named)


def _cost(view: DataView) -> list[tuple[str, Figure]]:
    asked: tuple[tuple[str, Figure | None], ...] = (
        ("From start to end", view.figure("evidence", "wall_seconds", show=format.duration)),
        ("Of that with the profiler", view.figure("evidence", "profiling_seconds", show=format.duration)),
        ("Processes", view.figure("evidence", "processes")),
    )
    return [(name, value) for name, value in asked if value]


def _stages(view: DataView) -> Sentence:
    """Where the time of the processes went, longest first."""
    stages: dict[str, float] = view.value("evidence", "stage_seconds")
    at = view.at("evidence", "stage_seconds")
    ordered = sorted(stages, key=lambda name: -stages[name])
    return joined(((f"{stage} ", at.figure(stage, show=format.duration) or "–") for stage in ordered), ", ")


def _section(item: Judged, current: Mapping[str, bool]) -> View:
    """Its verdicts stand on a page of their own. `current`: whether the experiment's own page shows this run."""
    view = DataView(item.data)
    cases, measured = view.figure("counts", "cases"), view.figure("counts", "measured")
    return View(
        folder=experiment_folder(item.plan.name), slug=item.plan.name, title=item.plan.title,
        current=current.get(item.plan.name, False), counts=status_counts([verdict_counts(item)]),
        cells=(measured or "no", " cells measured at ", cases or "no", " cases"),
    )  # fmt: skip


def _row(run: Sequence[View]) -> View:
    first = run[0]
    return View(
        folder=run_folder(first.digest), run_id=first.run_id, digest=short(first.digest),
        date=format.minute(first.finished_utc), gpu=first.machine_name,
        on_cpu=first.on_cpu, cut_short=first.cut_short, experiments=tuple(item.title for item in run),
        counts=status_counts(item.counts for item in run),
    )  # fmt: skip


# An experiment as one run has it: verdicts at an address that stays, whatever is measured later.


def verdict_pages(context: SiteContext) -> Iterator[Output]:
    shown = {item.plan.name: item for item in context.current}
    for name, history in context.histories().items():
        log = changes(history)
        for place, item in enumerate(history):
            around = (history[place - 1] if place else None, history[place + 1] if place + 1 < len(history) else None)
            changed = [_change(each, item, history) for each in log if each.was and each.digest == item.digest]
            published, folder = verdict_data(item.data), verdict_folder(item.digest, name)
            page = _verdict_page(item, DataView(published), shown.get(name), around, changed)
            yield Document(path=f"{folder}/index.html", template="verdicts.html", view={"page": page})
            data = f"{folder}/data.json"
            yield Attachment(path=data, content=data_text(published, data, "verdict"))
            yield from csv_files(item, folder, ("claims",))


def _change(change: VerdictChange, item: Judged, history: Sequence[Judged]) -> Words:
    """How a claim came out in the run before, where otherwise, and what else changed since."""
    before = next(run for run in history if run.digest == change.before)
    link, text = compare_link(change, history), item.plan.claim(change.claim)
    compare = (" ", Link("Compare the two runs", link), ".") if link else ()
    return (
        Link(claim_sentence(text), f"#claim-{change.claim}"), f" It was “{change.was_word}” in ",
        named_run(before), ", the run before on this GPU model. What else "
        f"changed: {change.attribution}. Any of it may be the cause, or chance.", *compare,
    )  # fmt: skip


def _verdict_page(
    item: Judged, view: DataView, current: Judged | None, around: tuple[Judged | None, Judged | None],
    changed: Sequence[Words],
) -> View:  # fmt: skip
    """`current` is the evidence that the experiment's own page shows: None where it is this, or there is no page."""
    is_current = current is not None and current.digest == item.digest
    claims = tuple(claim_view(item, claim, view, linked=False) for claim in item.plan.claims)
    return View(
        item=item,
        answer=search_answer(item, view) if is_search(item.plan) else answer(item, view), command=live_command(item),
        defined=current is not None, of_zoo=item.name.startswith(ZOO), is_current=is_current,
        current=None if is_current or current is None else _elsewhere(current), next=_elsewhere(around[1]),
        previous=_elsewhere(around[0]), date=format.minute(item.evidence["finished_utc"]),
        samples=samples_taken(view), policy=view.figure("policy_version"),
        policy_of_run=view.figure("evidence", "policy_version_of_run"), counts=status_counts([verdict_counts(item)]),
        claims=claims_table(claims, "Claims"), changed=changed, by_case=by_case(claims),
        boundary=boundary(item, view), provenance=evidence_facts(view, PROVENANCE),
    )  # fmt: skip


def _elsewhere(item: Judged | None) -> View | None:
    """A run of the same experiment, by the folder of its verdicts."""
    if item is None or not item.digest:
        return None
    return View(
        run_id=item.evidence["run_id"],
        date=format.minute(item.evidence["finished_utc"]),
        folder=verdict_folder(item.digest, item.plan.name),
        machine=item.machine_name,
    )
