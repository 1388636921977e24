"""What authors write: figures in it are references to data, or definitions, and never typed-in measurements.

In decision records, and in what an experiment's definition says of its importance, focus, hypotheses and limits, a
digit with a unit is refused unless it stands in backticks, which say that it is a definition: a size, a threshold. What
was measured is a reference (wording.references). Titles, claims, profiles and descriptions of cases define; they
are registered before anything is measured and cannot quote a result.

Plans of runs that are published are shown as they were registered, whatever today's rule: a plan's digest is its
runs' address, and its text can no longer be mended.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from lab.definition.experiment import Experiment
from lab.definition.plan import PlannedExperiment
from lab.errors import DefinitionError
from lab.website.data.judged import Judged
from lab.website.decisions import Decision
from lab.website.wording.figures_said import FIGURE
from lab.website.wording.references import REFERENCE, References

DEFINITION = re.compile(r"(`+).+?\1", re.DOTALL)


def check_prose(text: str, place: str) -> None:
    """DefinitionError where authored prose types in a figure."""
    found = FIGURE.search(REFERENCE.sub("", DEFINITION.sub("", text)))
    if found:
        raise DefinitionError(
            f"{place}: says {found[0]!r}. A measured figure must be a reference, {{{{experiment/pointer/into/data}}}}, "
            "which cannot go stale; a size or threshold that is a definition goes in backticks"
        )


def check_typed(experiments: Iterable[Experiment]) -> None:
    """DefinitionError where one types in a figure. Plans are without the backticks that mark a definition."""
    for experiment in experiments:
        for place, text in _argued(experiment):
            check_prose(text, place)


def check_references(experiments: Iterable[Experiment | PlannedExperiment], references: References) -> None:
    """DefinitionError where one refers to what is not there, or where it must not."""
    for experiment in experiments:
        for place, text in _argued(experiment):
            references.resolve(text, place)
        for profile in experiment.profiles:
            if REFERENCE.search(profile.hypothesis):
                raise DefinitionError(
                    f"{experiment.name}: hypothesis of {profile.name} refers to a result; it is registered before any"
                )


def cited(decision: Decision, references: References) -> Decision:
    """A decision whose references are resolved. DefinitionError where it types in a figure."""
    for field, text in (("title", decision.title), ("acknowledged", decision.acknowledged), ("text", decision.body)):
        check_prose(text, f"decision {decision.slug}, {field}")
    if REFERENCE.search(decision.title):
        raise DefinitionError(f"decision {decision.slug}: its title refers to a figure; a title stands in links too")
    return replace(
        decision,
        acknowledged=references.resolve(decision.acknowledged, f"decision {decision.slug}, acknowledged"),
        body=references.resolve(decision.body, f"decision {decision.slug}"),
    )


def cited_plan(item: Judged, references: References) -> Judged:
    """An experiment whose registered prose shows what it refers to as it is today."""
    plan = item.plan
    limits = tuple(references.resolve(text, plan.name, lenient=True) for text in plan.does_not_show)
    importance = references.resolve(plan.importance, plan.name, lenient=True)
    return replace(item, plan=replace(plan, importance=importance, does_not_show=limits))


def _argued(experiment: Experiment | PlannedExperiment) -> Iterator[tuple[str, str]]:
    yield f"{experiment.name}: importance", experiment.importance
    yield f"{experiment.name}: focus", experiment.focus
    yield from ((f"{experiment.name}: does_not_show", text) for text in experiment.does_not_show)
    yield from ((f"{experiment.name}: hypothesis of {p.name}", p.hypothesis) for p in experiment.profiles)
