"""A part of the page on trust: a table, what it is about, and the same table as CSV."""

from collections.abc import Iterable
from typing import Any

from lab.website.figure import Sentence
from lab.website.table import Head, PageTable, TableRow

Part = dict[str, Any]  # of the page: anchor, title, about, table, csv, summary, notes


def trust_part(
    name: str, title: str, about: str, columns: tuple[Head, ...], rows: Iterable[TableRow], summary: Sentence = ()
) -> Part:
    table = PageTable(label=title, kind="stacks", heads=columns, rows=tuple(rows))
    return {
        "anchor": name,
        "title": title,
        "about": about,
        "table": table,
        "csv": table,
        "summary": summary,
        "notes": (),
    }
