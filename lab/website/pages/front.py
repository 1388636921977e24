"""The front page: who is fastest at which shape, then what changed, decisions, and every experiment."""

from collections.abc import Iterator, Sequence
from types import SimpleNamespace as View

from lab.website import format
from lab.website.data.overview import overview
from lab.website.data.winners import grid
from lab.website.figure import DataView, Sentence
from lab.website.files.schemas import data_text
from lab.website.outputs import Attachment, Document, Output, SiteContext
from lab.website.pages.decisions import decision_rows
from lab.website.pages.grid import HEADINGS, grid_view, rows_table
from lab.website.pages.news import news
from lab.website.pages.outline import outlines
from lab.website.pages.pagination import leaves
from lab.website.pages.search_answers import answers_script
from lab.website.pages.zoo import has_zoo
from lab.website.table import csv_table
from lab.website.verdict_words import StatusCount, status_counts


def experiment_row(item: View) -> View:
    """`item`: lab.website.pages.outline.outline."""
    return View(
        slug=item.name, title=item.title, question=item.question, told=item.counts, self_test=item.self_test,
        counts={each.status: each.claims for each in status_counts([item.counts])}, machine=item.machine_name,
        date=format.day(item.measured_utc), on_cpu=item.on_cpu,
    )  # fmt: skip


def order_in_lists(row: View) -> tuple[bool, bool]:
    """In which order lists show them."""
    return row.self_test, not row.date


def experiment_lists(rows: Sequence[View]) -> View:
    measured = [row for row in rows if row.date and not row.self_test]
    tests = [row for row in rows if row.self_test]
    return View(
        measured=measured, verdicts=status_counts(row.told for row in measured), tests=tests,
        test_verdicts=status_counts(row.told for row in tests),
        planned=[row for row in rows if not (row.date or row.self_test)],
    )  # fmt: skip


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
    went_on = {item.digest for item in (*outlined.current, *outlined.published) if not item.isolated}
    # Those of the lab's tests of itself are not to be counted among them.
    counts = status_counts(item.counts for item in outlined.current if not item.self_test)
    data = overview(counts, shapes, went_on)
    view = DataView(data)
    attention = [row for row in decision_rows(context) if row.attention]
    front = View(
        grid=grid_view(data, shown, context.trust),
        verdicts=[(each, _claims_with(each, view)) for each in counts],
        claims=view.figure("claims"),
        news=None if context.label else news(outlined.published, shown),
        attention=attention[:MOST_ATTENTION],
        answered=all(row.acknowledged for row in attention),
        more_attention=max(0, len(attention) - MOST_ATTENTION),
        decisions=len(context.decisions),
        zoo=not context.label and has_zoo(outlined),
    )
    rows = sorted(map(experiment_row, outlined.current), key=order_in_lists)
    for leaf in leaves(rows, "experiments", first="index.html", per_page=PER_PAGE):
        lists = experiment_lists(leaf.items)
        yield Document(
            path=leaf.path,
            template="experiments.html" if leaf.previous else "index.html",
            view={"leaf": leaf, "lists": lists} if leaf.previous else {"leaf": leaf, "lists": lists, "front": front},
        )
    yield csv_table("winners.csv", HEADINGS, rows_table(shapes))
    yield Attachment(path="assets/winners.js", content=answers_script(shapes, shown))
    yield Attachment(path=DATA, content=data_text(data, DATA, "overview"))


def _claims_with(count: StatusCount, view: DataView) -> Sentence:
    """'12 (3 mixed)': how many claims have a verdict."""
    claims = view.figure("verdicts", count.status) or "–"
    return (claims, " (", view.figure("mixed") or "–", " mixed)") if count.mixed else (claims,)
