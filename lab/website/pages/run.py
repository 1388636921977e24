"""A published run on a page of its own, with the files that it left behind; and the list of all runs."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial

from lab.definition.asked import claim_sentence
from lab.definition.plan import PlannedClaim
from lab.verdict.judge import Status
from lab.website import format
from lab.website.addresses import experiment_folder, gpu_folder, run_folder, short
from lab.website.data.differences import PROTOCOL, PROVENANCE
from lab.website.data.downloads import run_files
from lab.website.data.judged import Judged
from lab.website.data.outline import PastOutline
from lab.website.data.shelf import Held, Shelf, shelf
from lab.website.figure import Figure, Ledger, Sentence
from lab.website.files.shown_tables import shown_table
from lab.website.outputs import Document, Gathered, Output, Published, Sheaf
from lab.website.pages.boundary import boundary
from lab.website.pages.machine import Fact, environment, evidence_facts
from lab.website.pages.outline import outlines
from lab.website.pages.paging import leaves
from lab.website.pages.pairs import Pair, pairs_of, runs_of
from lab.website.pages.reproduce import run_command
from lab.website.pages.tallies import StatusCount, status_counts, verdict_counts


@dataclass(frozen=True, kw_only=True, slots=True)
class ClaimRow:
    """A claim as this run has it: `tally` and `span` point into the experiment's data."""

    name: str
    text: str
    status: str
    mark: str
    tally: Sentence


