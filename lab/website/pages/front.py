"""The front page: who is fastest at which shape, then what changed, decisions, and every experiment."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import SimpleNamespace as View
from typing import Any

from lab.definition.families import FAMILIES
from lab.verdict.cells import SCOPE
from lab.website import format
from lab.website.addresses import experiment_folder, run_folder, verdict_folder
from lab.website.data.overview import Shapes, overview
from lab.website.data.winners import CPU, MODES, Row, grid
from lab.website.figure import DataView, Sentence, joined, sentence
from lab.website.files.schemas import data_text
from lab.website.outputs import Attachment, Document, Output, SiteContext
from lab.website.pages.claims import NO_TRUST, TRUST
from lab.website.pages.decisions import decision_rows
from lab.website.pages.labels import DTYPES, operator_title
from lab.website.pages.outline import outlines
from lab.website.pages.search import leaves
from lab.website.pages.snippet import snippet
from lab.website.pages.soundness import HOST_WENT_ON
from lab.website.pages.zoo import has_zoo
from lab.website.table import Link, Words, csv_table
from lab.website.verdict_words import status_counts


def listed(item: View) -> View:
    """`item`: lab.website.pages.outline.outline."""
    return View(
        slug=item.name, title=item.title, question=item.question, told=item.counts, self_test=item.self_test,
        counts={each.status: each.claims for each in status_counts([item.counts])}, machine=item.machine_name,
        date=format.day(item.measured_utc), on_cpu=item.on_cpu,
    )  # fmt: skip


def place(row: View) -> tuple[bool, bool]:
    """In which order lists show them."""
    return row.self_test, not row.date


def experiment_lists(rows: Sequence[View]) -> View:
    measured = [row for row in rows if row.date and not row.self_test]
    tests = [row for row in rows if row.self_test]
    return View(
        measured=measured, verdicts=status_counts(row.told for row in measured), tests=tests,
        test_verdicts=status_counts(row.told for row in tests),
        planned=[row for row in rows if not (row.date or row.self_test)],
    )  # fmt: skip


MODE_TITLES = {"device_cold": "GPU alone, cold cache", "graph": "In a CUDA graph", "eager": "Eager call"}
CPU_TITLES = {"device_cold": "Cold cache"}  # where it differs
HEADINGS = (
    "gpu", "mode", "operator", "shape", "dtype", "implementation", "profile", "p50_seconds", "call", "times_fastest",
    "quotient_of_medians", "experiment", "digest",
)  # fmt: skip
OTHERWISE = {"device_cold": "with a cold cache", "graph": "in a CUDA graph", "eager": "called eagerly"}
MOST_TOLD = 5  # families that lead a table
BARS = 10  # lengths of the bar under a time


def grid_view(data: Mapping[str, Any], shown: Mapping[str, str], trust: Mapping[str, Any] = NO_TRUST) -> View:
    """What the template shows. `data`: of lab.website.data.overview. `shown`: by experiment the digest of the evidence
    that its pages show.

    GPUs, call modes and dtypes go by their numbers: the style sheet knows the numbers and not the names.
    """
    shapes, view = data["shapes"], DataView(data)
    dtypes = sorted({row["dtype"] for row in _rows(shapes)}, key=lambda name: DTYPES.get(name, name))
    modes = [mode for mode in MODES if any(mode in by_mode for by_mode in shapes.values())]
    boards = [
        View(
            gpu=gpu,
            mode=_mode_titles([gpu])[mode],
            g=g,
            m=m,
            notes=_notes(view.at("host_went_on", gpu), trust) if mode == SCOPE and gpu in data["host_went_on"] else (),
            **_board(view, gpu, mode, shown, dtypes),
        )
        for g, gpu in enumerate(shapes)
        for m, mode in enumerate(modes)
    ]
    return View(
        gpus=list(shapes), modes=[_mode_titles(shapes)[mode] for mode in modes], on_cpu=_only_cpu(shapes),
        dtypes=[DTYPES.get(name, name) for name in dtypes], boards=boards,
        newer=any("newer" in row for row in _rows(shapes)),
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
            "“Cold” leaves out the write-back of dirty lines, which favours kernels bound by memory: by do_bench, "
            "nvbench or a writing flush {claims_turned} of {claims} claims "
        )
        notes.append((*sentence(counts, told), Link("fall on the other side", "trust/index.html#limits"), "."))
    return notes


def _only_cpu(machines: Iterable[str]) -> bool:
    return set(machines) == {CPU}


def _mode_titles(machines: Iterable[str]) -> Mapping[str, str]:
    """What call modes are called where these machines were measured: a CPU's run has no GPU."""
    return MODE_TITLES | CPU_TITLES if _only_cpu(machines) else MODE_TITLES


