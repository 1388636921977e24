"""The operators of the zoo against float64, launched as the rule launches its shapes, on a few rows of each. Products
are not among them, because the launch of one depends on all its sizes: `lab zoo matmul` checks those that it measures.

Which memory a program reads and writes depends on a row's width and address, the dtype and the configuration, and not
on the number of rows: two programs tell as much as thousands. In CI the interpreter runs them; on a GPU so do
`./scripts/sanitize` and `./scripts/test`. LAB_ZOO_SHAPES is how many of each operator, so many that a GPU may take an
hour for all.
"""

import hashlib
import os
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator
from itertools import chain, islice, zip_longest

import pytest
import torch
from torch import Tensor

from experiments.tunables import TUNABLES
from experiments.zoo import LAYOUTS, Shape, Visit, operators, visits
from experiments.zoo_screening import case_of
from lab import Tunable
from lab.kernels.checks import interpreting
from lab.kernels.cluster import is_cluster
from lab.kernels.launch import Configuration
from lab.kernels.layernorm import layernorm_without_clusters
from lab.kernels.rmsnorm import rmsnorm_without_clusters
from lab.kernels.rows import norm_rule
from lab.kernels.softmax import softmax_without_clusters
from lab.worker.correctness import check_profile

COUNT = int(os.environ.get("LAB_ZOO_SHAPES", "40"))
TUNABLE = {tunable.operator.name: tunable for tunable in TUNABLES}
OPERATORS = tuple(operator for operator in operators() if operator != "matmul")
WITHOUT_CLUSTERS = {
    "softmax": softmax_without_clusters, "rmsnorm": rmsnorm_without_clusters, "layernorm": layernorm_without_clusters,
    "add-rmsnorm": norm_rule,
}  # fmt: skip
AT_ONCE = 16  # bytes: what a thread loads, and the multiple in which memory is allocated
StandIn = tuple[Shape, Visit, Configuration]


def stand_ins(operator: str) -> Iterator[StandIn]:
    """A few rows of every call in the zoo, with the rule's launch for all of them; each once."""
    seen = set()
    for visit in visits(operator):
        chosen = TUNABLE[operator].tuning.rule(visit.shape, itemsize(visit))
        if is_cluster(chosen) and (interpreting() or visit.layout != LAYOUTS[0]):
            chosen = WITHOUT_CLUSTERS[operator](visit.shape, itemsize(visit))
        shape = few_rows(visit.shape, chosen)
        key = shape, visit.dtype, visit.layout, chosen
        if key not in seen:
            seen.add(key)
            yield shape, visit, chosen


def few_rows(shape: Shape, chosen: Configuration) -> Shape:
    """Two programs, the second of which has fewer rows; of heads one group."""
    rows = dict(chosen.constants).get("ROWS", 1) + 1
    if len(shape) == 2:
        return min(shape[0], rows), shape[1]
    if len(shape) == 4:
        batch, positions, heads, features = shape
        positions = min(positions, -(-rows // min(batch, 2)))
        return min(batch, -(-rows // positions)), positions, heads, features
    batch, heads, kv_heads, positions, features = shape
    return min(batch, 2), heads // kv_heads, 1, min(positions, 3), features


def kind(stand_in: StandIn) -> Hashable:
    shape, visit, chosen = stand_in
    aligned = shape[-1] * itemsize(visit) % AT_ONCE == 0
    return visit.dtype, visit.layout, aligned, tuple(name for name, _ in chosen.constants)


def sample(operator: str) -> list[StandIn]:
    """COUNT of them, of every kind in turn."""
    kinds = defaultdict(list)
    for each in sorted(stand_ins(operator), key=lambda each: hashlib.sha256(each[1].name.encode()).hexdigest()):
        kinds[kind(each)].append(each)
    return list(islice(filter(None, chain.from_iterable(zip_longest(*kinds.values()))), COUNT))


def itemsize(visit: Visit) -> int:
    return 4 if visit.dtype == "float32" else 2


def placed(x: Tensor, layout: str) -> Tensor:
    """`x` with its rows as the layout says, in memory of its own of whole 16 bytes, which a kernel may read."""
    gap, before = int(layout == "padded"), int(layout == "offset")
    strides = (x.stride(0) + gap, *x.stride()[1:])
    elements = before + 1 + sum((size - 1) * stride for size, stride in zip(x.shape, strides, strict=True))
    memory = x.new_zeros(-(-elements * x.itemsize // AT_ONCE) * AT_ONCE // x.itemsize)
    return memory.as_strided(x.shape, strides, before).copy_(x)


def wrong(tunable: Tunable, stand_ins: Iterable[StandIn], device: str) -> Iterator[str]:
    for shape, visit, chosen in stand_ins:
        operator = case_of(tunable.operator, visit).operator
        first, *others = operator.inputs(shape, getattr(torch, visit.dtype), device, 1)
        inputs = (placed(first, visit.layout), *(placed(each, LAYOUTS[0]) for each in others))

        def call(*inputs: Tensor, chosen: Configuration = chosen) -> object:
            return tunable.entry(*inputs, configuration=chosen)

        checked = check_profile(operator, call, [inputs], (1,))
        if not checked.passed:
            yield f"{visit.name} as {shape}, {chosen}: {checked.message}"


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # numpy's, of infinities in the interpreter
@pytest.mark.parametrize("operator", OPERATORS)
def test_it_is_right_at_the_shapes_of_the_zoo(operator: str, device: str) -> None:
    assert list(wrong(TUNABLE[operator], sample(operator), device)) == []


@pytest.mark.parametrize("operator", OPERATORS)
def test_the_sample_holds_every_kind_of_launch_dtype_and_layout(operator: str) -> None:
    assert {kind(each) for each in sample(operator)} == {kind(each) for each in stand_ins(operator)}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_view_holds_the_same_numbers_in_whole_16_bytes(layout: str) -> None:
    x = torch.arange(15.0, dtype=torch.float16).view(3, 5)
    view = placed(x, layout)
    assert torch.equal(view, x)
    assert view.untyped_storage().nbytes() % AT_ONCE == 0
    assert (view.stride(0), view.storage_offset()) == {"contiguous": (5, 0), "padded": (6, 0), "offset": (5, 1)}[layout]
