"""Checks of one profile before it is timed: compile it, compare it with float64, see which kernels it launches."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from lab.definition.experiment import Case, Profile, one_of
from lab.evidence.record import Correctness
from lab.worker.compiled import Compilation, compilation_of
from lab.worker.correctness import check_profile
from lab.worker.edges import edge_inputs
from lab.worker.input_pool import InputPool
from lab.worker.launches import interpreted, seen
from lab.worker.measure import Subject
from lab.worker.sweep_context import SweepContext
from lab.worker.unannounced import change_one, forgiving, unannounced_inputs

FELL_BACK = "fell back: its kernel {} was not launched"


class ProfileChecks:
    """Of the profiles of one case. `interpreted` names those whose kernels Triton's interpreter ran."""

    def __init__(self, context: SweepContext, experiment: str, case: Case, seeds: Sequence[int]) -> None:
        self._context, self._experiment, self._case, self._seeds = context, experiment, case, tuple(seeds)
        self.interpreted: set[str] = set()

    def compilation(self, profile: Profile, subject: Subject, pool: InputPool) -> Compilation:
        """Make the first call of a profile at this case."""

        def call() -> Any:
            return subject.function(*pool.pristine(0))

        return compilation_of(call, again=self._context.clock.device == "cuda", recompiles=profile.recompiles)

    def peak_memory_bytes(self, subject: Subject, pool: InputPool) -> int | None:
        arguments = pool.pristine(0)  # made before the call, and so no part of what it takes
        return self._context.clock.peak_memory_bytes(lambda: subject.function(*arguments))

    def graph_memory_bytes(self, before: Mapping[tuple[int, int], int]) -> int:
        """What CUDA graphs that a profile made hold by now. before: the pools of all graphs before its first call."""
        pools = self._context.clock.graph_pools()
        return sum(max(0, size - before.get(pool, 0)) for pool, size in pools.items())

    def correctness(self, profile: Profile, subject: Subject, pool: InputPool) -> Correctness:
        operator = self._case.operator
        sets = [pool.arguments(index) for index in range(len(self._seeds))]
        with seen() as launched, interpreted() as by_the_interpreter:
            correctness = check_profile(
                operator, subject.function, sets, self._seeds, in_place=profile.in_place, edges=self._edges(profile)
            )
        if by_the_interpreter:
            self.interpreted.add(profile.name)
        own = self.own_kernel(profile)
        if own and launched.isdisjoint(one_of(own)) and correctness.passed:
            return replace(correctness, passed=False, message=FELL_BACK.format(own))
        return self._check_unannounced(profile, subject, correctness) if correctness.passed else correctness

    def _check_unannounced(self, profile: Profile, subject: Subject, correctness: Correctness) -> Correctness:
        operator, dtype = self._case.operator, getattr(torch, self._case.dtype)
        if operator.costly_reference and self._context.sweep > 0:
            return correctness
        if not (unannounced := unannounced_inputs(operator, self._case.shape, dtype, self._context.clock.device)):
            return correctness
        kind, arguments = unannounced
        operator = forgiving(operator)
        for description in (kind, "one element was changed since the call before"):
            right = check_profile(operator, subject.function, [arguments], (), in_place=profile.in_place)
            if not right.passed:
                return replace(correctness, passed=False, message=f"inputs of which {description}: {right.message}")
            change_one(arguments)
        return correctness

    def own_kernel(self, profile: Profile) -> str:
        """The kernel that a profile names and must launch on a GPU, or nothing."""
        return (profile.kernels or {}).get(self._case.operator.name, "") if self._context.clock.device == "cuda" else ""

    def _edges(self, profile: Profile) -> Iterable[tuple[str, tuple[Any, ...]]]:
        """Edge inputs, once a run: each new shape or stride has to be compiled for, and the answer stays the same."""
        if (self._experiment, self._case.name, profile.name) not in self._context.edges:
            return ()
        dtype = getattr(torch, self._case.dtype)
        return edge_inputs(
            self._case.operator, self._case.shape, dtype, self._context.clock.device, own_form=profile.recompiles
        )
