"""What a call of an operator is given at a case, found by making its inputs without their data.

The names are those of the reference, which is called with the inputs too.
"""

import inspect
import os
import pickle
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

from lab.definition.catalogue import sound_experiments
from lab.definition.dtypes import dtype_named
from lab.definition.experiment import Case, Operator
from lab.website.data.judged_cache import of_definitions
from lab.website.pages.labels import DTYPES, axes

INTERPRETED = "TRITON_INTERPRET"
MADE_BY = ("lab/website/pages/call_inputs.py", "lab/website/pages/labels.py")
Inputs = Mapping[str, str]  # by the name of each input, its size in words


def comment(experiment: str, case: str, op: str, shape: str, wanted: Sequence[str]) -> str:
    """'# a: (2048, 3584), b: (3584, 18944)' of the inputs `wanted`, else what the sizes of the shape are; nothing where
    neither is known."""
    found = _all_inputs().get((experiment, case), {})
    if wanted and all(name in found for name in wanted):
        return f"# {', '.join(f'{name}: {found[name]}' for name in wanted)}"
    return f"# {axes(op)}: {shape}" if axes(op) else ""


@cache
def _all_inputs() -> Mapping[tuple[str, str], Inputs]:
    made: Mapping[tuple[str, str], Inputs] = pickle.loads(
        of_definitions("call-inputs", lambda: pickle.dumps(dict(_made_now())), *MADE_BY)
    )
    return made


def _made_now() -> Iterator[tuple[tuple[str, str], Inputs]]:
    for experiment in sound_experiments():
        for case in experiment.cases:
            if not experiment.self_test and (found := inputs_of(case)):
                yield (experiment.name, case.name), found


def inputs_of(case: Case) -> Inputs:
    """Nothing where the inputs cannot be made without their data. Those without names are not made at all: parts of a
    model would make it without its data too, and keep it so."""
    names = [each.name for each in _parameters(case.operator)]
    made = _made(case) if names else ()
    if len(names) < len(made):
        return {}
    return {name: _told(value, case.dtype) for name, value in zip(names, made, strict=False)}


def input_names(case: Case) -> list[str]:
    """What the inputs are called; where they cannot be made, what the reference cannot be called without."""
    needed = [each.name for each in _parameters(case.operator) if each.default is each.empty]
    return list(inputs_of(case)) or needed


def _parameters(operator: Operator) -> list[inspect.Parameter]:
    """Those of the reference that are given in order, also where they have a default."""
    parameters = inspect.signature(operator.reference).parameters.values()
    return [each for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]


def _made(case: Case) -> tuple[Any, ...]:
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode

    try:
        with FakeTensorMode(), _kernels_take_the_cpu():
            return case.operator.inputs(case.shape, getattr(torch, dtype_named(case.dtype) or case.dtype), "cpu", 0)
    except Exception:  # whatever an author's function raises where tensors have no data
        return ()


@contextmanager
def _kernels_take_the_cpu() -> Iterator[None]:
    """Whether the lab's kernels take tensors of the CPU or not, a page is to say the same."""
    before = os.environ.get(INTERPRETED)
    os.environ[INTERPRETED] = "1"
    try:
        yield
    finally:
        os.environ.pop(INTERPRETED) if before is None else os.environ.update({INTERPRETED: before})


def _told(value: Any, dtype: str) -> str:
    """'(3584, 18944) fp8, strides (1, 3584)', of which what is usual is left out; of a number its value."""
    if not hasattr(value, "shape"):
        return repr(value)
    own = str(value.dtype).removeprefix("torch.")
    of_dtype = "" if own == dtype else f" {DTYPES.get(own, own)}"
    strides = "" if value.is_contiguous() else f", strides {tuple(value.stride())}"
    return f"{tuple(value.shape)}{of_dtype}{strides}"
