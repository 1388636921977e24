"""Published runs: the page of each with the files that it left behind, and their list."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from types import SimpleNamespace as View

from lab.project import project
from lab.verdict.judge import Status
from lab.website import format
from lab.website.addresses import experiment_folder, run_folder, short
from lab.website.data.differences import PROTOCOL, PROVENANCE
from lab.website.data.judged import Judged
from lab.website.data.promoted import Evidence
from lab.website.figure import DataView, Figure, Sentence, joined, sentence
from lab.website.outputs import Attachment, Document, Output, PageGroup, SiteContext
from lab.website.pages.compare import RunPair, pairs_of, runs_of
from lab.website.pages.labels import environment, evidence_facts
from lab.website.pages.measure_again import run_command
from lab.website.pages.outline import outlines
from lab.website.pages.pagination import leaves
from lab.website.pages.run_names import misnomers
from lab.website.table import csv_table
from lab.website.verdict_words import status_counts, verdict_counts

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
            shows=[[e.key for e in items], current, [*map(asdict, mine)], digest in files, signed, context.samples],
            make=partial(_pages, items, current, mine, files.get(digest), context.samples),
        )


def _pages(
    run: Sequence[Judged],
    current: Mapping[str, bool],
    pairs: tuple[RunPair, ...],
    files: Evidence | None,
    samples: bool,
) -> Iterator[Output]:
    """`current`: of each experiment that is still defined, whether its page shows this run."""
    view = _page(tuple(run), current, pairs, samples)
    yield Document(path=f"{run_folder(view.first.digest)}/index.html", template="run.html", view={"run": view})
    for path, content in files.files(samples) if files else ():
        yield Attachment(path=path, content=content)


def _page(run: Sequence[Judged], current: Mapping[str, bool], pairs: tuple[RunPair, ...], samples: bool) -> View:
    """Figures about the run as a whole point into the data of its first experiment."""
    first = run[0]
    evidence, view = first.evidence, DataView(first.data)
    return View(
        first=first, date=format.minute(evidence["finished_utc"]), on=_measured_on(first, view),
        misnomers=tuple(_misnomers(first)),
        damages=tuple(sorted(evidence["damages"].items(), key=lambda pair: int(pair[0]))),
        counts=status_counts(map(verdict_counts, run)), data=f"{experiment_folder(first.plan.name)}/data.json",
        command=run_command(run), protocol=evidence_facts(view, PROTOCOL), cost=_cost(view), stages=_stages(view),
        provenance=evidence_facts(view, PROVENANCE), environment=environment(first, view),
        experiments=tuple(_section(item, current) for item in run), pairs=pairs,
        files=FILES if samples else FILES[:1],
        samples_in="" if samples else f"{project().settings.evidence}/{evidence['run_id']}/",
    )  # fmt: skip


def _misnomers(item: Judged) -> Iterator[str]:
    evidence, gpu = item.evidence, "" if item.on_cpu else item.machine["gpu"]
    return misnomers(evidence["run_id"], gpu, evidence["started_utc"], evidence["finished_utc"])


def _measured_on(item: Judged, view: DataView) -> Sentence:
    several = (item.evidence["gpus"] or 1) > 1
    return (item.machine_name, *(sentence(view, ", {evidence/gpus} of them") if several else ()))


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
