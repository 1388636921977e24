"""What an experiment must say in words before it is published. It may be measured without."""

from collections.abc import Iterator

from lab.definition.plan import PlannedExperiment

OF_THE_EXPERIMENT = {
    "question": "what is asked, as a question",
    "importance": "why the answer matters",
    "does_not_show": "at least one thing that the evidence does not show",
}
OF_A_PROFILE = {
    "technique": "how it computes the result",
    "hypothesis": "what was expected of it, and why",
}


def missing_prose(experiment: PlannedExperiment) -> Iterator[str]:
    """'question is empty; accepted is …' for every field that a page would show empty."""
    for field, wanted in OF_THE_EXPERIMENT.items():
        if not getattr(experiment, field):
            yield f"{field} is empty; wanted is {wanted}"
    for profile in experiment.profiles:
        for field, wanted in OF_A_PROFILE.items():
            if not getattr(profile, field):
                yield f"profile {profile.name!r}: {field} is empty; wanted is {wanted}"
