"""The tables behind an experiment's page as CSV (RFC 4180): the values of its data.json, unit in the column's name.

Every row says which evidence it is of and on which machine, so that a row which was copied elsewhere still does.
A value that there is none of is empty; of an experiment that nobody measured, the rows say what is registered.
"""

import csv
import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from lab.website.data.judged import Judged
from lab.website.files.csv_rows import TABLES
from lab.website.outputs import Attachment, Gathered

CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
# What a spreadsheet takes for the start of a formula; after a semicolon too, which parts fields in many languages.
FORMULA = re.compile(r"(^\s*|;\s*)(?=[=+\-@＝＋－＠])|^(?=[\t\r\n])")
ABOUT = {
    "cells": "every profile at every case",
    "claims": "every verdict",
    "cases": "problems, their limits, controls, and the GPU meanwhile",
    "comparisons": "every profile against every other",
    "kernels": "kernels as the profiler saw them",
    "compiled": "kernels as Triton compiled them",
    "ceilings": "what the GPU can do at most",
}
SOURCE = ("device", "machine", "run_id", "evidence_digest")


def csv_room(gathered: Gathered) -> Iterator[Attachment]:
    """The tables of every experiment, beside its page."""
    for item in gathered.current:
        yield from csv_files(item, f"experiments/{item.plan.name}")


def tables_of(item: Judged) -> tuple[tuple[str, str], ...]:
    """The file names of an experiment's tables, and what each holds, for the page that they lie beside."""
    return tuple((f"{name}.csv", ABOUT[name]) for name in TABLES if _is_written(item, name))


def csv_files(item: Judged, folder: str, names: Sequence[str] = tuple(TABLES)) -> Iterator[Attachment]:
    """The tables of an experiment that have rows, `cells.csv` and `claims.csv` always."""
    source = _source(item)
    for name in names:
        columns, rows = TABLES[name]
        if _is_written(item, name):
            found = ([*row, *source] for row in rows(item))
            yield Attachment(path=f"{folder}/{name}.csv", content=csv_text((*columns, *SOURCE), found))


def csv_text(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow(columns)
    writer.writerows([_plain(value) for value in row] for row in rows)
    return text.getvalue()


def _is_written(item: Judged, name: str) -> bool:
    return name in ("cells", "claims") or next(TABLES[name][1](item), None) is not None


def _source(item: Judged) -> tuple[str, ...]:
    machine: Mapping[str, Any] = item.machine
    name = machine.get("cpu", "") if item.on_cpu else machine.get("gpu", "")
    return str(machine.get("device", "")), str(name), str(item.evidence.get("run_id", "")), item.digest


def _plain(value: Any) -> Any:
    """As JSON has it; lists in one field; a text can be no formula and holds no control character."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        whole = all(isinstance(each, int) for each in value)
        return _plain(("x" if whole else " ").join(map(str, value)))
    if isinstance(value, str):
        return FORMULA.sub(r"\1'", CONTROL.sub("\ufffd", value))
    return value
