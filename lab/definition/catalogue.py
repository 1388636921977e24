"""The one place where the lab meets the author's experiments, and the publications that it audits."""

import json
import os
import pickle
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType

from lab.definition.breakdown import Breakdown
from lab.definition.experiment import CEILINGS, Experiment
from lab.definition.loading import has_module, load_folder, load_module
from lab.definition.publication import Publication
from lab.definition.search import Tunable, search_of
from lab.definition.short import Draft
from lab.definition.tokens import Tokens
from lab.definition.written import Place
from lab.errors import DefinitionError, LabError, PlanError, RunError
from lab.evidence.codec import from_data
from lab.evidence.source import HANDED_OVER
from lab.project import project
from lab.suggest import did_you_mean
from lab.terminal import printable

ZOO = "zoo-"  # how the names of its samples begin
TITLES, AXES = "titles.json", "axes.json"
PLACES = "sys-path.json"  # beside what is handed over: where modules were found by who handed it over


@dataclass(frozen=True, slots=True)
class _Found:
    """What the project's files define: experiments by name; by name what is wrong with others; files that cannot be
    read, and why."""

    experiments: Mapping[str, Experiment]
    wrong: Sequence[tuple[str, str]]
    unreadable: Sequence[str]

    def refuse_mistakes(self) -> None:
        if mistakes := [*self.unreadable, *(mistake for _, mistake in self.wrong)]:
            raise DefinitionError("\n".join(mistakes))


def load_experiments() -> tuple[Experiment, ...]:
    """The project's experiments: in the order of EXPERIMENTS if the package has it, else by file and order in the file.

    DefinitionError lists every file that cannot be read, and every mistake of every draft.
    """
    found = _found()
    found.refuse_mistakes()
    return tuple(found.experiments.values())


def sound_experiments() -> tuple[Experiment, ...]:
    """Those of them that can be read and have no mistake, whatever stands beside them."""
    return tuple(_found().experiments.values())


def _found() -> _Found:
    folder = load_folder(project().experiments)
    if folder.modules:
        listed = [each for module in folder.modules for each in _held(module)]
    else:
        listed = list(getattr(folder.package, "EXPERIMENTS", ()))
    made: dict[str, Experiment] = {}
    wrong: list[tuple[str, str]] = []
    for each in {id(each): each for each in listed if isinstance(each, (Experiment, Draft))}.values():
        try:
            experiment = each.definition() if isinstance(each, Draft) else each
        except DefinitionError as mistake:
            wrong.append((each.name, str(mistake)))
            continue
        if made.setdefault(experiment.name, experiment) is not experiment:
            files = " and ".join(_files_with(experiment.name, folder.modules))
            wrong.append((each.name, f"{files}: two experiments are called {experiment.name!r}; rename one"))
    wrong += _lost(folder.begun, listed)
    doubtful = [name for name, _ in wrong]
    sound = {name: experiment for name, experiment in made.items() if name not in doubtful}
    return _Found(sound, wrong, folder.unreadable)


def _held(module: ModuleType) -> Iterator[Experiment | Draft]:
    """The experiments that variables of a file hold, alone or in a list, tuple or dict."""
    for value in list(vars(module).values()):
        members = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else (value,)
        yield from (each for each in members if isinstance(each, (Experiment, Draft)))


def _lost(begun: Iterable[tuple[str, Place]], listed: Iterable[object]) -> Iterator[tuple[str, str]]:
    """Experiments that were begun and are held by no variable, as where two were given to one."""
    kept = [(each.name, each.place) for each in listed if isinstance(each, Draft)]
    made = [each.name for each in listed if isinstance(each, Experiment)]
    for name, place in begun:
        if (name, place) not in kept and name not in made:
            yield name, f"{place}: experiment {name!r}: no variable of the file holds it; give each one of its own"


def _files_with(name: str, modules: Iterable[ModuleType]) -> list[str]:
    """The files that define an experiment of this name; the folder where none is known."""
    found = [str(module.__file__) for module in modules if any(each.name == name for each in _held(module))]
    return found or [str(project().experiments)]


def file_of(name: str) -> str:
    """The file that defines an experiment, relative to the project; the folder if the file is unknown."""
    folder = project().experiments
    package = load_folder(folder).package
    prefix = f"{package.__name__}."
    for module in [entry for key, entry in list(sys.modules.items()) if key.startswith(prefix)]:
        if module.__file__ and any(each.name == name for each in _held(module)):
            return str(Path(module.__file__).relative_to(project().root))
    return str(folder.relative_to(project().root))


def load_tunables() -> Mapping[str, Tunable]:
    """By the operator's name, what `lab tune` can search; nothing where the project has no tunables.py."""
    module = _module("tunables")
    return {tunable.operator.name: tunable for tunable in module.TUNABLES} if module else {}


@dataclass(frozen=True, slots=True)
class Zoo:
    """What `lab zoo` needs of the author's zoo: experiments by name, and their names."""

    operators: tuple[str, ...]
    experiment: Callable[[str], Experiment | None]
    names: Callable[[tuple[str, ...], int], list[str]]


def load_zoo() -> Zoo:
    """The project's zoo; an empty one where it has no zoo.py."""
    zoo, screening = _module("zoo"), _module("zoo_screening")
    if not (zoo and screening):
        return Zoo((), lambda name: None, lambda operators, sample: [])
    return Zoo(zoo.operators(), screening.zoo_experiment, screening.zoo_names)


def load_audits() -> tuple[Publication, ...]:
    """The publications that the project audits; none where it has no package `audits`."""
    package = load_folder(project().experiments).package
    if not any((Path(folder) / "audits" / "__init__.py").is_file() for folder in package.__path__):
        return ()
    audits: tuple[Publication, ...] = load_module(package, "audits").AUDITS
    return audits


