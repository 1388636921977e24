"""The short form of an experiment: plain functions, from which the rest is derived.

    exp = lab.experiment("gelu", shapes=[(256, 1024)], reference=lambda x: F.gelu(x.double()),
                         tolerance=16)

    @exp.profile(baseline=True)
    def composed(x): return 0.5 * x * (1 + torch.erf(x * math.sqrt(0.5)))

    exp.profile("fused", F.gelu)
    exp.claim("fused", faster_than="composed", by=1.5)

`exp.definition()` is the frozen Experiment of lab/definition/experiment.py. It lists all mistakes of the short form at
once.
"""

import inspect
import math
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

from lab.definition.default_inputs import Inputs, Shape, randn, randn_for
from lab.definition.dtypes import ITEMSIZES, dtype_named
from lab.definition.experiment import (
    SCOPES,
    USUAL_THRESHOLD,
    Case,
    Claim,
    Experiment,
    Function,
    Loader,
    Operator,
)
from lab.definition.experiment import Profile as FrozenProfile
from lab.definition.written import Claimed, Place, Written
from lab.errors import DefinitionError
from lab.kernels.traffic import Traffic
from lab.suggest import did_you_mean

PACKAGE = f"{Path(__file__).parents[1]}{os.sep}"
WITHOUT_DATA = "it is called on tensors without data (device meta), to count the bytes; give traffic= if it cannot be"


