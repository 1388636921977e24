"""A model of GPU: what it is, what it reaches beside what is printed of it, and which evidence it gave."""

from collections.abc import Iterator, Sequence
from functools import partial
from types import SimpleNamespace as View

from lab.website import format
from lab.website.addresses import experiment_folder, gpu_folder, run_folder
from lab.website.data.comparison import GPU
from lab.website.data.judged import Judged
from lab.website.figure import DataView, Figure
from lab.website.outputs import Document, Output, PageGroup, SiteContext
from lab.website.pages.ceilings import KINDS
from lab.website.pages.labels import field_figure
from lab.website.pages.outline import outlines
from lab.website.table import Link, PageTable, column, csv_file, named, row, table_row, tally, words
from lab.website.verdict_words import status_counts

ASIDE = ("device", "gpu", "gpu_id")  # told by the page itself, or different from card to card
MOST_LISTED = 100  # experiments; all are on the front page
WORKS = (("copies", "copy"), ("reads", "read"))
RUNS = (
    named("run", "Run"), named("date", "Date"), named("gpu_id", "Card"), named("driver", "Driver"),
    named("torch", "torch"), named("triton", "triton"), column("median_launch_floor_seconds", "Empty kernel, µs"),
)  # fmt: skip


def gpu_pages(context: SiteContext) -> Iterator[PageGroup]:
    """A page for each model, of the first experiment of each of its runs and the outlines of all others."""
    outlined = outlines(context)
    models: dict[str, dict[str, list[tuple[Judged, View]]]] = {}
    for each, past in zip(context.published, outlined.published, strict=True):
        if not past.on_cpu:
            runs = models.setdefault(gpu_folder(past.machine["gpu"]), {})
            runs.setdefault(past.digest, []).append((each, past))
    for folder, runs in models.items():
        newest_first = list(reversed(runs.values()))
        first = [run[0][0] for run in newest_first]
        counts = [status_counts(past.counts for _, past in run) for run in newest_first]
        name = newest_first[0][0][1].machine["gpu"]
        current = [_current(item) for item in outlined.current if item.gpu == name]
        listed, more = current[:MOST_LISTED], max(0, len(current) - MOST_LISTED)
        yield PageGroup(
            name=folder,
            shows=[[each.key for each in first], repr(counts), repr(listed), more],
            make=partial(_pages, folder, first, counts, listed, more),
        )


def _pages(
    folder: str,
    first: Sequence[Judged],
    counts: Sequence[tuple[View, ...]],
    current: Sequence[View],
    more: int,
) -> Iterator[Output]:
    """`first`: the first experiment of each run, newest run first, with what is counted of all of the run."""
    newest, ceilings, table = first[0], _ceilings(first), _runs(first, counts)
    page = View(
        name=newest.machine["gpu"], data=_data(newest), facts=_facts(newest), ceilings=ceilings, runs=table,
        current=current, more=more,
    )  # fmt: skip
    yield Document(path=f"{folder}/index.html", template="gpu.html", view={"gpu": page})
    yield csv_file(table, f"{folder}/runs.csv")
    if ceilings:
        yield csv_file(ceilings.table, f"{folder}/ceilings.csv")


def _current(item: View) -> View:
    return View(
        slug=item.name,
        title=item.title,
        question=item.question,
        date=format.minute(item.finished_utc),
        counts=status_counts([item.counts]),
    )


def _data(item: Judged) -> str:
    return f"../../{run_folder(item.digest)}/{experiment_folder(item.plan.name)}/data.json"


def _facts(newest: Judged) -> tuple[View, ...]:
    view = DataView(newest.data)
    facts = ((name, field_figure(view, ("machine", field))) for field, name in GPU.items() if field not in ASIDE)
    return tuple(View(name=name, value=value) for name, value in facts if value)


def _run_link(item: Judged) -> Link:
    return Link(item.evidence["run_id"], f"../../{run_folder(item.digest)}/index.html")


def _view(item: Judged) -> DataView:
    return DataView(item.data, f"{_data(item)}#")


def _ceilings(first: Sequence[Judged]) -> View | None:
    """None where no run on this GPU measured them."""
    measured = [item for item in first if item.data["ceilings"]]
    if not measured:
        return None
    newest = _view(measured[0])
    kinds = list(dict.fromkeys(kind for item in measured for kind in item.data["ceilings"]["matrix"]))
    names = [KINDS.get(kind, kind) for kind in kinds]
    heads = (
        named("run", "Run"),
        *(column(f"{work}_bytes_per_second", f"{work.capitalize()}, TB/s") for _, work in WORKS),
        *(column(f"{name.lower()}_flops_per_second", f"{name}, TFLOP/s") for name in names),
        column("empty_kernel_launch_floor_seconds", "Empty kernel, µs"),
    )
    rows = [table_row(_run_link(item), *_row(_view(item), kinds)) for item in measured]
    source = newest.value("ceilings", "datasheet", "source") or ""
    if source:
        rows.append(table_row("Datasheet", *_printed(newest, kinds), kind="total"))
    return View(
        table=PageTable(label="Measured ceilings by run", kind="reaches stacks", heads=heads, rows=rows),
        shares=_shares(newest, kinds),
        source=source,
    )


def _largest(view: DataView, work: str) -> tuple[str, ...]:
    """Of the largest copy, or read, with nothing cached: no cache can have helped it."""
    rungs = view.value("ceilings", work, "device_cold") or ()
    return ("ceilings", work, "device_cold", str(len(rungs) - 1)) if rungs else ("ceilings", work)


def _row(view: DataView, kinds: Sequence[str]) -> tuple[Figure | None, ...]:
    return (
        *(
            view.figure(*_largest(view, work), "bytes_per_second", show=format.terabytes_per_second)
            for work, _ in WORKS
        ),
        *(view.figure("ceilings", "matrix", kind, "flops_per_second") for kind in kinds),
        view.figure("ceilings", "launch_floor_seconds"),
    )


def _printed(view: DataView, kinds: Sequence[str]) -> tuple[Figure | None, ...]:
    sheet = ("ceilings", "datasheet")
    return (
        *(view.figure(*sheet, "bytes_per_second", show=format.terabytes_per_second) for _ in WORKS),
        *(view.figure(*sheet, "flops_per_second", kind, show=format.teraflops_per_second) for kind in kinds),
        None,
    )


def _shares(view: DataView, kinds: Sequence[str]) -> tuple[tuple[str, Figure], ...]:
    places = [(f"a {name}", _largest(view, work)) for work, name in WORKS]
    places += [(f"{KINDS.get(kind, kind)} products", ("ceilings", "matrix", kind)) for kind in kinds]
    shares = (
        (name, view.figure(*path, "peak_share", show=lambda share: f"{format.share(share)} %")) for name, path in places
    )
    return tuple((name, share) for name, share in shares if share)


def _runs(first: Sequence[Judged], counts: Sequence[tuple[View, ...]]) -> PageTable:
    rows = []
    for item, claims in zip(first, counts, strict=True):
        view = _view(item)
        fields = {head.key: field_figure(view, ("machine", head.key)) for head in RUNS if head.key in item.machine}
        date = format.minute(item.evidence["finished_utc"])
        cells = row(view.at("evidence"), RUNS, run=_run_link(item), date=date, **fields).cells
        rows.append(table_row(*cells, tally(claims)))
    heads = (*RUNS, *words("Claims, as judged today"))
    return PageTable(label="Runs made on this GPU", kind="runs stacks", heads=heads, rows=rows)
