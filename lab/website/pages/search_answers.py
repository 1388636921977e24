"""What the finder of the front page and the search page answer: at each shape the fastest, as a script."""

import json
from collections.abc import Mapping
from typing import Any

from lab.definition.families import FAMILIES
from lab.website import format
from lab.website.data.overview import Shapes
from lab.website.data.winners import Row
from lab.website.pages.grid import mode_titles, row_page, rows_of, shape_text
from lab.website.pages.labels import DTYPES, operator_title
from lab.website.pages.snippet import snippet


def answers_script(shapes: Shapes, shown: Mapping[str, str]) -> str:
    """The answers as a classic script, which works from a file too: a page loads it when the first word is typed."""
    snippets: dict[tuple[str, str, str], int] = {}
    rows = []
    for row in rows_of(shapes):
        found = snippet(row["experiment"], row["cells"][row["best"]]["profile"], row["op"])
        number = snippets.setdefault((found.install, found.code, found.where), len(snippets)) if found else -1
        rows.append(_answer(row, row_page(row, shown), number))
    whole = {"families": FAMILIES, "modes": mode_titles(shapes), "snippets": list(snippets), "rows": rows}
    return f"window.kernelEvidenceWinners = {json.dumps(whole, separators=(',', ':'), ensure_ascii=False)};\n"


def _answer(row: Row, href: str, number: int) -> list[Any]:
    """What a page says of a row, in the order in which search.js reads it."""
    margin, range_ = row["margin"], row["range"]
    interval = format.interval(margin["low"], margin["high"], brief=True) if "low" in margin else ""
    ratio = format.ratio(margin["ratio"], margin["low"], margin["high"], brief=True) if "low" in margin else ""
    p50, least, most = row["cells"][row["best"]]["p50_seconds"], range_["least_seconds"], range_["most_seconds"]
    in_one_unit = (least < format.LONG_SECONDS) == (most < format.LONG_SECONDS)
    return [
        row["gpu"], row["mode"], row["case"], row["op"], operator_title(row["op"]), shape_text(row),
        DTYPES.get(row["dtype"], row["dtype"]), row["best"], format.brief_time(p50),
        [family for family, cell in row["cells"].items() if cell["call"] == "tie" and family != row["best"]],
        margin["over"], ratio, interval,
        (format.brief_microseconds if in_one_unit else format.brief_time)(least), format.brief_time(most),
        range_told(range_), href, number, row["cells"][row["best"]]["call"] != "best?",
    ]  # fmt: skip


def range_told(times: Row) -> str:
    """'5 repeated runs on 4 boards', or '5 fresh processes of one run'."""
    if "runs" not in times:
        return f"{times['sweeps']} fresh processes of one run"
    boards = f" on {times['boards']} boards" if times["boards"] > 1 else ""
    return f"{times['runs']} repeated runs{boards}"
