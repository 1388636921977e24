"""The colours of the style sheet: read on their paper, and told apart also by those who see few colours."""

import itertools
import math
import re
from collections.abc import Iterator

import pytest

from lab.evidence.source import ROOT
from lab.tracking import overview
from lab.website.charts.svg import STYLES, series, style_sheet

STYLE = (ROOT / "site_templates" / "style.css").read_text(encoding="utf-8")
VERDICTS = ("supported", "refuted", "inconclusive", "missing", "noise")
TEXTS = ("ink", "soft", "link", *VERDICTS)
LEAST_CONTRAST, LEAST_OF_MARKS = 4.5, 3.0  # WCAG 1.4.3 and 1.4.11
LEAST_DIFFERENCE = 12.0
# Machado, Oliveira and Fernandes (2009), severity 1: linear RGB as it is seen by those who lack one kind of cone.
SEEN_BY = {
    "everybody": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protanopes": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "deuteranopes": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
    "tritanopes": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.303900)),
}
Triple = tuple[float, float, float]


def theme(name: str) -> dict[str, str]:
    """The style sheet's variables in a theme: those of the dark one stand over those of the light."""
    light, dark = {}, {}
    for sheet in (STYLE, style_sheet()):
        blocks = re.findall(r":root \{([^}]*)\}", sheet)
        for block_colours, block in zip((light, dark), blocks, strict=False):
            block_colours |= dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", block))
    return light if name == "light" else light | dark


def linear(colour: str) -> Triple:
    def channel(pair: str) -> float:
        value = int(pair, 16) / 255
        return value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4

    return channel(colour[1:3]), channel(colour[3:5]), channel(colour[5:7])


def contrast(one: str, other: str) -> float:
    """Of WCAG 2."""
    lights = [
        sum(w * c for w, c in zip((0.2126, 0.7152, 0.0722), linear(colour), strict=True)) for colour in (one, other)
    ]
    return (max(lights) + 0.05) / (min(lights) + 0.05)


def lab_of(colour: str, eyes: str) -> Triple:
    """CIELAB under D65 of a colour as those eyes see it."""
    rgb = linear(colour)
    red, green, blue = (min(1.0, max(0.0, sum(m * c for m, c in zip(row, rgb, strict=True)))) for row in SEEN_BY[eyes])
    x = (0.4124564 * red + 0.3575761 * green + 0.1804375 * blue) / 0.95047
    y = 0.2126729 * red + 0.7151522 * green + 0.0721750 * blue
    z = (0.0193339 * red + 0.1191920 * green + 0.9503041 * blue) / 1.08883
    fx, fy, fz = (t ** (1 / 3) if t > (6 / 29) ** 3 else t / (3 * (6 / 29) ** 2) + 4 / 29 for t in (x, y, z))
    return 116 * fy - 16, 500 * (fx - fy), 200 * (fy - fz)


def ciede2000(one: Triple, other: Triple) -> float:
    """Sharma, Wu and Dalal (2005)."""
    (l1, a1, b1), (l2, a2, b2) = one, other
    mean = (math.hypot(a1, b1) + math.hypot(a2, b2)) / 2
    g = 0.5 * (1 - math.sqrt(mean**7 / (mean**7 + 25**7)))
    a1, a2 = a1 * (1 + g), a2 * (1 + g)
    c1, c2 = math.hypot(a1, b1), math.hypot(a2, b2)
    h1, h2 = (math.degrees(math.atan2(b, a)) % 360 if a or b else 0.0 for a, b in ((a1, b1), (a2, b2)))
    turn = h2 - h1
    if c1 * c2 == 0:
        turn, hue = 0.0, h1 + h2
    else:
        hue = (h1 + h2) / 2
        if abs(turn) > 180:
            hue += 180 if h1 + h2 < 360 else -180
            turn += 360 if turn < 0 else -360
    lightness, chroma = l2 - l1, c2 - c1
    angle = 2 * math.sqrt(c1 * c2) * math.sin(math.radians(turn) / 2)
    middle, strength = (l1 + l2) / 2, (c1 + c2) / 2
    t = (
        1
        - 0.17 * math.cos(math.radians(hue - 30))
        + 0.24 * math.cos(math.radians(2 * hue))
        + 0.32 * math.cos(math.radians(3 * hue + 6))
        - 0.20 * math.cos(math.radians(4 * hue - 63))
    )
    sl = 1 + 0.015 * (middle - 50) ** 2 / math.sqrt(20 + (middle - 50) ** 2)
    sc, sh = 1 + 0.045 * strength, 1 + 0.015 * strength * t
    rotation = (
        -2
        * math.sqrt(strength**7 / (strength**7 + 25**7))
        * math.sin(math.radians(60 * math.exp(-(((hue - 275) / 25) ** 2))))
    )
    return math.sqrt(
        (lightness / sl) ** 2 + (chroma / sc) ** 2 + (angle / sh) ** 2 + rotation * (chroma / sc) * (angle / sh)
    )


