"""Where charts put their marks and labels."""

import dataclasses
import itertools
import random
import re

import pytest

from lab.website.charts.lines import Rungs, ladder_chart
from lab.website.charts.roofline import FRAME, Roof, RooflineChart, Spot, roofline_chart
from lab.website.charts.rows import Bar, Dot, axis_of, bars, panel
from lab.website.charts.svg import Area, Scale, box_of, si, spread

BANDWIDTHS = [
    Roof(label="measured copy, 3.03 TB/s", per_second=3.03e12, measured=True),
    Roof(label="datasheet, 3.35 TB/s", per_second=3.35e12, measured=False),
]
RATES = [
    Roof(label="float16, 665 TFLOP/s measured", per_second=665e12, measured=True),
    Roof(label="float16, 989 TFLOP/s datasheet", per_second=989e12, measured=False),
    Roof(label="TF32, 356 TFLOP/s measured", per_second=356e12, measured=True),
    Roof(label="TF32, 495 TFLOP/s datasheet", per_second=495e12, measured=False),
]


def spot(group: str, flops_per_byte: float, flops_per_second: float, hollow: bool = False) -> Spot:
    return Spot(
        case=group, group=group, profile="Triton", series="triton", flops_per_byte=flops_per_byte,
        flops_per_second=flops_per_second, hollow=hollow, text=group,
    )  # fmt: skip


def crowd(seed: int) -> RooflineChart:
    """Cells of several groups at nearly the same few intensities, as norms have them."""
    dice = random.Random(seed)
    spots = [
        spot(f"Operator {group} float16", intensity, intensity * 3e12 * dice.uniform(0.05, 1.0))
        for group, intensity in enumerate(dice.choice((0.875, 1.0, 1.25, 1.75, 40.0)) for _ in range(4))
        for _ in range(5)
    ]
    return roofline_chart(spots, BANDWIDTHS, RATES)


@pytest.mark.parametrize("seed", range(20))
def test_no_two_texts_of_a_roofline_overlap_and_none_lies_on_a_mark(seed: int) -> None:
    chart = crowd(seed)
    labels = [box_of(label.text) for label in chart.labels]
    texts = labels + [box_of(roof.label) for roof in chart.roofs]
    assert not [(one, other) for i, one in enumerate(texts) for other in texts[:i] if one.meets(other)]
    marks = [Area(left=m.x - 5, top=m.y - 5, right=m.x + 5, bottom=m.y + 5) for m in chart.marks]
    assert not [label for label in labels if any(label.meets(mark) for mark in marks)]


@pytest.mark.parametrize("seed", range(20))
def test_all_of_a_roofline_lies_inside_its_picture(seed: int) -> None:
    chart = crowd(seed)
    for mark in chart.marks:
        assert FRAME.left <= mark.x <= FRAME.right
        assert FRAME.top <= mark.y <= FRAME.bottom
    for box in (box_of(text) for text in [label.text for label in chart.labels] + [r.label for r in chart.roofs]):
        assert box.left >= 0
        assert box.right <= FRAME.width


def test_most_groups_of_a_roofline_are_labelled() -> None:
    """Where there is no room a label is left out, which must stay the exception."""
    wanted = [len({mark.spot.text for mark in chart.marks}) for chart in map(crowd, range(20))]
    assert sum(len(crowd(seed).labels) for seed in range(20)) > 0.8 * sum(wanted)


def test_a_cell_on_its_memorys_slope_is_drawn_on_it_and_a_faster_one_above() -> None:
    chart = roofline_chart([spot("a", 1.0, 3.03e12), spot("b", 1.0, 1e12)], BANDWIDTHS[:1], RATES[:1])
    slope = chart.roofs[0]
    share = (chart.marks[0].x - slope.x1) / (slope.x2 - slope.x1)
    assert chart.marks[0].y == pytest.approx(slope.y1 + share * (slope.y2 - slope.y1), abs=0.5)
    assert chart.marks[1].y > chart.marks[0].y


def test_a_slope_ends_where_the_level_of_its_kind_begins() -> None:
    chart = roofline_chart([spot("a", 1.0, 1e12)], BANDWIDTHS, RATES[:2])
    for dashed in (False, True):
        slope, level = (roof for roof in chart.roofs if roof.dashed == dashed)
        assert (slope.x2, slope.y2) == pytest.approx((level.x1, level.y1), abs=0.2)


def test_labels_that_crowd_are_spread_in_their_order() -> None:
    assert spread([50.0, 51.0, 10.0], gap=10, low=0, high=100) == [50.0, 60.0, 10.0]
    assert spread([98.0, 99.0, 97.0], gap=10, low=0, high=100) == [90.0, 100.0, 80.0]
    assert spread([-5.0], gap=10, low=0, high=100) == [0.0]


