"""The front page: who is fastest at which shape, then what changed, decisions, and every experiment."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import SimpleNamespace as View
from typing import Any

from lab.verdict.judge import READING_ORDER
from lab.website import format
from lab.website.addresses import gpu_folder, run_folder, verdict_folder
from lab.website.data.winners import grid
from lab.website.figure import DataView
from lab.website.files.csv_tables import shown_table
from lab.website.files.schemas import data_text
from lab.website.outputs import Attachment, Document, Output, SiteContext
from lab.website.pages.decisions import decision_rows
from lab.website.pages.grid import HEADINGS, answers_script, grid_view, rows_table
from lab.website.pages.outline import outlines
from lab.website.pages.search import leaves
from lab.website.pages.tallies import status_counts

# What the newest published run changed: experiments that had no evidence before, and verdicts that are others now.
MOST_NEW, MOST_CHANGES = 4, 4


def news(published: Sequence[View]) -> View | None:
    """Of the run that was published last; None where there is none."""
    if not published:
        return None
    newest = published[-1]
    items = [item for item in published if item.digest == newest.digest]
    before = {item.name for item in published if item.digest != newest.digest}
    changed = [(item, turn) for item in items for turn in item.turned]
    new = [View(slug=item.name, title=item.title) for item in items if item.name not in before]
    return View(
        run_id=newest.run_id,
        date=format.day(newest.finished_utc),
        machine=newest.machine_name,
        href=f"{run_folder(newest.digest)}/index.html",
        experiments=len(items),
        new=tuple(new[:MOST_NEW]),
        more_new=max(0, len(new) - MOST_NEW),
        changed=tuple(
            View(
                experiment=item.title,
                text=text,
                was=was,
                was_word=was_word,
                now=now,
                now_word=now_word,
                href=f"{verdict_folder(item.digest, item.name)}/index.html#claim-{claim}",
            )
            for item, (claim, text, was, was_word, now, now_word) in changed[:MOST_CHANGES]
        ),
        more=max(0, len(changed) - MOST_CHANGES),
    )


DATA = "data.json"
PER_PAGE = 100
MOST_ATTENTION = 4  # decisions that are named


def front_pages(context: SiteContext) -> Iterator[Output]:
    """index.html with the grid and the first experiments, experiments/page-2/index.html and so on, and their data."""
    outlined = outlines(context)
    shown = {item.name: item.digest for item in outlined.current}
    # A preview has pages of its own run alone.
    shapes = grid(
        row
        for item in outlined.current
        for row in item.winners
        if not context.label or row["digest"] == shown[item.name]
    )
    data = {**_counts(outlined.current), "shapes": shapes}
    view = DataView(data)
    attention = [row for row in decision_rows(context) if row.attention]
    front = View(
        grid=grid_view(shapes, shown),
        verdicts=[
            View(status=status, count=view.figure("verdicts", status))
            for status, count in data["verdicts"].items()
            if count
        ],
        claims=view.figure("claims"),
        news=None if context.label else news(outlined.published),
        attention=attention[:MOST_ATTENTION],
        more_attention=max(0, len(attention) - MOST_ATTENTION),
        decisions=len(context.decisions),
    )
    rows = sorted((_row(item, preview=bool(context.label)) for item in outlined.current), key=lambda row: row.self_test)
    for leaf in leaves(rows, "experiments", first="index.html", per_page=PER_PAGE):
        yield Document(
            path=leaf.path,
            template="experiments.html" if leaf.previous else "index.html",
            view={"leaf": leaf} if leaf.previous else {"leaf": leaf, "front": front},
        )
    yield shown_table("winners.csv", HEADINGS, rows_table(shapes))
    yield Attachment(path="assets/winners.js", content=answers_script(shapes, shown))
    yield Attachment(path=DATA, content=data_text(data, DATA, "overview", indent=None))


def _row(item: View, *, preview: bool) -> View:
    """`gpu` is the address of its page, relative to the site; empty where there is none."""
    return View(
        slug=item.name, title=item.title, question=item.question, counts=status_counts([item.counts]),
        machine=item.machine_name, gpu=f"{gpu_folder(item.gpu)}/index.html" if item.gpu and not preview else "",
        date=format.day(item.measured_utc), on_cpu=item.on_cpu, self_test=item.self_test,
    )  # fmt: skip


def _counts(current: Iterable[View]) -> Mapping[str, Any]:
    """Verdicts of the claims on kernels; those of the lab's tests of itself are not to be counted among them."""
    counts: Counter[str] = Counter()
    for item in current:
        if not item.self_test:
            counts.update(item.counts)
    return {"claims": counts.total(), "verdicts": {str(status): counts[status] for status in READING_ORDER}}