@dataclass(frozen=True, kw_only=True, slots=True)
class ExperimentSection:
    """`folder` holds the verdicts of this run; `current`, whether the experiment's own page shows them."""

    folder: str
    slug: str
    title: str
    defined: bool  # whether the lab still has the experiment
    current: bool
    cells: Sentence
    counts: tuple[StatusCount, ...]
    claims: tuple[ClaimRow, ...]
    left_out: tuple[Sentence, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class RunPage:
    """Figures about the run as a whole point into the data of its first experiment, `data`."""

    run_id: str
    digest: str
    date: str
    finished_utc: str
    gpu: str
    gpu_folder: str  # empty where a CPU was measured
    on_cpu: bool
    cut_short: str
    damages: tuple[tuple[str, str], ...]
    counts: tuple[StatusCount, ...]
    data: str
    command: str  # measures the whole run again
    protocol: tuple[Fact, ...]
    cost: tuple[Fact, ...]
    stages: Sentence
    provenance: tuple[Fact, ...]
    environment: tuple[Fact, ...]
    in_full: bool  # else claims and what was left out stand on the pages of the verdicts alone
    experiments: tuple[ExperimentSection, ...]
    pairs: tuple[Pair, ...]
    files: tuple[tuple[str, str], ...]  # beside the page: name, and what it holds


@dataclass(frozen=True, kw_only=True, slots=True)
class RunRow:
    """A run in the list of all; folders are relative to the root of the site."""

    folder: str
    run_id: str
    digest: str
    date: str
    gpu: str
    gpu_folder: str
    on_cpu: bool
    cut_short: bool
    experiments: tuple[str, ...]
    counts: tuple[StatusCount, ...]


MOST_IN_FULL = 50  # experiments of a run whose claims its page lists
FILES = (
    ("evidence.json", "the digest, the commit that was measured, and the SHA-256 of the two files below"),
    ("plan.json", "what was registered before measuring: cases, profiles, claims, protocol"),
    ("journal.jsonl.gz", "every record and every raw sample, one checksummed line each, compressed"),
)


def run_list(gathered: Gathered) -> Iterator[Output]:
    """runs/index.html, the pages after it, and the table of them all."""
    rows = [_row(run) for run in reversed(tuple(runs_of(outlines(gathered).published).values()))]
    for leaf in leaves(rows, "runs"):
        yield Document(path=leaf.path, template="runs.html", view={"leaf": leaf})
    yield shown_table(
        "runs/runs.csv", ("run_id", "digest", "date", "measured_on", "experiments", *Status), map(_cells, rows)
    )


def _cells(row: RunRow) -> tuple[str | int, ...]:
    claims = {count.status: count.claims for count in row.counts}
    counts = (claims.get(status, 0) for status in Status)
    return row.run_id, row.digest, row.date, row.gpu or "CPU", "; ".join(row.experiments), *counts


def run_pages(gathered: Gathered) -> Iterator[Sheaf]:
    """The page of each run, and its files."""
    held = outlines(gathered)
    shown = {item.name: item.digest for item in held.current}
    pairs = pairs_of(held.published)
    files = {each.digest: each for each in gathered.files if gathered.downloads}
    runs: dict[str, list[Held]] = {}
    for each, past in zip(shelf(gathered.published).held, held.published, strict=True):
        runs.setdefault(past.digest, []).append(each)
    for digest, found in runs.items():
        current = {each.name: shown[each.name] == digest for each in found if each.name in shown}
        mine = tuple(pair for pair in pairs if digest in (pair.older, pair.newer))
        yield Sheaf(
            name=run_folder(digest),
            shows=[[each.key for each in found], current, list(map(asdict, mine)), digest in files],
            make=partial(_pages, Shelf(found), current, mine, files.get(digest)),
        )


def _pages(
    run: Sequence[Judged], current: Mapping[str, bool], pairs: tuple[Pair, ...], files: Published | None
) -> Iterator[Output]:
    """`current`: of each experiment that is still defined, whether its page shows this run."""
    view = _page(tuple(run), current, pairs)
    yield Document(path=f"{run_folder(view.digest)}/index.html", template="run.html", view={"run": view})
    yield from run_files(files) if files else ()


def _page(run: Sequence[Judged], current: Mapping[str, bool], pairs: tuple[Pair, ...]) -> RunPage:
    first = run[0]
    evidence, ledger = first.evidence, Ledger(first.data)
    return RunPage(
        run_id=evidence["run_id"],
        digest=first.digest,
        date=format.minute(evidence["finished_utc"]),
        finished_utc=evidence["finished_utc"],
        gpu=first.machine_name,
        gpu_folder="" if first.on_cpu else gpu_folder(first.machine["gpu"]),
        on_cpu=first.on_cpu,
        cut_short=evidence["cut_short"],
        damages=tuple(sorted(evidence["damages"].items(), key=lambda pair: int(pair[0]))),
        counts=status_counts(map(verdict_counts, run)),
        data=f"{experiment_folder(first.plan.name)}/data.json",
        command=run_command(run),
        protocol=evidence_facts(ledger, PROTOCOL),
        cost=_cost(ledger),
        stages=_stages(ledger),
        provenance=evidence_facts(ledger, PROVENANCE),
        environment=environment(first, ledger),
        in_full=len(run) <= MOST_IN_FULL,
        experiments=tuple(_section(item, current, len(run) <= MOST_IN_FULL) for item in run),
        pairs=pairs,
        files=FILES,
    )


def _cost(ledger: Ledger) -> tuple[Fact, ...]:
    asked: tuple[tuple[str, Figure | None], ...] = (
        ("From start to end", ledger.figure("evidence", "wall_seconds", show=format.duration)),
        ("Of that with the profiler", ledger.figure("evidence", "profiling_seconds", show=format.duration)),
        ("Processes", ledger.figure("evidence", "processes")),
    )
    return tuple(Fact(name=name, value=value) for name, value in asked if value)


def _stages(ledger: Ledger) -> Sentence:
    """Where the time of the processes went, longest first."""
    stages: dict[str, float] = ledger.value("evidence", "stage_seconds")
    parts: list[Figure | str] = []
    for stage in sorted(stages, key=lambda name: -stages[name]):
        spent = ledger.figure("evidence", "stage_seconds", stage, show=format.duration)
        parts += [f"{', ' if parts else ''}{stage} ", spent or "–"]
    return tuple(parts)


def _section(item: Judged, current: Mapping[str, bool], in_full: bool) -> ExperimentSection:
    ledger = Ledger(item.data)
    cases, measured = ledger.figure("counts", "cases"), ledger.figure("counts", "measured")
    return ExperimentSection(
        folder=experiment_folder(item.plan.name),
        slug=item.plan.name,
        title=item.plan.title,
        defined=item.plan.name in current,
        current=current.get(item.plan.name, False),
        cells=(measured or "no", " cells measured at ", cases or "no", " cases"),
        counts=status_counts([verdict_counts(item)]),
        claims=tuple(_claim(item, claim, ledger) for claim in item.plan.claims) if in_full else (),
        left_out=boundary(item, ledger).excluded if in_full else (),
    )


def _claim(item: Judged, claim: PlannedClaim, ledger: Ledger) -> ClaimRow:
    supported, judged = (ledger.figure("claims", claim.name, name) for name in ("supported", "judged"))
    return ClaimRow(
        name=claim.name,
        text=claim_sentence(claim),
        status=item.data["claims"][claim.name]["status"],
        mark=item.data["claims"][claim.name]["mark"],
        tally=(supported or "–", " of ", judged or "–"),
    )


def _row(run: Sequence[PastOutline]) -> RunRow:
    first = run[0]
    return RunRow(
        folder=run_folder(first.digest),
        run_id=first.run_id,
        digest=short(first.digest),
        date=format.minute(first.finished_utc),
        gpu=first.machine_name,
        gpu_folder="" if first.on_cpu else gpu_folder(first.machine["gpu"]),
        on_cpu=first.on_cpu,
        cut_short=first.cut_short,
        experiments=tuple(item.title for item in run),
        counts=status_counts(item.counts for item in run),
    )
