"""Speed-ups of one run with their intervals, as a figure for a notebook."""

from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Any

import plotly.graph_objects as go


def intervals(run_id: str, rows: Iterable[Mapping[str, Any]]) -> go.Figure:
    """A series for each claim; `rows` are lab.tables.claim_rows. What is claimed is a line beside it."""
    figure = go.Figure()
    for claim, rows_of_claim in groupby(
        (row for row in rows if row["ratio"] is not None), key=lambda row: row["claim"]
    ):
        cases = list(rows_of_claim)
        figure.add_scatter(
            name=claim, x=[row["ratio"] for row in cases], y=[row["case"] for row in cases], mode="markers",
            hovertext=[row["status"] for row in cases],
            error_x={
                "type": "data",
                "array": [(row["ratio_high"] or row["ratio"]) - row["ratio"] for row in cases],
                "arrayminus": [row["ratio"] - (row["ratio_low"] or row["ratio"]) for row in cases],
            },
        )  # fmt: skip
        figure.add_scatter(
            name=f"{claim}: claimed", x=[row["threshold"] for row in cases], y=[row["case"] for row in cases],
            mode="markers", marker={"symbol": "line-ns-open", "size": 16, "color": "black"}, showlegend=False,
        )  # fmt: skip
    figure.update_layout(
        title=f"{run_id}: speed-ups with 95 % intervals", xaxis={"title": "times as fast", "type": "log"},
        yaxis={"autorange": "reversed"}, template="plotly_white",
    )  # fmt: skip
    return figure
