"""A published run on a page of its own, with the files that it left behind; and the list of all runs."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from types import SimpleNamespace as View

from lab.definition.claim_words import claim_sentence
from lab.project import project
from lab.verdict.judge import Status
from lab.website import format
from lab.website.addresses import experiment_folder, run_folder, short
from lab.website.data.comparison import PROTOCOL, PROVENANCE
from lab.website.data.judged import Judged
from lab.website.data.promoted import run_files, signature_of
from lab.website.figure import DataView, Figure, Sentence
from lab.website.outputs import Document, Output, PageGroup, Published, SiteContext
from lab.website.pages.boundary import boundary, run_command
from lab.website.pages.compare import pairs_of, runs_of
from lab.website.pages.labels import environment, evidence_facts
from lab.website.pages.outline import outlines
from lab.website.pages.search import leaves
from lab.website.table import Link, PageTable, VerdictChip, csv_table, numbers, table_row, words
from lab.website.verdict_words import claim_word, status_counts, verdict_counts

MOST_IN_FULL = 50  # experiments of a run whose claims its page lists
FILES = (
    ("evidence.json", "digest, measured commit, and the SHA-256 of the two files below"),
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
    return row.run_id, row.digest, row.date, row.gpu or "CPU", "; ".join(row.experiments), *counts


def run_pages(context: SiteContext) -> Iterator[PageGroup]:
    """The page of each run, and its files."""
    outlined = outlines(context)
    shown = {item.name: item.digest for item in outlined.current}
    pairs = pairs_of(outlined.published)
    files = {each.digest: each for each in context.files if context.downloads}
    runs: dict[str, list[Judged]] = {}
    for each, past in zip(context.published, outlined.published, strict=True):
        runs.setdefault(past.digest, []).append(each)
    for digest, items in runs.items():
        current = {each.name: shown[each.name] == digest for each in items if each.name in shown}
        mine = tuple(pair for pair in pairs if digest in (pair.older, pair.newer))
        signed = signature_of(files[digest]).decode() if digest in files else ""
        yield PageGroup(
            name=run_folder(digest),
            shows=[
                [each.key for each in items],
                current,
                list(map(vars, mine)),
                digest in files,
                signed,
                context.samples,
            ],
            make=partial(_pages, items, current, mine, files.get(digest), context.samples),
        )


def _pages(
    run: Sequence[Judged],
    current: Mapping[str, bool],
    pairs: tuple[View, ...],
    files: Published | None,
    samples: bool,
) -> Iterator[Output]:
    """`current`: of each experiment that is still defined, whether its page shows this run."""
    view = _page(tuple(run), current, pairs, samples)
    yield Document(path=f"{run_folder(view.digest)}/index.html", template="run.html", view={"run": view})
    yield from run_files(files, samples) if files else ()


def _page(run: Sequence[Judged], current: Mapping[str, bool], pairs: tuple[View, ...], samples: bool) -> View:
    """Figures about the run as a whole point into the data of its first experiment."""
    first = run[0]
    evidence, view = first.evidence, DataView(first.data)
    return View(
        run_id=evidence["run_id"], digest=first.digest, date=format.minute(evidence["finished_utc"]),
        finished_utc=evidence["finished_utc"], gpu=first.machine_name,
        on_cpu=first.on_cpu, cut_short=evidence["cut_short"],
        damages=tuple(sorted(evidence["damages"].items(), key=lambda pair: int(pair[0]))),
        counts=status_counts(map(verdict_counts, run)), data=f"{experiment_folder(first.plan.name)}/data.json",
        command=run_command(run), protocol=evidence_facts(view, PROTOCOL), cost=_cost(view), stages=_stages(view),
        provenance=evidence_facts(view, PROVENANCE), environment=environment(first, view),
        in_full=len(run) <= MOST_IN_FULL,
        experiments=tuple(_section(item, current, len(run) <= MOST_IN_FULL) for item in run), pairs=pairs,
        files=FILES if samples else FILES[:1],
        samples_in="" if samples else f"{project().settings.evidence}/{evidence['run_id']}/",
    )  # fmt: skip


def _cost(view: DataView) -> tuple[View, ...]:
    asked: tuple[tuple[str, Figure | None], ...] = (
        ("From start to end", view.figure("evidence", "wall_seconds", show=format.duration)),
        ("Of that with the profiler", view.figure("evidence", "profiling_seconds", show=format.duration)),
        ("Processes", view.figure("evidence", "processes")),
    )
    return tuple(View(name=name, value=value) for name, value in asked if value)


def _stages(view: DataView) -> Sentence:
    """Where the time of the processes went, longest first."""
    stages: dict[str, float] = view.value("evidence", "stage_seconds")
    parts: list[Figure | str] = []
    for stage in sorted(stages, key=lambda name: -stages[name]):
        spent = view.figure("evidence", "stage_seconds", stage, show=format.duration)
        parts += [f"{', ' if parts else ''}{stage} ", spent or "–"]
    return tuple(parts)


def _section(item: Judged, current: Mapping[str, bool], in_full: bool) -> View:
    """`current`: whether the experiment's own page shows this run. Not `in_full`, its claims stand on their own page
    alone."""
    view = DataView(item.data)
    cases, measured = view.figure("counts", "cases"), view.figure("counts", "measured")
    return View(
        folder=experiment_folder(item.plan.name),
        slug=item.plan.name,
        title=item.plan.title,
        current=current.get(item.plan.name, False),
        cells=(measured or "no", " cells measured at ", cases or "no", " cases"),
        counts=status_counts([verdict_counts(item)]),
        claims=_claims(item, view) if in_full else None,
        left_out=boundary(item, view).excluded if in_full else (),
    )


def _claims(item: Judged, view: DataView) -> PageTable:
    folder = experiment_folder(item.plan.name)
    rows = []
    for claim in item.plan.claims:
        result = item.data["claims"][claim.name]
        supported, judged = (view.figure("claims", claim.name, name) or "–" for name in ("supported", "judged"))
        link = Link(claim_sentence(claim), f"{folder}/index.html#claim-{claim.name}")
        chip = VerdictChip(result["status"], result["mark"], word=claim_word(result))
        rows.append(table_row(link, chip, (supported, " of ", judged)))
    heads = (*words("Claim", "Verdict"), *numbers("Holds at cases"))
    return PageTable(label=f"Claims of {item.plan.title} in this run", kind="claims", heads=heads, rows=rows)


def _row(run: Sequence[View]) -> View:
    first = run[0]
    return View(
        folder=run_folder(first.digest), run_id=first.run_id, digest=short(first.digest),
        date=format.minute(first.finished_utc), gpu=first.machine_name,
        on_cpu=first.on_cpu, cut_short=first.cut_short, experiments=tuple(item.title for item in run),
        counts=status_counts(item.counts for item in run),
    )  # fmt: skip
