"""How often is the lab's kernel level with the best? The page of the fullest `lab zoo` of each operator on
each GPU, and of what measured its close shapes again."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from types import SimpleNamespace as View
from typing import Any

from lab.definition.catalogue import ZOO
from lab.verdict.judge import EQUIVALENCE_MARGIN
from lab.verdict.standing import LEVEL
from lab.website import format
from lab.website.addresses import short
from lab.website.charts.rows import Strip, strips
from lab.website.charts.svg import series
from lab.website.data.judged import Judged
from lab.website.data.zoo import zoo_data
from lab.website.data.zoo_runs import Part, by_run, is_screening, operator_of, parts_of
from lab.website.figure import DataView, Sentence, Show, joined, sentence
from lab.website.files.schemas import data_text
from lab.website.outputs import Attachment, Document, Outlines, Output, PageGroup, SiteContext, grouped
from lab.website.pages.clock_notes import HOST_WENT_ON
from lab.website.pages.labels import case_label, listed, operator_title, profile_title, scope_title
from lab.website.pages.measure_again import run_command
from lab.website.pages.outline import outlines
from lab.website.pages.run_links import run_link, verdict_link
from lab.website.pages.zoo_answers import SCRIPT, tried_script
from lab.website.table import Head, Link, PageTable, TableRow, Words, column, csv_table, named, row

PAGE = "zoo/index.html"
# Of the CSV, after the GPU.
COLUMNS = ("case", "scope", "subject", "seconds", "rival", "rival_seconds", "ratio", "bar", "run")
WORST = 10  # shapes that are listed in each scope
GOAL = 0.95  # of an operator's shapes: at its bar
WHERE = {"device_cold": "with a cold cache", "graph": "in CUDA graphs"}
BAND = (LEVEL, 1 + EQUIVALENCE_MARGIN)


def ratio(bars: Iterable[float]) -> Show:
    """With three decimals, and more where it would else be rounded onto one of the bars, or onto what is level."""
    show: Show = "{:.3f}×".format
    for bar in {LEVEL, *bars}:
        show = format.beside(bar, show)
    return show


def _spread(kind: str, show: Show, *, with_bar: bool) -> tuple[Head, ...]:
    """Of the distribution of ratios of each of a kind. `with_bar`: where another ratio than LEVEL is asked for."""
    return (
        named(kind.lower(), kind), column("level_cases", "Level or ahead"),
        *([column("bar_cases", "At its bar")] if with_bar else ()), column("cases", "Shapes"),
        column("ahead_share", "Ahead, %", show=format.whole_percent), column("smallest", "Worst", show=show),
        column("median", show=show),
    )  # fmt: skip


def _shapes(show: Show) -> tuple[Head, ...]:
    return (
        named("shape", "Shape"), column("ratio", "Ratio", show=show), column("seconds", "Ours, µs"),
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
        gpu: _shown(items)
        for gpu, items in grouped(filter(_is_of_zoo, context.published), lambda item: machines[item.digest]).items()
    }
    gpus = dict(sorted(gpus.items(), key=lambda gpu: gpu[1][0].item.finished_utc, reverse=True))
    if gpus:
        keys = [[part.item.key, sorted(part.tried)] for parts in gpus.values() for part in parts]
        yield PageGroup(name="zoo", shows=keys, make=partial(_pages, gpus))


def _shown(items: Sequence[Judged]) -> list[Part]:
    """Of each operator what is shown, the newest run first: an operator can be measured again alone."""
    operators = [parts_of(of_one) for of_one in grouped(items, operator_of).values()]
    operators.sort(key=lambda parts: parts[0].item.finished_utc, reverse=True)
    return [part for parts in operators for part in parts]


def _pages(gpus: Mapping[str, Sequence[Part]]) -> Iterator[Output]:
    data = zoo_data(gpus)
    view = DataView(data)
    ends = _ends(data)
    views = [_gpu(gpu, parts, view.at("gpus", gpu), ends) for gpu, parts in gpus.items()]
    yield Document(path=PAGE, template="zoo.html", view={"gpus": views})
    yield Attachment(path="zoo/data.json", content=data_text(data, "zoo/data.json", "zoo"))
    bars = {bar for gpu in data["gpus"].values() for bar in gpu["bars"].values()}
    yield Attachment(path=SCRIPT, content=tried_script(gpus, data, ratio(bars)))
    yield csv_table("zoo/shapes.csv", ("gpu", *COLUMNS), _standings(data))


def _ends(data: Mapping[str, Any]) -> tuple[float, float]:
    """The smallest and the largest ratio: all charts share an axis, so that they can be compared by eye."""
    scopes = [scope for gpu in data["gpus"].values() for scope in gpu["scopes"].values()]
    ratios = [each["ratio"] for scope in scopes for each in scope["cases"].values()] or [1.0]
    return min(ratios), max(ratios)


def _standings(data: Mapping[str, Any]) -> Iterator[tuple[Any, ...]]:
    for gpu, run in data["gpus"].items():
        for scope in run["scopes"].values():
            yield from ((gpu, *(each[name] for name in COLUMNS)) for each in scope["cases"].values())


def _gpu(gpu: str, parts: Sequence[Part], view: DataView, ends: tuple[float, float]) -> View:
    """`ends`: the smallest and the largest ratio of all that is drawn."""
    items, bars = [part.item for part in parts], set(view.value("bars").values())
    first, show, with_bar = items[0], ratio(bars), bars != {LEVEL}
    return View(
        name=gpu, runs=[_run(run, view.at("runs", run_id)) for run_id, run in by_run(parts).items()],
        again=_again(parts, view), went_on=_went_on(parts), commands=list(_commands(parts)), wrong=_wrong(parts, view),
        in_place=any(len({claim.subject for claim in item.plan.claims}) > 1 for item in items),
        tried=_tried(view), goal=_goal(view, first.plan.scopes), shapes=view.figure("shapes"),
        screened=any(map(is_screening, items)), bars=_bars(view), level=LEVEL,
        lede=(*_level_at(view), *sentence(
            view,
            " At the median shape the best rival takes {scopes/graph/all/median:ratio} our time in graphs and "
            "{scopes/device_cold/all/median:ratio} with a cold cache; at our worst, "
            "{scopes/graph/all/smallest:ratio} and {scopes/device_cold/all/smallest:ratio}. These are medians. The "
            "rules for claims, which ask for certainty, find it at its bar against every rival at "
            "{scopes/graph/proven} of {scopes/graph/all/cases} shapes in graphs and {scopes/device_cold/proven} of "
            "{scopes/device_cold/all/cases} with a cold cache.",
            ratio=show,
        )),
        scopes=[
            _scope(scope, parts, view.at("scopes", scope), short(first.digest), show, ends, with_bar=with_bar)
            for scope in first.plan.scopes
        ],
    )  # fmt: skip


def _by_bar(view: DataView) -> list[list[str]]:
    """The operators of each bar, those of the usual bar first."""
    bars: Mapping[str, float] = view.value("bars")
    return sorted(grouped(bars, lambda operator: str(bars[operator])).values(), key=len, reverse=True)


def _level_at(view: DataView) -> Words:
    """At how many shapes ours is level or ahead, told apart for each bar; and where another bar than that is asked
    for, at how many it reaches that one."""
    usual, *others = _by_bar(view)
    left_out = [operator_title(operator) for alike in others for operator in alike]
    of_operators = f" of other operators than {listed(left_out)}" if others else ""
    told: Words = (
        "In CUDA graphs the lab's kernel is level with the best rival or ahead at ",
        *_counted(view, "graph", usual, "level_cases"), f" shapes{of_operators}, with a cold cache at ",
        *_counted(view, "device_cold", usual, "level_cases"), *_own_bar(view, usual), ".",
    )  # fmt: skip
    of_others = (
        (f" {listed([*map(operator_title, alike)])} is so at ", *_counted(view, "graph", alike, "level_cases"),
         " in graphs and ", *_counted(view, "device_cold", alike, "level_cases"), " with a cold cache",
         *_own_bar(view, alike), ".")
        for alike in others
    )  # fmt: skip
    return (*told, *joined(of_others, ""))


def _own_bar(view: DataView, operators: Sequence[str]) -> Words:
    """', and reaches its own, lower bar of 0.9 at 23 of 24 and 23 of 24'; nothing where the bar is to be level."""
    bar: float = view.value("bars", operators[0])
    if bar == LEVEL:
        return ()
    lower = "lower" if bar < LEVEL else "higher"
    return (
        f", and reaches its own, {lower} bar of ", view.figure("bars", operators[0], show=str), " at ",
        *_counted(view, "graph", operators, "bar_cases"), " and ",
        *_counted(view, "device_cold", operators, "bar_cases"),
    )  # fmt: skip


def _counted(view: DataView, scope: str, operators: Sequence[str], kind: str) -> Sentence:
    """'21 of 24': of these operators, which have one bar."""
    bar = str(view.value("bars", operators[0]))
    return sentence(view.at("scopes", scope, "by_bar", bar), f"{{{kind}}} of {{cases}}")


def _bars(view: DataView) -> Words:
    """'0.98': that of most operators, and where others differ '0.98 (Matmul: 0.9)'."""
    most, *others = _by_bar(view)
    bar = view.figure("bars", most[0], show=str)
    told = ((f"{listed([*map(operator_title, alike)])}: ", view.figure("bars", alike[0], show=str)) for alike in others)
    return (bar, " (", *joined(told, "; "), ")") if others else (bar,)


def _run(parts: Sequence[Part], view: DataView) -> View:
    first = parts[0].item
    return View(
        id=parts[0].run_id, link=run_link(first), date=format.day(first.finished_utc), processes=_processes(view),
        cut_short=bool(first.evidence["cut_short"]), commit=first.evidence["commit"][:7],
        screening=is_screening(first), operators=", ".join(operator_title(operator_of(part.item)) for part in parts),
    )  # fmt: skip


def _again(parts: Sequence[Part], view: DataView) -> Words:
    """How many shapes were measured again, and by which runs; nothing where none was."""
    runs = by_run([part for part in parts if part.again])
    if not runs:
        return ()
    links = joined(((Link(run_id, run_link(run[0].item)),) for run_id, run in runs.items()), " and ")
    return (
        *sentence(
            view,
            "Of the {shapes} shapes, {measured_again} were measured again later, from the same source and with the "
            "usual number of samples: their times here are those of ",
        ),
        *links, ".",
    )  # fmt: skip


def _tried(view: DataView) -> Sentence:
    """That the sample was known when the kernels were changed; nothing where no earlier run measured it."""
    if not view.value("tried"):
        return ()
    return sentence(
        view,
        "This is no test at shapes that were never seen: the sample is the same in every run, earlier kernels were "
        "measured at {tried} of these {shapes} shapes, and kernels and their rules were changed in between.",
    )


def _wrong(parts: Sequence[Part], view: DataView) -> str:
    """Where our kernel has no time because its result was wrong; nothing where there is no such shape."""
    names = view.value("wrong")
    labels = [case_label(case) for part in parts for case in part.cases if case.name in names]
    return listed(labels) if labels else ""


def _went_on(parts: Sequence[Part]) -> Words:
    """The runs whose host did not wait for each call to end, and what that does to a time."""
    went_on = by_run([part for part in parts if not part.item.evidence["isolated"]])
    links = joined(((Link(run_id, run_link(run[0].item)),) for run_id, run in went_on.items()), " and ")
    return ("The times of ", *links, f" were {HOST_WENT_ON}.") if links else ()


def _commands(parts: Sequence[Part]) -> Iterator[str]:
    """What measures each run again. What one measured again after a screening comes with its `--decide`."""
    decided = {operator_of(part.item): part.item.evidence["sweeps"] for part in parts if part.again}
    for run in by_run([part for part in parts if not part.again]).values():
        items = [part.item for part in run]
        sweeps = max((decided.get(operator_of(item), 0) for item in items), default=0)
        yield run_command(items) + (f" --decide {sweeps}" if sweeps else "")


def _processes(view: DataView) -> Sentence:
    alike = view.value("fewest_sweeps") == view.value("most_sweeps")
    return sentence(view, "{most_sweeps} processes" if alike else "{fewest_sweeps} to {most_sweeps} processes")


def _goal(view: DataView, scopes: Sequence[str]) -> str:
    """'met by all in CUDA graphs and missed by Matmul with a cold cache'."""
    said: dict[str, list[str]] = {}
    for scope in scopes:
        if operators := view.value("scopes", scope, "operators"):
            missed = [operator_title(op) for op, told in operators.items() if told["bar_cases"] < GOAL * told["cases"]]
            said.setdefault(f"missed by {listed(missed)}" if missed else "met by all", []).append(WHERE[scope])
    return " and ".join(f"{words} {listed(places)}" for words, places in said.items()) or "not yet tried"


def _scope(
    scope: str, parts: Sequence[Part], view: DataView, run: str, show: Show, ends: tuple[float, float], *,
    with_bar: bool,
) -> View:  # fmt: skip
    """`run` tells the ids of two GPUs apart; `show` writes a ratio; charts go from one of `ends` to the other."""
    by_operator, by_rival = (_spread(kind, show, with_bar=with_bar) for kind in ("Operator", "Rival"))
    shapes = _shapes(show)
    title, items = scope_title(scope), [part.item for part in parts if not part.again]
    cases = {case.name: (case_label(case), part.item) for part in parts for case in part.cases}
    worst = [(name, *cases[name]) for name in list(view.value("cases"))[:WORST]]
    return View(
        id=f"{scope}-{run}", title=title,
        chart=strips(f"zoo-{scope}-{run}", f"{title}: best rival's time over ours",
                     [_strip(each, view) for each in items], BAND, ends, "Right of 1 ours is faster"),
        operators=_table(f"{title}, by operator", by_operator, [
            row(view.at("operators", operator_of(item)), by_operator,
                operator=Link(operator_title(operator_of(item)), verdict_link(item)))
            for item in items
        ]),
        rivals=_table(f"{title}, against each rival alone", by_rival, [
            row(view.at("rivals", name), by_rival, rival=_title(items, name)) for name in view.value("rivals")
        ]),
        worst=_table(f"{title}, the worst shapes", shapes, [
            row(view.at("cases", name), shapes, shape=label,
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
