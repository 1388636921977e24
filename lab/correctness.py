"""Is the result right? Asked before timing, and again of a timed output. A wrong result is never timed."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from lab.definition import Operator
from lab.record import Correctness


@dataclass(frozen=True, slots=True)
class Check:
    """One comparison: the worst error and its share of the tolerance, or what is wrong."""

    absolute_error: float
    tolerance_share: float
    problem: str


def check_profile(
    operator: Operator,
    function: Callable[..., Any],
    input_sets: Sequence[tuple[Any, ...]],
    references: Sequence[Tensor],
    seeds: Sequence[int],
) -> Correctness:
    """Run `function` on each input set and compare with its float64 truth; inputs must stay as they were."""
    checks = []
    for arguments, truth in zip(input_sets, references, strict=True):
        output, changed = call(function, arguments)
        check = compare(operator, output, truth, arguments)
        if changed:
            check = Check(check.absolute_error, check.tolerance_share, "an input was changed by the call")
        checks.append(check)
    return verdict(checks, tuple(seeds))


def call(function: Callable[..., Any], arguments: tuple[Any, ...]) -> tuple[Any, bool]:
    """(result, whether an input was changed). A changed input is put right: it serves the other profiles too."""
    tensors = [argument for argument in arguments if isinstance(argument, Tensor)]
    before = [tensor.clone() for tensor in tensors]
    changed = False
    try:
        output = function(*arguments)
    finally:
        for tensor, old in zip(tensors, before, strict=True):
            if not torch.equal(tensor, old):
                tensor.copy_(old)
                changed = True
    return output, changed


def compare(operator: Operator, output: Any, truth: Tensor, arguments: tuple[Any, ...]) -> Check:
    """Compare one output with the float64 truth, element by element."""
    first = arguments[0]
    if type(output) is not Tensor:
        return Check(0.0, 0.0, f"the result is a {type(output).__name__}, not a plain tensor")
    if output.shape != truth.shape or output.dtype != first.dtype or output.device != first.device:
        return Check(
            0.0,
            0.0,
            f"the result is {tuple(output.shape)} {output.dtype} on {output.device}; "
            f"expected {tuple(truth.shape)} {first.dtype} on {first.device}",
        )
    # In place, because a case may hold hundreds of megabytes: NaN and infinity survive into the maximum.
    error = output.double().sub_(truth).abs_()
    absolute_error = float(error.max())
    if not math.isfinite(absolute_error):
        return Check(0.0, 0.0, "the result has NaN or infinity where the truth is finite")
    relative_error = float(error.div_(truth.abs().add_(operator.scale)).max())
    return Check(absolute_error, relative_error / (operator.tolerance * torch.finfo(output.dtype).eps), "")


def verdict(checks: Sequence[Check], seeds: tuple[int, ...]) -> Correctness:
    """All checks of a profile as one record."""
    problems = [check.problem for check in checks if check.problem]
    share = max(check.tolerance_share for check in checks)
    if not problems and not (math.isfinite(share) and share <= 1):
        problems = [f"the error is {share:.3g} times the tolerance"]
    return Correctness(
        passed=not problems,
        seeds=seeds,
        worst_absolute_error=max(check.absolute_error for check in checks),
        worst_tolerance_share=share,
        message=problems[0] if problems else "",
    )


def worse(one: Correctness, other: Correctness) -> Correctness:
    """Both records as one: the larger errors, and the first complaint."""
    return Correctness(
        passed=one.passed and other.passed,
        seeds=one.seeds,
        worst_absolute_error=max(one.worst_absolute_error, other.worst_absolute_error),
        worst_tolerance_share=max(one.worst_tolerance_share, other.worst_tolerance_share),
        message=one.message or other.message,
    )
