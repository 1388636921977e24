"""Whether GPUs of one host disturb one another when they measure at the same time."""

from lab.verdict.statistics import CONFIDENCE, per_cent
from lab.website.figure import DataView
from lab.website.pages.labels import scope_title
from lab.website.pages.trust_part import Part, trust_part
from lab.website.table import column, named, row


def signed(share: float) -> str:
    """'+0.3 %', or with a minus sign."""
    return f"{'−' if share < 0 else '+'}{per_cent(abs(share), 2)}"


def neighbours_part(view: DataView) -> Part:
    """Each board's times with neighbours against its own without. No rows where no board was measured both ways."""
    columns = (
        named("gpu", "GPU"), named("scope", "Timed"), column("shift", "Longer by", show=signed),
        column("low", "At least", show=signed), column("high", "At most", show=signed),
        column("scatter_beside", "Sweeps scatter by", show=_precise),
        column("scatter_alone", "Alone by", show=_precise), column("boards"), column("cells", "Cells"),
    )  # fmt: skip
    return trust_part(
        "neighbours", "Do GPUs of one host disturb one another?",
        "A run on several GPUs measures on all of them at once, and with --in-turn on one at a time. Here each board's "
        "times beside the others are held against its own times alone, cell by cell. “At least” and “at most”: the "
        f"{per_cent(CONFIDENCE)} interval over boards. This tells of the cells that were measured so; others, such as "
        "kernels that draw more power, may differ.",
        columns,
        (row(view.at("neighbours", number), columns, scope=scope_title(each["scope"]))
         for number, each in (view.value("neighbours") or {}).items()),
    )  # fmt: skip


def _precise(share: float) -> str:
    return per_cent(share, 2)
