"""What the front page counts: verdicts, and how often each family is level at the shapes of its grid. Pure."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Annotated, Any

from lab.verdict.cells import SCOPE
from lab.verdict.judge import READING_ORDER
from lab.website.data.published_clocks import is_lengthened
from lab.website.data.typed import ByCase, plain_json
from lab.website.data.winners import CPU, Row, WinnerRow
from lab.website.verdict_words import StatusCount


@dataclass(frozen=True, kw_only=True, slots=True)
class OverLab:
    """Of the shapes at which a family and the lab were both timed: its time over that of the lab's fastest kernel, by
    the medians of the two."""

    shapes: int
    median: float
    least: float
    most: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Tally:
    """At how many shapes a family is the best or tied with it, at how many it may be, because it is not shown to be
    slower, and at how many it was timed. `level_share`: the first over the last. `calls_only`: of those at which it is
    level, at how many no other rival was timed than PyTorch's own calls."""

    level: int
    calls_only: int
    perhaps: int
    timed: int
    level_share: float
    over_lab: Annotated[OverLab | None, "None of the lab's own."] = None


@dataclass(frozen=True, kw_only=True, slots=True)
class HostWentOn:
    """Of the shapes with a cold cache: those that were timed while the host went on enqueuing, and of these those at
    which what that adds is a clear part of the fastest time."""

    shapes: int
    taken: int
    lengthened: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Overview:
    """At each shape every family's time; how many claims on kernels have each verdict, without tests of the lab."""

    claims: int
    verdicts: dict[str, int]
    mixed: Annotated[int, "Of the refuted claims, those that hold at some of their cases."]
    shapes: Annotated[dict[str, Annotated[dict[str, ByCase[WinnerRow]], "By call mode."]], "By GPU."]
    tallies: Annotated[
        dict[str, Annotated[dict[str, Annotated[dict[str, Tally], "By family."]], "By call mode."]], "By GPU."
    ]
    host_went_on: Annotated[dict[str, HostWentOn], "By GPU."]


PYTORCH_CALLS = {"fused", "eager"}  # of lab.definition.families
OWN = "lab-"
Shapes = Mapping[str, Mapping[str, Mapping[str, Row]]]  # by GPU, call mode and case: lab.website.data.winners.grid


def overview(counts: Sequence[StatusCount], shapes: Shapes, went_on: Collection[str]) -> dict[str, Any]:
    """Overview as plain JSON values. `went_on`: the digests of runs whose host did not wait for each timed call."""
    verdicts = dict.fromkeys(map(str, READING_ORDER), 0) | {str(each.status): each.claims for each in counts}
    tallied = {gpu: {mode: tallies(cases.values()) for mode, cases in modes.items()} for gpu, modes in shapes.items()}
    host = dict(_host_went_on(shapes, went_on))
    return {
        "claims": sum(verdicts.values()), "verdicts": verdicts, "mixed": sum(each.mixed for each in counts),
        "shapes": shapes, "tallies": plain_json(tallied), "host_went_on": plain_json(host),
    }  # fmt: skip


def tallies(rows: Iterable[Row]) -> dict[str, Tally]:
    """Of every family."""
    held: dict[str, list[Row]] = {}
    for row in rows:
        for family in row["cells"]:
            held.setdefault(family, []).append(row)
    return {family: _tally(family, timed) for family, timed in held.items()}


def _tally(family: str, rows: Sequence[Row]) -> Tally:
    """`rows`: those at which it was timed."""
    level = [row for row in rows if row["cells"][family]["call"] in ("best", "tie")]
    return Tally(
        level=len(level), calls_only=sum(has_calls_only(row, family) for row in level),
        perhaps=sum(row["cells"][family]["call"] != "slower" for row in rows), timed=len(rows),
        level_share=len(level) / len(rows), over_lab=_over_lab(family, rows),
    )  # fmt: skip


def _over_lab(family: str, rows: Sequence[Row]) -> OverLab | None:
    """Of the lab's two the faster one at each shape."""
    if family.startswith(OWN):
        return None
    ours = ((row, [cell["p50_seconds"] for name, cell in row["cells"].items() if name.startswith(OWN)]) for row in rows)
    ratios = [row["cells"][family]["p50_seconds"] / min(times) for row, times in ours if times]
    if not ratios:
        return None
    return OverLab(shapes=len(ratios), median=median(ratios), least=min(ratios), most=max(ratios))


def has_calls_only(row: Row, family: str) -> bool:
    """Whether its only rivals at a shape are PyTorch's own calls."""
    return set() < _rivals(row, family) <= PYTORCH_CALLS


def _rivals(row: Row, family: str) -> set[str]:
    """The families that it was timed against; the lab's two are no rivals of one another."""
    own = OWN if family.startswith(OWN) else family
    return {other for other in row["cells"] if not other.startswith(own)}


def _host_went_on(shapes: Shapes, went_on: Collection[str]) -> Iterator[tuple[str, HostWentOn]]:
    for gpu, modes in shapes.items():
        rows = modes.get(SCOPE, {}).values()
        if gpu != CPU and rows:
            taken = [row for row in rows if row["digest"] in went_on]
            longer = sum(is_lengthened(row["cells"][row["best"]]["p50_seconds"]) for row in taken)
            yield gpu, HostWentOn(shapes=len(rows), taken=len(taken), lengthened=longer)
