"""Tables as data: what stands in each cell, and where its figures point; written as HTML, and as CSV.

    HEADS = (
        named("run", "Run"),                                     # words: here handed over for each row
        column("footprint_bytes", "Buffer, bytes", show=whole),  # the datum under this key, shown in this way
        column("dram_percent"),                                  # heading and format from lab.quantities
    )
    rows = [row(view.at("flush", run), HEADS, run=run) for run in view.value("flush")]
    table = PageTable(label="Does the flush work?", heads=HEADS, rows=tuple(rows))

A template writes `{{ table_html(table) }}`, and the page's module yields `csv_file(table, "trust/flush.csv")`.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from os.path import commonprefix
from typing import Any

from markupsafe import Markup, escape

from lab.quantities import heading_of
from lab.website.figure import DataView, Figure, Show
from lab.website.files.csv_tables import csv_text
from lab.website.outputs import Attachment
from lab.website.verdict_words import look, mark_words, verdict_word

NOTHING = "–"
NUM = ' class="num"'
SHORTER = len(' data-at=""')  # by more than this must the common beginning of pointers make them shorter


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
    return None if text == "–" else text


def tally(counts: Iterable[Any]) -> Words:
    """How many claims have which verdict: of lab.website.verdict_words.status_counts."""
    return tuple(
        part
        for count in counts
        for part in (VerdictChip(count.status, word=count.word), f" {count.claims}{count.also} ")
    )


def plain(parts: Sequence[Any]) -> str:
    """Without markup."""
    return "".join(map(_plain, parts)).strip()


def number(figure: Figure | None, at: str = "") -> Markup:
    """A figure in a <data> element, with its value and the pointer to it.

    Where the pointer names no file, it is one into the file that the data-at around it names. `at` is what that data-at
    begins it with: of long tables that is most of it.
    """
    return Markup(_figure(figure, at) if figure else NOTHING)


def _figure(figure: Figure, at: str) -> str:
    value = figure.value
    written = value if type(value) is float else escaped(str(value))
    source = escaped(figure.source.removeprefix(at))
    return f'<data value="{written}" data-src="{source}">{escaped(figure.text)}</data>'


def escaped(text: str) -> str:
    """As HTML has it; nearly every text is the same there."""
    if "&" in text or "<" in text or ">" in text or '"' in text or "'" in text:
        return str(escape(text))
    return text


def table(content: PageTable) -> Markup:
    """A table as HTML."""
    heads = "".join(_head(head) for head in content.heads)
    tags = [f"<td{NUM if head.numbers else ''}{_labelled(content, head)}>" for head in content.heads[1:]]
    body = "".join(_row(row, tags) for row in content.rows)
    caption = f"<caption>{html(content.caption)}</caption>" if content.caption else ""
    kind = f' class="{content.kind}"' if content.kind else ""
    return Markup(
        f'<div class="scroll" role="region" tabindex="0" aria-label="{escaped(content.label)}"><table{kind}>{caption}'
        f"<thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def fold(content: Fold) -> Markup:
    """A fold that a reader opens."""
    inside = f'<div id="{escaped(content.id)}">\n{folded(content)}</div>'
    return Markup(f"<details><summary>{escaped(content.title)}</summary>\n{inside}\n</details>")


def folded(content: Fold) -> Markup:
    """What is in a fold: its lead, pictures, tables and items."""
    parts = [f'<p class="soft">{html(content.lead)}</p>'] if content.lead else []
    if content.panels:
        panels = (f"<figcaption>{escaped(title)}</figcaption>{drawn}" for title, drawn in content.panels)
        figures = (f'<figure class="chart panel">{inside}</figure>\n' for inside in panels)
        parts.append(f'<div class="panels">\n{"".join(figures)}</div>\n')
    if content.picture:
        caption = f"<figcaption>{escaped(content.caption)}</figcaption>" if content.caption else ""
        scroll = f'<div class="scroll" role="region" tabindex="0" aria-label="{escaped(content.title)}">'
        parts.append(f'<figure class="chart wide">{scroll}{content.picture}</div>\n{caption}</figure>\n')
    parts += [f"{table(each)}\n" for each in content.tables]
    if content.items:
        items = (f"<li>{html(item)}</li>" for item in content.items)
        parts.append(f'<ul class="items">{"".join(items)}</ul>')
    return Markup("".join(parts))


def html(parts: Sequence[Any], at: str = "") -> str:
    """`at` is the beginning that the pointers of figures have in common, where an element around them says it."""
    return "".join([_html(part, at) for part in parts])


def words_html(parts: Words) -> Markup:
    return Markup(html(parts))


@lru_cache(maxsize=1024)
def verdict(status: str, mark: str = "", reason: str = "", word: str = "") -> Markup:
    """The word of a verdict with its sign, so that nobody needs the colour; under it what else marks it."""
    word, more = word or verdict_word(status, mark, reason), mark_words(mark)
    chip = f'<span class="verdict {look(word, status)}">{escape(word)}</span>'
    return Markup(chip + (f'<br><span class="small soft">{escape(more)}</span>' if more else ""))


def _head(head: Head) -> str:
    inside = f'<a href="{escaped(head.link)}">{escaped(head.text)}</a>' if head.link else escaped(head.text)
    attributes = f' id="{escaped(head.id)}"' if head.id else ""
    return f'<th scope="col"{NUM if head.numbers else ""}{attributes}>{inside}</th>'


def _row(row: TableRow, tags: Sequence[str]) -> str:
    """`tags` begin its cells after the first."""
    at = _common([source for cell in row.cells for source in _sources(cell)])
    attributes = f' id="{escaped(row.id)}"' if row.id else ""
    attributes += f' class="{row.kind}"' if row.kind else ""
    attributes += f' data-at="{escaped(at)}"' if at else ""
    first, *rest = (html(cell, at) for cell in row.cells)
    if row.kind == "group":
        return f'<tr{attributes}><th scope="rowgroup" colspan="{len(tags) + 1}">{first}</th></tr>'
    cells = "".join(f"{tag}{cell}</td>" for tag, cell in zip(tags, rest, strict=True))
    return f'<tr{attributes}><th scope="row">{first}</th>{cells}</tr>'


def _common(pointers: list[str]) -> str:
    """The beginning of all these pointers, up to a slash, where to say it once makes a row shorter."""
    shared = commonprefix(pointers)  # noqa: RUF071, for a pointer is no path of this machine
    at = shared[: shared.rfind("/") + 1]
    whole = at.startswith("/") or "#" in at  # and not the folder of several files
    return at if whole and (len(pointers) - 1) * len(at) > SHORTER else ""


def _labelled(content: PageTable, head: Head) -> str:
    """On a phone some tables become paragraphs, in which a value may need its heading beside it."""
    return f' data-label="{escaped(head.text)}:"' if "stacks" in content.kind and content.labelled else ""


def _sources(parts: Sequence[Any]) -> Iterator[str]:
    """The pointers of all figures in a cell."""
    for part in parts:
        kind = type(part)
        if kind is Figure:
            yield part.source
        elif kind is Strong or kind is Soft or kind is Constant:
            yield from _sources(part.parts)


def _html(part: Any, at: str) -> str:
    """The kinds of which there are most on a page come first."""
    kind = type(part)
    if kind is Figure:
        return _figure(part, at)
    if kind is str:
        return escaped(part)
    if kind is Soft:
        return f'<span class="small soft below">{html(part.parts, at)}</span>'
    if part is None:
        return NOTHING
    if kind is Link:
        return f'<a href="{escaped(part.to)}">{escaped(part.text)}</a>'
    if kind is VerdictChip:
        return verdict(part.status, part.mark, part.reason, part.word)
    if kind is Strong:
        return f"<strong>{html(part.parts, at)}</strong>"
    if kind is Code:
        return f'<span class="id">{escaped(part.text)}</span>'
    if kind is Constant:
        return f"<span data-constant>{html(part.parts, at)}</span>"
    if isinstance(part, str):  # an enumeration's
        return escaped(str(part))
    raise TypeError(f"nothing that a cell may hold: {part!r}")


def _plain(part: Any) -> str:
    match part:
        case None:
            return "–"
        case str():
            return part
        case Soft():
            return f" {plain(part.parts)}"
        case Strong() | Constant():
            return plain(part.parts)
        case VerdictChip():
            return part.word or str(part.status)
    return str(part.text)
