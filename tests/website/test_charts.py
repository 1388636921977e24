"""Where charts put their marks and labels."""

import dataclasses
import itertools
import re

import pytest

from lab.website.charts.lines import Line, Point, ladder_chart
from lab.website.charts.rows import Bar, Dot, Strip, axis_of, bars, panel, strips
from lab.website.charts.svg import Scale, label_lines, si, spread
from lab.website.pages.ceilings import rung_point


def test_labels_that_crowd_are_spread_in_their_order() -> None:
    assert spread([50.0, 51.0, 10.0], gap=10, low=0, high=100) == [50.0, 60.0, 10.0]
    assert spread([98.0, 99.0, 97.0], gap=10, low=0, high=100) == [90.0, 100.0, 80.0]
    assert spread([-5.0], gap=10, low=0, high=100) == [0.0]


def test_a_long_name_has_two_lines_so_that_two_names_can_be_told_apart() -> None:
    assert label_lines("Triton RMSNorm + Linear", 21) == ["Triton RMSNorm +", "Linear"]
    assert label_lines("torch.compile", 21) == ["torch.compile"]
    endless = label_lines("an endless name " * 9, 21)
    assert len(endless) == 2
    assert endless[1].endswith("…")
    assert all(len(words) <= 21 for words in [*endless, *label_lines("x" * 99, 21)])


def test_a_name_of_two_lines_takes_the_room_of_two() -> None:
    names = [["one"], ["two", "lines"], ["three", "lines"]]
    assert spread([50.0, 50.0, 50.0], gap=10, low=0, high=100, names=names) == [50.0, 60.0, 83.0]
    assert spread([99.0, 99.0, 99.0], gap=10, low=0, high=100, names=names) == [54.0, 64.0, 87.0]


def test_rows_with_long_names_hold_them_whole_and_do_not_overlap() -> None:
    long, other = "Triton, norm weight folded", "Triton, norm weight read first"
    dots = [dataclasses.replace(dot(1.0), label=name) for name in (long, other, "torch.compile")]
    drawings = [
        panel("a", "A", dots, axis_of([dots], (1.0, 1.02), "left is faster", 2.0)),
        bars("b", "B", [Bar(label=each.label, series="triton", value=1.0, text="1") for each in dots], 1.0),
        strips(
            "c",
            "C",
            [Strip(label=each.label, series="triton", values=[1.0], text="1") for each in dots],
            (1, 1),
            (1, 1),
            "",
        ),
    ]
    for drawn in drawings:
        lines = re.findall(r'<(?:text|tspan) x="0" y="([\d.]+)"[^>]*>([^<]+)<', drawn)
        assert " ".join(words for _, words in lines) == f"{long} {other} torch.compile"
        heights = [float(y) for y, _ in lines]
        assert all(after - before >= 12 for before, after in itertools.pairwise(heights))
        ((_, height),) = re.findall(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', drawn)
        assert heights[-1] < float(height)


@pytest.mark.parametrize("values", [[0.98, 1.1], [0.29, 3.2], [0.5, 1.3], [0.05, 20.0]], ids=str)
def test_the_texts_of_a_logarithmic_axis_do_not_overlap(values: list[float]) -> None:
    drawn = strips(
        "a",
        "A",
        [Strip(label="a", series="triton", values=values, text="1")],
        (0.98, 1.02),
        (min(values), max(values)),
        "",
    )
    at = sorted(float(x) for x in re.findall(r'<text x="([\d.]+)"[^>]*class="tick"', drawn))
    assert at
    assert "1×" in (told := re.findall(r">([\d.]+×)</text>", drawn))
    assert min(float(each.rstrip("×")) for each in told) <= 0.7, "how much slower something is can be read"
    assert all(after - before >= 30 for before, after in itertools.pairwise(at))


def test_a_scale_is_logarithmic() -> None:
    scale = Scale(low=0.5, high=200.0, start=0.0, end=300.0)
    assert scale.decades() == [1.0, 10.0, 100.0]
    assert scale.at(10.0) - scale.at(1.0) == pytest.approx(scale.at(100.0) - scale.at(10.0), abs=0.2)


@pytest.mark.parametrize(
    ("value", "text"), [(1e12, "1 TB"), (1e8, "100 MB"), (10.0, "10 B"), (0.1, "0.1 B"), (1e15, "1 PB")]
)
def test_round_values_have_the_prefix_that_keeps_them_short(value: float, text: str) -> None:
    assert si(value, "B") == text


def rung(number: int, size: float, speed: float) -> Point:
    return rung_point({"bytes": size, "bytes_per_second": speed}, f"line {number}", hollow=False)


def lines(*speeds: float) -> list[Line]:
    return [
        Line(
            label=f"line {n}",
            series="triton",
            points=tuple(rung(n, *each) for each in ((2e6, speed / 3), (2e9, speed))),
        )
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
