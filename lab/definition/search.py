"""A search for launch configurations is an experiment: its profiles are configurations, and its baseline is the rule.

So a search is measured, judged and shown as everything else is. Those of `lab tune`
are made from their names alone, so that every process makes the same experiment of the same name.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from lab.definition.dtypes import ITEMSIZES
from lab.definition.experiment import COLD, GRAPH, Case, Claim, Experiment, Function, Operator, Profile
from lab.definition.plan import PlannedExperiment
from lab.errors import PlanError

RULE = "rule"  # the profile that all others are compared with: the kernel with its own rule
USUAL_STAGES = 3
SEARCHED_SCOPES = (COLD, GRAPH)
FORM = "tune-OPERATOR-MxN-DTYPE"
Shape = tuple[int, ...]


class LaunchConfiguration(Protocol):
    """The part of lab.kernels.launch.Configuration that searches use; that module imports torch."""

    @property
    def constants(self) -> tuple[tuple[str, int], ...]: ...
    @property
    def num_warps(self) -> int: ...
    @property
    def num_stages(self) -> int: ...


class SearchSpace(Protocol):
    """lab.kernels.tuned.Tuning: rule and choices take (shape, itemsize); form is empty where any shape will do."""

    @property
    def rule(self) -> Callable[[Shape, int], Any]: ...
    @property
    def choices(self) -> Callable[[Shape, int], Iterable[Any]]: ...
    @property
    def form(self) -> str: ...
    def key(self, shape: Shape, dtype: str, gpu: str) -> Any: ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Tunable:
    """An operator whose launch can be searched: `entry` takes its inputs and, by name, a `configuration`."""

    operator: Operator
    entry: Function
    tuning: SearchSpace


def launched_by_rule(*tunables: Tunable) -> Profile:
    """The baseline of a search: each entry point as a user calls it."""
    return Profile(
        name=RULE,
        title="the rule",
        technique="The kernel as it is shipped: its launch follows from shape and dtype by a rule.",
        hypothesis="Within two per cent of the best: a memory-bound kernel needs enough bytes in flight, not a table.",
        signal="DRAM throughput as high as that of any other configuration.",
        implementations={tunable.operator.name: _loader(tunable.entry) for tunable in tunables},
        devices=("cuda",),
    )


def launched_as(name: str, title: str, tunable: Tunable, choose: Callable[[Any], LaunchConfiguration]) -> Profile:
    """A rival of the rule: `choose` is given the first input and answers how to launch."""

    def call(*inputs: Any) -> Any:
        return tunable.entry(*inputs, configuration=choose(inputs[0]))

    return Profile(
        name=name,
        title=title,
        technique=f"The same kernel, launched otherwise: {title}.",
        hypothesis="Not faster than the rule by two per cent.",
        signal="Other registers and occupancy, the same bytes.",
        implementations={tunable.operator.name: _loader(call)},
        devices=("cuda",),
    )


def beats_the_rule(rival: Profile, rule: Profile, cases: Iterable[Case], scope: str = COLD) -> Claim:
    """The claim of a search for each rival: it is faster than the rule. Where it is refuted, the rule is better."""
    return Claim(
        name=f"{rival.name}-beats-the-rule",
        text=f"Launched with {rival.title}, the kernel is at least 2 % faster than by its rule.",
        subject=rival,
        baseline=rule,
        cases=tuple(case for case in cases if case.operator.name in rival.implementations),
        scope=scope,
    )


def is_search(experiment: PlannedExperiment) -> bool:
    return all(claim.baseline == RULE for claim in experiment.claims)


def candidates(tunable: Tunable, shape: Shape, dtype: str) -> list[Any]:
    """All configurations that a search may try beside the rule's. PlanError where there are none, or the
    shape is not of the operator's kind."""
    place, itemsize = f"{tunable.operator.name} of shape {shape}, {dtype}", ITEMSIZES[dtype]
    form = tunable.tuning.form
    if form and len(shape) != len(form.split("x")):
        raise PlanError(f"{place}: is no shape that its inputs can have; accepted is {form}")
    try:
        rule = tunable.tuning.rule(shape, itemsize)
        choices = [choice for choice in tunable.tuning.choices(shape, itemsize) if choice != rule]
    except ValueError as problem:
        raise PlanError(f"{place}: is no shape that its inputs can have: {problem}") from None
    if not choices:
        raise PlanError(f"{place}: the rule's configuration is the only one to try")
    return list(dict.fromkeys(choices))


