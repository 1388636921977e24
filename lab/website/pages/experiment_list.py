"""The experiments as lists: those with results, with their verdicts in columns; those to come; tests of the lab."""

from collections.abc import Sequence
from types import SimpleNamespace as View

from lab.verdict.judge import READING_ORDER, Status
from lab.website import format


def listed(item: View) -> View:
    """`item`: lab.website.pages.outline.outline."""
    return View(
        slug=item.name, title=item.title, question=item.question, counts=item.counts, self_test=item.self_test,
        machine=item.machine_name,
        date=format.day(item.measured_utc), on_cpu=item.on_cpu,
    )  # fmt: skip


def place(row: View) -> tuple[bool, bool]:
    """In which order lists show them."""
    return row.self_test, not row.date


def experiment_lists(rows: Sequence[View]) -> View:
    measured = [row for row in rows if row.date and not row.self_test]
    tests = [row for row in rows if row.self_test]
    return View(
        measured=measured, verdicts=_verdicts(measured), tests=tests, test_verdicts=_verdicts(tests),
        planned=[row for row in rows if not (row.date or row.self_test)],
    )  # fmt: skip


def _verdicts(rows: Sequence[View]) -> list[Status]:
    """The columns: what no claim of them came out as needs none."""
    return [status for status in READING_ORDER if any(row.counts.get(status) for row in rows)]
