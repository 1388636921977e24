"""The grid of the front page: every family's time at each shape, a table for each GPU and call mode, and how often each
family is level."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import SimpleNamespace as View
from typing import Any

from lab.definition.families import heading, in_order
from lab.verdict.cells import SCOPE
from lab.website import format
from lab.website.addresses import experiment_folder, verdict_folder
from lab.website.data.overview import OWN, PYTORCH_CALLS, Shapes, has_calls_only
from lab.website.data.winners import CPU, MODES, Row
from lab.website.figure import DataView, sentence
from lab.website.pages.clock_notes import HOST_WENT_ON
from lab.website.pages.grid_standings import calls_only, leader_in_other_modes, standings, summary
from lab.website.pages.labels import CPU_MODE_TITLES, DTYPES, MODE_TITLES, axes, listed, operator_title
from lab.website.pages.pooled_verdicts import NO_TRUST, TRUST
from lab.website.pages.snippet import snippet
from lab.website.table import Link, Words

HEADINGS = (
    "gpu", "mode", "operator", "shape", "dtype", "implementation", "profile", "p50_seconds", "call", "times_fastest",
    "quotient_of_medians", "experiment", "digest",
)  # fmt: skip
# What readers also call an operator with this in its name.
ALSO = {"attention": "flash", "decode-attention": "kv cache", "attention-chunk": "kv cache"}
BARS = 10  # lengths of the bar under a time


def grid_view(data: Mapping[str, Any], shown: Mapping[str, str], trust: Mapping[str, Any] = NO_TRUST) -> View:
    """What the template shows. `data`: of lab.website.data.overview. `shown`: by experiment the digest of the evidence
    that its pages show.

    GPUs, call modes and dtypes go by their numbers: the style sheet knows the numbers and not the names.
    """
    shapes, view = data["shapes"], DataView(data)
    dtypes = sorted({row["dtype"] for row in rows_of(shapes)}, key=lambda name: DTYPES.get(name, name))
    modes = [mode for mode in MODES if any(mode in by_mode for by_mode in shapes.values())]
    boards = [
        View(
            gpu=gpu,
            mode=mode_titles([gpu])[mode],
            g=g,
            m=m,
            notes=_notes(view.at("host_went_on", gpu), trust) if mode == SCOPE and gpu in data["host_went_on"] else (),
            **_board(view, gpu, mode, shown, dtypes),
        )
        for g, gpu in enumerate(shapes)
        for m, mode in enumerate(modes)
    ]
    return View(
        gpus=list(shapes), modes=[mode_titles(shapes)[mode] for mode in modes], on_cpu=_only_cpu(shapes),
        dtypes=[DTYPES.get(name, name) for name in dtypes], boards=boards,
        newer=any("newer" in row for row in rows_of(shapes)),
        few=any(_few(row) for row in rows_of(shapes)),
        made=any(_made(row) for row in rows_of(shapes)),
        own=any(family.startswith(OWN) for row in rows_of(shapes) for family in row["cells"]),
        fa4=any("fa4" in row["cells"] for row in rows_of(shapes)),
    )  # fmt: skip


def _notes(host: DataView, trust: Mapping[str, Any]) -> list[Words]:
    """What a reader must know of the cold times of a GPU before they are compared. `host`: those that were taken while
    it went on enqueuing."""
    notes: list[Words] = []
    if host.value("lengthened"):
        told = f"were {HOST_WENT_ON}, a clear part of the time at "
        notes.append(sentence(host, f"The times of {{taken}} of {{shapes}} shapes {told}{{lengthened}}."))
    counts = DataView(trust, TRUST).at("agreement")
    if counts.value("claims"):
        told = (
            "“Cold cache” leaves out the write-back of dirty lines, which favours kernels bound by memory: by "
            "do_bench, nvbench or a writing flush {claims_turned} of {claims} claims "
        )
        turned = Link("fall on the other side of their threshold", "trust/index.html#limits")
        notes.append((*sentence(counts, told), turned, "."))
    return notes


def _only_cpu(machines: Iterable[str]) -> bool:
    return set(machines) == {CPU}


def mode_titles(machines: Iterable[str]) -> Mapping[str, str]:
    """What call modes are called where these machines were measured: a CPU's run has no GPU."""
    return MODE_TITLES | CPU_MODE_TITLES if _only_cpu(machines) else MODE_TITLES


def rows_of(shapes: Shapes) -> Iterator[Row]:
    for modes in shapes.values():
        for cases in modes.values():
            yield from cases.values()