def _rows(shapes: Shapes) -> Iterator[Row]:
    for modes in shapes.values():
        for cases in modes.values():
            yield from cases.values()


def _board(view: DataView, gpu: str, mode: str, shown: Mapping[str, str], dtypes: Sequence[str]) -> dict[str, Any]:
    """One table: the shapes of one GPU in one call mode, by operator."""
    rows = view.at("shapes", gpu, mode)
    cases: Mapping[str, Row] = view.value("shapes", gpu, mode) or {}
    families = [each for each in FAMILIES if any(each in row["cells"] for row in cases.values())]
    groups: dict[str, list[View]] = {}
    for case, row in cases.items():
        groups.setdefault(row["op"], []).append(_row(row, families, rows.at(case), shown, dtypes))
    ordered = sorted(groups.items(), key=lambda pair: (-len(pair[1]), operator_title(pair[0]).lower()))
    return {
        "families": [FAMILIES[each] for each in families],
        "tally": _tally(view.at("tallies", gpu, mode)),
        "elsewhere": _elsewhere(view.at("tallies", gpu), mode),
        "groups": [
            View(op=op, title=operator_title(op), dtypes=sorted({row.d for row in rows}), rows=rows)
            for op, rows in ordered
        ],
    }


def _leading(tallies: DataView) -> list[str]:
    """The families, those first that are level most often."""
    found: Mapping[str, Mapping[str, int]] = tallies.value() or {}
    return sorted(found, key=lambda family: (-found[family]["level"], -found[family]["perhaps"]))


def _counts(tally: DataView) -> Sentence:
    """'43, perhaps 71, of 80'."""
    doubt = tally.value("perhaps") > tally.value("level")
    return sentence(tally, "{level}, perhaps {perhaps}, of {timed}" if doubt else "{level} of {timed}")


def _tally(tallies: DataView) -> Sentence:
    """'lab (Triton) 43, perhaps 71, of 80': of those who are the best or tied with it most often."""
    told = ((f"{FAMILIES[family]} ", *_counts(tallies.at(family))) for family in _leading(tallies)[:MOST_TOLD])
    return joined(told, "; ")


def _elsewhere(by_mode: DataView, mode: str) -> Sentence:
    """How the family that leads in one call mode does in the others: 'lab (Triton) in a CUDA graph 40 of 80; called
    eagerly 2 of 33.' Else the table that is shown first would hide that eager calls are seldom won."""
    if not (leading := _leading(by_mode.at(mode))):
        return ()
    others = [each for each in by_mode.value() if each != mode and leading[0] in by_mode.value(each)]
    told = ((f"{OTHERWISE[other]} ", *_counts(by_mode.at(other, leading[0]))) for other in others)
    return (f"{FAMILIES[leading[0]]} ", *joined(told, "; "), ".") if others else ()


def _row(row: Row, families: Sequence[str], view: DataView, shown: Mapping[str, str], dtypes: Sequence[str]) -> View:
    return View(
        shape=shape_text(row), dtype=DTYPES.get(row["dtype"], row["dtype"]), d=dtypes.index(row["dtype"]) + 1,
        href=row_page(row, shown), at=f"{view.place}/cells/", newer=_newer(row),
        cells=[_cell(row["cells"].get(each), view.at("cells", each)) for each in families],
    )  # fmt: skip


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


def answers_script(shapes: Shapes, shown: Mapping[str, str]) -> str:
    """The answers as a classic script, which works from a file too: a page loads it when the first word is typed."""
    snippets: dict[tuple[str, str, str], int] = {}
    rows = []
    for row in _rows(shapes):
        found = snippet(row["experiment"], row["cells"][row["best"]]["profile"], row["op"])
        number = snippets.setdefault((found.install, found.code, found.where), len(snippets)) if found else -1
        rows.append(_answer(row, row_page(row, shown), number))
    whole = {"families": FAMILIES, "modes": _mode_titles(shapes), "snippets": list(snippets), "rows": rows}
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


