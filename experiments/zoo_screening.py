"""How often is the lab's kernel level with the best? Experiments over a sample of the zoo.

`zoo-OPERATOR-COUNT` is an experiment with COUNT calls of the operator from `zoo.py`. The name determines the sample.
Level is a kernel within two per cent of the best rival, a product within ten per cent of cuBLAS.
"""

import hashlib
import math
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from experiments.fp8_quantization import FP8_QUANTIZATION
from experiments.matmul_tiling import GEMM, MATMUL_TILING
from experiments.normalization_fusion import NORMALIZATION_FUSION
from experiments.rmsnorm_rope_fusion import RMSNORM_ROPE_FUSION
from experiments.rope_fusion import ROPE_FUSION
from experiments.softmax_fusion import SOFTMAX_FUSION
from experiments.swiglu_fusion import SWIGLU_FUSION, geglu_tanh_written_out, swiglu_written_out
from experiments.tunables import TUNABLES
from experiments.zoo import LAYOUTS, Visit, operators, product_bytes, visits
from lab import EDGES, Case, Claim, Experiment, Operator, Profile
from lab.kernels.matmul import matmul
from lab.kernels.rope import rope_qk_


@dataclass(frozen=True, slots=True)
class Goal:
    """From which ratio to the best rival on a kernel is level with it, the same in words, and what a profiler shows."""

    level: float
    within: str
    signal: str


USUAL = Goal(0.98, "two per cent", "DRAM bytes at the least traffic.")
GOALS = {
    "matmul": Goal(0.9, "ten per cent", "Tensor-pipe use near the library's; of few rows, DRAM bytes at the least."),
}
SCOPES = ("device_cold", "graph")
RIVALS = ("torch-fused", "torch-compile", "liger", "quack", "torch-matmul")
SOURCES = (
    NORMALIZATION_FUSION, SOFTMAX_FUSION, SWIGLU_FUSION, ROPE_FUSION, FP8_QUANTIZATION, RMSNORM_ROPE_FUSION,
    MATMUL_TILING,
)  # fmt: skip
# Large inputs make sums beyond the range of float16, and of two honest products one may round to infinity where the
# other rounds to the largest number.
PRODUCT = replace(GEMM, edges=tuple(edge for edge in EDGES if edge not in ("large-mean", "large-scale")))
CALLS = {tunable.operator.name: (tunable.operator, tunable.entry) for tunable in TUNABLES} | {
    "matmul": (PRODUCT, matmul)
}
IN_PLACE = {"rope-qk": rope_qk_}  # what a rival that works in place is held against
ODD_IN = 4
# Their tolerance is the rounding of a result to 16 bits. In float32 every step rounds as coarsely as the result, in
# PyTorch's own functions too: there the formula written out is the standard.
STANDARDS = {"swiglu": swiglu_written_out, "geglu-tanh": geglu_tanh_written_out}
# Of the first tensor, of a product of its three together: a smaller call takes as long as its launch in every
# implementation.
FEWEST_BYTES = 2**20


def zoo_experiment(name: str) -> Experiment | None:
    """The experiment called `name`, or None if no sample is called so."""
    match = re.fullmatch(rf"zoo-({'|'.join(operators())})-([1-9]\d*)", name)
    return _experiment(name, match[1], int(match[2])) if match else None


def zoo_names(chosen: tuple[str, ...], count: int) -> list[str]:
    """The names of the experiments with `count` calls of each operator in `chosen`, or of all if it is empty."""
    return [f"zoo-{operator}-{count}" for operator in chosen or operators()]


