"""What stands above a table of the front page's grid: how often each family is fastest or tied, and how much longer it
takes than the lab's kernels."""

from collections.abc import Mapping

from lab.definition.families import heading
from lab.website import format
from lab.website.figure import DataView, Sentence, joined, sentence, span
from lab.website.pages.labels import MODES_WITHIN
from lab.website.table import PageTable, column, named, row

STANDINGS = (
    named("family", "Implementation"), column("timed", "Shapes timed", show=str),
    column("level", "Fastest or tied", show=str), column("level_share", "Share, %", show=format.whole_percent),
    column("perhaps", "With unclear ones", show=str), column("over_lab", "Its time over the lab's fastest kernel"),
)  # fmt: skip
ASKED = {"compile": "torch.compile", "fused": "one call of PyTorch"}  # against whom a reader wants to know the gain


def _leading(tallies: DataView) -> list[str]:
    """The families, those first that are level most often."""
    found: Mapping[str, Mapping[str, int]] = tallies.value() or {}
    return sorted(found, key=lambda family: (-found[family]["level"], -found[family]["perhaps"]))


def _counts(tally: DataView) -> Sentence:
    """'43 of 80 shapes, up to 71 if the unclear ones count'."""
    doubt = tally.value("perhaps") > tally.value("level")
    told = "{level} of {timed} shape" + ("" if tally.value("timed") == 1 else "s")
    return sentence(tally, f"{told}, up to {{perhaps}} if the unclear ones count" if doubt else told)


def summary(tallies: DataView, mode: str) -> Sentence:
    """Who is fastest or tied most often; and how much longer torch.compile and a call of PyTorch take."""
    if not (leading := _leading(tallies)):
        return ()
    asked = ((name, _over_lab(tallies.at(family, "over_lab"))) for family, name in ASKED.items())
    gains = joined(((f"{name} ", *told) for name, told in asked if told), "; ")
    led = (f"Fastest or tied: {heading(leading[0])} at ", *_counts(tallies.at(leading[0])), ".")
    lead = f" Time over that of the lab's fastest kernel {MODES_WITHIN[mode]}, median and range: "
    return (*led, lead, *gains, ".") if gains else led


def standings(tallies: DataView, label: str) -> PageTable | None:
    """Every family, those first that are level at the largest share of the shapes they were timed at; None of one."""
    found: Mapping[str, Mapping[str, float]] = tallies.value() or {}
    if len(found) < 2:
        return None
    ordered = sorted(found, key=lambda name: (-found[name]["level_share"], -found[name]["timed"], heading(name)))
    heads = STANDINGS if any("over_lab" in each for each in found.values()) else STANDINGS[:-1]
    rows = (
        row(at, heads, family=heading(family), over_lab=_over_lab(at.at("over_lab")))
        for family, at in ((family, tallies.at(family)) for family in ordered)
    )
    return PageTable(label=label, heads=heads, rows=tuple(rows), kind="stacks")


def _over_lab(held: DataView) -> Sentence:
    """'1.14× (1.00× to 2.56×, 61 shapes)'; nothing of the lab's own."""
    if not held.value():
        return ()
    ends = span(*(held.figure(end, show=format.times) for end in ("least", "most")))
    return (
        *sentence(held, "{median:times} (", times=format.times),
        *ends,
        *sentence(held, ", {shapes} shape" + ("" if held.value("shapes") == 1 else "s") + ")"),
    )


def calls_only(tallies: DataView) -> Sentence:
    """'At 15 of these 77 no other rival than PyTorch's own calls was timed.' Of the family that leads."""
    leading = _leading(tallies)
    if not leading or not tallies.value(leading[0], "calls_only"):
        return ()
    at = tallies.at(leading[0])
    rest = " of the {level} of {name} no other rival was timed than PyTorch's own calls."
    return sentence(at, "At {calls_only}" + rest.replace("{name}", heading(leading[0])))


def leader_in_other_modes(by_mode: DataView, mode: str) -> Sentence:
    """How the family that leads in one call mode does in the others: 'lab (Triton) in a CUDA graph 40 of 80; called
    eagerly 2 of 33.' Else the table that is shown first would hide that eager calls are seldom won."""
    if not (leading := _leading(by_mode.at(mode))):
        return ()
    others = [each for each in by_mode.value() if each != mode and leading[0] in by_mode.value(each)]
    told = ((f"{MODES_WITHIN[other]} ", *_counts(by_mode.at(other, leading[0]))) for other in others)
    return (f"{heading(leading[0])} ", *joined(told, "; "), ".") if others else ()
