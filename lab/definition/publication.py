"""What a publication says about kernels, as plain values that an audit reads: tables, counters, statements.

SI units inside. None, and an empty text, mean that the publication does not say. An author copies what is printed;
least bytes and FLOPs are computed from the operator's own traffic model, never copied.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from lab.kernels.traffic import Traffic


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """What a GPU can do at most, by its maker. `flops_per_second` by data type, dense and never sparse."""

    gpu: str
    bytes_per_second: float
    flops_per_second: Mapping[str, float]
    l2_bytes: float
    source: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Captured:
    """What a profiler counted for one row."""

    seconds: float
    read_bytes: float
    written_bytes: float
    registers_per_thread: float | None
    dram_share: float | None = None  # of the memory's peak
    occupancy_share: float | None = None  # of the warps that a multiprocessor can hold

    @property
    def total_bytes(self) -> float:
        return self.read_bytes + self.written_bytes


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One case by one implementation. `label` is unique in its table."""

    label: str
    operator: str
    shape: str
    dtype: str
    profile: str
    work: Traffic | None = None
    matrix: str = ""  # the data type of its matrix products, where they are most of its FLOPs
    seconds: float | None = None
    bytes_per_second: float | None = None  # as printed
    flops_per_second: float | None = None  # as printed
    matrix_share: float | None = None  # of the GPU's matrix rate, as printed
    speedup: float | None = None  # as printed
    noise_ratio: float | None = None  # p95 / p50
    launches: int | None = None  # kernels that one call launches
    counters: Captured | None = None
    launch_bound: bool = False  # the publication itself says so
    working_set_bytes: float | None = None  # if the publication says that the cache served a part of it

    @property
    def case(self) -> str:
        return f"{self.operator} {self.shape} {self.dtype}".strip()

    @property
    def modelled_bytes(self) -> float | None:
        """What the publication must have divided by the row's time."""
        if self.bytes_per_second is None or self.seconds is None:
            return None
        return self.bytes_per_second * self.seconds

    @property
    def rated(self) -> bool:
        """Whether a rate or a speed-up is claimed from its time."""
        return any(value is not None for value in (self.bytes_per_second, self.flops_per_second, self.speedup))


@dataclass(frozen=True, kw_only=True, slots=True)
class Table:
    """Rows measured on one GPU by one clock. `cold`: the caches were emptied before each call."""

    title: str
    source: str
    limits: Limits
    scope: str  # what the clock covers; times of two scopes are never compared
    rows: tuple[Row, ...]
    cold: bool = False
    launch_floor_seconds: float = 0.0  # time of an empty kernel; 0 where it was not measured
    clock_step_seconds: float = 0.0  # 0 where it is not known


@dataclass(frozen=True, kw_only=True, slots=True)
class Aggregate:
    """One number for several speed-ups."""

    label: str
    source: str
    ratios: tuple[float, ...]
    said: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Headline:
    """A figure put above all others: of which case, by which implementation of a table, and how noisy."""

    label: str
    source: str
    case: str
    table: str = ""
    profile: str = ""
    listed: tuple[str, ...] = ()  # the cases that the publication lists
    noise_ratio: float | None = None
    noise_limit: float | None = None  # the publication's own


@dataclass(frozen=True, kw_only=True, slots=True)
class Selection:
    """What was measured under one question, and what of it is shown."""

    label: str
    source: str
    measured: tuple[str, ...]
    shown: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Tally:
    """A count of wins: for each case, how many rows of it were counted."""

    label: str
    source: str
    counted: Mapping[str, int]


@dataclass(frozen=True, kw_only=True, slots=True)
class StatedQuantity:
    """One quantity that the publication states, and what follows for it from its own formula or another of its figures.

    `unit` is one of those that lab.website.format.amount shows.
    """

    label: str
    source: str
    said: float
    follows: float
    unit: str
    basis: str  # where the second value comes from


@dataclass(frozen=True, kw_only=True, slots=True)
class StatedRange:
    """A range that the publication states for several of its rows, and their values."""

    label: str
    source: str
    values: Mapping[str, float]
    unit: str
    low: float = float("-inf")
    high: float = float("inf")


Statement = Aggregate | Headline | Selection | Tally | StatedQuantity | StatedRange


@dataclass(frozen=True, kw_only=True, slots=True)
class Replication:
    """Which cases of a publication an experiment here measures again, and which profile corresponds to which."""

    experiment: str
    cases: Mapping[str, str]  # case of a row → name of the experiment's case
    subject: str  # of the experiment
    baseline: str
    printed_subject: str  # of the publication's rows
    printed_baseline: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Publication:
    """Published results that are audited as one."""

    slug: str
    title: str
    source: str
    about: str  # in a sentence or two, what it is and what it does well
    tables: tuple[Table, ...]
    statements: tuple[Statement, ...] = ()
    replications: tuple[Replication, ...] = ()
