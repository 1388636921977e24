"""What an author writes: frozen values that raise at import where they contradict each other."""

import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from lab.errors import DefinitionError
from lab.kernels.traffic import Traffic
from lab.suggest import did_you_mean

SLUG = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
SLUG_RULE = "lower-case letters and digits in groups joined by single hyphens, such as 'h100-first-light'"
COLD, GRAPH = "device_cold", "graph"
# What the clock covers. The first is the headline: GPU time, with nothing in the cache. The last is GPU time after a
# flush that only writes: its lines are written back while the call is timed, as in do_bench and nvbench.
SCOPES = (COLD, "device_warm", GRAPH, "eager", "device_dirty")
MEASURES = ("speedup", "traffic", "memory")  # what a claim compares
CEILINGS = "gpu-ceilings"  # the experiment that measures a GPU's limits; other results are compared with them
USUAL_THRESHOLD = 1.02  # a gain below two per cent is rarely worth a rival's maintenance
EDGES = ("zeros", "large-mean", "large-scale", "tiny-scale", "nan", "inf", "odd-sizes", "strided")

Function = Callable[..., Any]
Loader = Callable[[], Function]


@dataclass(frozen=True, kw_only=True, slots=True)
class Output:
    """One result of an operator: its dtype, where it is not that of the first input, and how far from the truth it may
    be: `tolerance` machine epsilons of its dtype, times (|truth| + `scale`)."""

    tolerance: float
    scale: float = 1.0
    dtype: str = ""

    def __post_init__(self) -> None:
        for name, value in (("tolerance", self.tolerance), ("scale", self.scale)):
            if not value > 0:  # an error of nothing, where the truth is 0, would be no number
                raise DefinitionError(f"output: {name} is {value}; accepted is a number above 0")


