"""The front page: what was established, what changed, what needs attention, and every experiment with its answer."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lab.verdict.judge import READING_ORDER
from lab.website import format
from lab.website.addresses import gpu_folder
from lab.website.charts.verdicts import VerdictBar, verdict_bar
from lab.website.data.outline import Outline
from lab.website.figure import Figure, Ledger, Sentence, read_sentence
from lab.website.files.schemas import data_text
from lab.website.files.shown_tables import shown_table
from lab.website.outputs import Attachment, Document, Gathered, Output
from lab.website.pages.decisions import DecisionRow, decision_rows
from lab.website.pages.established import FindingList, established
from lab.website.pages.news import News, news
from lab.website.pages.outline import outlines
from lab.website.pages.paging import leaves
from lab.website.pages.rivals import KINDS, OUTCOMES, together
from lab.website.pages.tallies import StatusCount, status_counts
from lab.website.pages.verdict_words import TIE

DATA = "data.json"
PER_PAGE = 100  # an answer has many figures


@dataclass(frozen=True, kw_only=True, slots=True)
class ExperimentRow:
    slug: str
    title: str
    question: str
    told: Sequence[Any]  # lab.website.figure.plain_sentence of its answer
    counts: tuple[StatusCount, ...]
    machine: str
    gpu: str  # address of its page, relative to the site; empty where there is none
    date: str  # empty: not measured yet
    on_cpu: bool
    self_test: bool

    @property
    def answer(self) -> Sentence:
        return read_sentence(self.told)


@dataclass(frozen=True, kw_only=True, slots=True)
class RivalRow:
    """The claims against one kind of rival, by outcome."""

    about: str
    counts: tuple[Figure | None, ...]


@dataclass(frozen=True, slots=True)
class Count:
    status: str
    figure: Figure


@dataclass(frozen=True, kw_only=True, slots=True)
class FrontPage:
    """What stands above the experiments; `news` is of the run that was published last."""

    lists: tuple[FindingList, ...]
    bar: VerdictBar | None
    counts: tuple[Count, ...]
    ties: Figure | None  # of the refuted claims
    rivals: tuple[RivalRow, ...]
    claims: Figure | None
    news: News | None
    attention: tuple[DecisionRow, ...]
    decisions: int


def front_pages(gathered: Gathered) -> Iterator[Output]:
    """index.html with the first experiments, experiments/page-2/index.html and so on, and the counts behind them."""
    held = outlines(gathered)
    rows = sorted((_row(item, preview=bool(gathered.label)) for item in held.current), key=lambda row: row.self_test)
    data = _data(held.current)
    ledger = Ledger(data)
    counts = {status: count for status, count in data["verdicts"].items() if count}
    front = FrontPage(
        lists=established(held.current, on_cpu=bool(gathered.label) and all(item.on_cpu for item in held.current)),
        bar=verdict_bar(counts),
        counts=tuple(_count(ledger, "verdicts", status) for status in counts),
        ties=ledger.figure("ties") if data["ties"] else None,
        rivals=tuple(_rivals(ledger)),
        claims=ledger.figure("claims"),
        news=None if gathered.label else news(held.published),
        attention=tuple(row for row in decision_rows(gathered) if row.attention),
        decisions=len(gathered.decisions),
    )
    for leaf in leaves(rows, "experiments", first="index.html", per_page=PER_PAGE):
        yield Document(
            path=leaf.path,
            template="experiments.html" if leaf.previous else "index.html",
            view={"leaf": leaf} if leaf.previous else {"leaf": leaf, "front": front},
        )
    yield shown_table("rivals.csv", ("claims", *OUTCOMES), ((row.about, *row.counts) for row in front.rivals))
    yield Attachment(path=DATA, content=data_text(data, DATA, "overview"))


def _row(item: Outline, preview: bool) -> ExperimentRow:
    return ExperimentRow(
        slug=item.name,
        title=item.title,
        question=item.question,
        told=item.answer,
        counts=status_counts([item.counts]),
        machine=item.machine_name,
        gpu=f"{gpu_folder(item.gpu)}/index.html" if item.gpu and not preview else "",
        date=format.day(item.measured_utc),
        on_cpu=item.on_cpu,
        self_test=item.self_test,
    )


def _data(current: Iterable[Outline]) -> Mapping[str, Any]:
    """Verdicts of the claims on kernels; those of the lab's tests of itself are not to be counted among them."""
    told: Counter[str] = Counter()
    counted = [item for item in current if not item.self_test]
    for item in counted:
        told.update(item.counts)
    rivals = together(item.rivals for item in counted)
    return {
        "ties": sum(outcomes[TIE] for outcomes in rivals.values()),
        "by_rival": rivals,
        "claims": told.total(),
        "verdicts": {str(status): told[status] for status in READING_ORDER},
    }


def _rivals(ledger: Ledger) -> Iterator[RivalRow]:
    for kind, about in KINDS.items():
        counts = tuple(ledger.figure("by_rival", kind, outcome) for outcome in OUTCOMES)
        if any(count and count.value for count in counts):
            yield RivalRow(about=about, counts=counts)


def _count(ledger: Ledger, *path: str) -> Count:
    found = ledger.figure(*path)
    assert found is not None, "a count that is drawn is in the data"
    return Count(path[-1], found)
