"""The winner grid: at each shape who is fastest, who is level with that, and how far behind the others are."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import SimpleNamespace as View
from typing import Any

from lab.definition.families import FAMILIES
from lab.website import format
from lab.website.addresses import experiment_folder, verdict_folder
from lab.website.data.winners import MODES
from lab.website.figure import DataView
from lab.website.pages.labels import DTYPES, operator_title
from lab.website.pages.snippet import snippet

Row = Mapping[str, Any]
Shapes = Mapping[str, Mapping[str, Mapping[str, Row]]]  # by GPU, call mode and case: lab.website.data.winners.grid
MODE_TITLES = {"device_cold": "GPU alone, cold cache", "graph": "In a CUDA graph", "eager": "Eager call"}
HEADINGS = (
    "gpu", "mode", "operator", "shape", "dtype", "implementation", "profile", "p50_seconds", "call", "times_fastest",
    "experiment", "digest",
)  # fmt: skip
BARS = 10  # lengths of the bar under a time


def grid_view(shapes: Shapes, shown: Mapping[str, str]) -> View:
    """What the template shows. `shown`: by experiment the digest of the evidence that its pages show.

    GPUs, call modes and dtypes go by their numbers: the style sheet knows the numbers and not the names.
    """
    dtypes = sorted({row["dtype"] for row in _rows(shapes)}, key=lambda name: DTYPES.get(name, name))
    modes = [mode for mode in MODES if any(mode in by_mode for by_mode in shapes.values())]
    view = DataView({"shapes": shapes})
    return View(
        gpus=list(shapes),
        modes=[MODE_TITLES[mode] for mode in modes],
        dtypes=[DTYPES.get(name, name) for name in dtypes],
        boards=[
            View(
                gpu=gpu,
                mode=MODE_TITLES[mode],
                g=g,
                m=m,
                **_board(by_mode.get(mode, {}), view.at("shapes", gpu, mode), shown, dtypes),
            )
            for g, (gpu, by_mode) in enumerate(shapes.items())
            for m, mode in enumerate(modes)
        ],
    )


def _rows(shapes: Shapes) -> Iterator[Row]:
    for modes in shapes.values():
        for cases in modes.values():
            yield from cases.values()


def _board(cases: Mapping[str, Row], view: DataView, shown: Mapping[str, str], dtypes: Sequence[str]) -> dict[str, Any]:
    """One table: the shapes of one GPU in one call mode, by operator."""
    families = [each for each in FAMILIES if any(each in row["cells"] for row in cases.values())]
    groups: dict[str, list[View]] = {}
    for case, row in cases.items():
        groups.setdefault(row["op"], []).append(_row(row, families, view.at(case), shown, dtypes))
    return {
        "families": [FAMILIES[each] for each in families],
        "groups": [
            View(op=op, title=operator_title(op), dtypes=sorted({row.d for row in rows}), rows=rows)
            for op, rows in sorted(groups.items(), key=lambda pair: (-len(pair[1]), operator_title(pair[0]).lower()))
        ],
    }


def _row(row: Row, families: Sequence[str], view: DataView, shown: Mapping[str, str], dtypes: Sequence[str]) -> View:
    return View(
        shape=shape_text(row), dtype=DTYPES.get(row["dtype"], row["dtype"]), d=dtypes.index(row["dtype"]) + 1,
        href=row_page(row, shown), at=f"{view.place}/cells/",
        cells=[_cell(row["cells"].get(each), view.at("cells", each)) for each in families],
    )  # fmt: skip


def _cell(cell: Row | None, view: DataView) -> View | None:
    if cell is None:
        return None
    behind = cell.get("times_fastest", 1.0)
    return View(
        call=cell["call"],
        p50=view.figure("p50_seconds", show=_time),
        ratio=view.figure("times_fastest", show=format.times) if cell["call"] in ("slower", "unproven") else None,
        bar=max(1, round(BARS / behind)),
    )


def _time(seconds: float) -> str:
    return format.significant(seconds * 1e6, 3)


def shape_text(row: Row) -> str:
    return "×".join(map(str, row["shape"]))


def row_page(row: Row, shown: Mapping[str, str]) -> str:
    """The page of the case where it shows this evidence, else the verdicts of the run; relative to the site."""
    if shown.get(row["experiment"]) == row["digest"]:
        return f"experiments/{row['experiment']}/cases/{experiment_folder(row['case'])}/index.html"
    return f"{verdict_folder(row['digest'], row['experiment'])}/index.html"


def answers_script(shapes: Shapes, shown: Mapping[str, str]) -> str:
    """The answers as a classic script, which works from a file too: a page loads it when the first word is typed."""
    snippets: dict[tuple[str, str, str], int] = {}
    rows = []
    for row in _rows(shapes):
        call = snippet(row["experiment"], row["cells"][row["best"]]["profile"], row["op"])
        number = snippets.setdefault((call.install, call.code, call.where), len(snippets)) if call else -1
        rows.append(_answer(row, row_page(row, shown), number))
    whole = {"families": FAMILIES, "modes": MODE_TITLES, "snippets": list(snippets), "rows": rows}
    return f"window.kernelEvidenceWinners = {json.dumps(whole, separators=(',', ':'), ensure_ascii=False)};\n"


def _answer(row: Row, href: str, number: int) -> list[Any]:
    """What a page says of a row, in the order in which finder.js reads it."""
    margin, range_ = row["margin"], row["range"]
    interval = format.brief_interval(margin["low"], margin["high"]) if "low" in margin else ""
    ratio = format.brief_ratio(margin["ratio"], margin["low"], margin["high"]) if "low" in margin else ""
    return [
        row["gpu"], row["mode"], row["case"], row["op"], operator_title(row["op"]), shape_text(row),
        DTYPES.get(row["dtype"], row["dtype"]), row["best"], _time(row["cells"][row["best"]]["p50_seconds"]),
        [family for family, cell in row["cells"].items() if cell["call"] == "tie"],
        margin["over"], ratio, interval, _time(range_["least_seconds"]), _time(range_["most_seconds"]),
        range_told(range_), href, number,
    ]  # fmt: skip


def range_told(times: Row) -> str:
    """'5 repeated runs on 4 boards', or '5 fresh processes of one run'."""
    if "runs" not in times:
        return f"{times['sweeps']} fresh processes of one run"
    boards = f" on {times['boards']} boards" if times["boards"] > 1 else ""
    return f"{times['runs']} repeated runs{boards}"


def rows_table(shapes: Shapes) -> Iterable[tuple[Any, ...]]:
    """The grid as a table, a row for each implementation: what grid.csv holds."""
    for row in _rows(shapes):
        for family, cell in row["cells"].items():
            yield (
                row["gpu"], row["mode"], row["op"], shape_text(row), row["dtype"], FAMILIES[family], cell["profile"],
                cell["p50_seconds"], cell["call"], cell.get("times_fastest", 1.0), row["experiment"], row["digest"],
            )  # fmt: skip
