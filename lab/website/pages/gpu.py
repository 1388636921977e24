"""A model of GPU: what it is, what it reaches beside what is printed of it, and which evidence it gave."""

from collections.abc import Iterator, Sequence
from functools import partial
from types import SimpleNamespace as View

from lab.website import format
from lab.website.addresses import experiment_folder, gpu_folder, run_folder
from lab.website.data.comparison import GPU
from lab.website.data.judged import Judged
from lab.website.figure import DataView, Figure
from lab.website.files.csv_tables import shown_table
from lab.website.outputs import Attachment, Document, Output, PageGroup, SiteContext
from lab.website.pages.ceilings import KINDS
from lab.website.pages.labels import field_figure
from lab.website.pages.outline import outlines
from lab.website.verdict_words import status_counts

ASIDE = ("device", "gpu", "gpu_id")  # told by the page itself, or different from card to card
MOST_LISTED = 100  # experiments; all are on the front page
WORKS = (("copies", "copy"), ("reads", "read"))


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
        sizes = [len(run) for run in newest_first]
        name = newest_first[0][0][1].machine["gpu"]
        current = [_current(item) for item in outlined.current if item.gpu == name]
        listed, more = current[:MOST_LISTED], max(0, len(current) - MOST_LISTED)
        yield PageGroup(
            name=folder,
            shows=[[each.key for each in first], repr(counts), sizes, repr(listed), more],
            make=partial(_pages, folder, first, counts, sizes, listed, more),
        )


def _tables(page: View, folder: str) -> Iterator[Attachment]:
    if ceilings := page.ceilings:
        rows = [(run.run_id, *run.figures) for run in ceilings.runs] + [("datasheet", *ceilings.printed)]
        headings = ("run", *(f"{column.partition(',')[0]}:" for column in ceilings.columns))
        yield shown_table(f"{folder}/ceilings.csv", headings, rows if ceilings.source else rows[:-1])
    yield shown_table(
        f"{folder}/runs.csv", ("run", "date", "card", "driver", "torch", "triton", "floor"),
        [(run.run_id, run.date, run.card, run.driver, run.torch, run.triton, run.floor) for run in page.runs],
    )  # fmt: skip


def _pages(
    folder: str,
    first: Sequence[Judged],
    counts: Sequence[tuple[View, ...]],
    sizes: Sequence[int],
    current: Sequence[View],
    more: int,
) -> Iterator[Output]:
    """`first`: the first experiment of each run, newest run first, with what is counted of all of the run."""
    runs = tuple(_run(item, size, claims) for item, size, claims in zip(first, sizes, counts, strict=True))
    page = _page(first, runs, current, more)
    yield Document(path=f"{folder}/index.html", template="gpu.html", view={"gpu": page})
    yield from _tables(page, folder)


def _page(first: Sequence[Judged], runs: tuple[View, ...], current: Sequence[View], more: int) -> View:
    newest = first[0]
    return View(
        name=newest.machine["gpu"], data=_data(newest), facts=_facts(newest), ceilings=_ceilings(first), runs=runs,
        current=tuple(current), more=more,
    )  # fmt: skip


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


def _ceilings(first: Sequence[Judged]) -> View | None:
    """None where no run on this GPU measured them."""
    measured = [item for item in first if item.data["ceilings"]]
    if not measured:
        return None
    newest = DataView(measured[0].data)
    kinds = list(dict.fromkeys(kind for item in measured for kind in item.data["ceilings"]["matrix"]))
    return View(
        columns=tuple(_columns(kinds)),
        runs=tuple(
            View(
                run_id=item.evidence["run_id"],
                folder=f"../../{run_folder(item.digest)}",
                data=_data(item),
                figures=_row(DataView(item.data), kinds),
            )
            for item in measured
        ),
        printed=_printed(newest, kinds),
        shares=_shares(newest, kinds),
        source=newest.value("ceilings", "datasheet", "source") or "",
        data=_data(measured[0]),
    )


def _columns(kinds: Sequence[str]) -> Iterator[str]:
    yield from (f"{work.capitalize()}, TB/s" for _, work in WORKS)
    yield from (f"{KINDS.get(kind, kind)}, TFLOP/s" for kind in kinds)
    yield "Empty kernel, µs"


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
    shares = ((name, view.figure(*path, "peak_share", show=_percent)) for name, path in places)
    return tuple((name, share) for name, share in shares if share)


def _percent(share: float) -> str:
    return f"{format.share(share)} %"


def _run(first: Judged, size: int, counts: tuple[View, ...]) -> View:
    view = DataView(first.data)
    card, driver, torch, triton = (
        field_figure(view, ("machine", field)) for field in ("gpu_id", "driver", "torch", "triton")
    )
    return View(
        run_id=first.evidence["run_id"], folder=f"../../{run_folder(first.digest)}", data=_data(first),
        date=format.minute(first.evidence["finished_utc"]), card=card, driver=driver, torch=torch, triton=triton,
        floor=view.figure("evidence", "median_launch_floor_seconds"), experiments=size, counts=counts,
    )  # fmt: skip
