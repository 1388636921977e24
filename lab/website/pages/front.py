"""The front page: what was established, what changed, what needs attention, and every experiment with its answer."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from lab.verdict.judge import READING_ORDER
from lab.website import format
from lab.website.addresses import gpu_folder
from lab.website.charts.verdicts import verdict_bar
from lab.website.data.judged import Judged
from lab.website.figure import Figure, Ledger, Sentence
from lab.website.files.schemas import data_text
from lab.website.outputs import Attachment, Document, Gathered, Output
from lab.website.pages.answer import answer
from lab.website.pages.decisions import decision_rows
from lab.website.pages.established import established
from lab.website.pages.news import news
from lab.website.pages.paging import leaves
from lab.website.pages.search import search_answer, search_cases
from lab.website.pages.tallies import StatusCount, status_counts

DATA = "data.json"
PER_PAGE = 100  # an answer has many figures


@dataclass(frozen=True, kw_only=True, slots=True)
class ExperimentRow:
    slug: str
    title: str
    question: str
    answer: Sentence
    counts: tuple[StatusCount, ...]
    machine: str
    gpu: str  # address of its page, relative to the site; empty where there is none
    date: str  # empty: not measured yet
    on_cpu: bool
    self_test: bool


@dataclass(frozen=True, slots=True)
class Count:
    status: str
    figure: Figure


def front_pages(gathered: Gathered) -> Iterator[Output]:
    """index.html with the first experiments, experiments/page-2/index.html and so on, and the counts behind them."""
    rows = sorted(
        (_row(item, preview=bool(gathered.label)) for item in gathered.current), key=lambda row: row.self_test
    )
    data = _data(gathered)
    ledger = Ledger(data)
    counts = {status: count for status, count in data["verdicts"].items() if count}
    front = {
        "groups": established(gathered.current, gathered.published),
        "bar": verdict_bar(counts),
        "counts": tuple(_count(ledger, "verdicts", status) for status in counts),
        "claims": ledger.figure("claims"),
        "news": None if gathered.label else news(gathered.published),
        "attention": tuple(row for row in decision_rows(gathered) if row.attention),
        "decisions": len(gathered.decisions),
    }
    for leaf in leaves(rows, "experiments", first="index.html", per_page=PER_PAGE):
        yield Document(
            path=leaf.path,
            template="experiments.html" if leaf.previous else "index.html",
            view={"leaf": leaf} if leaf.previous else {"leaf": leaf, "front": front},
        )
    yield Attachment(path=DATA, content=data_text(data, DATA, "overview"))


def _row(item: Judged, preview: bool) -> ExperimentRow:
    ledger = Ledger(item.data)
    return ExperimentRow(
        slug=item.plan.name,
        title=item.plan.title,
        question=item.plan.question,
        answer=search_answer(item, ledger) if search_cases(item, ledger) else answer(item, ledger),
        counts=status_counts([item]),
        machine=item.machine_name,
        gpu=f"{gpu_folder(item.machine['gpu'])}/index.html"
        if item.evidence and not item.on_cpu and not preview
        else "",
        date=format.day(item.measured_utc),
        on_cpu=item.on_cpu,
        self_test=item.plan.self_test,
    )


def _data(gathered: Gathered) -> Mapping[str, Any]:
    """Verdicts of the claims on kernels; those of the lab's tests of itself are not to be counted among them."""
    told = Counter(
        claim["status"]
        for item in gathered.current
        if not item.plan.self_test
        for claim in item.data["claims"].values()
    )
    return {
        "claims": told.total(),
        "verdicts": {str(status): told[status] for status in READING_ORDER},
    }


def _count(ledger: Ledger, *path: str) -> Count:
    found = ledger.figure(*path)
    assert found is not None, "a count that is drawn is in the data"
    return Count(path[-1], found)
