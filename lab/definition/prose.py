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


def lacking_words(experiment: PlannedExperiment) -> str:
    """The same in one line, a profile's field once for all profiles that lack it; nothing where all is written."""
    lacking = [f"{field} ({wanted})" for field, wanted in OF_THE_EXPERIMENT.items() if not getattr(experiment, field)]
    for field, wanted in OF_A_PROFILE.items():
        if names := [profile.name for profile in experiment.profiles if not getattr(profile, field)]:
            lacking.append(f"{field} ({wanted}) of {', '.join(names)}")
    return "; ".join(lacking)
