"""The sizes of a case under their usual names, so that runs can be filtered and plotted by size. Pure.

A plan holds a shape without names. Families of operators are known by the beginning of their names; any other shape of
two axes is rows and columns, as everywhere in the lab.
"""

from collections.abc import Mapping

from lab.definition.plan import PlannedCase

PRODUCT = ("M", "N", "K")
GROUPED_HEADS = ("batch", "q_heads", "k_heads", "tokens", "head_size")
# The first that fits the name and the number of axes.
FAMILIES = (
    ("matmul", PRODUCT),
    ("gemm", PRODUCT),
    ("fp8-gemm", PRODUCT),
    ("fp8-linear", PRODUCT),
    ("rmsnorm-linear", PRODUCT),
    ("gated-mlp", PRODUCT),
    ("attention", GROUPED_HEADS),
    ("attention", ("batch", "q_heads", "k_heads", "queries", "keys", "head_size")),
    ("decode-attention", GROUPED_HEADS),
    ("rope-qk", GROUPED_HEADS),
    ("qk-norm-rope", GROUPED_HEADS),
    ("rmsnorm-rope", ("batch", "tokens", "heads", "head_size")),
    ("rope", ("batch", "heads", "tokens", "head_size")),
)
USUAL = {1: ("elements",), 2: ("rows", "columns")}


def sizes(case: PlannedCase) -> Mapping[str, int]:
    """Every axis by its name, then `bytes`, the least that must be moved, and `flops`."""
    axes = zip(axis_names(case.op, len(case.shape)), case.shape, strict=True)
    return {**dict(axes), "bytes": case.least_bytes, "flops": case.flops}


def axis_names(operator: str, axes: int) -> tuple[str, ...]:
    """'axis_1', 'axis_2', … where nothing better is known."""
    for family, names in FAMILIES:
        if len(names) == axes and (operator == family or operator.startswith(f"{family}-")):
            return names
    return USUAL.get(axes) or tuple(f"axis_{number}" for number in range(1, axes + 1))