def rows_table(shapes: Shapes) -> Iterable[tuple[Any, ...]]:
    """The grid as a table, a row for each implementation: what grid.csv holds."""
    for row in _rows(shapes):
        for family, cell in row["cells"].items():
            yield (
                row["gpu"], row["mode"], row["op"], shape_text(row), row["dtype"], FAMILIES[family], cell["profile"],
                cell["p50_seconds"], cell["call"], cell.get("times_fastest", 1.0),
                cell.get("quotient_of_medians"), row["experiment"], row["digest"],
            )  # fmt: skip


# What the newest published run changed: experiments that had no evidence before, and verdicts that are others now.
MOST_NEW, MOST_CHANGES = 4, 4


def news(published: Sequence[View]) -> View | None:
    """Of the run that was published last; None where there is none."""
    if not published:
        return None
    newest = published[-1]
    items = [item for item in published if item.digest == newest.digest]
    before = {item.name for item in published if item.digest != newest.digest}
    changed = [turn for item in items for turn in item.turned]
    new = [View(slug=item.name, title=item.title) for item in items if item.name not in before]
    return View(
        run_id=newest.run_id, date=format.day(newest.finished_utc), machine=newest.machine_name,
        href=f"{run_folder(newest.digest)}/index.html", experiments=len(items), new=new[:MOST_NEW],
        more_new=max(0, len(new) - MOST_NEW), changed=changed[:MOST_CHANGES],
        more=max(0, len(changed) - MOST_CHANGES),
    )  # fmt: skip


DATA = "data.json"
PER_PAGE = 100
MOST_ATTENTION = 4  # decisions that are named


def front_pages(context: SiteContext) -> Iterator[Output]:
    """index.html with the grid and the first experiments, experiments/page-2/index.html and so on, and their data."""
    outlined = outlines(context)
    shown = {item.name: item.digest for item in outlined.current}
    # A preview has pages of its own run alone.
    shapes = grid(
        row
        for item in outlined.current
        for row in item.winners
        if not context.label or row["digest"] == shown[item.name]
    )
    went_on = {item.digest for item in (*outlined.current, *outlined.published) if not item.isolated}
    # Those of the lab's tests of itself are not to be counted among them.
    counts = status_counts(item.counts for item in outlined.current if not item.self_test)
    data = overview(counts, shapes, went_on)
    view = DataView(data)
    attention = [row for row in decision_rows(context) if row.attention]
    front = View(
        grid=grid_view(data, shown, context.trust),
        verdicts=[(each, _claims_with(each, view)) for each in counts],
        claims=view.figure("claims"),
        news=None if context.label else news(outlined.published),
        attention=attention[:MOST_ATTENTION],
        answered=all(row.acknowledged for row in attention),
        more_attention=max(0, len(attention) - MOST_ATTENTION),
        decisions=len(context.decisions),
        zoo=not context.label and has_zoo(outlined),
    )
    rows = sorted((listed(item) for item in outlined.current), key=place)
    for leaf in leaves(rows, "experiments", first="index.html", per_page=PER_PAGE):
        lists = experiment_lists(leaf.items)
        yield Document(
            path=leaf.path,
            template="experiments.html" if leaf.previous else "index.html",
            view={"leaf": leaf, "lists": lists} if leaf.previous else {"leaf": leaf, "lists": lists, "front": front},
        )
    yield csv_table("winners.csv", HEADINGS, rows_table(shapes))
    yield Attachment(path="assets/winners.js", content=answers_script(shapes, shown))
    yield Attachment(path=DATA, content=data_text(data, DATA, "overview"))


def _claims_with(count: View, view: DataView) -> Sentence:
    """'12 (3 mixed)': how many claims have a verdict."""
    claims = view.figure("verdicts", count.status) or "–"
    return (claims, " (", view.figure("mixed") or "–", " mixed)") if count.mixed else (claims,)
