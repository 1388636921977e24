"""Every quantity that the lab measures: its unit, its label, how it is shown, how kernels add up, which way is better.

A datum is called after its quantity, with the unit at the end: `p50_seconds`, `dram_read_bytes`, `l2_hit_percent`. So
one look at the end of a name finds the unit, and one look at the whole name finds the label. Pages, CSV files, JSON
Schemas and the metrics in MLflow take both from here. (`lab verify` has units of its own, to check these.)
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Literal

Better = Literal["", "lower", "higher"]
OverCall = Literal["", "sum", "mean"]  # of a call's kernels; a mean is weighted by their durations


@dataclass(frozen=True, kw_only=True, slots=True)
class Unit:
    """`about` says what data hold. Pages show the datum times `factor` in `symbol`; MLflow too, in names with `tag`."""

    about: str
    symbol: str = ""
    factor: float = 1.0
    digits: int = 3  # significant ones
    places: int | None = None  # decimals, where their number is fixed instead
    tag: str = ""

    def text(self, value: float) -> str:
        """A datum as pages show it. Its symbol appears in headings; only × appears after the number."""
        shown = value * self.factor
        text = significant(shown, self.digits) if self.places is None else f"{shown:.{self.places}f}"
        return text + "×" if self.symbol == "×" else text


@dataclass(frozen=True, kw_only=True, slots=True)
class Quantity:
    """`label` is its heading in a table."""

    label: str
    better: Better = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Counter(Quantity):
    """A quantity that Nsight Compute counts, under its own name for it. `over_call` where a whole call has it too."""

    ncu: str
    over_call: OverCall = ""
    shown: bool = True  # on pages


# The end of a name → its unit; the first that fits.
UNITS: Mapping[str, Unit] = {
    "bytes_per_second": Unit(about="In bytes a second.", symbol="GB/s", factor=1e-9, tag="gbps"),
    "flops_per_second": Unit(
        about="In floating-point operations a second.", symbol="TFLOP/s", factor=1e-12, tag="tflops"
    ),
    "tokens_per_second": Unit(about="In tokens a second.", symbol="tokens/s"),
    "_seconds_per_cell_and_sweep": Unit(about="In seconds, of one cell in one sweep.", symbol="s", places=2),
    "step_seconds": Unit(about="In seconds.", symbol="ns", factor=1e9, places=0, tag="ns"),
    "wall_seconds": Unit(about="In seconds.", symbol="s"),
    "profiling_seconds": Unit(about="In seconds.", symbol="s"),
    "prepare_seconds": Unit(about="In seconds.", symbol="s", digits=2),
    "compile_seconds": Unit(about="In seconds.", symbol="s", digits=2),
    "autotune_seconds": Unit(about="In seconds.", symbol="s", digits=2),
    "seconds": Unit(about="In seconds.", symbol="µs", factor=1e6, digits=4, tag="us"),
    "joules_per_sweep": Unit(about="In joules a sweep.", symbol="J", places=0),
    "flops_per_byte": Unit(about="In floating-point operations a byte.", symbol="FLOP/B"),
    "bytes_per_block": Unit(about="In bytes a block.", symbol="kB", factor=1e-3),
    "bytes": Unit(about="In bytes.", symbol="MB", factor=1e-6, tag="mb"),
    "hertz": Unit(about="In hertz.", symbol="MHz", factor=1e-6, places=0),
    "watts": Unit(about="In watts.", symbol="W", places=0),
    "celsius": Unit(about="In degrees Celsius.", symbol="°C", places=0),
    "percent": Unit(about="In per cent.", symbol="%", places=1, tag="pct"),
    "_share": Unit(about="As a share of 1.", symbol="%", factor=100, places=1, tag="pct"),
    "attained": Unit(about="As a share of 1.", symbol="%", factor=100, places=1, tag="pct"),
    "noise_ratio": Unit(about="A ratio, without a unit.", places=2, tag="ratio"),
    "ratio": Unit(about="A ratio, without a unit.", symbol="×", tag="ratio"),
    "registers_per_thread": Unit(about="Registers a thread.", places=0),
    "_warps": Unit(about="Warps, on average."),
    "_utc": Unit(about="A moment in UTC, ISO 8601."),
    "sha256": Unit(about="A SHA-256, in hexadecimal digits."),
}
NO_UNIT = Unit(about="")

# What Nsight Compute counts of a kernel. The names are fields of lab.evidence.record.Kernel, in the order of pages.
COUNTERS: Mapping[str, Counter] = {
    "duration_seconds": Counter(label="Time", ncu="gpu__time_duration.sum", better="lower", over_call="sum"),
    "dram_read_bytes": Counter(label="DRAM read", ncu="dram__bytes_read.sum", better="lower", over_call="sum"),
    "dram_written_bytes": Counter(label="DRAM written", ncu="dram__bytes_write.sum", better="lower", over_call="sum"),
    "dram_percent": Counter(
        label="DRAM", ncu="dram__throughput.avg.pct_of_peak_sustained_elapsed", better="higher", over_call="mean"
    ),
    "occupancy_percent": Counter(
        label="Occupancy", ncu="sm__warps_active.avg.pct_of_peak_sustained_active", better="higher", over_call="mean"
    ),
    "theoretical_occupancy_percent": Counter(
        label="Allowed", ncu="sm__maximum_warps_per_active_cycle_pct", better="higher", over_call="mean"
    ),
    "registers_per_thread": Counter(label="Registers", ncu="launch__registers_per_thread", better="lower"),
    "shared_bytes_per_block": Counter(label="Shared", ncu="launch__shared_mem_per_block", better="lower"),
    "l1_hit_percent": Counter(label="L1 hits", ncu="l1tex__t_sector_hit_rate.pct", better="higher", over_call="mean"),
    "l2_hit_percent": Counter(label="L2 hits", ncu="lts__t_sector_hit_rate.pct", better="higher", over_call="mean"),
    "sm_percent": Counter(
        label="SM", ncu="sm__throughput.avg.pct_of_peak_sustained_elapsed", better="higher", over_call="mean"
    ),
    "tensor_percent": Counter(
        label="Tensor pipe", ncu="sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active", better="higher",
        over_call="mean",
    ),
    # The clock of the profiler's pass, which is not that of any timing.
    "sm_hertz": Counter(label="SM clock", ncu="sm__cycles_elapsed.avg.per_second", shown=False),
}  # fmt: skip
# All other data that tables show under a name of their own.
MEASURED: Mapping[str, Quantity] = {
    "p50_seconds": Quantity(label="Median", better="lower"),
    "p95_seconds": Quantity(label="95th percentile", better="lower"),
    "distance_seconds": Quantity(label="Above the reference", better="lower"),
    "noise_ratio": Quantity(label="Noise", better="lower"),
    "between_sweep_spread": Quantity(label="Spread between sweeps", better="lower"),
    "bytes_per_second": Quantity(label="Bandwidth", better="higher"),
    "flops_per_second": Quantity(label="Rate", better="higher"),
    "tokens_per_second": Quantity(label="Throughput", better="higher"),
    "attained": Quantity(label="Of the reference", better="higher"),
    "ratio": Quantity(label="Speed-up", better="higher"),
    "dram_bytes": Quantity(label="DRAM traffic", better="lower"),
    "peak_memory_bytes": Quantity(label="Peak memory", better="lower"),
    "lowest_spin_hertz": Quantity(label="Lowest SM clock, by spins", better="higher"),
    "lowest_sm_hertz": Quantity(label="Lowest SM clock, by NVML", better="higher"),
    "largest_power_watts": Quantity(label="Largest power"),
    "largest_temperature_celsius": Quantity(label="Highest temperature", better="lower"),
    "energy_joules_per_sweep": Quantity(label="Energy of a sweep", better="lower"),
}
QUANTITIES: Mapping[str, Quantity] = {**COUNTERS, **MEASURED}


@cache
def unit_of(name: str) -> Unit:
    """The unit of a datum of that name; one without symbol where the table knows none."""
    return next((unit for ending, unit in UNITS.items() if name.endswith(ending)), NO_UNIT)


def heading_of(name: str) -> str:
    """'L2 hits, %': the label with the unit in which pages show it."""
    known, symbol = QUANTITIES.get(name), unit_of(name).symbol
    label = known.label if known else name.replace("_", " ").capitalize()
    return f"{label}, {symbol}" if symbol and symbol != "×" else label


def tracked(group: str, name: str) -> str:
    """The name of a datum in MLflow, with the unit of its value: 'ncu/l2_hit_pct'."""
    ending, unit = next(((e, unit) for e, unit in UNITS.items() if name.endswith(e)), ("", NO_UNIT))
    stem = name.removesuffix(ending).rstrip("_") if unit.tag else name
    return f"{group}/{'_'.join(part for part in (stem, unit.tag) if part)}"


def significant(value: float, digits: int) -> str:
    """`value` with that many significant digits and no exponent."""
    if value == 0:
        return "0"
    text = f"{value:#.{digits}g}"  # 0.9999 has the decimals of 1
    if "e" not in text:
        return text.rstrip(".")
    return f"{value:.{max(0, digits - 1 - int(text.partition('e')[2]))}f}"
