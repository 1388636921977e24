"""Tables as data: what stands in each cell, and where its figures point; and as CSV. `markup.py` writes the HTML.

    HEADS = (
        named("run", "Run"),                                     # words: here handed over for each row
        column("footprint_bytes", "Buffer, bytes", show=whole),  # the datum under this key, shown in this way
        column("dram_percent"),                                  # heading and format from lab.quantities
    )
    rows = [row(view.at("flush", run), HEADS, run=run) for run in view.value("flush")]
    table = PageTable(label="Does the flush work?", heads=HEADS, rows=tuple(rows))

A template writes `{{ table_html(table) }}`, and the page's module yields `csv_file(table, "trust/flush.csv")`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from lab.quantities import heading_of
from lab.website.figure import DataView, Figure, Show
from lab.website.files.csv_tables import csv_text
from lab.website.outputs import Attachment
from lab.website.verdict_words import StatusCount

NOTHING = "–"


@dataclass(frozen=True, slots=True)
class Link:
    text: str
    to: str


@dataclass(frozen=True, slots=True)
class VerdictChip:
    """A verdict, as its word: `word`, or the one for the status alone."""

    status: str
    mark: str = ""
    reason: str = ""
    word: str = ""


@dataclass(frozen=True, slots=True)
class Soft:
    """On a line of its own, in small letters."""

    parts: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Strong:
    parts: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Code:
    text: str


@dataclass(frozen=True, slots=True)
class Constant:
    """What the code that judges prints of its own constants, and what makers print: its figures need no pointer."""

    parts: tuple[Any, ...]


Words = tuple[Figure | str | Link | VerdictChip | Soft | Strong | Code | Constant | None, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Head:
    """`key` names the datum below the place of a row, and the column in a CSV; `show` is how it is shown."""

    text: str
    numbers: bool = True
    link: str = ""
    id: str = ""
    key: str = ""
    show: Show | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class TableRow:
    """`kind` is 'group' of a heading across the table, 'best' or 'total'."""

    cells: tuple[Words, ...]
    kind: str = ""
    id: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class PageTable:
    """The first cell of a row is its heading. `label` is what it is called where it is not seen."""

    label: str
    heads: Sequence[Head]
    rows: Sequence[TableRow]
    caption: Words = ()
    kind: str = ""
    group: str = ""  # what the headings of groups are called in a CSV
    labelled: bool = True  # of a kind that stacks on phones, where each value has its heading beside it


@dataclass(frozen=True, kw_only=True, slots=True)
class Fold:
    """`panels` are small pictures side by side, each under its title; `picture` is one alone."""

    id: str
    title: str
    lead: Words = ()
    panels: tuple[tuple[str, Markup], ...] = ()
    picture: Markup | None = None
    caption: str = ""
    tables: tuple[PageTable, ...] = ()
    items: tuple[Words, ...] = ()


def words(*names: str) -> tuple[Head, ...]:
    """Heads of columns that hold words."""
    return tuple(Head(text=name, numbers=False) for name in names)


def numbers(*names: str) -> tuple[Head, ...]:
    return tuple(Head(text=name) for name in names)


def column(key: str, text: str = "", show: Show | None = None) -> Head:
    """The head of a column of data with this key; heading and format are those of the quantity, unless given."""
    return Head(text=text or heading_of(key), key=key, show=show)


def named(key: str, text: str) -> Head:
    """The head of a column that holds words: handed over for a row, or the datum with this key."""
    return Head(text=text, key=key, numbers=False)


def below(*parts: Any) -> Soft | str:
    """What stands below a cell in small letters; nothing where a part of it is missing."""
    return Soft(parts) if parts and all(parts) else ""


def table_row(*cells: Any, kind: str = "", id: str = "") -> TableRow:
    """Each cell is a tuple of its parts, or its only part."""
    return TableRow(cells=tuple(cell if isinstance(cell, tuple) else (cell,) for cell in cells), kind=kind, id=id)


def row(view: DataView, heads: Sequence[Head], **given: Any) -> TableRow:
    """The figures and words below the place of `view`. Of a column that `given` names, that cell instead."""
    cells = (given[head.key] if head.key in given else _datum(view, head) for head in heads)
    return table_row(*cells)


def _datum(view: DataView, head: Head) -> Any:
    return view.figure(head.key, show=head.show) if head.numbers else view.value(head.key)


def csv_file(table: PageTable, path: str) -> Attachment:
    """The values behind the columns of a table that have keys; where `table.group` says so, each under its heading."""
    keyed = [number for number, head in enumerate(table.heads) if head.key]
    rows, group = [], ""
    for row in table.rows:
        if row.kind == "group":
            group = _value(row.cells[0])
        else:
            rows.append([*([group] if table.group else ()), *(row.cells[number] for number in keyed)])
    return csv_table(path, [*filter(None, [table.group]), *(table.heads[number].key for number in keyed)], rows)


def csv_table(path: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> Attachment:
    """Cells as a page has them, by their values: the datum of an only figure, else the words."""
    return Attachment(path=path, content=csv_text(columns, (map(_value, row) for row in rows)))


def _value(cell: Any) -> Any:
    """What stands below in small letters is left out, and of a dash nothing is left."""
    if isinstance(cell, int | float | str):
        return cell
    parts = cell if isinstance(cell, tuple) else (cell,)
    figures = [part for part in parts if isinstance(part, Figure)]
    if len(figures) == 1:
        return figures[0].value
    text = plain([part for part in parts if part is not None and not isinstance(part, Soft)])
    return None if text == NOTHING else text


def tally(counts: Iterable[StatusCount]) -> Words:
    """How many claims have which verdict."""
    return tuple(
        part
        for count in counts
        for part in (VerdictChip(count.status, word=count.word), f" {count.claims}{count.also} ")
    )


def plain(parts: Sequence[Any]) -> str:
    """Without markup."""
    return "".join(map(_plain, parts)).strip()


def _plain(part: Any) -> str:
    match part:
        case None:
            return NOTHING
        case str():
            return part
        case Soft():
            return f" {plain(part.parts)}"
        case Strong() | Constant():
            return plain(part.parts)
        case VerdictChip():
            return part.word or str(part.status)
    return str(part.text)
