"""The rows of a run as CSV, JSON or Parquet."""

import csv
import importlib
import io
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lab.errors import MissingPackage
from lab.tables import TABLES, Row
from lab.verdict.results import RunResult


def exported(run: RunResult, table: str, form: str) -> bytes:
    """`table` is one of lab.tables.TABLES, `form` one of FORMS. MissingPackage where Parquet's is not there."""
    return FORMS[form](run, list(TABLES[table](run)))


def _csv(run: RunResult, rows: Sequence[Row]) -> bytes:
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(rows[0]) if rows else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()


def _json(run: RunResult, rows: Sequence[Row]) -> bytes:
    about = {
        "run_id": run.plan.run_id, "plan_digest": run.plan.digest, "source_digest": run.start.source_digest,
        "commit": run.start.commit, "machine": run.machine.gpu or run.machine.cpu, "finished_utc": run.finished_utc,
    }  # fmt: skip
    return (json.dumps({"run": about, "rows": rows}, indent=1, ensure_ascii=False) + "\n").encode()


def _parquet(run: RunResult, rows: Sequence[Row]) -> bytes:
    try:
        pyarrow, parquet = importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
    except ImportError:
        raise MissingPackage("pyarrow is not installed here, and --parquet needs it; --csv and --json do not") from None
    sink = pyarrow.BufferOutputStream()
    parquet.write_table(pyarrow.Table.from_pylist(list(rows)), sink)
    content: bytes = sink.getvalue().to_pybytes()
    return content


FORMS: Mapping[str, Callable[[RunResult, Sequence[Any]], bytes]] = {"csv": _csv, "json": _json, "parquet": _parquet}