def too_near(colours: dict[str, str]) -> Iterator[str]:
    for eyes in SEEN_BY:
        for (one, first), (other, second) in itertools.combinations(colours.items(), 2):
            distance = ciede2000(lab_of(first, eyes), lab_of(second, eyes))
            if distance < LEAST_DIFFERENCE:
                yield f"{one} and {other} to {eyes}: {distance:.1f}"


@pytest.mark.parametrize(
    ("one", "other", "difference"),
    [
        ((50, 2.6772, -79.7751), (50, 0, -82.7485), 2.0425), ((50, 2.5, 0), (50, 0, -2.5), 4.3065),
        ((50, 2.5, 0), (73, 25, -18), 27.1492), ((50, -1, 2), (50, 0, 0), 2.3669),
        ((60.2574, -34.0099, 36.2677), (60.4626, -34.1751, 39.4387), 1.2644),
        ((2.0776, 0.0795, -1.1350), (0.9033, -0.0636, -0.5514), 0.9082),
        ((90.8027, -2.0831, 1.4410), (91.1528, -1.6435, 0.0447), 1.4441),
    ],
)  # fmt: skip
def test_the_difference_of_two_colours_is_that_of_its_authors(one: Triple, other: Triple, difference: float) -> None:
    """Pairs of the table that they published for those who write such a function."""
    assert ciede2000(one, other) == pytest.approx(difference, abs=1e-4)
    assert ciede2000(other, one) == pytest.approx(difference, abs=1e-4)


def test_the_contrast_of_two_colours_is_that_of_the_guidelines() -> None:
    assert contrast("#ffffff", "#000000") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.478, abs=1e-3)


@pytest.mark.parametrize("name", ["light", "dark"])
def test_texts_and_verdicts_are_read_on_paper_and_on_panels(name: str) -> None:
    colours = theme(name)
    for text in TEXTS:
        for ground in ("paper", "panel"):
            assert contrast(colours[text], colours[ground]) >= LEAST_CONTRAST, f"{text} on {ground}"


@pytest.mark.parametrize("name", ["light", "dark"])
def test_verdicts_are_reported_apart_whoever_looks(name: str) -> None:
    assert [*too_near({verdict: theme(name)[verdict] for verdict in VERDICTS})] == []


@pytest.mark.parametrize("name", ["light", "dark"])
def test_series_are_read_and_told_apart_whoever_looks(name: str) -> None:
    colours = {key: colour for key, colour in theme(name).items() if key.startswith("series-")}
    assert len(colours) >= 5
    assert [key for key, colour in colours.items() if contrast(colour, theme(name)["paper"]) < LEAST_CONTRAST] == []
    assert [*too_near(colours)] == []


def test_series_differ_in_shape_too_and_have_a_class() -> None:
    assert len({style.shape for style in STYLES.values()}) == len(STYLES)
    for name in STYLES:
        assert f".s-{name} {{ --series: var(--series-{name}); }}" in style_sheet()


def test_a_library_is_never_drawn_as_the_labs_own_kernel() -> None:
    assert {series(name) for name in ("triton-matmul", "cuda-cpp", "two-stages")} == {"triton"}
    assert {series(name) for name in ("sdpa-cudnn", "fa4", "cublas", "torch-copy")} == {"torch-fused"}
    assert [series(name) for name in STYLES] == list(STYLES)


def test_the_marks_of_the_figure_in_mlflow_are_seen_on_its_own_paper() -> None:
    light, dark = re.findall(r"--paper: (#[0-9a-f]{6});", overview.STYLE)
    assert all(contrast(style.light, light) >= LEAST_OF_MARKS for style in STYLES.values())
    assert all(contrast(style.dark, dark) >= LEAST_OF_MARKS for style in STYLES.values())


def test_a_theme_changes_colours_and_nothing_else() -> None:
    """So that a page whose structure is accessible in one theme is so in the other."""
    (dark,) = re.findall(r"@media screen and \(prefers-color-scheme: dark\) \{(.*?\n)\}", STYLE, re.DOTALL)
    assert re.sub(r"--[\w-]+: #[0-9a-f]{6};|:root|[{}\s]", "", dark) == ""
    assert STYLE.count("prefers-color-scheme") == 1
