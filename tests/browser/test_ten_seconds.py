"""What a reader looks for first is found at once: on a screen without scrolling, on a phone within two screenfuls.

Of every experiment that is published, with its real evidence.
"""

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
SCREENS = ((1280, 800, 1), (320, 640, 2))  # width, height, and in how many screenfuls the answers have to be
GLANCE = """() => [[...document.querySelectorAll(".glance code")].map(it => it.innerText),
  [...document.querySelectorAll(".glance tbody tr")].map(
    row => [row.querySelectorAll("td")[2].innerText.trim(), row.querySelectorAll("data").length])]"""
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
    if page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth"):
        yield "the page is wider than the screen"
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


def test_answer_baseline_interval_boundary_and_command_are_seen_at_once(browser, published):
    """And the answer says how sure it is, and the command names the experiment."""
    faults = []
    with reader(browser) as seen:
        for name in MEASURED:
            seen.open(f"{published}/experiments/{name}/index.html")
            for width, height, screenfuls in SCREENS:
                seen.page.set_viewport_size({"width": width, "height": height})
                faults += [f"{name}, {width} px: {fault}" for fault in layout_faults(seen.page, height * screenfuls)]
            (command,), rows = seen.page.evaluate(GLANCE)
            assert f"--experiment {name}" in command, name
            assert rows, name
            assert all(figures for interval, figures in rows if interval != "–"), name
    assert MEASURED
    assert faults == []


def test_the_head_of_the_first_table_stays_in_sight(browser, published):
    with reader(browser, width=1280, height=500, reduced_motion="reduce") as seen:
        seen.open(f"{published}/index.html")
        seen.page.evaluate("document.querySelectorAll('.grid tbody')[3].scrollIntoView()")
        assert seen.page.evaluate("document.querySelector('.grid thead th').getBoundingClientRect().top") == 0
        assert seen.page.evaluate("scrollY") > 500