def test_a_scale_is_logarithmic_and_can_be_read_backwards() -> None:
    scale = Scale(low=0.5, high=200.0, start=0.0, end=300.0)
    assert scale.decades() == [1.0, 10.0, 100.0]
    assert scale.at(10.0) - scale.at(1.0) == pytest.approx(scale.at(100.0) - scale.at(10.0), abs=0.2)
    assert scale.value(scale.at(7.0)) == pytest.approx(7.0, rel=0.01)


@pytest.mark.parametrize(
    ("value", "text"), [(1e12, "1 TB"), (1e8, "100 MB"), (10.0, "10 B"), (0.1, "0.1 B"), (1e15, "1 PB")]
)
def test_round_values_have_the_prefix_that_keeps_them_short(value: float, text: str) -> None:
    assert si(value, "B") == text


def lines(*speeds: float) -> list[Rungs]:
    return [
        Rungs(label=f"line {n}", series="triton", hollow=False, points=((2e6, speed / 3), (2e9, speed)))
        for n, speed in enumerate(speeds)
    ]


def test_a_ladder_marks_where_the_cache_ends_and_the_datasheets_peak() -> None:
    chart = ladder_chart(lines(3e12), 52_428_800, 3.35e12)
    for label in ("L2, 52.4 MB", "datasheet, 3.35 TB/s", "line 0: 2000 MB at 3.00 TB/s"):
        assert label in chart
    small, large = (float(x) for x in re.findall(r'class="mark" d="M([\d.]+)', chart))
    (cache,) = re.findall(r'<line x1="([\d.]+)"[^>]*class="parity"', chart)
    assert small < float(cache) < large


def test_what_is_not_known_of_a_gpu_is_not_drawn_on_its_ladder() -> None:
    chart = ladder_chart(lines(3e12), 0, None)
    assert "parity" not in chart
    assert "datasheet" not in chart


def test_lines_that_end_together_have_labels_that_do_not() -> None:
    chart = ladder_chart(lines(3.00e12, 3.01e12, 3.02e12), 52_428_800, 3.35e12)
    heights = sorted(float(y) for y in re.findall(r'y="([\d.]+)">line \d', chart))
    assert len(heights) == 3
    assert all(after - before >= 14 for before, after in itertools.pairwise(heights))


# The contest


def dot(value: float, half: float = 0.01) -> Dot:
    return Dot(label="x", series="triton", value=value, low=value - half, high=value + half, text=f"{value:g}×")


def places(drawn: str) -> list[float]:
    return [float(x) for x in re.findall(r'class="mark" d="M([\d.]+)', drawn)]


def test_a_contests_axis_is_linear_and_shared() -> None:
    axis = axis_of([[dot(1.0), dot(1.2)], [dot(1.4)]], (1.0, 1.02), "left is faster", 2.0)
    one, two = places(panel("a", "A", [dot(1.0), dot(1.2)], axis))
    (three,) = places(panel("b", "B", [dot(1.4)], axis))
    assert two - one == pytest.approx(three - two, abs=0.2)


def test_an_interval_is_drawn_and_one_beyond_the_axis_is_cut_at_its_end() -> None:
    axis = axis_of([[dot(1.0), dot(1.2, 5.0)]], (1.0, 1.02), "left is faster", 1.25)
    drawn = panel("a", "A", [dot(1.2, 5.0)], axis)
    ((left, right),) = re.findall(r'<line x1="([\d.]+)"[^>]*x2="([\d.]+)"[^>]*whisker', drawn)
    assert (float(left), float(right)) == (axis.at(axis.low), axis.at(axis.high))
    assert "›" not in drawn


def test_a_value_beyond_the_axis_is_reported_and_not_drawn() -> None:
    axis = axis_of([[dot(1.0), dot(3.0)]], (1.0, 1.02), "left is faster", 1.25)
    drawn = panel("a", "A", [dot(3.0)], axis)
    assert "› 3×" in drawn
    assert places(drawn) == []


def test_bars_are_as_long_as_their_values() -> None:
    drawn = bars(
        "a", "A", [Bar(label=n, series="liger", value=v, text=n) for n, v in (("x", 0.5), ("y", 1.0))], 1.0, 1.0
    )
    half, whole = (float(width) for width in re.findall(r'class="mark"[^>]* width="([\d.]+)"', drawn))
    assert whole == pytest.approx(2 * half, abs=0.2)


def test_texts_in_a_drawing_are_no_markup() -> None:
    axis = axis_of([[dot(1.0)]], (1.0, 1.02), "left", 1.25)
    hostile = dataclasses.replace(dot(1.0), label="<b>bold</b>")
    assert "<b>" not in panel("a", "<i>A</i>", [hostile], axis)
