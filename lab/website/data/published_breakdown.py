"""What kernels should save in a whole model and what they saved, as the data behind a section of a page."""

from typing import Any

from lab.verdict.breakdown import BreakdownResult, RowResult
from lab.website.data.published_cells import attributes


def breakdown_data(result: BreakdownResult) -> dict[str, Any]:
    """Plain JSON values, in seconds."""
    return {
        **attributes(result.breakdown, "case baseline together"),
        "baseline_seconds": result.seconds,
        "rows": [_row(row) for row in result.rows],
        "predicted": attributes(result.predicted, "seconds low_seconds high_seconds"),
        "measured": attributes(result.measured, "seconds low_seconds high_seconds"),
        "gap": attributes(result.gap, "seconds low_seconds high_seconds"),
        **attributes(result, "predicted_ratio measured_ratio agrees"),
        **attributes(result, "clock_hertz clock_seconds excess_before_seconds excess_after_seconds"),
    }


def _row(row: RowResult) -> dict[str, Any]:
    return {
        **attributes(row.row, "title case profile alone calls added"),
        **attributes(row, "baseline_seconds subject_seconds clock_hertz"),
        "predicted": attributes(row.predicted, "seconds low_seconds high_seconds"),
        "measured": attributes(row.measured, "seconds low_seconds high_seconds") if row.measured else None,
    }
