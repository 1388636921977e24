"""A table of an experiment's page: what each kernel should save in a whole model, and what it saved."""

from lab.website import format
from lab.website.data.judged import Judged
from lab.website.figure import DataView, Figure
from lab.website.pages.labels import profile_title
from lab.website.table import Fold, PageTable, Soft, TableRow, Words, numbers, table_row, words

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
EXPLANATIONS = (
    "Where the model saves less or more than predicted, there are three known reasons; the lab has not measured how "
    "much each of them weighs. A part finds its inputs just written, and in the model matrix products of other sizes "
    "run between. A model that uses less power has a higher clock, so that all of its products gain. Inside a graph "
    "a kernel begins while the one before ends, which joins parts that were measured apart.",
)


def breakdown_fold(shown: Judged, view: DataView) -> Fold | None:
    """None where no kernels of a model were measured apart."""
    if not (data := view.value(ROOT)):
        return None
    rows = [_row(shown, view, number) for number in range(len(data["rows"]))]
    together = (profile_title(shown, data["together"]), ", beside the sum of the rows that are added")
    total = table_row(together, "", "", "", _saved(view, "predicted"), _saved(view, "measured"), kind="total")
    gap: Words = (
        "The model takes ", view.figure(ROOT, "baseline_seconds"), " µs without kernels. It saves ",
        view.figure(ROOT, "gap_seconds", show=format.distance), " µs more than predicted, where a minus means less: ",
        "the two intervals meet." if data["agrees"] else "the two intervals do not meet.",
    )  # fmt: skip
    table = PageTable(label="Predicted and measured", heads=HEADS, rows=(*rows, total), caption=gap)
    return Fold(
        id="breakdown", title="What each kernel saves in the model, predicted and measured", lead=METHOD,
        tables=(table,), items=(EXPLANATIONS,),
    )  # fmt: skip


def _row(shown: Judged, view: DataView, number: int) -> TableRow:
    path = (ROOT, "rows", str(number))
    added: Words = (Soft(("added to the sum",)),) if view.value(*path, "added") else ()
    return table_row(
        (view.value(*path, "title"), *added),
        view.figure(*path, "calls"),
        view.figure(*path, "baseline_seconds"),
        view.figure(*path, "subject_seconds"),
        _saved(view, "rows", str(number), "predicted"),
        _saved(view, "rows", str(number), "measured") if view.value(*path, "alone") else "",
    )


def _saved(view: DataView, *path: str) -> Words:
    """'1,234 [1,200, 1,260]', in µs."""
    ends: list[Figure | None] = [
        view.figure(ROOT, *path, end, show=format.distance) for end in ("seconds", "low", "high")
    ]  # fmt: skip
    seconds, low, high = ends
    return (seconds, Soft(("[", low, ", ", high, "]"))) if low and high else (None,)
