"""Which cases of its experiments a run measures, where `--cases` says so."""

from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase

from lab.definition.experiment import Experiment
from lab.errors import PlanError

ALL, FIRST = "all", "first"  # every case, and the first case of each experiment; any other word is a pattern
NEAREST = 3  # case names that the error of a pattern lists


def chosen_cases(experiments: Sequence[Experiment], words: Sequence[str]) -> dict[str, frozenset[str]]:
    """Names of the chosen cases, by experiment; an experiment in which no word chooses a case is left out.

    Each word is `all`, `first` or a shell-style pattern of case names. PlanError for a pattern that no case matches.
    """
    names = {experiment.name: [case.name for case in experiment.cases] for experiment in experiments}
    for word in words:
        _refuse_unmatched(word, [name for cases in names.values() for name in cases])
    chosen = {name: frozenset(_chosen(cases, words)) for name, cases in names.items()}
    return {name: cases for name, cases in chosen.items() if cases}


def _chosen(cases: Sequence[str], words: Sequence[str]) -> Iterator[str]:
    for index, case in enumerate(cases):
        if any(word == ALL or (word == FIRST and index == 0) or fnmatchcase(case, word) for word in words):
            yield case


def _refuse_unmatched(word: str, cases: Sequence[str]) -> None:
    if word in (ALL, FIRST) or any(fnmatchcase(case, word) for case in cases):
        return
    nearest = get_close_matches(word, dict.fromkeys(cases), n=NEAREST, cutoff=0.0)
    raise PlanError(
        f"--cases {word}: no case of this run's experiments matches; the nearest are {', '.join(nearest)}. "
        f"Accepted are {ALL}, {FIRST} and patterns such as 'rmsnorm-*-float16'; `lab list NAME` shows every case"
    )
