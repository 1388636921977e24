"""What authors write: figures in it are references to data, or definitions, and never typed-in measurements.

In decision records, and in what an experiment's definition says of its importance, focus, hypotheses and limits, a
digit with a unit is refused unless it stands in backticks, which say that it is a definition: a size, a threshold. What
was measured is a reference (wording.references). Titles, claims, profiles and descriptions of cases define; they
are registered before anything is measured and cannot quote a result.

Plans of runs that are published are shown as they were registered, whatever today's rule: a plan's digest is its
runs' address, and its text can no longer be mended.
"""

from collections.abc import Iterable
from dataclasses import replace

from lab.definition.experiment import Experiment
from lab.definition.plan import PlannedExperiment
from lab.errors import DefinitionError
from lab.website.data.judged import Judged
from lab.website.decisions import Decision
from lab.website.wording.references import REFERENCE, References
from lab.website.wording.typed_figures import WHAT_TO_DO, argued, typed_figure


def check_prose(text: str, place: str) -> None:
    """DefinitionError where authored prose types in a figure."""
    if figure := typed_figure(text):
        raise DefinitionError(f"{place}: says {figure!r}. {WHAT_TO_DO}")


def check_typed(experiments: Iterable[Experiment]) -> None:
    """DefinitionError where one types in a figure. Plans are without the backticks that mark a definition."""
    for experiment in experiments:
        for place, text in argued(experiment):
            check_prose(text, place)


def check_references(experiments: Iterable[Experiment | PlannedExperiment], references: References) -> None:
    """DefinitionError where one refers to what is not there, or where it must not."""
    for experiment in experiments:
        for place, text in argued(experiment):
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
    return Judged(plan=replace(plan, importance=importance, does_not_show=limits), data=item.data, text=item.text)
