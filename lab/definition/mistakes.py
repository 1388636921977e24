"""Finds mistakes of an author that appear only in a call, and lists all of them when a run is planned.

Each names the file, the field, its value, and what is accepted. Contradictions between values are errors as soon as the
values are made: lab/definition/experiment.py.
"""

import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, cast

from lab.definition.dtypes import ITEMSIZES, SHORT_DTYPES
from lab.definition.experiment import SLUG, Case, Experiment, Operator, Profile
from lab.errors import DefinitionError
from lab.kernels.traffic import Traffic
from lab.suggest import did_you_mean

DEVICES = ("cuda", "cpu")


def refuse_mistakes(
    experiments: Iterable[Experiment], file_of: Callable[[str], str], others: Iterable[tuple[str, str]] = ()
) -> None:
    """DefinitionError with all mistakes of all experiments, by file; `others` are found elsewhere, by experiment."""
    lines = [f"{file_of(each.name)}: {each.name}: {mistake}" for each in experiments for mistake in mistakes(each)]
    lines += [f"{file_of(name)}: {mistake}" for name, mistake in others]
    if lines:
        count = f"{len(lines)} mistake{'s' if len(lines) > 1 else ''} in what is asked for"
        raise DefinitionError("\n".join((count, *lines)))


def mistakes(experiment: Experiment) -> Iterator[str]:
    """'field is …; accepted is …' of every mistake of an experiment."""
    operators = {id(case.operator): case.operator for case in experiment.cases}
    for operator in operators.values():
        yield from _of_operator(operator)
    for case in experiment.cases:
        yield from _of_case(case)
    for profile in experiment.profiles:
        yield from _of_profile(profile)


def _of_operator(operator: Operator) -> Iterator[str]:
    place = f"operator {operator.name!r}"
    yield from _uncallable(f"{place}: inputs", operator.inputs, ("shape", "dtype", "device", "seed"))
    yield from _uncallable(f"{place}: traffic", operator.traffic, ("shape", "itemsize"))
    tolerance: Any = operator.tolerance
    if tolerance is not None and (not isinstance(tolerance, (int, float)) or not tolerance > 0):
        yield f"{place}: tolerance is {tolerance!r}; accepted is a number above 0, of roundings"
    if not callable(cast(Any, operator.reference)):
        yield f"{place}: reference is {operator.reference!r}; accepted is a function of what inputs returns"
    if operator.output_dtype:
        yield from _wrong_dtype(f"{place}: output_dtype", operator.output_dtype)
    for output in operator.outputs:
        if output.dtype:
            yield from _wrong_dtype(f"{place}: outputs: dtype", output.dtype)


def _of_case(case: Case) -> Iterator[str]:
    place = f"case {case.name!r}"
    shape: Any = case.shape
    if not isinstance(shape, tuple) or not all(isinstance(size, int) and size > 0 for size in shape):
        yield f"{place}: shape is {case.shape!r}; accepted is a tuple of whole numbers above 0"
        return
    wrong = list(_wrong_dtype(f"{place}: dtype", case.dtype))
    yield from wrong
    if case.only_with and not SLUG.fullmatch(case.only_with):
        yield f"{place}: only_with is {case.only_with!r}; accepted is a plain slug, given to a run as --include-SLUG"
    if not wrong:
        yield from _wrong_traffic(place, case)


def _wrong_traffic(place: str, case: Case) -> Iterator[str]:
    if list(_uncallable("", case.operator.traffic, ("shape", "itemsize"))):
        return  # said of its operator
    wanted = "accepted is lab.Traffic(read_bytes=…, written_bytes=…, flops=…)"
    try:
        traffic: Any = case.operator.traffic(case.shape, ITEMSIZES[case.dtype])
    except DefinitionError as told:  # the short form, which has the traffic from the reference
        yield f"{place}: {told}"
        return
    except Exception as problem:
        yield f"{place}: traffic fails with {type(problem).__name__}: {problem}; {wanted}"
        return
    if not isinstance(traffic, Traffic):
        yield f"{place}: traffic returns {traffic!r}; {wanted}"
    elif traffic.total_bytes <= 0:
        yield f"{place}: traffic says that no byte is moved; {wanted}, with bytes above 0"


def _of_profile(profile: Profile) -> Iterator[str]:
    """Several experiments may share a profile: it may name operators that one of them lacks."""
    place = f"profile {profile.name!r}"
    for name, loader in profile.implementations.items():
        if asked := list(_uncallable(f"{place}: implementations[{name!r}]", loader, ())):
            yield f"{asked[0]}: a loader, which returns the function to time; for a function f write lambda: f"
    for name in profile.kernels or {}:
        if name not in profile.implementations:
            known = list(profile.implementations)
            yield f"{place}: kernels name the operator {name!r}; {_one_of(name, known)}"
    for device in profile.devices:
        if device not in DEVICES:
            yield f"{place}: devices name {device!r}; accepted are {list(DEVICES)}"


def _one_of(word: str, accepted: Sequence[str]) -> str:
    return f"accepted are {list(accepted)}{did_you_mean(word, accepted)}"


def _wrong_dtype(field: str, dtype: str) -> Iterator[str]:
    if dtype not in ITEMSIZES:
        meant = f"; did you mean {SHORT_DTYPES[dtype]!r}?" if dtype in SHORT_DTYPES else did_you_mean(dtype, ITEMSIZES)
        yield f"{field} is {dtype!r}; accepted are {list(ITEMSIZES)}{meant}"


def _uncallable(field: str, function: Any, arguments: Sequence[str]) -> Iterator[str]:
    """Whether it cannot be called with so many positional arguments."""
    wanted = f"accepted is a function called with ({', '.join(arguments)})"
    if not callable(function):
        yield f"{field} is {function!r}; {wanted}"
        return
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # a built-in does not say what it takes
        return
    try:
        signature.bind(*arguments)
    except TypeError:
        yield f"{field} is a function of {signature}; {wanted}"
