"""What a reader looks for first is found at once: on a screen without scrolling, on a phone within two screenfuls.

Of every experiment that is published, with its real evidence.
"""

import pytest
from visits import reader

from lab.evidence.source import ROOT

MEASURED = sorted(
    page.parent.name
    for page in (ROOT / "site" / "experiments").glob("*/index.html")
    if "No run of this experiment has been published yet." not in page.read_text(encoding="utf-8")
)
# Each question, and where its answer stands.
QUESTIONS = {
    "the answer": ".lede",
    "the verdict": ".glance tbody tr .verdict",
    "the baseline": ".glance tbody tr td:nth-child(3)",
    "the effect": ".glance tbody tr td:nth-child(4)",
    "the interval": ".glance tbody tr td:nth-child(5)",
    "the boundary": ".glance dl dd:first-of-type",
    "the command to reproduce": ".glance dl code",
}
PLACES = """(selector) => [...document.querySelectorAll(selector)].map(element => {
  const range = document.createRange();
  range.selectNodeContents(element);
  const box = range.getBoundingClientRect();
  const region = element.closest(".scroll");
  return {text: element.textContent.trim(), shown: element.checkVisibility() && box.width > 0,
    bottom: box.bottom + window.scrollY, left: box.left, right: box.right,
    edge: region ? region.getBoundingClientRect().right : innerWidth};
})"""


def layout_faults(page, limit: float):
    """Questions without an answer, and answers further down or further right than a reader sees at once."""
    for question, selector in QUESTIONS.items():
        places = page.evaluate(PLACES, selector)
        if not places:
            yield f"{question} is not there"
        for place in places:
            if not place["text"] or not place["shown"]:
                yield f"{question} is empty or hidden"
            if place["bottom"] > limit:
                yield f"{question} ends at {place['bottom']:.0f} px, beyond {limit}: {place['text'][:60]!r}"
            if place["left"] < 0 or place["right"] > place["edge"] + 1:
                yield f"{question} must be scrolled to sideways: {place['text'][:60]!r}"


@pytest.mark.parametrize(("width", "height", "screenfuls"), [(1280, 800, 1), (320, 640, 2)])
def test_answer_baseline_interval_boundary_and_command_are_seen_at_once(browser, published, width, height, screenfuls):
    faults = []
    with reader(browser, width=width, height=height) as seen:
        for name in MEASURED:
            seen.open(f"{published}/experiments/{name}/index.html")
            faults += [f"{name}: {fault}" for fault in layout_faults(seen.page, height * screenfuls)]
    assert MEASURED
    assert faults == []


def test_the_answer_says_how_sure_it_is_and_the_command_names_the_experiment(browser, published):
    with reader(browser) as seen:
        for name in MEASURED:
            seen.open(f"{published}/experiments/{name}/index.html")
            glance = seen.page.locator(".glance")
            assert f"--experiment {name}" in glance.locator("code").inner_text(), name
            rows = glance.locator("tbody tr").all()
            measured = [row for row in rows if row.locator("td").nth(2).inner_text() != "–"]
            assert rows, name
            for row in measured:
                assert row.locator("data").count() >= 1, name
