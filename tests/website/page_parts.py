"""What pages say, for tests: sentences as text, and figures where they point."""

from collections.abc import Mapping
from types import SimpleNamespace as View
from typing import Any

from lab.website.figure import Figure, Sentence
from lab.website.table import Fold, PageTable, TableRow, plain


def words_of(sentence: Sentence | tuple[Any, ...]) -> str:
    return plain(sentence)


def figures(parts: tuple[Any, ...]) -> list[Figure]:
    """Every figure of a cell, those within others too."""
    inside: list[Figure] = []
    for part in parts:
        inside += [part] if isinstance(part, Figure) else figures(getattr(part, "parts", ()))
    return inside


def row_of(table: PageTable, name: str) -> TableRow:
    """The row whose heading begins with that name."""
    return next(row for row in table.rows if plain(row.cells[0]).startswith(name))


def texts_of(table: PageTable, name: str) -> list[str]:
    """What stands in that row behind its heading, as text."""
    return [plain(cell) for cell in row_of(table, name).cells[1:]]


def datum(data: Mapping[str, Any], figure: Figure) -> Any:
    """What stands where a figure points."""
    node: Any = data
    for name in figure.source.split("/")[1:]:
        node = node[int(name)] if isinstance(node, list) else node[name]
    return node


def section_of(page: View, name: str) -> Fold | None:
    """A section of a case's page, by its anchor; None where the page has no such section."""
    return next((each for each in (*page.sections, *page.folds) if each.id == name), None)