@dataclass
class Draft(Written):
    """An experiment that is being written down; `lab.experiment` makes it."""

    _mistakes: list[str] = field(default_factory=list)
    _made: Experiment | None = None

    def profile(
        self, name: "str | Function" = "", function: Function | None = None, *, load: Loader | None = None,
        baseline: bool = False, recompiles: bool | None = None, kernel: str = "", **more: Any,
    ) -> Any:  # fmt: skip
        """Add an implementation: a function, a loader that gives one, or, as a decorator, the function below it.

        baseline: claims that name no rival compare with it. recompiles: it is compiled or tuned at run time for each
        shape; by default True if the loader's code mentions `compile`. kernel: the Triton or CUDA kernel that every
        call must launch. more: fields of lab.Profile, such as technique, hypothesis, package or devices.
        """
        if callable(name):  # @exp.profile without brackets
            return self.profile()(name)
        if function is None and load is None:
            place = _caller()
            return lambda decorated: self._add(
                name or decorated.__name__.replace("_", "-"), decorated, None, baseline, recompiles, kernel, more, place
            )
        return self._add(name, function, load, baseline, recompiles, kernel, more, _caller())

    def claim(
        self, subject: str, *, faster_than: str = "", by: float = USUAL_THRESHOLD, shapes: Iterable[Shape] = (),
        scope: str = SCOPES[0], name: str = "", text: str = "", **unknown: Any,
    ) -> None:  # fmt: skip
        """Register that `subject` is at least `by` times as fast as `faster_than`, else the baseline, at all shapes or
        those named."""
        self._made = None
        place = _caller()
        about = f"{place.beside(self.place)}: claim({subject!r})"
        self._mistakes += [f"{about}: {_unknown(word, CLAIM_FIELDS)}" for word in unknown]
        self.claims.append(
            Claimed(
                place=place, subject=subject, faster_than=faster_than, by=by, shapes=tuple(map(_as_shape, shapes)),
                scope=scope, name=name, text=text,
            )
        )  # fmt: skip

    def definition(self) -> Experiment:
        """The frozen experiment. DefinitionError lists every mistake that the short form shows."""
        if self._made is None:
            if mistakes := [*self._mistakes, *self.mistakes()]:
                raise self._refusal(mistakes)
            try:
                self._made = self._make()
            except DefinitionError as contradiction:
                raise self._refusal([str(contradiction)]) from None
        return self._made

    def _refusal(self, mistakes: Sequence[str]) -> DefinitionError:
        return DefinitionError("\n  ".join((f"{self.place}: experiment {self.name!r}", *mistakes)))

    def run(self, **options: Any) -> Any:
        """Measure it from here: lab.notebook.measure has the options."""
        from lab.notebook import measure

        return measure(self, **options)

    def _add(
        self, name: str, function: Any, load: Loader | None, baseline: bool, recompiles: bool | None, kernel: str,
        more: dict[str, Any], place: Place,
    ) -> Any:  # fmt: skip
        self._made = None
        about = f"{place.beside(self.place)}: profile {name!r}"
        if name in self.profiles:
            self._mistakes.append(f"{about}: is defined twice")
        if (function is None) is (load is None):
            self._mistakes.append(f"{about}: give it either a function or load=, a function that returns one")
            return function
        if not callable(function or load):
            self._mistakes.append(f"{about}: {function or load!r} is no function")
            return function
        if load is not None and not _can_take(load, 0):
            self._mistakes.append(
                f"{about}: load= takes no argument and returns the function; give {_name(load)} itself"
            )
            return function
        if function is not None and _can_take(function, 0) and not _can_take(function, 1):
            self._mistakes.append(f"{about}: {_name(function)} takes no input; a function that returns one is load=")
            return function
        accepted = set(FrozenProfile.__dataclass_fields__) - {"name", "implementations", "kernels", "recompiles"}
        for word in more.keys() - accepted:
            self._mistakes.append(f"{about}: {_unknown(word, (*accepted, *PROFILE_FIELDS))}")
        self.profiles[name] = FrozenProfile(
            name=name,
            implementations={self.name: load or partial(_given, function)},
            kernels={self.name: kernel} if kernel else None,
            recompiles=_mentions_compile(load) if recompiles is None else recompiles,
            **{
                "technique": inspect.getdoc(function) or "" if inspect.isfunction(function) else "",
                **{word: value for word, value in more.items() if word in accepted},
            },
        )
        if baseline and self.baseline and self.baseline != name:
            self._mistakes.append(f"{about}: baseline=True, and {self.baseline!r} is the baseline already")
        if baseline:
            self.baseline = name
        return function

    def _make(self) -> Experiment:
        operator = self._operator()
        cases = tuple(
            Case(operator=operator, shape=tuple(shape), dtype=dtype_named(dtype) or dtype)
            for shape in self.shapes
            for dtype in self.dtypes
        )
        claims = tuple(self._claim(claim, cases) for claim in self.claims)
        return Experiment(
            name=self.name, cases=cases, profiles=tuple(self.profiles.values()), claims=claims, **self.prose
        )

    def _operator(self) -> Operator:
        standard = self.profiles[self.baseline].implementations[self.name] if self.baseline else None
        return Operator(
            name=self.name,
            inputs=self._inputs(),
            reference=self.reference,
            traffic=self.traffic or self._traffic,
            tolerance=self.tolerance,
            edges=self.edges,
            standard=(lambda *arguments: standard()(*arguments)) if standard else None,
        )

    def _inputs(self) -> Inputs:
        return randn_for(self.reference) if self.inputs is randn else self.inputs

    def _claim(self, claim: Claimed, cases: tuple[Case, ...]) -> Claim:
        rival = claim.faster_than or self.baseline
        subject, baseline = self.profiles[claim.subject], self.profiles[rival]
        words = f"{subject.title or claim.subject} is {'faster than' if claim.by > 1 else 'as fast as'} "
        return Claim(
            name=claim.name or f"{claim.subject}-beats-{rival}",
            text=claim.text or f"{words}{baseline.title or rival}.",
            subject=subject,
            baseline=baseline,
            cases=tuple(case for case in cases if not claim.shapes or case.shape in claim.shapes),
            scope=claim.scope,
            threshold=claim.by,
        )

    def _traffic(self, shape: Shape, itemsize: int) -> Traffic:
        """Every input read once and every result written once, unless `reads` and `writes` say how many."""
        elements = math.prod(shape)
        read, written = self.reads, self.writes
        if read is None or written is None:
            arguments, results = self._sizes(shape, itemsize)
            read_bytes = arguments if read is None else int(read * elements * itemsize)
            written_bytes = results if written is None else int(written * elements * itemsize)
        else:
            read_bytes, written_bytes = int(read * elements * itemsize), int(written * elements * itemsize)
        return Traffic(read_bytes=read_bytes, written_bytes=written_bytes, flops=int(self.flops * elements))

    def _sizes(self, shape: Shape, itemsize: int) -> tuple[int, int]:
        """Bytes of the inputs, and of the results in the dtype of the first of them; nothing is computed.
        DefinitionError where the reference cannot take the inputs."""
        import torch

        dtype = getattr(torch, next(name for name, size in ITEMSIZES.items() if size == itemsize))
        inputs = self._inputs()
        try:
            made = inputs(shape, dtype, "meta", 0)
        except RuntimeError:  # this device has no generator, for example
            made = inputs(shape, dtype, "cpu", 0)
        if not isinstance(made, tuple):
            raise DefinitionError(f"inputs() returned a {type(made).__name__}; return a tuple, such as (x,)")
        arguments = tuple(item.to("meta") if isinstance(item, torch.Tensor) else item for item in made)
        try:
            result = self.reference(*arguments)
        except Exception as problem:
            raise DefinitionError(f"reference fails with {type(problem).__name__}: {problem}; {WITHOUT_DATA}") from None
        results = result if isinstance(result, tuple) else (result,)
        tensors = [item for item in arguments if isinstance(item, torch.Tensor)]
        return sum(t.numel() * t.element_size() for t in tensors), sum(t.numel() * itemsize for t in results)


