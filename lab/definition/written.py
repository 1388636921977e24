"""What the short form of an experiment (lab/definition/short.py) was given, and all that is wrong with it."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from lab.definition.default_inputs import Inputs, Shape
from lab.definition.dtypes import ITEMSIZES, SHORT_DTYPES, dtype_named
from lab.definition.experiment import EDGES, SCOPES, SLUG, SLUG_RULE, Function, Profile
from lab.kernels.traffic import Traffic
from lab.suggest import did_you_mean


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """A line of a file."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}, line {self.line}"

    def beside(self, other: "Place") -> str:
        """As it is told where the file of `other` is known."""
        return f"line {self.line}" if self.file == other.file else str(self)


@dataclass(frozen=True, kw_only=True, slots=True)
class Claimed:
    """The arguments of a claim, before its profiles are looked up."""

    place: Place
    subject: str
    faster_than: str
    by: float
    shapes: tuple[Shape, ...]
    scope: str
    name: str
    text: str


BEGUN: list[tuple[str, Place]] = []  # name and place of every one in this process


@dataclass
class Written:
    """The arguments of `lab.experiment`, of `profile` and of `claim`, as they were given."""

    name: str
    shapes: Sequence[Shape]
    reference: Function
    dtypes: Sequence[str]
    inputs: Inputs
    tolerance: float
    edges: tuple[str, ...]
    traffic: Callable[[Shape, int], Traffic] | None
    reads: float | None
    writes: float | None
    flops: float
    prose: dict[str, Any]
    place: Place
    profiles: dict[str, Profile] = field(default_factory=dict)
    claims: list[Claimed] = field(default_factory=list)
    baseline: str = ""

    def __post_init__(self) -> None:
        BEGUN.append((self.name, self.place))

    def mistakes(self) -> Iterator[str]:
        """One sentence a mistake: the field, what it holds, what is accepted."""
        yield from self._wrong_values()
        if no_lists := list(self._no_lists()):  # of which nothing else can be said
            yield from no_lists
            return
        yield from self._wrong_cases()
        yield from self._wrong_claims()
        yield from self._wrong_names()

    def _wrong_values(self) -> Iterator[str]:
        reference: Any = self.reference
        if not callable(reference):
            yield f"reference: {reference!r}; accepted is a function of the inputs, which gives float64"
        if not _is_number(self.tolerance) or self.tolerance <= 0:
            yield f"tolerance: {self.tolerance!r}; accepted is a number above 0, of roundings"
        for word, value in (("reads", self.reads), ("writes", self.writes), ("flops", self.flops)):
            if value is not None and not _is_number(value):
                yield f"{word}: {value!r}; accepted is a number"

    def _no_lists(self) -> Iterator[str]:
        examples = {"shapes": [(256, 1024)], "dtypes": ["float32"], "edges": ("nan", "strided")}
        for word, example in examples.items():
            if not isinstance(value := getattr(self, word), (list, tuple)):
                yield f"{word}: {value!r} is no list; accepted is one such as {example!r}"

    def _wrong_cases(self) -> Iterator[str]:
        if not self.shapes:
            yield "shapes: is empty; accepted are tuples of sizes, such as [(256, 1024)]"
        for shape in self.shapes:
            if not isinstance(shape, (tuple, list)) or not all(isinstance(n, int) and n > 0 for n in shape):
                yield f"shapes: {shape!r} is no shape; accepted are tuples of numbers above 0, such as (256, 1024)"
        for dtype in self.dtypes:
            if dtype_named(dtype) is None:
                meant = did_you_mean(str(dtype), (*ITEMSIZES, *SHORT_DTYPES))
                yield f"dtypes: {dtype!r} is no dtype; accepted are {list(ITEMSIZES)}{meant}"
        for edge in self.edges:
            if edge not in EDGES:
                yield f"edges: {edge!r} is none; accepted are {list(EDGES)}{did_you_mean(str(edge), EDGES)}"
        if not self.profiles:
            yield "profiles: there are none; add two with .profile(...)"
        if not self.claims:
            yield "claims: there are none; add one with .claim(...)"

    def _wrong_claims(self) -> Iterator[str]:
        known = list(self.profiles)
        shapes = [tuple(shape) for shape in self.shapes if isinstance(shape, (tuple, list))]
        scopes = list(self.prose.get("scopes", SCOPES))
        for claim in self.claims:
            place = f"{claim.place.beside(self.place)}: claim({claim.subject!r})"
            rival = claim.faster_than or self.baseline
            if not rival:
                yield f"{place}: faster_than is not given, and no profile is the baseline; accepted are {known}"
            if claim.subject == rival:
                yield f"{place}: it is compared with itself; accepted is another of {known}"
            for word, named in (("subject", claim.subject), ("faster_than", rival)):
                if named and named not in known:
                    yield f"{place}: {word} is {named!r}; accepted are {known}{did_you_mean(named, known)}"
            if not _is_number(claim.by) or claim.by <= 0:
                yield f"{place}: by is {claim.by!r}; accepted is a ratio above 0, such as 1.02 for 2 % faster"
            if claim.scope not in scopes:
                meant = did_you_mean(str(claim.scope), scopes)
                yield f"{place}: scope is {claim.scope!r}; accepted are {scopes}{meant}"
            yield from (f"{place}: shapes: {s} is not among {shapes}" for s in claim.shapes if s not in shapes)

    def _wrong_names(self) -> Iterator[str]:
        named = [claim.name for claim in self.claims if claim.name]
        for kind, names in (("experiment", [self.name]), ("profile", self.profiles), ("claim", named)):
            for name in names:
                if not isinstance(name, str) or not SLUG.fullmatch(name):
                    yield f"{kind}: {name!r} is not a plain slug; accepted are {SLUG_RULE}"
        shapes = [repr((*shape,)) for shape in self.shapes if isinstance(shape, (tuple, list))]
        yield from (f"shapes: {shape} is there twice" for shape in _twice(shapes))
        made = [claim.name or f"{claim.subject}-beats-{claim.faster_than or self.baseline}" for claim in self.claims]
        yield from (f"claim {name!r}: is there twice; give one a name=" for name in _twice(made))


def _twice(values: Iterable[Any]) -> list[Any]:
    return [value for value, count in Counter(values).items() if count > 1]


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
