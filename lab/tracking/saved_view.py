"""Views of a run list that open ready to read: an experiment tag in the form that MLflow's UI keeps them.

The form is not documented; it was read from MLflow 3.17's own saved views. If a later UI ignores it, the
links that name a view still open the list of runs.
"""

import base64
import json
import zlib
from collections.abc import Sequence
from typing import Any

TAG = "mlflow.sharedViewState."
WINNERS = "lab-winners"
CURVES = "lab-curves"
CURRENT_CELLS = "tags.`lab.role` = 'cell' AND tags.`lab.superseded` = 'false'"
CURRENT_RUNS = "tags.`lab.role` = 'run' AND tags.`lab.superseded` = 'false'"
P50 = "metrics.`latency/p50_us`"
RUN_NAME = "attributes.`Run Name`"
CREATED_MILLISECONDS = 1_767_225_600_000  # the UI asks for a time; a fixed one keeps the tag the same


def winners_view(baselines: Sequence[str]) -> str:
    """The cells of each case together, fastest first, with their p50, p95, noise and speed-ups."""
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
        "runDateAndNestInfo": 150,
        "duration": 100,
    }
    state = _list_state(CURRENT_CELLS) | {
        "selectedColumns": [column for column in widths if column.startswith(("metrics.", "params.", "tags."))],
        "columnOrder": ["1", *widths],  # "1" is the column of check boxes
        "columnWidths": widths,
        "groupBy": {"aggregateFunction": "min", "groupByKeys": [{"mode": "tag", "groupByData": "lab.case_in_run"}]},
        "useGroupedValuesInCharts": False,
        "orderByKey": P50,
        "orderByAsc": True,
    }
    return _pack("Which profile wins at which shape", state)


def curves_view(series: Sequence[tuple[str, Sequence[str]]]) -> str:
    """p50 over problem size, one chart for each (title, metric keys): a line per profile and run."""
    section = "curves"
    charts = [
        {
            "type": "LINE",
            "uuid": f"curve-{number}",
            "metricSectionId": section,
            "isGenerated": False,
            "deleted": False,
            "displayName": title,
            "metricKey": keys[0],
            "selectedMetricKeys": list(keys),
            "lineSmoothness": 0,
            "xAxisScaleType": "log",
            "scaleType": "log",
            "xAxisKey": "step",
            "useGlobalXaxisKey": False,
            "displayPoints": True,
            "yAxisKey": "metric",
            "range": {},
        }
        for number, (title, keys) in enumerate(series)
    ]
    state = _list_state(CURRENT_RUNS) | {
        "compareRunCharts": charts,
        "compareRunSections": [
            {
                "uuid": section,
                "name": "p50 latency over problem size",
                "display": True,
                "isReordered": True,
                "columns": 1,
                "cardHeight": 560,
            }
        ],
        "isAccordionReordered": True,
        "orderByKey": "attributes.start_time",
        "orderByAsc": False,
    }
    return _pack("p50 over problem size", state)


def view_path(experiment_id: str, view: str, mode: str = "TABLE") -> str:
    """Where the view opens, under the server's address."""
    query = f"workflowType=machine_learning&compareRunsMode={mode}&viewStateShareKey={view}"
    return f"/#/experiments/{experiment_id}/runs?{query}"


def _list_state(search: str) -> dict[str, Any]:
    return {
        "searchFilter": search,
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
        "runsHiddenMode": "FIRST_10_RUNS",
        "viewMaximized": True,
        "runListHidden": False,
        "isAccordionReordered": False,
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
