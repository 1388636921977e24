"""A model of GPU: what it is, what it reaches beside what is printed of it, and which evidence it gave."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lab.website import format
from lab.website.addresses import experiment_folder, gpu_folder, run_folder
from lab.website.data.differences import GPU
from lab.website.data.judged import Judged
from lab.website.figure import Figure, Ledger
from lab.website.files.shown_tables import shown_table
from lab.website.outputs import Attachment, Document, Gathered, Output
from lab.website.pages.ceilings import KINDS
from lab.website.pages.machine import Fact, field_figure
from lab.website.pages.tallies import StatusCount, status_counts

ASIDE = ("device", "gpu", "gpu_id")  # told by the page itself, or different from card to card
MOST_LISTED = 100  # experiments; all are on the front page
WORKS = (("copies", "copy"), ("reads", "read"))


@dataclass(frozen=True, kw_only=True, slots=True)
class CeilingRun:
    """What one run measured of the GPU: a figure a column; `data` is where they point."""

    run_id: str
    folder: str
    data: str
    figures: tuple[Figure | None, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Ceilings:
    """By run, newest first; `printed` are the datasheet's, in the same columns, and `shares` the newest run's."""

    columns: tuple[str, ...]
    runs: tuple[CeilingRun, ...]
    printed: tuple[Figure | None, ...]
    shares: tuple[tuple[str, Figure], ...]  # of the datasheet's peaks, by what was reached
    source: str
    data: str  # where the last two point


@dataclass(frozen=True, kw_only=True, slots=True)
class GpuRun:
    run_id: str
    folder: str
    data: str
    date: str
    card: Figure | None
    driver: Figure | None
    torch: Figure | None
    triton: Figure | None
    floor: Figure | None
    experiments: int
    counts: tuple[StatusCount, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class CurrentRow:
    """An experiment whose page shows evidence of this GPU."""

    slug: str
    title: str
    question: str
    date: str
    counts: tuple[StatusCount, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class GpuPage:
    """`data` is where the facts point: the newest run's."""

    name: str
    data: str
    facts: tuple[Fact, ...]
    cards: tuple[str, ...]
    ceilings: Ceilings | None
    runs: tuple[GpuRun, ...]
    current: tuple[CurrentRow, ...]
    more: int  # how many such experiments are not listed


def gpu_pages(gathered: Gathered) -> Iterator[Output]:
    models: dict[str, list[Sequence[Judged]]] = {}
    for run in gathered.runs():
        if not run[0].on_cpu:
            models.setdefault(gpu_folder(run[0].machine["gpu"]), []).append(run)
    for folder, runs in models.items():
        page = _page(tuple(reversed(runs)), gathered)
        yield Document(path=f"{folder}/index.html", template="gpu.html", view={"gpu": page})
        yield from _tables(page, folder)


def _tables(page: GpuPage, folder: str) -> Iterator[Attachment]:
    if ceilings := page.ceilings:
        rows = [(run.run_id, *run.figures) for run in ceilings.runs] + [("datasheet", *ceilings.printed)]
        headings = ("run", *(f"{column.partition(',')[0]}:" for column in ceilings.columns))
        yield shown_table(f"{folder}/ceilings.csv", headings, rows if ceilings.source else rows[:-1])
    yield shown_table(
        f"{folder}/runs.csv", ("run", "date", "card", "driver", "torch", "triton", "floor"),
        [(run.run_id, run.date, run.card, run.driver, run.torch, run.triton, run.floor) for run in page.runs],
    )  # fmt: skip


def _page(runs: Sequence[Sequence[Judged]], gathered: Gathered) -> GpuPage:
    newest = runs[0][0]
    name = newest.machine["gpu"]
    current = [item for item in gathered.current if not item.on_cpu and item.machine.get("gpu") == name]
    return GpuPage(
        name=name,
        data=_data(newest),
        facts=_facts(newest),
        cards=tuple(sorted({run[0].machine["gpu_id"] for run in runs})),
        ceilings=_ceilings(runs),
        runs=tuple(_run(run) for run in runs),
        current=tuple(_current(item) for item in current[:MOST_LISTED]),
        more=max(0, len(current) - MOST_LISTED),
    )


