"""How often is the lab's kernel within two per cent of the best? The page of the fullest `lab zoo` of each operator on
each GPU."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from types import SimpleNamespace as View
from typing import Any

from lab.definition.catalogue import ZOO
from lab.verdict.judge import EQUIVALENCE_MARGIN, Status
from lab.website import format
from lab.website.addresses import short
from lab.website.charts.rows import Strip, strips
from lab.website.charts.svg import series
from lab.website.data.judged import Judged
from lab.website.data.zoo import Run, operator_of, zoo_data
from lab.website.figure import DataView, Sentence, sentence
from lab.website.files.schemas import data_text
from lab.website.outputs import Attachment, Document, Outlines, Output, PageGroup, SiteContext, grouped
from lab.website.pages.boundary import is_screening, run_command
from lab.website.pages.history import run_link, verdict_link
from lab.website.pages.labels import case_label, listed, operator_title, profile_title, scope_title
from lab.website.pages.outline import outlines
from lab.website.table import Head, Link, PageTable, TableRow, column, csv_table, named, row

PAGE = "zoo/index.html"
COLUMNS = ("case", "scope", "subject", "seconds", "rival", "rival_seconds", "ratio")  # of the CSV, after the GPU
WORST = 10  # shapes that are listed in each scope
GOAL = 0.95  # of the shapes: level or ahead
WHERE = {"device_cold": "with nothing cached", "graph": "in CUDA graphs"}
BAND = (1 - EQUIVALENCE_MARGIN, 1 + EQUIVALENCE_MARGIN)


def ratio(value: float) -> str:
    """With three decimals, and more where it would else be rounded onto the level that is asked for."""
    return format.beside(BAND[0], lambda v: f"{v:.3f}×")(value)


SPREAD = (
    column("level_cases", "Level or ahead"), column("cases", "Shapes"),
    column("ahead_share", "Ahead, %", show=format.whole_percent), column("smallest", "Worst", show=ratio),
    column("median", show=ratio),
)  # fmt: skip
OPERATORS, RIVALS = (named("operator", "Operator"), *SPREAD), (named("rival", "Rival"), *SPREAD)
SHAPES = (
    named("shape", "Shape"), column("ratio", "Ratio", show=ratio), column("seconds", "Ours, µs"),
    named("rival", "Best rival"), column("rival_seconds", "Rival, µs"),
)  # fmt: skip


def has_zoo(outlined: Outlines) -> bool:
    return any(map(_is_of_zoo, outlined.published))


def _is_of_zoo(item: Judged | View) -> bool:
    return str(item.name).startswith(ZOO)


def zoo_pages(context: SiteContext) -> Iterator[PageGroup]:
    """zoo/index.html, its data and the table of all shapes; nothing where no such run was published."""
    machines = {past.digest: past.machine_name for past in outlines(context).published}
    gpus = {
        gpu: _runs(items)
        for gpu, items in grouped(filter(_is_of_zoo, context.published), lambda item: machines[item.digest]).items()
    }
    gpus = dict(sorted(gpus.items(), key=lambda gpu: gpu[1][0][0].finished_utc, reverse=True))
    if gpus:
        keys = [item.key for runs in gpus.values() for run in runs for item in run]
        yield PageGroup(name="zoo", shows=keys, make=partial(_pages, gpus))


def _runs(items: Sequence[Judged]) -> list[list[Judged]]:
    """Of each operator the fullest experiment, by run, the newest first: an operator can be measured again alone."""
    fullest = [max(of_one, key=_fullness) for of_one in grouped(items, operator_of).values()]
    runs = grouped(fullest, lambda item: item.digest).values()
    return sorted(runs, key=lambda run: run[0].finished_utc, reverse=True)


def _fullness(item: Judged) -> tuple[int, str]:
    """How many shapes it says something about, and when: what `lab zoo` measures again by the usual protocol are the
    close ones alone. How many rivals took part does not count, or an older run could stand before a newer one."""
    shapes = {
        case
        for claim in item.data["claims"].values()
        for case, verdict in claim["cases"].items()
        if verdict["status"] != Status.NO_EVIDENCE
    }
    return len(shapes), item.finished_utc


def _pages(runs: Mapping[str, Sequence[Run]]) -> Iterator[Output]:
    data = zoo_data(runs)
    view = DataView(data)
    gpus = [_gpu(gpu, of_gpu, view.at("gpus", gpu)) for gpu, of_gpu in runs.items()]
    yield Document(path=PAGE, template="zoo.html", view={"gpus": gpus})
    yield Attachment(path="zoo/data.json", content=data_text(data, "zoo/data.json", "zoo"))
    yield csv_table("zoo/shapes.csv", ("gpu", *COLUMNS), _standings(data))


def _standings(data: Mapping[str, Any]) -> Iterator[tuple[Any, ...]]:
    for gpu, run in data["gpus"].items():
        for scope in run["scopes"].values():
            yield from ((gpu, *(each[name] for name in COLUMNS)) for each in scope["cases"].values())


def _gpu(gpu: str, runs: Sequence[Run], view: DataView) -> View:
    items = [item for run in runs for item in run]
    first = items[0]
    return View(
        name=gpu, runs=[_run(run, view.at("runs", run[0].evidence["run_id"])) for run in runs],
        in_place=any(len({claim.subject for claim in item.plan.claims}) > 1 for item in items),
        goal=_goal(view, first.plan.scopes), shapes=view.figure("shapes"),
        screened=any(map(is_screening, items)), level=view.figure("level", show=str),
        lede=sentence(
            view,
            "In CUDA graphs the lab's kernel is level with the best rival or ahead at "
            "{scopes/graph/all/level_cases} of {scopes/graph/all/cases} shapes, with nothing cached at "
            "{scopes/device_cold/all/level_cases} of {scopes/device_cold/all/cases}. At the median shape the best "
            "rival takes {scopes/graph/all/median:ratio} our time in graphs and "
            "{scopes/device_cold/all/median:ratio} with nothing cached; at our worst, "
            "{scopes/graph/all/smallest:ratio} and {scopes/device_cold/all/smallest:ratio}. These are medians. The "
            "rules for claims, which ask for certainty, find it level with every rival at {scopes/graph/proven} and "
            "{scopes/device_cold/proven}.",
            ratio=ratio,
        ),
        scopes=[_scope(scope, items, view.at("scopes", scope), short(first.digest)) for scope in first.plan.scopes],
    )  # fmt: skip


def _run(items: Run, view: DataView) -> View:
    return View(
        id=items[0].evidence["run_id"], link=run_link(items[0]), date=format.day(items[0].finished_utc),
        processes=_processes(view), cut_short=bool(items[0].evidence["cut_short"]),
        commit=items[0].evidence["commit"][:7], screening=is_screening(items[0]),
        operators=", ".join(operator_title(operator_of(item)) for item in items), command=run_command(items),
    )  # fmt: skip


def _processes(view: DataView) -> Sentence:
    alike = view.value("fewest_sweeps") == view.value("most_sweeps")
    return sentence(view, "{most_sweeps} processes" if alike else "{fewest_sweeps} to {most_sweeps} processes")


def _goal(view: DataView, scopes: Sequence[str]) -> str:
    """'met in CUDA graphs and missed with nothing cached'."""
    said: dict[str, list[str]] = {"met": [], "missed": []}
    for scope in scopes:
        if told := view.value("scopes", scope, "all"):
            said["missed" if told["level_cases"] < GOAL * told["cases"] else "met"].append(WHERE[scope])
    return " and ".join(f"{word} {listed(places)}" for word, places in said.items() if places) or "not yet tried"


def _scope(scope: str, items: Sequence[Judged], view: DataView, run: str) -> View:
    """`run` tells the ids of two GPUs apart."""
    title = scope_title(scope)
    cases = {case.name: (case_label(case), item) for item in items for case in item.plan.included_cases}
    worst = [(name, *cases[name]) for name in list(view.value("cases"))[:WORST]]
    return View(
        id=f"{scope}-{run}", title=title,
        chart=strips(f"zoo-{scope}-{run}", f"{title}: best rival's time over ours",
                     [_strip(each, view) for each in items], BAND, "Right of 1 ours is faster"),
        operators=_table(f"{title}, by operator", OPERATORS, [
            row(view.at("operators", operator_of(item)), OPERATORS,
                operator=Link(operator_title(operator_of(item)), verdict_link(item)))
            for item in items
        ]),
        rivals=_table(f"{title}, against each rival alone", RIVALS, [
            row(view.at("rivals", name), RIVALS, rival=_title(items, name)) for name in view.value("rivals")
        ]),
        worst=_table(f"{title}, the worst shapes", SHAPES, [
            row(view.at("cases", name), SHAPES, shape=label,
                rival=profile_title(item, view.value("cases", name, "rival")))
            for name, label, item in worst
        ]),
    )  # fmt: skip


def _strip(item: Judged, view: DataView) -> Strip:
    found, told = view.value("cases"), view.value("operators", operator_of(item))
    return Strip(
        label=operator_title(operator_of(item)), series=series(item.plan.claims[0].subject),
        values=[found[case.name]["ratio"] for case in item.plan.included_cases if case.name in found],
        text=f"{told['level_cases']} of {told['cases']}" if told else "no time",
    )  # fmt: skip


def _title(items: Sequence[Judged], profile: str) -> str:
    """Of the first operator that has the profile."""
    return next(profile_title(item, profile) for item in items if profile in {each.name for each in item.plan.profiles})


def _table(label: str, heads: Sequence[Head], rows: Sequence[TableRow]) -> PageTable:
    return PageTable(label=label, kind="stacks", heads=heads, rows=tuple(rows))
