"""`lab check`: every profile on tiny inputs against its reference, before anything is timed.

On a GPU where there is one, and else on the CPU, where Triton's interpreter runs its kernels.
"""

import gc
import math
from collections.abc import Iterator, Sequence, Set
from contextlib import ExitStack
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import partial
from importlib.util import find_spec
from typing import Any

import torch

from lab.definition.experiment import Case, Experiment, Function, Profile, one_of
from lab.worker.correctness import check_profile
from lab.worker.edges import edge_inputs
from lab.worker.faults import fault, not_on_a_cpu, skip_reason
from lab.worker.input_pool import inputs_of
from lab.worker.launches import interpreted, seen

MOST_ELEMENTS = 1 << 12  # of a tiny shape: an interpreter calls Python for every block
SEEDS = (1, 2)
NEAR = 0.8  # of two names: by difflib


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckResult:
    """One profile at one case: "right", "wrong", "failed" or "skipped", and why."""

    experiment: str
    case: str
    shape: tuple[int, ...]
    profile: str
    outcome: str
    message: str


def check(experiments: Sequence[Experiment], device: str) -> Iterator[CheckResult]:
    """In this process, which a kernel may take down or never give back: see lab.check_supervisor."""
    return (check_cell(*cell, device) for cell in cells(experiments))


def cells(experiments: Sequence[Experiment]) -> Iterator[tuple[Experiment, Case, Profile]]:
    """Each operator, dtype and number of dimensions of an experiment once, at a tiny shape, with all its profiles."""
    for experiment in experiments:
        for case in _distinct(experiment.cases):
            for profile in experiment.profiles:
                if case.operator.name in profile.implementations:
                    yield experiment, case, profile


def check_cell(experiment: Experiment, case: Case, profile: Profile, device: str) -> CheckResult:
    outcome, message = _outcome(case, profile, device)
    return CheckResult(
        experiment=experiment.name,
        case=case.name,
        shape=case.shape,
        profile=profile.name,
        outcome=outcome,
        message=message,
    )


def tiny(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape with its largest size halved until it is small: what divided it before divides it still, mostly."""
    sizes = list(shape)
    while math.prod(sizes) > MOST_ELEMENTS and max(sizes) > 1:
        largest = sizes.index(max(sizes))
        sizes[largest] = (sizes[largest] + 1) // 2
    return tuple(sizes)


def _distinct(cases: Sequence[Case]) -> list[Case]:
    small_cases: dict[tuple[str, str, int], Case] = {}
    for case in cases:
        small = replace(case, shape=tiny(case.shape))
        small_cases.setdefault((small.operator.name, small.dtype, len(small.shape)), small)
    return list(small_cases.values())


def _float64(reference: Function, *arguments: Any) -> Any:
    """The truth. TypeError where it is less exact: results would be held against rounded ones."""
    truths = reference(*arguments)
    for truth in truths if isinstance(truths, tuple) else (truths,):
        if not isinstance(truth, torch.Tensor):
            raise TypeError(f"the reference gives a {type(truth).__name__}; accepted is a tensor or a tuple of them")
        if truth.is_floating_point() and truth.dtype != torch.float64:
            raise TypeError(f"the reference gives {truth.dtype}; accepted is torch.float64, as of x.double()")
    return truths


def _outcome(case: Case, profile: Profile, device: str) -> tuple[str, str]:
    if reason := skip_reason(profile, device):
        return "skipped", reason
    operator, dtype = case.operator, getattr(torch, case.dtype)
    named = _named_kernels(profile, operator.name)
    strict = replace(operator, reference=partial(_float64, operator.reference))
    try:
        sets = [inputs_of(operator, case.shape, dtype, device, seed) for seed in SEEDS]
    except (Exception, SystemExit) as problem:
        return "failed", f"inputs: {fault(problem)}"
    try:
        with torch.no_grad():
            function: Any = profile.implementations[operator.name]()
            if not callable(function):
                return "failed", f"its loader gives a {type(function).__name__}; accepted is the function to call"
            edges = edge_inputs(operator, case.shape, dtype, device, own_form=profile.recompiles)
            with ExitStack() as watched:
                launched = [watched.enter_context(watch()) for watch in (seen, interpreted) if named]
                correctness = check_profile(strict, function, sets, SEEDS, in_place=profile.in_place, edges=edges)
    except (Exception, SystemExit) as problem:
        reason = not_on_a_cpu(problem, device)  # such as of an autotuner, which the interpreter does not replace
        return ("skipped", reason) if reason else ("failed", fault(problem))
    if not correctness.passed:
        return "wrong", correctness.message
    if misspelt := _misspelt_kernel(named, set().union(*launched)):
        return "wrong", misspelt
    standard = correctness.standard_tolerance_share
    beside = f", of the standard implementation {standard:.2f}" if standard else ""
    return "right", f"worst error {correctness.worst_tolerance_share:.2f} of the tolerance{beside}"


def _misspelt_kernel(named: Sequence[str], launched: Set[str]) -> str:
    """What a profile names in place of a kernel that it launches, or nothing. At a tiny shape a rule may launch another
    kernel, or none, and import the rest later: only what is spelt nearly like one that was launched is told."""
    if not launched or not set(named).isdisjoint(launched | _triton_kernels()):
        return ""
    near = [close[0] for name in named if (close := get_close_matches(name, launched, n=1, cutoff=NEAR))]
    return f"kernel= names {' or '.join(named)}, which it does not launch; did you mean {near[0]!r}?" if near else ""


def _triton_kernels() -> set[str]:
    """The names of all functions under `triton.jit`, for the compiler and for the interpreter."""
    from triton.runtime.jit import KernelInterface

    # Asked of the type: some objects compute what `isinstance` looks at.
    kernels = (each for each in gc.get_objects() if issubclass(type(each), KernelInterface))
    return {str(getattr(getattr(kernel, "fn", None), "__name__", "")) for kernel in kernels}


def _named_kernels(profile: Profile, operator: str) -> tuple[str, ...]:
    """The Triton kernels that it must launch by name; nothing where they cannot be seen."""
    if profile.needs_nvcc or find_spec("triton") is None:  # there is none for macOS
        return ()
    return one_of((profile.kernels or {}).get(operator, ""))