@dataclass(frozen=True, kw_only=True, slots=True)
class Operator:
    """What is computed: inputs from a seed, the float64 truth, and the least work.

    inputs(shape, dtype, device, seed) gives the call's arguments; reference(*arguments) gives float64, or
    a tuple where there are several results; traffic(shape, itemsize) gives Traffic. A result may differ from
    the truth by `tolerance` machine epsilons of its dtype, times (|truth| + `scale`); or by twice what
    `standard`, the implementation that users trust, differs on the same inputs. summed_magnitudes(*arguments), for
    results that add up many products, gives Σ|a·b| as `reference` gives the sums; a small share of that is allowed
    besides (LONG_SUM_ALLOWANCE of lab/worker/correctness.py). `edges` names the unusual inputs that must come out
    right too. `output_dtype` names the dtype of the results, where it is not that of the first input. `outputs` says
    all of that for each result, in place of `tolerance`, `scale` and `output_dtype`, where it is not the same for
    all. `outlier_scale`: stands for `scale` where a few elements of the inputs decide, if the results are larger
    then. `costly_reference`: it takes so long, as of a whole model, that
    inputs which no edge names are tried in the first sweep only, and timed calls of the control are not compared.
    """

    name: str
    inputs: Callable[..., tuple[Any, ...]]
    reference: Function
    traffic: Callable[[tuple[int, ...], int], Traffic]
    tolerance: float | None = None
    scale: float = 1.0
    outlier_scale: float = 0.0
    standard: Function | None = None
    summed_magnitudes: Function | None = None
    edges: tuple[str, ...] = ()
    output_dtype: str = ""
    outputs: tuple[Output, ...] = ()
    costly_reference: bool = False

    def __post_init__(self) -> None:
        if (self.tolerance is None) is not bool(self.outputs):
            raise DefinitionError(f"operator {self.name}: give it either a tolerance or outputs")
        for edge in self.edges:
            _check_member(f"operator {self.name}: edge", edge, EDGES)

    def expected(self, results: int) -> tuple[Output, ...]:
        """What each of so many results may be."""
        if self.tolerance is None:
            return self.outputs
        return (Output(tolerance=self.tolerance, scale=self.scale, dtype=self.output_dtype),) * results


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """One problem: what is computed, never how. `only_with` names the sweep flag that includes it."""

    operator: Operator
    shape: tuple[int, ...]
    dtype: str
    description: str = ""
    only_with: str = ""

    @property
    def name(self) -> str:
        dtype = self.dtype.replace("_", "-")  # a name is a slug
        return f"{self.operator.name}-{'x'.join(map(str, self.shape))}-{dtype}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Profile:
    """One implementation, for the operators that `implementations` names.

    Each value there is a loader: called once in the measuring process, it imports or compiles what
    it needs and returns the function to time. `kernels` names the Triton or CUDA C++ kernel that every call must
    launch, through Triton or the lab's launcher and not from a graph of the profile's own; where that depends on the
    shape, "one_kernel or another_kernel". `package` names an optional import, without which the profile's
    cells are skipped. `in_place`: the function overwrites its first argument, or several, and returns
    what it overwrote. `recompiles`: it is code made for the case's shapes and strides; others get code of their own,
    so that edge inputs of other sizes or strides are not asked: what they test is not what is timed. `needs_nvcc`:
    without CUDA's compiler its cells are skipped.
    """

    name: str
    title: str = ""  # else its name
    technique: str = ""
    hypothesis: str = ""
    signal: str = ""
    implementations: Mapping[str, Loader]
    kernels: Mapping[str, str] | None = None
    devices: tuple[str, ...] = ("cuda", "cpu")
    package: str = ""
    in_place: bool = False
    recompiles: bool = False
    needs_nvcc: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Claim:
    """A sentence registered before measuring: subject is at least `threshold` times as fast as baseline.

    With `measure` "traffic" it is about the bytes that one call moves to and from DRAM: those that the profiler counts,
    and those of the result that are still in the cache when it stops counting. The baseline moves at least `threshold`
    times as many as the subject. A baseline of None is then the least that any implementation must move.

    With `measure` "memory" it is about the most memory that one call allocates beyond its inputs, results included. A
    baseline of None is then the size of the results.

    `expected` is for tests of the lab itself: the verdicts that a sound instrument may give.
    """

    name: str
    text: str = ""  # else "the subject is faster than the baseline"
    subject: Profile
    baseline: Profile | None
    cases: tuple[Case, ...]
    scope: str = COLD
    threshold: float = USUAL_THRESHOLD
    measure: str = "speedup"
    expected: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Experiment:
    """One question, with the cells that are measured for it and the claims that are judged.

    Prose may be left out until the experiment is published: lab/definition/prose.py says what is needed then.
    `sustained`: on a GPU, cases that are mainly arithmetic are also measured back to back for about a second, in the
    first sweep; lab/definition/planning.py says which cases these are.
    """

    name: str
    title: str = ""  # else its name
    question: str = ""
    importance: str = ""
    focus: str = ""
    cases: tuple[Case, ...]
    profiles: tuple[Profile, ...]
    claims: tuple[Claim, ...]
    headlines: tuple[Claim, ...] = ()  # the claims that make the answer sentence; else all of them
    does_not_show: tuple[str, ...] = ()
    metrics: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    project: str = ""  # whose it is; else the title of the project
    scopes: tuple[str, ...] = SCOPES
    self_test: bool = False  # a test of the lab itself: measured only if named
    for_cpu: bool = False  # of sizes for a CPU: the default there, and on a GPU measured only if named
    sustained: bool = False

    def __post_init__(self) -> None:
        self._check_names()
        for scope in self.scopes:
            _check_member(f"{self.name}: scope", scope, SCOPES)
        if COLD not in self.scopes:
            raise DefinitionError(f"{self.name}: scopes are {list(self.scopes)}; {COLD!r} must be among them")
        if self.sustained and GRAPH not in self.scopes:
            raise DefinitionError(f"{self.name}: sustained calls are those of graphs; 'graph' must be among its scopes")
        for claim in self.claims:
            self._check_claim(claim)
        for claim in self.headlines:
            if not isinstance(claim, Claim):
                raise DefinitionError(
                    f"{self.name}: headline {claim!r} is no Claim; accepted are its claims themselves"
                )
            _check_member(f"{self.name}: headline", claim.name, [c.name for c in self.claims])

    def _check_names(self) -> None:
        _check_slug("experiment", self.name)
        for kind, names in (
            ("case", [case.name for case in self.cases]),
            ("profile", [profile.name for profile in self.profiles]),
            ("claim", [claim.name for claim in self.claims]),
        ):
            if not names:
                raise DefinitionError(f"{self.name}: has no {kind}s; at least one is needed")
            for name in names:
                _check_slug(f"{self.name}: {kind}", name)
            if doubled := [name for name, count in Counter(names).items() if count > 1]:
                raise DefinitionError(f"{self.name}: {kind} {doubled[0]!r} is defined twice")

    def _check_claim(self, claim: Claim) -> None:
        place = f"{self.name}: claim {claim.name!r}"
        _check_member(f"{place}: measure", claim.measure, MEASURES)
        for side in ("subject", "baseline"):
            if not isinstance(given := getattr(claim, side), Profile) and given is not None:
                raise DefinitionError(f"{place}: {side} is {given!r}; accepted is a Profile of the experiment")
        if isinstance(claim.threshold, bool) or not isinstance(claim.threshold, (int, float)):
            raise DefinitionError(f"{place}: threshold is {claim.threshold!r}; accepted is a ratio above 0")
        if claim.baseline is None and claim.measure == "speedup":
            raise DefinitionError(f"{place}: baseline is None; a claim with measure 'speedup' needs one")
        sides = {"subject": claim.subject} | ({"baseline": claim.baseline} if claim.baseline else {})
        for side, profile in sides.items():
            _check_member(f"{place}: {side}", profile.name, [p.name for p in self.profiles])
        _check_member(f"{place}: scope", claim.scope, self.scopes)
        if not claim.cases:
            raise DefinitionError(f"{place}: has no cases; a claim about nothing cannot be judged")
        if not claim.threshold > 0:
            raise DefinitionError(f"{place}: threshold is {claim.threshold}; accepted is a ratio above 0")
        names = dict.fromkeys(case.name for case in self.cases)
        for case in claim.cases:
            _check_member(f"{place}: case", case.name, names)
            for profile in sides.values():
                operator = f"{place}: operator of {profile.name}"
                _check_member(operator, case.operator.name, profile.implementations)


def one_of(kernels: str) -> tuple[str, ...]:
    """The kernels of which every call must launch one, as `Profile.kernels` names them for an operator."""
    return tuple(kernels.split(" or ")) if kernels else ()


def _check_slug(place: str, name: str) -> None:
    if not SLUG.fullmatch(name):
        raise DefinitionError(f"{place}: {name!r} is not a plain slug; accepted are {SLUG_RULE}")


def _check_member(place: str, value: str, accepted: Collection[str]) -> None:
    if value not in accepted:
        raise DefinitionError(
            f"{place} is {value!r}; accepted are {list(accepted)}{did_you_mean(str(value), accepted)}"
        )
