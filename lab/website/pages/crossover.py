"""Who wins at which size: a line for each implementation over cases that differ in one dimension of their shape."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any

from markupsafe import Markup

from lab.definition.plan import PlannedCase, PlannedProfile
from lab.verdict.cells import SCOPE
from lab.verdict.judge import EQUIVALENCE_MARGIN
from lab.verdict.statistics import per_cent
from lab.website import format
from lab.website.addresses import case_address
from lab.website.charts.lines import Line, Point, crossover_chart
from lab.website.charts.svg import series
from lab.website.data.judged import Judged
from lab.website.data.standing_words import SHARES_FIRST
from lab.website.figure import DataView, Figure, extremes
from lab.website.pages.labels import DTYPES, case_label, scope_words, shape_label, titled, within_sentence
from lab.website.pages.standing import BAND, SERIOUS, Rival, Standing, against_best, serious_rivals, standings
from lab.website.table import Constant, Link, PageTable, Strong, Words, below, numbers, table_row, words

FEWEST_SIZES = 4
WIDEST = 1 + 2 * EQUIVALENCE_MARGIN  # an interval's end over its beginning, where it tells anything


@dataclass(frozen=True, kw_only=True, slots=True)
class Family:
    """Cases that compute the same, by their size along one axis of their shape; `op`: what their operators' names
    begin with."""

    op: str
    axis: int
    cases: tuple[PlannedCase, ...]

    def size(self, case: PlannedCase) -> int:
        return case.shape[self.axis]


@dataclass(frozen=True, kw_only=True, slots=True)
class Crossover:
    """`gains`: sentences that say from which size on a rival is as good as level; `table`: the times that are drawn,
    where those of every cell are of another scope."""

    title: str
    chart: Markup
    gains: tuple[Words, ...]
    table: PageTable | None
    cases: tuple[PlannedCase, ...]
    profiles: frozenset[str]  # those that are drawn
    beyond: bool  # whether a mark lies beyond the picture


def crossovers(item: Judged, view: DataView) -> Iterator[Crossover]:
    """One for every family in which several implementations compete."""
    every = families(item)
    scope = _scope(item, [case for family in every for case in family.cases])
    serious, standing = serious_rivals(item, scope), standings(item, view, scope)
    for number, family in enumerate(every):
        drawn = frozenset(name for op, name in serious if op in {case.op for case in family.cases})
        tracks = [
            Line(label=profile.title, series=series(profile.name), points=points)
            for profile in item.plan.profiles
            if profile.name in drawn and len(points := tuple(_points(profile, family, standing))) > 1
        ]
        if len(tracks) > 1:
            looks = [track.series for track in tracks]
            tracks = [replace(each, dotted=each.series in looks[:place]) for place, each in enumerate(tracks)]
            sizes = [family.size(case) for case in family.cases]
            title = _title(family) + ("" if scope == SCOPE else f", {scope_words(scope, item.on_cpu).told}")
            yield Crossover(
                title=title, chart=crossover_chart(f"crossover-{number}", title, sizes, tracks, BAND, SERIOUS),
                gains=tuple(_gains(item, family, standing, view)),
                table=None if scope == SCOPE else _table(item, family, standing, scope, title, view),
                cases=family.cases, profiles=drawn,
                beyond=any(point.value > SERIOUS for track in tracks for point in track.points),
            )  # fmt: skip


def families(item: Judged) -> list[Family]:
    """Cases of one operator; or of several that are variants of one: their names begin with its name, they do the same
    work, and one implementation is timed at every size, so that all can be compared with it.
    """
    ops = {case.op for case in item.plan.included_cases}
    alike: dict[tuple[Any, ...], list[PlannedCase]] = {}
    for case in item.plan.included_cases:
        first = min((op for op in ops if f"{case.op}-".startswith(f"{op}-")), key=len)
        for axis, size in enumerate(case.shape):
            others = (*case.shape[:axis], None, *case.shape[axis + 1 :])
            alike.setdefault((first, axis, others, case.dtype, case.flops / size), []).append(case)
    found: list[Family] = []
    for (first, axis, *_), cases in alike.items():
        whole = Family(op=first, axis=axis, cases=tuple(sorted(cases, key=lambda case: case.shape)))
        found += [whole] if _is_one(item, whole) else _by_operator(whole)
    return [family for family in found if len(family.cases) >= FEWEST_SIZES]


def _by_operator(family: Family) -> list[Family]:
    cases_by_op: dict[str, list[PlannedCase]] = {}
    for case in family.cases:
        cases_by_op.setdefault(case.op, []).append(case)
    return [Family(op=op, axis=family.axis, cases=tuple(cases)) for op, cases in cases_by_op.items()]


def _is_one(item: Judged, family: Family) -> bool:
    """Whether no size stands twice, one implementation is at all of them, and bytes grow with the size along a line."""
    first, last = family.cases[0], family.cases[-1]
    everywhere = set.intersection(*({each.name for each in item.plan.profiles_of(case)} for case in family.cases))
    return (
        len({family.size(case) for case in family.cases}) == len(family.cases)
        and bool(everywhere)
        and all(
            (read(case) - read(first)) * (family.size(last) - family.size(first))
            == (read(last) - read(first)) * (family.size(case) - family.size(first))
            for read in (attrgetter("read_bytes"), attrgetter("written_bytes"))
            for case in family.cases
        )
    )


def _scope(item: Judged, cases: Sequence[PlannedCase]) -> str:
    """That in which most claims about these cases compare; device_cold where it is level, or a case is not timed in
    the other."""
    asked = Counter(claim.scope for case in cases for claim in item.plan.compared_at(case))
    most = max((SCOPE, *asked), key=lambda scope: asked[scope])
    return most if all(item.places(case.name, most) for case in cases) else SCOPE


def _points(profile: PlannedProfile, family: Family, standing: Standing) -> Iterator[Point]:
    """One implementation at every size where it is timed."""
    for case in family.cases:
        if rival := standing[case.name].get(profile.name):
            title = f"{profile.title}, {case_label(case)}: {format.times(rival.value)} the fastest's time"
            at = float(family.size(case))
            yield Point(at=at, value=rival.value, low=rival.low, high=rival.high, title=title)


def _title(family: Family) -> str:
    """'RMSNorm + Linear n×18944×3584 bf16'."""
    case = family.cases[0]
    shape = "×".join("n" if place == family.axis else str(size) for place, size in enumerate(case.shape))
    return f"{titled(family.op)} {shape} {DTYPES.get(case.dtype, case.dtype)}"


def _gains(item: Judged, family: Family, standing: Standing, view: DataView) -> Iterator[Words]:
    """Of each rival with which a claim compares at every size, where its size decides whether it is level."""
    for profile in item.plan.profiles:
        compared = all(
            any(claim.baseline == profile.name for claim in item.plan.compared_at(case)) for case in family.cases
        )
        rivals = [rival for case in family.cases if (rival := standing[case.name].get(profile.name))]
        if compared and len(rivals) == len(family.cases):
            yield from _gain(family, profile, rivals, view)


def _gain(family: Family, profile: PlannedProfile, rivals: Sequence[Rival], view: DataView) -> Iterator[Words]:
    """'From n = 512 to 2048 the fastest's gain over cuBLAS measures below 2 %: 1.018× [1.014, 1.021] at n = 512. From
    n = 1 to 256 it is 1.08× to 1.39×.' Or the other way round. Nothing where the rival is the fastest itself, where no
    one size parts what is below from what is not, or where the intervals there are wider than ±2 %."""
    level = [rival.value < BAND[1] for rival in rivals]
    turns = [place for place in range(1, len(level)) if level[place] != level[place - 1]]
    if len(turns) != 1 or any(each.high > each.low * WIDEST for each in rivals[turns[0] - 1 : turns[0] + 1]):
        return
    if any(rival.ratio is None for rival in rivals):
        return
    smallest, before, after, largest = (
        view.figure("cases", family.cases[place].name, "shape", str(family.axis), show=str)
        for place in (0, turns[0] - 1, turns[0], -1)
    )
    below_turn: Words = ("From n = ", smallest, " to ", before) if turns[0] > 1 else ("At n = ", before)
    beyond: Words = ("From n = ", after, " to ", largest) if turns[0] < len(level) - 1 else ("At n = ", after)
    small, large, edge, at = (
        (below_turn, beyond, turns[0] - 1, before) if level[0] else (beyond, below_turn, turns[0], after)
    )
    ratio, interval = rivals[edge].ratio, rivals[edge].interval
    told = (": ", _precise(ratio), *((" ", interval) if interval else ()), " at n = ", at) if ratio else ()
    ahead = (rival.ratio for rival, is_level in zip(rivals, level, strict=True) if not is_level)
    limit = Constant((f"below {per_cent(EQUIVALENCE_MARGIN)}",))
    over = within_sentence(profile.title)
    gains = extremes(_precise(ratio) for ratio in ahead if ratio)
    yield *small, f" the fastest's gain over {over} measures ", limit, *told, ". ", *large, " it is ", *gains, "."


def _precise(ratio: Figure) -> Figure:
    """Never rounded onto the limit of what counts as equal."""
    return replace(ratio, text=format.beside(BAND[1], format.times)(float(ratio.value)))


def _table(item: Judged, family: Family, standing: Standing, scope: str, title: str, view: DataView) -> PageTable:
    """Medians in µs; below each its time over the fastest's."""
    planned = {profile.name for case in family.cases for profile in item.plan.profiles_of(case)}
    profiles = [profile for profile in item.plan.profiles if profile.name in planned]
    rows = [
        table_row(
            Link(shape_label(case), case_address(case.name)),
            *(_time(case, each, standing[case.name].get(each.name), scope, view) for each in profiles),
        )
        for case in family.cases
    ]
    heads = (*words("Case"), *numbers(*(profile.title for profile in profiles)))
    return PageTable(label=title, kind="cells stacks", heads=heads, rows=rows)


def _time(case: PlannedCase, profile: PlannedProfile, rival: Rival | None, scope: str, view: DataView) -> Words:
    p50 = view.figure("cells", case.name, profile.name, "scopes", scope, "p50_seconds", show=format.brief_microseconds)
    if p50 is None or rival is None:
        return ()
    first = rival.word in SHARES_FIRST
    return Strong((p50,)) if first else p50, below(*against_best(rival))