def sample(operator: str, count: int) -> list[Visit]:
    """`count` calls of the operator, one in ODD_IN of an odd size, in the order of a digest of their names.

    Calls on fewer than FEWEST_BYTES are left out, and so are calls on views, which an experiment's inputs cannot be.
    Where models make fewer calls, there are as many as they make: `rmsnorm-rope` has only one caller.
    """
    fit = [visit for visit in visits(operator) if visit.layout == LAYOUTS[0] and _bytes(visit) >= FEWEST_BYTES]
    fit.sort(key=lambda visit: hashlib.sha256(visit.name.encode()).hexdigest())
    odd = [visit for visit in fit if not visit.callers][: count // ODD_IN]
    return [visit for visit in fit if visit.callers][: count - len(odd)] + odd


def _bytes(visit: Visit) -> int:
    elements = 4 if visit.dtype == "float32" else 2
    sizes = visit.shape
    if len(sizes) == 3:
        return product_bytes(sizes, elements)
    if len(sizes) == 5:
        batch, heads, kv_heads, positions, features = sizes
        return batch * (heads + kv_heads) * positions * features * elements
    return math.prod(sizes) * elements


def _experiment(name: str, operator: str, count: int) -> Experiment:
    called, kernel = CALLS[operator]
    goal = GOALS.get(operator, USUAL)
    cases = tuple(case_of(called, visit) for visit in sample(operator, count))
    lab = _lab(called.name, kernel, goal)
    rivals = [p for source in SOURCES for p in source.profiles if p.name in RIVALS and called.name in p.implementations]
    ours = [_in_place(lab, called.name) if rival.in_place else lab for rival in rivals]
    claims = tuple(
        _level(mine, rival, cases, scope, goal.level)
        for scope in SCOPES
        for mine, rival in zip(ours, rivals, strict=True)
    )
    return Experiment(
        name=name,
        title=f"The zoo: {operator} at {len(cases)} shapes",
        question=f"How often is the lab's {operator} within {goal.within} of the best, at shapes of public models?",
        importance="A kernel is of use to others where it is fast at their shapes, not at those that it was tuned for.",
        focus="Launch rules",
        cases=cases,
        profiles=(lab, *(mine for mine in ours if mine.in_place), *rivals),
        claims=claims,
        headlines=claims[: len(rivals)],
        does_not_show=("What holds at shapes that are not in the sample, or on another GPU.",),
        metrics={"Latency": ("p50 latency", "best rival's p50 over the lab's")},
        scopes=SCOPES,
    )


def case_of(operator: Operator, visit: Visit) -> Case:
    callers = visit.callers
    more = f" and {len(callers) - 1} more" if len(callers) > 1 else ""
    about = f"as {callers[0]}{more} calls it" if callers else "an odd size, of no model"
    if visit.dtype == "float32" and operator.name in STANDARDS:
        operator = replace(operator, standard=STANDARDS[operator.name])
    return Case(operator=operator, shape=visit.shape, dtype=visit.dtype, description=about)


def _lab(operator: str, kernel: Callable[..., Any], goal: Goal) -> Profile:
    return Profile(
        name="lab",
        title="the lab's kernel",
        technique="The kernel of this repository, as its rule launches it.",
        hypothesis=f"Within {goal.within} of the best rival at nineteen shapes of twenty.",
        signal=goal.signal,
        implementations={operator: lambda: kernel},
        devices=("cuda",),
    )


def _in_place(lab: Profile, operator: str) -> Profile:
    """As a rival in place does, it writes where it has read: a result elsewhere takes other lines of memory too."""
    return replace(
        lab, name="lab-in-place", title="the lab's kernel, in place", in_place=True,
        implementations={operator: lambda: IN_PLACE[operator]},
    )  # fmt: skip


def _level(subject: Profile, rival: Profile, cases: tuple[Case, ...], scope: str, level: float) -> Claim:
    graph = scope == "graph"
    return Claim(
        name=f"level-with-{rival.name}{'-in-graphs' if graph else ''}",
        text=(
            f"{subject.title.capitalize()} is at least {level} times as fast as {rival.title} at every shape of the "
            f"sample{', replayed in a CUDA graph' if graph else ''}."
        ),
        subject=subject,
        baseline=rival,
        cases=cases,
        scope=scope,
        threshold=level,
    )
