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
    ("seconds", "text"),
    [(387.2e-6, "387"), (2.214e-6, "2.21"), (-0.31e-6, "−0.31"), (0.042e-6, "0.04"), (-0.001e-6, "0.00"),
     (34.74947e-6, "34.7"), (116.5013e-6, "117"), (0.997e-6, "1.00")],
)  # fmt: skip
def test_a_distance_has_no_more_decimals_than_a_clock_can_tell(seconds: float, text: str) -> None:
    assert format.distance(seconds) == text