def _current(item: Judged) -> CurrentRow:
    return CurrentRow(
        slug=item.plan.name,
        title=item.plan.title,
        question=item.plan.question,
        date=format.minute(item.evidence["finished_utc"]),
        counts=status_counts([item]),
    )


def _data(item: Judged) -> str:
    return f"../../{run_folder(item.digest)}/{experiment_folder(item.plan.name)}/data.json"


def _facts(newest: Judged) -> tuple[Fact, ...]:
    ledger = Ledger(newest.data)
    found = ((name, field_figure(ledger, ("machine", field))) for field, name in GPU.items() if field not in ASIDE)
    return tuple(Fact(name=name, value=value) for name, value in found if value)


def _ceilings(runs: Sequence[Sequence[Judged]]) -> Ceilings | None:
    """None where no run on this GPU measured them."""
    held = [run[0] for run in runs if run[0].data["ceilings"]]
    if not held:
        return None
    newest = Ledger(held[0].data)
    kinds = list(dict.fromkeys(kind for item in held for kind in item.data["ceilings"]["matrix"]))
    return Ceilings(
        columns=tuple(_columns(kinds)),
        runs=tuple(
            CeilingRun(
                run_id=item.evidence["run_id"],
                folder=f"../../{run_folder(item.digest)}",
                data=_data(item),
                figures=_row(Ledger(item.data), kinds),
            )
            for item in held
        ),
        printed=_printed(newest, kinds),
        shares=_shares(newest, kinds),
        source=newest.value("ceilings", "datasheet", "source") or "",
        data=_data(held[0]),
    )


def _columns(kinds: Sequence[str]) -> Iterator[str]:
    yield from (f"{work.capitalize()}, TB/s" for _, work in WORKS)
    yield from (f"{KINDS.get(kind, kind)}, TFLOP/s" for kind in kinds)
    yield "Empty kernel, µs"


def _largest(ledger: Ledger, work: str) -> tuple[str, ...]:
    """Of the largest copy, or read, with nothing cached: no cache can have helped it."""
    rungs = ledger.value("ceilings", work, "device_cold") or ()
    return ("ceilings", work, "device_cold", str(len(rungs) - 1)) if rungs else ("ceilings", work)


def _row(ledger: Ledger, kinds: Sequence[str]) -> tuple[Figure | None, ...]:
    return (
        *(
            ledger.figure(*_largest(ledger, work), "bytes_per_second", show=format.terabytes_per_second)
            for work, _ in WORKS
        ),
        *(
            ledger.figure("ceilings", "matrix", kind, "flops_per_second", show=format.teraflops_per_second)
            for kind in kinds
        ),
        ledger.figure("ceilings", "launch_floor_seconds", show=format.microseconds),
    )


def _printed(ledger: Ledger, kinds: Sequence[str]) -> tuple[Figure | None, ...]:
    sheet = ("ceilings", "datasheet")
    return (
        *(ledger.figure(*sheet, "bytes_per_second", show=format.terabytes_per_second) for _ in WORKS),
        *(ledger.figure(*sheet, "flops_per_second", kind, show=format.teraflops_per_second) for kind in kinds),
        None,
    )


def _shares(ledger: Ledger, kinds: Sequence[str]) -> tuple[tuple[str, Figure], ...]:
    places = [(f"a {name}", _largest(ledger, work)) for work, name in WORKS]
    places += [(f"{KINDS.get(kind, kind)} products", ("ceilings", "matrix", kind)) for kind in kinds]
    found = ((name, ledger.figure(*path, "peak_share", show=_percent)) for name, path in places)
    return tuple((name, share) for name, share in found if share)


def _percent(share: float) -> str:
    return f"{format.share(share)} %"


def _run(run: Sequence[Judged]) -> GpuRun:
    first = run[0]
    ledger = Ledger(first.data)
    card, driver, torch, triton = (
        field_figure(ledger, ("machine", field)) for field in ("gpu_id", "driver", "torch", "triton")
    )
    return GpuRun(
        run_id=first.evidence["run_id"],
        folder=f"../../{run_folder(first.digest)}",
        data=_data(first),
        date=format.minute(first.evidence["finished_utc"]),
        card=card,
        driver=driver,
        torch=torch,
        triton=triton,
        floor=ledger.figure("evidence", "median_launch_floor_seconds", show=format.microseconds),
        experiments=len(run),
        counts=status_counts(run),
    )
