"""Tables, folds and the words in them as HTML: each figure in a <data> element, with the pointer to its datum."""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from os.path import commonprefix
from typing import Any

from markupsafe import Markup, escape

from lab.website.figure import Figure
from lab.website.table import (
    NOTHING,
    Code,
    Constant,
    Fold,
    Head,
    Link,
    PageTable,
    Soft,
    Strong,
    TableRow,
    VerdictChip,
    Words,
)
from lab.website.verdict_words import look, mark_words, verdict_word

NUM = ' class="num"'
SHORTER = len(' data-at=""')  # by more than this must the common beginning of pointers make them shorter


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


def table_html(content: PageTable) -> Markup:
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


def fold_html(content: Fold) -> Markup:
    """A fold that a reader opens."""
    inside = f'<div id="{escaped(content.id)}">\n{folded_html(content)}</div>'
    return Markup(f"<details><summary>{escaped(content.title)}</summary>\n{inside}\n</details>")


def folded_html(content: Fold) -> Markup:
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
    parts += [f"{table_html(each)}\n" for each in content.tables]
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
def verdict_html(status: str, mark: str = "", reason: str = "", word: str = "") -> Markup:
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
        return verdict_html(part.status, part.mark, part.reason, part.word)
    if kind is Strong:
        return f"<strong>{html(part.parts, at)}</strong>"
    if kind is Code:
        return f'<span class="id">{escaped(part.text)}</span>'
    if kind is Constant:
        return f"<span data-constant>{html(part.parts, at)}</span>"
    if isinstance(part, str):  # an enumeration's
        return escaped(str(part))
    raise TypeError(f"nothing that a cell may hold: {part!r}")
