"""Numbers for people, at the edge: one rule per quantity, uncertainty to two digits."""

import math
from collections.abc import Callable

from lab import quantities
from lab.quantities import UNITS
from lab.verdict.judge import Verdict
from lab.verdict.statistics import Speedup, per_cent

Show = Callable[[float], str]
LONG_SECONDS = 0.01
MOST_PLACES = 7  # of a ratio; as many as data hold of it
LARGE = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))
# Unit of an audit's figure → prefixes, largest first, and name.
QUANTITIES = {
    "seconds": (((1e-3, "m"), (1e-6, "µ")), "s"), "bytes": (LARGE[1:], "B"), "bytes_per_second": (LARGE[1:], "B/s"),
    "flops": (LARGE, "FLOP"), "flops_per_second": (LARGE, "FLOP/s"), "hertz": (LARGE, "Hz"),
}  # fmt: skip


significant = quantities.significant
# In the units of lab.quantities, without their symbols.
microseconds: Show = UNITS["seconds"].text
megabytes: Show = UNITS["bytes"].text
kilobytes: Show = UNITS["bytes_per_block"].text
gigabytes_per_second: Show = UNITS["bytes_per_second"].text
teraflops_per_second: Show = UNITS["flops_per_second"].text
megahertz: Show = UNITS["hertz"].text
share: Show = UNITS["_share"].text
times: Show = UNITS["ratio"].text  # a ratio without an interval: '3.53×', '0.998×'


def brief_microseconds(seconds: float) -> str:
    """For a column in µs, three significant digits: '23.6', '1204' of a long one, and '54.4 ms' from 10 ms on."""
    return f"{significant(seconds * 1e3, 3)} ms" if seconds >= LONG_SECONDS else significant(seconds * 1e6, 3)


def brief_time(seconds: float) -> str:
    """The same with its unit: '23.6 µs'."""
    return brief_microseconds(seconds) + (" µs" if seconds < LONG_SECONDS else "")


def ratio_places(low: float, high: float) -> int:
    """Decimals that show an interval's half-width with two digits; at least two, at most three."""
    half_width = max((high - low) / 2, 1e-9)
    return min(3, max(2, 1 - math.floor(math.log10(half_width))))


def ratio(value: float, low: float, high: float, threshold: float | None = None, brief: bool = False) -> str:
    """'1.334×', with the decimals that its interval warrants, and those that tell it from a threshold beside it. A
    brief one, for running text, has three significant digits, and more only beside a threshold."""
    places = brief_places(value) if brief else ratio_places(low, high)
    return beside(threshold, lambda v: f"{v:.{places}f}×")(value)


def interval(low: float, high: float, threshold: float | None = None, brief: bool = False) -> str:
    """'[1.331, 1.337]'. A brief one has more than three significant digits where both ends would read the same."""
    places = brief_places(low) if brief else ratio_places(low, high)
    if f"{low:.{places}f}" == f"{high:.{places}f}":
        places = ratio_places(low, high)
    show = beside(threshold, lambda v: f"{v:.{places}f}")
    return f"[{show(low)}, {show(high)}]"


def beside(threshold: float | None, show: Show) -> Show:
    """`show`, with more decimals where a value would else read as on a threshold, or beyond it, and is not.

    1.0197 beside 1.02 stays 1.0197, where hundredths would say that it reaches it.
    """

    def precise(value: float) -> str:
        text = show(value)
        if threshold is None:
            return text
        plain = text.rstrip("×")
        places = len(plain.partition(".")[2])
        while _side(float(plain), threshold) != _side(value, threshold) and places < MOST_PLACES:
            places += 1
            plain = f"{value:.{places}f}"
        return plain + text[len(text.rstrip("×")) :]

    return precise


def _side(value: float, threshold: float) -> int:
    return (value > threshold) - (value < threshold)


def ratio_interval(speedup: Speedup) -> str:
    return f"{ratio(speedup.ratio, speedup.low, speedup.high)} {interval(speedup.low, speedup.high)}"


def verdict_ratio(verdict: Verdict) -> str:
    """'1.334× [1.331, 1.337]' of a speed-up, '3.53× the bytes, 474 MB against 134 MB' of traffic, or nothing."""
    if verdict.compared_bytes:
        both = (megabytes(verdict.compared_bytes.baseline_bytes), megabytes(verdict.compared_bytes.subject_bytes))
        return f"{times(verdict.compared_bytes.ratio)} the bytes, {both[0]} MB against {both[1]} MB"
    return ratio_interval(verdict.speedup) if verdict.speedup else ""


def brief_places(ratio: float) -> int:
    """Decimals that make three significant digits."""
    return 3 if ratio < 1 else 2 if ratio < 10 else 1


def threshold(value: float) -> str:
    """'1.02×', and below parity '0.134×'."""
    return f"{value:.{brief_places(value)}f}×" if value >= 1 else times(value)


def noise(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def error(value: float) -> str:
    """An absolute error in two digits: '0.0039', and '3.4e-07' where it would be a row of noughts."""
    return f"{value:.1e}" if 0 < value < 1e-4 or value >= 1e6 else significant(value, 2)


def scaled(size: float) -> Show:
    """So many times smaller, in three significant digits."""
    return lambda value: significant(value / size, 3)


gigabytes, terabytes_per_second = scaled(1e9), scaled(1e12)  # without their symbols


def duration(seconds: float) -> str:
    """'41.2 s', '18.0 min', '2.51 h'."""
    scale, unit = (1, "s") if seconds < 120 else (60, "min") if seconds < 7200 else (3600, "h")
    return f"{significant(seconds / scale, 3)} {unit}"


def tenths_of_percent(value: float) -> str:
    """A share with its sign: '99.9 %'."""
    return per_cent(value, 1)


def whole_percent(share: float) -> str:
    """A share in whole per cent, for a column that says so: '4'."""
    return f"{100 * share:.0f}"


def distance(seconds: float) -> str:
    """A difference of times in µs, in three digits but no less than a hundredth: '387', '−0.31'."""
    value = seconds * 1e6  # rounded once only: 34.749 is 34.7, and by way of 34.75 it would be 34.8
    text = significant(value, 3) if abs(value) >= 1 else f"{value:.2f}"
    return text.replace("-", "−") if float(text) else text.lstrip("-")  # of no difference there is no minus


def day(utc: str) -> str:
    """The date of an ISO time."""
    return utc[:10]


def minute(utc: str) -> str:
    """'2026-11-21 06:34 UTC' of an ISO time."""
    return f"{utc[:10]} {utc[11:16]} UTC"


def counted(number: int, thing: str) -> str:
    """'1 run', '3 runs'."""
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def amount(value: float, unit: str) -> str:
    """A figure of an audit with its unit: '13.31 µs', '4930 GB/s', '26.64 %', '9.4×'."""
    if unit == "count":
        return f"{value:,.0f}"
    if unit == "share":
        return f"{_short(value * 100)} %"
    if unit in ("ratio", "number"):
        return _short(value) + ("×" if unit == "ratio" else "")
    prefixes, name = QUANTITIES[unit]
    scale, prefix = next((pair for pair in prefixes if value >= pair[0]), prefixes[-1])
    return f"{_short(value / scale)} {prefix}{name}"


def _short(value: float) -> str:
    """Four significant digits, less the zeros that a decimal fraction ends in."""
    text = significant(value, 4)
    return text.rstrip("0").rstrip(".") if "." in text else text