def _board(view: DataView, gpu: str, mode: str, shown: Mapping[str, str], dtypes: Sequence[str]) -> dict[str, Any]:
    """One table: the shapes of one GPU in one call mode, by operator."""
    at_shapes = view.at("shapes", gpu, mode)
    cases: Mapping[str, Row] = view.value("shapes", gpu, mode) or {}
    families = in_order({family for row in cases.values() for family in row["cells"]})
    groups: dict[str, list[View]] = {}
    for case, row in cases.items():
        groups.setdefault(row["op"], []).append(_row(row, families, at_shapes.at(case), shown, dtypes))
    ordered = sorted(groups.items(), key=lambda pair: (-len(pair[1]), operator_title(pair[0]).lower()))
    tallies = view.at("tallies", gpu)
    return {
        "families": [heading(each) for each in families],
        "summary": summary(tallies.at(mode), mode),
        "standings": standings(tallies.at(mode), f"How often each is fastest, {gpu}, {mode_titles([gpu])[mode]}"),
        "calls_only": calls_only(tallies.at(mode)),
        "other_modes": leader_in_other_modes(tallies, mode),
        "groups": [
            View(
                words=_words(op),
                title=operator_title(op),
                axes=axes(op).split("×"),
                dtypes=sorted({row.d for row in rows}),
                rows=rows,
                fullest=max(rows, key=_timed),
            )
            for op, rows in ordered
        ],
    }


def _timed(row: View) -> tuple[int, int]:
    """How many families were timed at a shape, and how large it is. Where there is room for one shape of an operator,
    the fullest contest is shown, and of several the largest."""
    return sum(cell is not None for cell in row.cells), math.prod(row.sizes)


def _words(op: str) -> str:
    """What an operator is found by beside its title."""
    return " ".join((op, *(also for name, also in ALSO.items() if name in op)))


def _row(row: Row, families: Sequence[str], view: DataView, shown: Mapping[str, str], dtypes: Sequence[str]) -> View:
    return View(
        shape=shape_text(row), sizes=row["shape"],
        dtype=DTYPES.get(row["dtype"], row["dtype"]), d=dtypes.index(row["dtype"]) + 1,
        href=row_page(row, shown), at=f"{view.place}/cells/", newer=_newer(row), few=_few(row), made=_made(row),
        cells=[_cell(row["cells"].get(each), view.at("cells", each)) for each in families],
    )  # fmt: skip


def _few(row: Row) -> str:
    """The mark of a row whose winner was timed beside PyTorch's own calls alone: 'best' says less there."""
    best = row["best"]
    return "only rival: PyTorch's calls" if best not in PYTORCH_CALLS and has_calls_only(row, best) else ""


def _made(row: Row) -> str:
    """The mark of a row whose winner is given what is made once, before the calls: making it is not in its time."""
    found = snippet(row["experiment"], row["cells"][row["best"]]["profile"], row["op"])
    return f"best: {listed(found.made)} made beforehand" if found and found.made else ""


def _newer(row: Row) -> View | None:
    """The mark of a row of which a newer run says otherwise: where that stands, and what it says."""
    if "newer" not in row:
        return None
    newer = row["newer"]
    return View(
        href=f"{verdict_folder(newer['digest'], row['experiment'])}/index.html#claim-{newer['claim']}",
        title=f"A newer run says otherwise: “{newer['now_word']}” in {newer['run_id']} of {newer['date']}, "
        f"“{newer['was_word']}” in the one shown. Claim: {newer['sentence']}",
    )  # fmt: skip


def _cell(cell: Row | None, view: DataView) -> View | None:
    if cell is None:
        return None
    word, behind = cell["call"], cell.get("times_fastest", 1.0)
    ratio = view.figure("times_fastest", show=format.times) if word in ("slower", "unproven") else None
    return View(
        word=word,
        p50=view.figure("p50_seconds", show=format.brief_microseconds),
        look=word.rstrip("?"),
        ratio=ratio,
        ahead=word == "unproven" and behind < 1,
        medians=ratio and view.figure("quotient_of_medians", show=format.times),
        bar=max(1, round(BARS / behind)),
    )


def shape_text(row: Row) -> str:
    return "×".join(map(str, row["shape"]))


def row_page(row: Row, shown: Mapping[str, str]) -> str:
    """The page of the case where it shows this evidence, else the verdicts of the run; relative to the site."""
    if shown.get(row["experiment"]) == row["digest"]:
        return f"experiments/{row['experiment']}/cases/{experiment_folder(row['case'])}/index.html"
    return f"{verdict_folder(row['digest'], row['experiment'])}/index.html"


def rows_table(shapes: Shapes) -> Iterable[tuple[Any, ...]]:
    """The grid as a table, a row for each implementation: what winners.csv holds."""
    for row in rows_of(shapes):
        for family, cell in row["cells"].items():
            yield (
                row["gpu"], row["mode"], row["op"], shape_text(row), row["dtype"], heading(family), cell["profile"],
                cell["p50_seconds"], cell["call"], cell.get("times_fastest", 1.0),
                cell.get("quotient_of_medians"), row["experiment"], row["digest"],
            )  # fmt: skip