def load_breakdowns() -> Mapping[str, Breakdown]:
    """By experiment, which of its cases are parts of which other; nothing where the project has no breakdowns.py."""
    module = _module("breakdowns")
    return {each.experiment: each for each in module.BREAKDOWNS} if module else {}


def load_tokens() -> Mapping[str, Tokens]:
    """By operator, how many tokens a call is; nothing where the project has no tokens.py."""
    module = _module("tokens")
    return {each.operator: each for each in module.TOKENS} if module else {}


def load_titles() -> Mapping[str, str]:
    """By operator, what readers call it; nothing where the project has no titles.json."""
    return _by_operator(TITLES)


def load_axes() -> Mapping[str, str]:
    """By operator, what the sizes of its shapes are, 'M×N×K'; nothing where the project has no axes.json."""
    return _by_operator(AXES)


def _by_operator(name: str) -> Mapping[str, str]:
    path = project().experiments / name
    try:
        return from_data(dict[str, str], json.loads(path.read_bytes()), name) if path.is_file() else {}
    except (ValueError, RunError) as problem:
        raise DefinitionError(f"{path}: cannot be read ({problem})") from None


def _module(name: str) -> ModuleType | None:
    package = load_folder(project().experiments).package
    return load_module(package, name) if has_module(package, name) else None


def choose_experiments(names: Sequence[str]) -> tuple[Experiment, ...]:
    """The named experiments in the lab's order, then searches and samples of the zoo; 'all' names every one but the
    lab's tests of itself.

    Searches and samples of the zoo are in no list: they are made from their names. Where all that is asked for is
    sound, files and experiments that are not are named in a warning, and left out; 'all', and no name, refuse them.
    """
    if handed := handed_over(names):
        return (handed,)
    found = _found()
    if not names or "all" in names:
        found.refuse_mistakes()
    if asked := [mistake for name, mistake in found.wrong if name in names]:
        raise DefinitionError("\n".join(asked))
    known = list(found.experiments)
    searches = [name for name in dict.fromkeys(names) if name not in known and name.startswith("tune-")]
    samples = {name: load_zoo().experiment(name) for name in names if name not in known and name.startswith(ZOO)}
    sampled = {name: experiment for name, experiment in samples.items() if experiment}
    for name in names:
        if name not in ("all", *known, *searches, *sampled):
            raise _unknown(name, found)
    for mistake in (*found.unreadable, *(mistake for _, mistake in found.wrong)):
        _warn_of_left_out(mistake)
    if "all" in names:
        refuse_none(found.experiments)
    chosen = [e for e in found.experiments.values() if e.name in names or ("all" in names and not e.self_test)]
    return (*chosen, *(search_of(name, load_tunables()) for name in searches), *sampled.values())


def refuse_none(experiments: Collection[object]) -> None:
    if not experiments:
        raise PlanError(f"{project().experiments}: defines no experiment yet")


def _unknown(name: str, found: _Found) -> LabError:
    """Files that cannot be read may hold it."""
    known = [*found.experiments, *(each for each, _ in found.wrong)]
    refusal = f"no experiment {name!r}; accepted are 'all' and {known}{did_you_mean(name, known)}"
    if not found.unreadable:
        return PlanError(refusal)
    return DefinitionError("\n".join((refusal, "it may be in a file that cannot be read:", *found.unreadable)))


@cache
def _warn_of_left_out(mistake: str) -> None:
    """Once in a process, and not by Python's warnings, which an author's file may have switched off."""
    print(printable(f"lab: warning: left out: {mistake}"), file=sys.stderr, flush=True)


def handed_over(names: Sequence[str]) -> Experiment | None:
    """The experiment that a notebook passed to this process, if it has this name."""
    path = os.environ.get(HANDED_OVER)
    if not path:
        return None
    if (folder := project().experiments).is_dir():
        load_folder(folder)  # else a package of this name that lies elsewhere would be taken for it
    places = json.loads(Path(path).with_name(PLACES).read_bytes())
    sys.path += [place for place in places if place not in sys.path]  # pytest adds the folder of a test's file
    experiment: Experiment = pickle.loads(Path(path).read_bytes())
    return experiment if list(names) == [experiment.name] else None


def _first_look(device: str) -> str:
    refuse_none(experiments := load_experiments())
    return next((each for each in experiments if each.for_cpu and device == "cpu"), experiments[0]).name


def experiments_of_run(names: Sequence[str], device: str) -> tuple[Experiment, ...]:
    """The experiments of a run with these names. On a GPU its ceilings are added, unless all are tests of the lab.

    Without names the run has one experiment: on a GPU the project's first, on a CPU the first of those for a CPU,
    because most cases take microseconds on a GPU and minutes on a CPU. On a GPU, 'all' leaves out those for a CPU.

    PlanError if the ceilings of a GPU are named on a CPU; 'all' leaves them out there.
    """
    chosen = choose_experiments(names or [_first_look(device)])
    if device == "cuda":
        wanted = [experiment.name for experiment in chosen if experiment.name in names or not experiment.for_cpu]
        defined = [experiment.name for experiment in sound_experiments()]
        if CEILINGS in defined and not all(experiment.self_test for experiment in chosen):
            wanted.append(CEILINGS)
        return choose_experiments(wanted)
    if CEILINGS in names:
        raise PlanError(f"{CEILINGS!r} measures what a GPU allows, and this run measures the CPU; ask for another")
    return tuple(experiment for experiment in chosen if experiment.name != CEILINGS)
