"""Numbers for people."""

import pytest

from lab.website import format


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [(23.614, 4, "23.61"), (1204.4, 4, "1204"), (0.00256, 3, "0.00256"), (0.99988, 3, "1.00"), (9.9996, 4, "10.00"),
     (-0.31415, 2, "-0.31"), (0, 3, "0")],
)  # fmt: skip
def test_significant_digits_are_counted_after_rounding(value: float, digits: int, text: str) -> None:
    assert format.significant(value, digits) == text


@pytest.mark.parametrize(
    ("seconds", "in_column", "alone"),
    [(23.64e-6, "23.6", "23.6 µs"), (1.2041e-3, "1204", "1204 µs"), (0.00999, "9990", "9990 µs"),
     (0.01, "10.0 ms", "10.0 ms"), (0.135894, "136 ms", "136 ms")],
)  # fmt: skip
def test_long_times_are_in_milliseconds_and_say_so(seconds: float, in_column: str, alone: str) -> None:
    assert (format.brief_microseconds(seconds), format.brief_time(seconds)) == (in_column, alone)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(387.2e-6, "387"), (2.214e-6, "2.21"), (-0.31e-6, "−0.31"), (0.042e-6, "0.04"), (-0.001e-6, "0.00"),
     (34.74947e-6, "34.7"), (116.5013e-6, "117"), (0.997e-6, "1.00")],
)  # fmt: skip
def test_a_distance_has_no_more_decimals_than_a_clock_can_tell(seconds: float, text: str) -> None:
    assert format.distance(seconds) == text


@pytest.mark.parametrize(
    ("value", "threshold", "text"),
    [(1.0155, 1.02, "1.016×"), (1.01996, 1.02, "1.01996×"), (1.0204, 1.02, "1.0204×"), (1.02, 1.02, "1.02×"),
     (0.976, 0.98, "0.976×"), (1.31, 1.02, "1.31×"), (1.0155, None, "1.02×")],
)  # fmt: skip
def test_no_figure_is_rounded_onto_a_threshold_or_across_it(value: float, threshold: float | None, text: str) -> None:
    assert format.beside(threshold, lambda v: f"{v:.2f}×")(value) == text


def test_an_interval_that_ends_short_of_a_threshold_is_seen_to() -> None:
    assert format.interval(0.991, 1.0196, 1.02) == "[0.991, 1.0196]"
    assert format.ratio(1.0197, 1.01, 1.04, 1.02) == "1.0197×"
    assert format.interval(1.0199, 1.14, 1.02, brief=True) == "[1.0199, 1.14]"
    assert format.interval(1.0163, 1.0246, brief=True) == "[1.016, 1.025]"  # not [1.02, 1.02]