def experiment(
    name: str,
    *,
    shapes: Sequence[Shape],
    reference: Function,
    dtypes: Sequence[str] = ("float32",),
    inputs: Inputs = randn,
    tolerance: float = 4,
    edges: tuple[str, ...] = (),
    traffic: Callable[[Shape, int], Traffic] | None = None,
    reads: float | None = None,
    writes: float | None = None,
    flops: float = 0,
    **prose: Any,
) -> Draft:
    """Begin an experiment in the short form.

    reference gives the result in float64; inputs(shape, dtype, device, seed) its arguments, by default as many normal
    tensors of the shape as it takes. reads, writes: how many tensors of the shape any implementation must move, by
    default all arguments and results; flops: operations an element; traffic(shape, itemsize) says all three instead.
    `prose` are fields of lab.Experiment: title, question, importance, focus, does_not_show, metrics, project; a
    publication needs question, importance and does_not_show.
    """
    draft = Draft(
        name=name, shapes=shapes, reference=reference, dtypes=dtypes, inputs=inputs, tolerance=tolerance, edges=edges,
        traffic=traffic, reads=reads, writes=writes, flops=flops, prose=prose,
        place=_caller(),
    )  # fmt: skip
    accepted = set(Experiment.__dataclass_fields__) - {"name", "cases", "profiles", "claims", "headlines"}
    for word in [word for word in prose if word not in accepted]:
        del prose[word]
        draft._mistakes.append(_unknown(word, (*accepted, *_options(experiment))))
    return draft


def _caller() -> Place:
    """The line that called the short form."""
    frame: FrameType | None = sys._getframe(1)
    while frame and frame.f_code.co_filename.startswith(PACKAGE):  # such as the plugin of pytest
        frame = frame.f_back
    assert frame  # whoever calls the lab is outside of it
    return Place(file=frame.f_code.co_filename, line=frame.f_lineno)


def _options(function: Callable[..., Any]) -> list[str]:
    """What it takes by keyword alone."""
    parameters = inspect.signature(function).parameters.values()
    return [each.name for each in parameters if each.kind is each.KEYWORD_ONLY]


CLAIM_FIELDS, PROFILE_FIELDS = _options(Draft.claim), _options(Draft.profile)


def _unknown(word: str, accepted: Iterable[str]) -> str:
    known = sorted(accepted)
    return f"unknown field {word!r}; accepted are {known}{did_you_mean(word, known)}"


def _can_take(function: Callable[..., Any], arguments: int) -> bool:
    """Whether it can be called with so many; a built-in function does not say."""
    try:
        inspect.signature(function).bind(*[None] * arguments)
    except TypeError:
        return False
    except ValueError:
        return True
    return True


def _name(function: Callable[..., Any]) -> str:
    return getattr(function, "__name__", repr(function)).replace("<lambda>", "the lambda")


def _as_shape(value: Any) -> Any:
    """What is no shape stays as it is: it is told later, with all other mistakes."""
    return tuple(value) if isinstance(value, (tuple, list)) else value


def _given(function: Any) -> Any:
    """The loader of a plain function."""
    return function


def _mentions_compile(load: Loader | None) -> bool:
    code = getattr(load, "__code__", None)
    return code is not None and "compile" in code.co_names
