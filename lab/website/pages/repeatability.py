"""The table of the page on trust that says how often a repeated run agrees, with each goal that is missed."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from lab.verdict.repeatability import CHANGED, FLIPPED, HOLDING, ZERO
from lab.verdict.statistics import per_cent
from lab.website.figure import Ledger, Sentence
from lab.website.pages.trust_views import Row, TableView, one

COMMAND = "lab validity experiments/evidence/*"
ONE_DRAW, OTHERS = "claims on one draw of the compiler", "all other claims"


def repeatability_table(ledger: Ledger) -> TableView:
    """Of pairs of runs of one source on one GPU model. No rows where no run was repeated."""
    numbers = ledger.value("repeatability") or {}
    return TableView(
        anchor="repeatability", title="Does a verdict hold when the run is repeated?",
        about=(
            "Runs of one source on GPUs of one model, each pair held against each other. The unit is a claim at a "
            "case. An interval that holds the true ratio in 95 % of cases holds the estimate of another such run in "
            "about 87 %, because that run errs too. Claims that rest on one draw of a compiler are counted by "
            f"themselves. {COMMAND} computes it from the published runs."
        ),
        goal=(
            f"At least {per_cent(HOLDING)} of the intervals hold the other run's estimate, at least {per_cent(ZERO)} "
            f"of the differences hold zero, at most {per_cent(CHANGED)} of the verdicts change, and none flips "
            "between supported and refuted."
        ),
        headings=(
            "GPU", "Claims", "Runs", "Boards", "Pairs", "Intervals that hold the other", "Differences that hold zero",
            "Verdicts changed", "Flips", "Goals missed",
        ),
        rows=tuple(_row(ledger, number) for number in numbers),
        summary=_summary(numbers),
    )  # fmt: skip


def _row(ledger: Ledger, number: str) -> Row:
    path = ("repeatability", number)
    found = ledger.value(*path)
    shown: dict[str, Callable[[Any], str]] = {
        "runs": str, "boards": str, "pairs": str, "holding_share": _tenths, "zero_share": _tenths,
        "changed_share": _tenths, "flipped": str,
    }  # fmt: skip
    figures = (one(ledger.figure(*path, name, show=show)) for name, show in shown.items())
    return (found["gpu"],), (_kind(found),), *figures, (", ".join(_missed(found)) or "none",)


def _summary(numbers: Mapping[str, Mapping[str, Any]]) -> Sentence:
    """Every goal that is missed, by GPU model; that none is; nothing where no run was repeated."""
    missed = [f"{found['gpu']}, {_kind(found)}: {', '.join(told)}" for found in numbers.values()
              if (told := tuple(_missed(found)))]  # fmt: skip
    if missed:
        return ("Goals are missed. ", "; ".join(missed), ".")
    return ("Every goal is met.",) if numbers else ()


def _missed(found: Mapping[str, Any]) -> Iterator[str]:
    """In words, which goals a row misses."""
    if found["holding_share"] < HOLDING:
        yield "intervals too narrow"
    if found["zero_share"] < ZERO:
        yield "differences without zero"
    if found["changed_share"] > CHANGED:
        yield "verdicts changed"
    if found["flipped"] > FLIPPED:
        yield "flips"


def _kind(found: Mapping[str, Any]) -> str:
    return ONE_DRAW if found["one_draw"] else OTHERS


def _tenths(share: float) -> str:
    return per_cent(share, 1)