def configuration_name(configuration: LaunchConfiguration) -> str:
    """'rows-1-block-4096-warps-8', and '-stages-2' where they are not the usual three."""
    parts = [f"{name.lower().replace('_', '-')}-{value}" for name, value in configuration.constants]
    parts.append(f"warps-{configuration.num_warps}")
    if configuration.num_stages != USUAL_STAGES:
        parts.append(f"stages-{configuration.num_stages}")
    return "-".join(parts)


def configuration_title(configuration: LaunchConfiguration) -> str:
    """'ROWS 1, BLOCK 4096, 8 warps'."""
    parts = [f"{name} {value}" for name, value in configuration.constants]
    parts.append(f"{configuration.num_warps} warp{'s' if configuration.num_warps > 1 else ''}")
    if configuration.num_stages != USUAL_STAGES:
        parts.append(f"{configuration.num_stages} stages")
    return ", ".join(parts)


def search_name(operator: str, shape: Shape, dtype: str, scope: str = COLD, only: Sequence[int] = ()) -> str:
    """The name of a search of all candidates or, where `only` names some by their place, of these."""
    name = f"tune-{operator}-{'x'.join(map(str, shape))}-{dtype.replace('_', '-')}"
    name += "" if scope == COLD else f"-{scope}"
    return name + ("-of-" + "-".join(map(str, only)) if only else "")


def search_of(name: str, tunables: Mapping[str, Tunable]) -> Experiment:
    """The search of this name. PlanError where the name describes no search."""
    operators, dtypes = "|".join(tunables), "|".join(dtype.replace("_", "-") for dtype in ITEMSIZES)
    match = re.fullmatch(
        rf"tune-({operators})-([1-9]\d*(?:x[1-9]\d*)*)-({dtypes})(-graph)?(?:-of-(\d+(?:-\d+)*))?", name
    )
    if not match:
        raise PlanError(
            f"no search {name!r}; accepted is {FORM}, with one of {list(tunables)} and one of {list(ITEMSIZES)}"
        )
    operator, sizes, dtype, graph, only = match.groups()
    tunable, shape = tunables[operator], tuple(map(int, sizes.split("x")))
    configurations = candidates(tunable, shape, dtype.replace("-", "_"))
    places = [int(place) for place in only.split("-")] if only else range(len(configurations))
    if beyond := [place for place in places if place >= len(configurations)]:
        raise PlanError(f"search {name!r}: has no candidate {beyond[0]}; there are {len(configurations)}")
    case = Case(
        operator=tunable.operator, shape=shape, dtype=dtype.replace("-", "_"),
        description="the shape that a search was asked for",
    )  # fmt: skip
    return _search(name, tunable, case, [configurations[place] for place in places], SEARCHED_SCOPES[1 if graph else 0])


def _search(name: str, tunable: Tunable, case: Case, tried: Sequence[Any], scope: str) -> Experiment:
    rule = launched_by_rule(tunable)
    rivals = [_rival(tunable, configuration) for configuration in tried]
    claims = tuple(beats_the_rule(rival, rule, [case], scope) for rival in rivals)
    return Experiment(
        name=name,
        title=f"Search: {case.name}",
        question=f"Which configuration launches {case.name} fastest, and is it faster than the rule's?",
        importance=(
            "A configuration that wins on one machine, at one shape, may be kept there; within noise there is no "
            "winner, and the rule stays."
        ),
        focus="Launch configuration",
        cases=(case,),
        profiles=(rule, *rivals),
        claims=claims,
        headlines=claims[:1],
        does_not_show=("Which configuration is best at another shape, dtype, GPU or version of Triton.",),
        metrics={
            "Latency": ("p50 latency", "speed-up over the rule, with interval"),
            "Launch": ("registers", "spills"),
        },
        scopes=SEARCHED_SCOPES[: 1 + SEARCHED_SCOPES.index(scope)],
    )


def _rival(tunable: Tunable, configuration: LaunchConfiguration) -> Profile:
    return launched_as(
        configuration_name(configuration), configuration_title(configuration), tunable, lambda _: configuration
    )


def _loader(function: Function) -> Callable[[], Function]:
    return lambda: function
