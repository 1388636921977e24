"""A table of a page that several runs or publications share, as CSV: the values behind its figures.

A column of figures is called as their datum, unit and all, after what the caller says where several would be alike.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any

from lab.website.figure import Figure, Sentence
from lab.website.files.csv_tables import csv_text
from lab.website.outputs import Attachment

Cell = Figure | Sentence | str | int | bool | None
UNITLESS = re.compile(r"[^a-z0-9]+")
NAME = re.compile(r"[a-z0-9_]+")


def shown_table(path: str, headings: Sequence[str], rows: Iterable[Sequence[Cell]]) -> Attachment:
    """`path` ends in .csv; a heading that ends in ':' stands before the name of the datum.

    One that is a name with a '_' is the column's as it is; any other is that of a column without figures, for what a
    heading says of units ('do_bench, µs') is true of the page and not of the values, which are in SI units.
    """
    held = [tuple(row) for row in rows]
    columns = [_column(heading, [row[number] for row in held]) for number, heading in enumerate(headings)]
    return Attachment(path=path, content=csv_text(columns, ([_value(cell) for cell in row] for row in held)))


def shown(figure: Figure | None) -> str:
    """As on the page: of an interval both ends, of which a figure holds but the lower."""
    return figure.text if figure else ""


def _column(heading: str, cells: Sequence[Cell]) -> str:
    if "_" in heading and NAME.fullmatch(heading):
        return heading
    name = UNITLESS.sub("_", heading.lower()).strip("_")
    datum = next((_datum(figure) for cell in cells if (figure := _figure(cell))), "")
    return "_".join(filter(None, (name, datum))) if heading.endswith(":") else datum or name


def _datum(figure: Figure) -> str:
    """The last name of its pointer, and the one before where that holds the unit: 'load_stage_seconds'."""
    *_, before, last = ("", *figure.source.split("/"))
    return f"{last}_{before}" if before.endswith("_seconds") else last


def _figure(cell: Cell) -> Figure | None:
    """The only figure of a cell."""
    found = [part for part in (cell if isinstance(cell, tuple) else (cell,)) if isinstance(part, Figure)]
    return found[0] if len(found) == 1 else None


def _value(cell: Cell) -> Any:
    if figure := _figure(cell):
        return figure.value
    if isinstance(cell, tuple):
        text = "".join(part.text if isinstance(part, Figure) else part for part in cell)
        return "" if text == "–" else text
    return "" if cell is None else cell
