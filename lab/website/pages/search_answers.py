"""What the finder of the front page and the search page answer: at each shape the fastest, as a script."""

import json
from collections.abc import Mapping
from typing import NamedTuple

from lab.definition.families import heading, in_order
from lab.website import format
from lab.website.data.overview import Shapes
from lab.website.data.standing_words import doubt
from lab.website.data.winners import Row
from lab.website.pages.call_inputs import comment
from lab.website.pages.grid import mode_titles, row_page, rows_of, shape_text
from lab.website.pages.labels import DTYPES, axes, operator_title
from lab.website.pages.snippet import snippet


class Answer(NamedTuple):
    """What a page says of a row, in texts. The script has the names once and rows as lists; search.js names them again.

    `over` is the family that the margin is over; `runs` is what the range from `least` to `most` is of."""

    gpu: str
    mode: str
    case: str
    title: str
    shape: str
    dtype: str
    best: str
    p50: str
    doubt: str  # what to add to its name, where it may not be the fastest
    ties: list[str]
    over: str
    ratio: str
    interval: str
    least: str
    most: str
    runs: str
    page: str
    newer: str  # what a newer run says otherwise; empty where none does
    snippet: int  # its place among those of the script; -1 where there is none
    sizes: int  # of its first line, the sizes of what is passed, the place among those of the script


def answers_script(shapes: Shapes, shown: Mapping[str, str]) -> str:
    """The answers as a classic script, which works from a file too: a page loads it when the first word is typed."""
    snippets: dict[tuple[str, str, str], int] = {}
    sizes: dict[str, int] = {}
    rows = []
    for row in rows_of(shapes):
        found = snippet(row["experiment"], row["cells"][row["best"]]["profile"], row["op"])
        number = snippets.setdefault((found.install, found.code, found.where), len(snippets)) if found else -1
        line = comment(row["experiment"], row["case"], row["op"], shape_text(row), found.inputs) if found else ""
        rows.append(_answer(row, row_page(row, shown), number, sizes.setdefault(line, len(sizes))))
    families = {family for row in rows_of(shapes) for family in row["cells"]}
    whole = {
        "families": {family: heading(family) for family in in_order(families)},
        "modes": mode_titles(shapes), "snippets": list(snippets), "sizes": list(sizes),
        "axes": {operator_title(op): axes(op) for op in sorted({row["op"] for row in rows_of(shapes)}) if axes(op)},
        "columns": Answer._fields, "rows": rows,
    }  # fmt: skip
    return f"window.kernelEvidenceWinners = {json.dumps(whole, separators=(',', ':'), ensure_ascii=False)};\n"


def _answer(row: Row, page: str, snippet_number: int, sizes: int) -> Answer:
    margin, range_ = row["margin"], row["range"]
    dtype: str = row["dtype"]
    interval = format.interval(margin["low"], margin["high"], brief=True) if "low" in margin else ""
    ratio = format.ratio(margin["ratio"], margin["low"], margin["high"], brief=True) if "low" in margin else ""
    best, least, most = row["cells"][row["best"]], range_["least_seconds"], range_["most_seconds"]
    doubtful = doubt(ahead=row["ahead"]) if best["call"] == "best?" else ""
    in_one_unit = (least < format.LONG_SECONDS) == (most < format.LONG_SECONDS)
    return Answer(
        gpu=row["gpu"], mode=row["mode"], case=row["case"], title=operator_title(row["op"]),
        shape=shape_text(row), dtype=DTYPES.get(dtype, dtype),
        best=row["best"], p50=format.brief_time(best["p50_seconds"]), doubt=doubtful,
        ties=[family for family, cell in row["cells"].items() if cell["call"] == "tie" and family != row["best"]],
        over=margin["over"], ratio=ratio, interval=interval,
        least=(format.brief_microseconds if in_one_unit else format.brief_time)(least), most=format.brief_time(most),
        runs=range_told(range_), page=page, newer=_newer(row), snippet=snippet_number, sizes=sizes,
    )  # fmt: skip


def _newer(row: Row) -> str:
    if not (newer := row.get("newer")):
        return ""
    return f"{newer['sentence']} Here “{newer['was_word']}”, “{newer['now_word']}” in {newer['run_id']}."


def range_told(times: Row) -> str:
    """'5 repeated runs on 4 boards', or '5 fresh processes of one run'."""
    if "runs" not in times:
        return f"{times['sweeps']} fresh processes of one run"
    boards = f" on {times['boards']} boards" if times["boards"] > 1 else ""
    return f"{times['runs']} repeated runs{boards}"
