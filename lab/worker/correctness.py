"""Compares results with float64, before timing and again for timed outputs. A wrong result is never timed.

The truth is computed in float64 after the call, so that no call can find it in memory, and memory is poisoned
before the call, so that what is not written cannot look right.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from lab.definition.experiment import Operator, Output
from lab.evidence.record import Correctness, Edge
from lab.worker.deferred import deferred
from lab.worker.tensors import FLOAT8, copied, same

STANDARD_ALLOWANCE = 2.0  # times the standard implementation's own error on the same inputs
# A standard that is off by more, as a root mean square over the result's, is wrong itself, and excuses nothing. Those
# of this repository are off by up to 1.5 epsilons on tiny shapes; whole models, and sums of float32 over 100,000
# products, may be by more. Edge inputs are exempt: where nearly all of a result cancels, honest code is off by a
# great deal.
LARGEST_STANDARD_ERROR, LARGEST_STANDARD_EPSILONS = 0.125, 1024
# Times Σ|a·b|, the measure of the backward error of a sum of products (Higham, Accuracy and Stability of Numerical
# Algorithms, chapter 3). Matrix units cut a running sum off after its 24th bit, at each of K / 16 steps, always towards
# 0. One cut costs up to 2^-23 of the sum so far, and the result may be far smaller than that. Simulated in one chain,
# the worst of 5003 float16 results of normal inputs needs 2^-20.7 at K = 32,769, and 2^-20 at K = 65,536.
LONG_SUM_ALLOWANCE = 2.0**-20
Arguments = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Check:
    """One comparison: the worst error and its share of the tolerance, the standard's share, or what is wrong.

    The share is of what is left of errors after LONG_SUM_ALLOWANCE, where the whole would exceed the tolerance.
    """

    absolute_error: float
    tolerance_share: float
    problem: str
    standard_share: float = 0.0
    worst: str = ""  # where an error exceeds the tolerance: the worst element

    @property
    def allowed_share(self) -> float:
        return _allowed_share(self.tolerance_share, self.standard_share)


@dataclass(frozen=True, slots=True)
class _Difference:
    """One result against its truth: as in Check, and whether NaN or infinity lie elsewhere than there."""

    absolute_error: float
    tolerance_share: float
    masked: bool
    standard_share: float = 0.0
    worst: str = ""

    @property
    def allowed_share(self) -> float:
        return _allowed_share(self.tolerance_share, self.standard_share)


def _allowed_share(tolerance_share: float, standard_share: float) -> float:
    """The error as a share of what is allowed, which the standard implementation may have made more."""
    return tolerance_share / max(1.0, STANDARD_ALLOWANCE * standard_share)


def check_profile(
    operator: Operator,
    function: Callable[..., Any],
    input_sets: Sequence[Arguments],
    seeds: Sequence[int],
    *,
    in_place: bool = False,
    edges: Iterable[tuple[str, Arguments]] = (),
) -> Correctness:
    """Run `function` on each input set and edge and compare with the float64 truth.

    Inputs must stay as they were, unless `in_place`; no output may share memory with an input or an earlier
    output, and earlier outputs must keep their values.
    """
    checks = []
    earlier: list[tuple[Any, Any]] = []  # outputs, and what they were
    for arguments in input_sets:
        like = _tuple(earlier[-1][0]) if earlier else ()
        output, pristine, problem = _call(operator, function, arguments, in_place, like)
        check = check_output(operator, output, pristine)
        problem = problem or check.problem or _aliased(output, arguments, [result for result, _ in earlier], in_place)
        checks.append(replace(check, problem=problem))
        if not in_place:
            earlier.append((output, copied(output)))
    if any(not _same(result, was) for result, was in earlier):
        checks.append(Check(0.0, 0.0, "a later call changed an earlier output"))
    edge_results = tuple(_edge(operator, function, name, arguments, in_place) for name, arguments in edges)
    right = verdict(checks, tuple(seeds))
    wrong = next((edge for edge in edge_results if edge.outcome == "wrong"), None)
    message = right.message or (f"edge input {wrong.name}: {wrong.message}" if wrong else "")
    return replace(right, passed=not message, message=message, edges=edge_results)


def check_output(operator: Operator, output: Any, arguments: Arguments, *, edge: bool = False) -> Check:
    """Compare what a call returned with the truth for the inputs it was given; computed here and now."""
    truths, outputs = _tuple(operator.reference(*arguments)), _tuple(output)
    if len(truths) != len(outputs):
        return Check(0.0, 0.0, f"{len(outputs)} results; expected {len(truths)}")
    expected = operator.expected(len(truths))
    forms = (_malformed(o, t, e, arguments[0]) for o, t, e in zip(outputs, truths, expected, strict=True))
    if problem := next(filter(None, forms), ""):
        return Check(0.0, 0.0, problem)
    differences = [_difference(o, t, e) for o, t, e in zip(outputs, truths, expected, strict=True)]
    if operator.summed_magnitudes is not None and any(each.tolerance_share > 1 for each in differences):
        sums = _tuple(operator.summed_magnitudes(*arguments))
        differences = [_difference(*each) for each in zip(outputs, truths, expected, sums, strict=True)]
        del sums  # gigabytes, perhaps
    if operator.standard is not None and any(each.masked or each.tolerance_share > 1 for each in differences):
        standards = _tuple(operator.standard(*copied(arguments)))
        if not edge and (wrong := _wrong_standard(standards, truths)):
            return Check(max(each.absolute_error for each in differences), 0.0, wrong)
        compared = zip(differences, outputs, standards, truths, expected, strict=True)
        differences = [_beside_standard(*each) for each in compared]
    masked = any(each.masked for each in differences)
    problem = "the result has NaN or infinity where the truth is finite, or the reverse" if masked else ""
    worst = max(differences, key=lambda each: each.allowed_share)
    return Check(
        absolute_error=max(each.absolute_error for each in differences), tolerance_share=worst.tolerance_share,
        problem=problem, standard_share=worst.standard_share,
        worst=worst.worst and f"; at {_named(differences.index(worst), len(outputs))}{worst.worst}",
    )  # fmt: skip


def verdict(checks: Sequence[Check], seeds: tuple[int, ...]) -> Correctness:
    """All checks of a profile as one record."""
    problems = [check.problem for check in checks if check.problem]
    worst = max(checks, key=lambda check: check.allowed_share)
    excess = [check for check in checks if not check.allowed_share <= 1]
    if not problems and excess:
        problems = [f"the error is {excess[0].tolerance_share:.3g} times the tolerance{excess[0].worst}"]
    return Correctness(
        passed=not problems,
        seeds=seeds,
        worst_absolute_error=max(check.absolute_error for check in checks),
        worst_tolerance_share=worst.tolerance_share,
        message=problems[0] if problems else "",
        standard_tolerance_share=worst.standard_share,
    )


def worse(one: Correctness, other: Correctness) -> Correctness:
    """Both records as one: the larger errors, the first complaint, the edges of the first."""
    larger = max(one, other, key=lambda r: _allowed_share(r.worst_tolerance_share, r.standard_tolerance_share))
    return replace(
        one,
        passed=one.passed and other.passed,
        worst_absolute_error=max(one.worst_absolute_error, other.worst_absolute_error),
        worst_tolerance_share=larger.worst_tolerance_share,
        standard_tolerance_share=larger.standard_tolerance_share,
        message=one.message or other.message,
    )


def _edge(operator: Operator, function: Callable[..., Any], name: str, arguments: Arguments, in_place: bool) -> Edge:
    try:
        output, pristine, problem = _call(operator, function, arguments, in_place, ())
    except Exception as refusal:
        if not _is_refusal(refusal):
            raise
        first = (str(refusal).strip().splitlines() or [""])[0]
        return Edge(
            name=name, outcome="refused", tolerance_share=0.0, standard_share=0.0,
            message=f"{type(refusal).__name__}: {first}"[:200],
        )  # fmt: skip
    check = check_output(operator, output, pristine, edge=True)
    correctness = verdict([replace(check, problem=problem or check.problem)], ())
    return Edge(
        name=name,
        outcome="passed" if correctness.passed else "wrong",
        tolerance_share=check.tolerance_share,
        standard_share=check.standard_share,
        message=correctness.message,
    )


def _is_refusal(problem: Exception) -> bool:
    """Whether a profile said no: not the GPU's own complaint, which may have poisoned the process, nor want of memory,
    nor a slip such as a KeyError. Libraries have exceptions of their own to say no with."""
    faults = (getattr(torch, "AcceleratorError", torch.OutOfMemoryError), torch.OutOfMemoryError)
    if isinstance(problem, faults) or "CUDA error" in str(problem):
        return False
    polite = (TypeError, ValueError, NotImplementedError, RuntimeError, AssertionError)
    return isinstance(problem, polite) or type(problem).__module__ != "builtins"


def _call(
    operator: Operator, function: Callable[..., Any], arguments: Arguments, in_place: bool, like: Sequence[Any]
) -> tuple[Any, Arguments, str]:
    """(result, the inputs as they were, what was done to them). Changed inputs are put right for the next profile.

    like: the results of an earlier call, if there was one.
    """
    pristine = copied(arguments)
    _poison_memory(operator, arguments, like)
    problem = ""
    output = None
    try:
        output = function(*arguments)
        problem = deferred(output)  # before anybody looks at it
        if in_place:
            output = copied(output)
    finally:
        for mine, was in zip(arguments, pristine, strict=True):
            if isinstance(mine, Tensor) and not same(mine, was):
                mine.copy_(was)
                problem = problem or ("" if in_place else "an input was changed by the call")
    return output, pristine, problem


def _poison_memory(operator: Operator, arguments: Arguments, like: Sequence[Any]) -> None:
    """Leave NaN in the memory that the allocator will most likely give to the results.

    All at once, so that each result finds some: of the sizes that the earlier results had or, before any is known, of
    the size of what is worked on.
    """
    forms = [(tensor, tensor.dtype) for tensor in like if _is_floating(tensor)]
    if not forms and (first := next(filter(_is_floating, arguments), None)) is not None:
        forms = [(first, _dtype(output, first)) for output in operator.expected(1)]
    blocks = [torch.full_like(tensor, math.nan, dtype=dtype) for tensor, dtype in forms]
    blocks.clear()


def _is_floating(argument: Any) -> bool:
    return isinstance(argument, Tensor) and argument.is_floating_point()


def _malformed(output: Any, truth: Tensor, expected: Output, first: Tensor) -> str:
    dtype = _dtype(expected, first)
    if type(output) is not Tensor:
        return f"the result is a {type(output).__name__}, not a plain tensor"
    if output.shape != truth.shape or output.dtype != dtype or output.device != first.device:
        return (
            f"the result is {tuple(output.shape)} {output.dtype} on {output.device}; "
            f"expected {tuple(truth.shape)} {dtype} on {first.device}"
        )
    return ""


def _dtype(expected: Output, first: Tensor) -> torch.dtype:
    named: torch.dtype = getattr(torch, expected.dtype) if expected.dtype else first.dtype
    return named


def _difference(output: Tensor, truth: Tensor, expected: Output, sums: Tensor | None = None) -> _Difference:
    """sums: if given, Σ|a·b|, a share of which is taken off the error before it is held against the tolerance."""
    # In place, because a case may hold gigabytes: NaN and infinity survive into the maximum.
    error = output.to(torch.float64, copy=True).sub_(truth).abs_()
    absolute = float(error.max()) if error.numel() else 0.0
    masked = False
    if not math.isfinite(absolute):
        # A truth beyond the dtype's range is infinite in it.
        masked = bool((_kind(output) != _kind(truth.to(output.dtype))).any())
        error.nan_to_num_(0.0, posinf=0.0)
        absolute = float(error.max())
    if sums is not None:  # where inputs are infinite or NaN, so is the sum, and nothing more is allowed
        error.sub_(sums.nan_to_num_(0.0, posinf=0.0), alpha=LONG_SUM_ALLOWANCE).clamp_(min=0.0)
    scale = truth.abs().nan_to_num_(0.0, posinf=0.0).add_(expected.scale)
    relative = float(error.div_(scale).max()) if error.numel() else 0.0
    share = relative / (expected.tolerance * torch.finfo(output.dtype).eps)
    return _Difference(absolute, share, masked, worst=_worst_element(error, output, truth) if share > 1 else "")


def _worst_element(error: Tensor, output: Tensor, truth: Tensor) -> str:
    try:
        place = torch.unravel_index(error.argmax(), error.shape)
    except torch.OutOfMemoryError:  # of an error that is not contiguous argmax makes a copy
        return ""
    given, right = (float(tensor[place].double()) for tensor in (output, truth))
    digits = 17 if output.dtype == torch.float64 else 9  # that tell any two values apart
    index = ", ".join(str(int(number)) for number in place)
    return f"[{index}] it is {given:.{digits}g}, and {right:.{digits}g} is right"


def _named(number: int, results: int) -> str:
    return f"result {number + 1} of {results}, " if results > 1 else ""


def _beside_standard(
    difference: _Difference, output: Tensor, standard: Tensor, truth: Tensor, expected: Output
) -> _Difference:
    """What was found, given what the standard implementation made of the same inputs. All of its error counts, also
    where sums are long: what is allowed for these comes on top of twice that, and never makes a right result wrong."""
    share = _difference(standard, truth, expected).tolerance_share
    masked = difference.masked and bool((_kind(output) != _kind(standard)).any())
    return replace(difference, masked=masked, standard_share=share)


def _wrong_standard(standards: Sequence[Tensor], truths: Sequence[Tensor]) -> str:
    """What is wrong with the standard implementation itself, or with the reference; empty where they agree."""
    for standard, truth in zip(standards, truths, strict=True):
        size = float(truth.nan_to_num(0.0, 0.0, 0.0).norm())
        off = float(standard.double().sub_(truth).nan_to_num_(0.0, 0.0, 0.0).norm()) / size if size else 0.0
        if off > min(LARGEST_STANDARD_ERROR, LARGEST_STANDARD_EPSILONS * torch.finfo(standard.dtype).eps):
            return (
                "the error exceeds the tolerance, and the standard implementation, which errs too, is no measure: it "
                f"is off by {100 * off:.2g} % of the result, so the standard or the reference is wrong"
            )
    return ""


def _kind(tensor: Tensor) -> Tensor:
    """0 where finite, 1 for NaN, 2 and 3 for the infinities."""
    tensor = tensor.float() if tensor.dtype in FLOAT8 else tensor  # of which torch knows only some functions
    return tensor.isnan().to(torch.int8) + 2 * tensor.isposinf().to(torch.int8) + 3 * tensor.isneginf().to(torch.int8)


def _aliased(output: Any, arguments: Arguments, earlier: Sequence[Any], in_place: bool) -> str:
    if in_place:
        return ""
    mine = {_memory(tensor) for tensor in _tuple(output) if isinstance(tensor, Tensor)}
    if mine & {_memory(argument) for argument in arguments if isinstance(argument, Tensor)}:
        return "the result shares memory with an input"
    if mine & {_memory(tensor) for result in earlier for tensor in _tuple(result) if isinstance(tensor, Tensor)}:
        return "the result shares memory with an earlier result"
    return ""


def _memory(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def _same(one: Any, other: Any) -> bool:
    pairs = zip(_tuple(one), _tuple(other), strict=True)
    return all(same(a, b) for a, b in pairs if isinstance(a, Tensor) and isinstance(b, Tensor))


def _tuple(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)
