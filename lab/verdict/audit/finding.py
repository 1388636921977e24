"""What a rule says where it fires: figures with their units, and a sentence made of them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from lab.definition.publication import Publication


@dataclass(frozen=True, slots=True)
class Amount:
    """A figure and its unit: seconds, bytes, bytes_per_second, flops, flops_per_second, ratio, share, number, count."""

    value: float
    unit: str


Words = tuple[str | Amount, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """Where a rule is broken: `row` is a row of the table, or a statement's label where `table` is empty."""

    table: str
    row: str
    printed: Amount | None
    allowed: Amount | None  # what the hardware, or its other figures, allow
    words: Words


@dataclass(frozen=True, kw_only=True, slots=True)
class Rule:
    """A pure question to a publication. `principle` is the promise of this lab that it guards.

    What breaks a binding rule is not published here. The others find what is strange and yet may be true, such as a
    shape that a compiler serves badly: that is published, and named.
    """

    name: str
    statement: str
    principle: str
    find: Callable[[Publication], Iterator[Finding]]
    binding: bool = True


CEILING = "A published row cannot exceed a ceiling."
SPARSE = "No share of a sparse peak."
LAUNCH = "No bandwidth for rows that wait for a launch."
AGGREGATE = "No sums of speed-ups and no means of ratios."
COUNTERS = "Counters belong to the row that they stand beside, and traffic is reconciled with them."
RIVALS = "A headline is over a rival that makes use of the GPU."
CONSISTENT = "A publication does not contradict itself, and shows what it measured."
