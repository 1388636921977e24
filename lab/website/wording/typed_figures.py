"""What a figure looks like in a text: a digit with a unit."""

import re
from collections.abc import Iterable, Iterator

from lab.definition.experiment import Experiment
from lab.definition.plan import PlannedExperiment

# A measured figure that is typed into authored prose, and so would go stale.
DEFINITION = re.compile(r"(`+).+?\1", re.DOTALL)  # what stands in backticks is a size or a threshold
REFERENCE = re.compile(r"\{\{[^{}]*\}\}")
WHAT_TO_DO = (
    "A measured figure must be a reference, {{experiment/pointer/into/data}}, which cannot go stale; a size or "
    "threshold that is a definition goes in backticks"
)


def typed_figure(text: str) -> str:
    """The first such figure, or nothing."""
    figure = FIGURE.search(REFERENCE.sub("", DEFINITION.sub("", text)))
    return figure[0] if figure else ""


def argued(experiment: Experiment | PlannedExperiment) -> Iterator[tuple[str, str]]:
    """(place, text) of what an experiment argues, and so may not type a figure into."""
    yield f"{experiment.name}: importance", experiment.importance
    yield f"{experiment.name}: focus", experiment.focus
    yield from ((f"{experiment.name}: does_not_show", text) for text in experiment.does_not_show)
    yield from ((f"{experiment.name}: hypothesis of {p.name}", p.hypothesis) for p in experiment.profiles)


def typed_figures(experiments: Iterable[Experiment]) -> Iterator[tuple[str, str]]:
    """(the experiment's name, what is wrong) of every figure that is typed in."""
    for experiment in experiments:
        for place, text in argued(experiment):
            if figure := typed_figure(text):
                yield experiment.name, f"{place}: says {figure!r}. {WHAT_TO_DO}"


UNITS = (
    r"(?:[µμmnu]?s|seconds?|minutes?|hours?|per ?cent|%|×|x(?!\w)|fold|times (?:as|the|its|faster|slower|longer)\b"
    r"|[kMGTP]?B(?:/s)?|[KMGT]iB(?:/s)?|[kMGTP]?FLOPs?(?:/s)?|[kMGTP]?FLOPS|[kMG]?Hz|[km]?W|m?J|°C)"
)
DIGIT = r"[\d½¼¾⅓⅔]"  # of any script
RARE_DIGIT = re.compile(r"(?![0-9])[\d½¼¾⅓⅔]")
SPACE = r"(?:\s|&(?:nbsp|[a-z]*sp|#\w+);)*-?"  # as HTML may write it too
# 4096×8192 is a shape and no factor: there a digit follows.
FIGURE = re.compile(rf"(?:\d[\d.,]*)?{DIGIT}{SPACE}{UNITS}(?![\w/])")
