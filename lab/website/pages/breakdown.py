"""A table of an experiment's page: what each kernel should save in a whole model, and what it saved."""

from lab.website import format
from lab.website.data.judged import Judged
from lab.website.figure import DataView, Figure, sentence
from lab.website.pages.labels import profile_title
from lab.website.table import Fold, PageTable, TableRow, Words, below, numbers, table_row, words

ROOT = "breakdown"
HEADS = (
    *words("Replaced"),
    *numbers("Calls", "Before, µs a call", "With kernel, µs a call", "Predicted to save, µs", "Saved, µs"),
)
METHOD = (
    "Predicted is the time that a kernel saves in one call, measured alone in the same run, times its calls in the "
    "model. A part runs in a CUDA graph that copies its inputs and its result; both sides of a part do, so that the "
    "difference holds no copies. Saved is what the model of that kernel alone gained over the model without kernels. "
    "The sum takes in the rows that are in the model with every kernel and in no other such row.",
)
CACHE = (
    "The cache: a part finds its inputs just written, while in the model other operators run between. How much that "
    "makes was not measured.",
)
NO_CLOCK = (
    "The clock: a part is short and runs at the highest clock, while the model draws so much power that the GPU may "
    "lower its clock. How much that makes is not known, for this run does not tell the clock.",
)
NO_GAPS = (
    "Copies and gaps: of the short gaps between the kernels of a graph, the copies of a part leave others than the "
    "model does. How much that makes was not measured, for the parts that are added are not all of the model.",
)


def breakdown_fold(shown: Judged, view: DataView) -> Fold | None:
    """None where no kernels of a model were measured apart."""
    if not (data := view.value(ROOT)):
        return None
    rows = [_row(view, number) for number in range(len(data["rows"]))]
    together = (profile_title(shown, data["breakdown"]["together"]), ", beside the sum of the rows that are added")
    total = table_row(together, "", "", "", _saved(view, "predicted"), _saved(view, "measured"), kind="total")
    caption = sentence(
        view.at(ROOT),
        "The model takes {seconds} µs without kernels. With all it should be {predicted_ratio} as fast, and is "
        "{measured_ratio} as fast. Saved minus predicted: {gap/seconds:away} µs, by both intervals from "
        f"{{gap/low_seconds:away}} to {{gap/high_seconds:away}}. The two "
        f"{'overlap' if data['agrees'] else 'do not overlap'}.",
        away=format.distance,
    )
    table = PageTable(label="Predicted and measured", heads=HEADS, rows=(*rows, total), caption=caption)
    return Fold(
        id="breakdown", title="What each kernel saves in the model, predicted and measured", lead=METHOD,
        tables=(table,), items=(_clock(view, len(rows)), _gaps(view), CACHE),
    )  # fmt: skip


def _clock(view: DataView, rows: int) -> Words:
    """What a lower clock of the model may make of the difference."""
    if view.value(ROOT, "clock_seconds") is None:
        return NO_CLOCK
    added = [number for number in map(str, range(rows)) if view.value(ROOT, "rows", number, "row", "added")]
    hertz = {number: view.value(ROOT, "rows", number, "clock_hertz") for number in added}
    ends = (end(hertz, key=lambda number: hertz[number]) for end in (min, max))
    lowest, highest = (f"{{rows/{number}/clock_hertz}}" for number in ends)
    alike = len({format.megahertz(each) for each in hertz.values()}) == 1
    clocks = lowest if alike else f"{lowest} to {highest}"
    return sentence(
        view.at(ROOT),
        f"The clock: by spins between the calls it was {{clock_hertz}} MHz in the model, and {clocks} MHz where the "
        "parts that are added ran alone. If all that these save took longer in the model as its clock is lower, it "
        "would save {clock_seconds:away} µs more than predicted; of work that waits for memory, nothing more.",
        away=format.distance,
    )


def _gaps(view: DataView) -> Words:
    """What the parts take alone beyond what they take in the model, on each side."""
    if view.value(ROOT, "excess_before_seconds") is None:
        return NO_GAPS
    return sentence(
        view.at(ROOT),
        "Copies and gaps: alone, the parts together take {excess_before_seconds:away} µs more than the model without "
        "kernels, and {excess_after_seconds:away} µs more than the model with all. That holds the copies of their "
        "inputs and results and the gaps around them. Saved minus predicted is the difference of the two.",
        away=format.distance,
    )


def _row(view: DataView, number: int) -> TableRow:
    path = (ROOT, "rows", str(number))
    added = view.value(*path, "row", "added") and "added to the sum"
    return table_row(
        (view.value(*path, "row", "title"), below(added)),
        view.figure(*path, "row", "calls"),
        view.figure(*path, "baseline_seconds"),
        view.figure(*path, "subject_seconds"),
        _saved(view, "rows", str(number), "predicted"),
        _saved(view, "rows", str(number), "measured") if view.value(*path, "row", "alone") else "",
    )


def _saved(view: DataView, *path: str) -> Words:
    """'1,234 [1,200, 1,260]', in µs."""
    ends: list[Figure | None] = [
        view.figure(ROOT, *path, end, show=format.distance) for end in ("seconds", "low_seconds", "high_seconds")
    ]  # fmt: skip
    seconds, low, high = ends
    return (seconds, below("[", low, ", ", high, "]")) if low and high else (None,)
