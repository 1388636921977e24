"""Views of a run list that open ready to read: an experiment tag in the form that MLflow's UI keeps them.

The form is not documented; it was read from MLflow 3.17's own saved views. If a later UI ignores it, the
links that name a view still open the list of runs.
"""

import base64
import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

TAG = "mlflow.sharedViewState."
WINNERS = "lab-winners"
CURVES = "lab-curves"
CURRENT_CELLS = "tags.`lab.role` = 'cell' AND tags.`lab.superseded` = 'false'"
P50 = "metrics.`latency/p50_us`"
RUN_NAME = "attributes.`Run Name`"
FIRST_RUNS = 20  # the most that the UI draws at first
CREATED_MILLISECONDS = 1_767_225_600_000  # the UI asks for a time; a fixed one keeps the tag the same


@dataclass(frozen=True, kw_only=True, slots=True)
class Chart:
    """A chart of one or several metrics, a colour for each where there are several.

    The UI names a chart after its metrics, and its axes not at all: `title`, with the unit, is that of its section,
    which shows some thirty characters.
    """

    title: str
    keys: tuple[str, ...]
    height: int  # in pixels


def winners_view(baselines: Sequence[str], charts: Sequence[Chart]) -> str:
    """The cells of each case together, fastest first, with their p50, p95, noise and speed-ups. Its charts are bars, a
    lane for each case and a colour for each profile."""
    widths = {
        RUN_NAME: 400,
        "tags.`lab.place`": 170,
        "params.`profile`": 180,
        P50: 130,
        **{f"metrics.`speedup/vs_{name}`": 190 for name in baselines},
        "metrics.`latency/p95_us`": 130,
        "metrics.`noise/ratio`": 110,
        "metrics.`throughput/gbps`": 150,
        "metrics.`ncu/dram_pct`": 120,
        "metrics.`ncu/occupancy_pct`": 150,
        "tags.`lab.status`": 150,
        "tags.`lab.reason`": 300,
        "metrics.`size/bytes`": 130,
        "runDateAndNestInfo": 150,
        "duration": 100,
    }
    state = _list_state() | {
        "selectedColumns": [column for column in widths if column.startswith(("metrics.", "params.", "tags."))],
        "columnOrder": ["1", *widths],  # "1" is the column of check boxes
        "columnWidths": widths,
        "groupBy": {"aggregateFunction": "min", "groupByKeys": [{"mode": "tag", "groupByData": "lab.case_in_run"}]},
        "orderByKey": P50,
        "orderByAsc": True,
        "compareRunCharts": [_card("BAR", chart) for chart in charts],
        "compareRunSections": _sections(charts),
    }
    return _pack("Which profile wins at which shape", state)


def curves_view(charts: Sequence[Chart]) -> str:
    """A line for each profile and run, over problem size."""
    lines = {
        "lineSmoothness": 0,
        "xAxisScaleType": "log",
        "scaleType": "log",
        "xAxisKey": "step",
        "useGlobalXaxisKey": False,
        "displayPoints": True,
        "yAxisKey": "metric",
        "range": {},
    }
    keys = [{"mode": "param", "groupByData": "profile"}, {"mode": "tag", "groupByData": "lab.run_id"}]
    state = _list_state() | {
        "groupBy": {"aggregateFunction": "min", "groupByKeys": keys},
        "compareRunCharts": [_card("LINE", chart) | lines for chart in charts],
        "compareRunSections": _sections(charts),
        "orderByKey": "attributes.start_time",
        "orderByAsc": False,
    }
    return _pack("p50 over problem size", state)


def _card(kind: str, chart: Chart) -> dict[str, Any]:
    return {
        "type": kind,
        "uuid": f"chart of {chart.keys[0]}",
        "metricSectionId": chart.title,
        "isGenerated": False,
        "deleted": False,
        "metricKey": chart.keys[0],
        "selectedMetricKeys": list(chart.keys),
    }


def _sections(charts: Sequence[Chart]) -> list[dict[str, Any]]:
    """One for each chart; then, folded, those that the UI makes of the same metrics one by one."""
    sections = [
        {
            "uuid": chart.title, "name": chart.title, "display": True, "isReordered": True, "columns": 1,
            "cardHeight": chart.height,
        }
        for chart in charts
    ]  # fmt: skip
    generated = dict.fromkeys(key.rpartition("/")[0] for chart in charts for key in chart.keys)
    folded = [{"uuid": name, "name": name, "display": False, "isReordered": False} for name in generated]
    return [*sections, *folded]


def view_path(experiment_id: str, view: str) -> str:
    """Where the view opens, under the server's address."""
    query = f"workflowType=machine_learning&compareRunsMode=CHART&viewStateShareKey={view}"
    return f"/#/experiments/{experiment_id}/runs?{query}"


def _list_state() -> dict[str, Any]:
    return {
        "searchFilter": CURRENT_CELLS,
        "startTime": "ALL",
        "lifecycleFilter": "Active",
        "datasetsFilter": [],
        "modelVersionFilter": "All Runs",
        "columnOrder": [],
        "columnWidths": {},
        "runsExpanded": {},
        "runsPinned": [],
        "runsHidden": [],
        "runsVisibilityMap": {},
        "runsHiddenMode": "FIRST_20_RUNS",
        "viewMaximized": False,
        "runListHidden": False,
        "isAccordionReordered": True,  # sections that the UI makes of other metrics come after those of the view
        "useGroupedValuesInCharts": True,
        "hideEmptyCharts": True,
        "groupBy": None,
        "groupsExpanded": {},
        "autoRefreshEnabled": True,
        "globalLineChartConfig": {"xAxisKey": "step", "lineSmoothness": 0, "selectedXAxisMetricKey": ""},
    }


def _pack(name: str, state: dict[str, Any]) -> str:
    content = base64.b64encode(zlib.compress(json.dumps(state).encode())).decode()
    times = {"createdAt": CREATED_MILLISECONDS, "updatedAt": CREATED_MILLISECONDS}
    return json.dumps({"name": name, **times, "state": f"deflate;{content}"})
