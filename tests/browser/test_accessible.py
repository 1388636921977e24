"""Every kind of page in both themes, on a phone and on a desk: axe finds nothing, and nothing sticks out."""

from pathlib import Path

import pytest
from visits import kinds, reader

TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
CONTRAST = "color-contrast"
# The size of targets belongs to wcag22aa, but axe asks for it only by name.
STRUCTURE = {
    "runOnly": {"type": "tag", "values": TAGS},
    "rules": {"target-size": {"enabled": True}, CONTRAST: {"enabled": False}},
    "resultTypes": ["violations"],
    "preload": False,  # axe would fetch the style sheet, which the pages' policy forbids
}
# What the theme can change: tests/website/test_palette.py holds it to that.
COLOURS = {"runOnly": {"type": "rule", "values": [CONTRAST, "link-in-text-block"]}, "resultTypes": ["violations"],
           "preload": False}  # fmt: skip
SCHEMES = ("light", "dark")
STATES = ("normalization-fusion", "gpu-ceilings", "softmax-fusion", "swiglu-fusion", "rmsnorm-rope-fusion")
PUBLISHED = ("index.html", "trust/index.html", "experiments/rope-fusion/index.html", "decisions/index.html")
RUN_AXE = """options => axe.run(document, options).then(found => found.violations.map(
  rule => rule.id + ": " + rule.nodes.slice(0, 3).map(node => node.html.slice(0, 160)).join(" | ")))"""
OPEN_ALL = "document.querySelectorAll('details').forEach(details => { details.open = true; })"
# Contrast is most of axe's time, and the same for all that is built alike: two of each kind of row are asked for it.
THIN_OUT = """() => {
  const met = new Map();
  document.querySelectorAll("tr, li, svg g, .scroll").forEach(element => {
    const shape = element.outerHTML.replace(/>[^<]+/g, ">").replace(/ (?!class=)[-\\w:]+="[^"]*"/g, "");
    met.set(shape, (met.get(shape) || 0) + 1);
    if (met.get(shape) > 2) { element.remove(); }
  });
}"""
# The elements that stick out, not what scrolls inside a region of its own.
STICKING_OUT = """() => document.documentElement.scrollWidth <= document.documentElement.clientWidth ? [] :
  [...document.querySelectorAll("body *")].filter(element =>
    element.getBoundingClientRect().right > document.documentElement.clientWidth + 0.5
    && !element.parentElement.closest(".scroll, pre, svg")
  ).slice(0, 5).map(element => "sticks out: " + element.outerHTML.slice(0, 160))"""


def representative(site: Path) -> list[str]:
    """Of every kind of page the largest, and an experiment in each state that it may be in."""
    pages = sorted(path.relative_to(site).as_posix() for path in site.rglob("*.html"))
    chosen = {f"experiments/{name}/index.html" for name in STATES}
    largest = {max(paths, key=lambda path: (site / path).stat().st_size) for paths in kinds(pages).values()}
    return sorted(chosen | largest)


def faults(
    browser, address: str, paths: list[str], width: int, schemes: tuple[str, ...] = SCHEMES, colours: bool = True
) -> list[str]:
    """Each page is opened once, and then seen in one theme after the other."""
    from axe_playwright_python.base import AXE_SCRIPT

    problems = []
    with reader(browser, width=width) as seen:

        def look(*script) -> None:
            for scheme in schemes:
                seen.page.emulate_media(color_scheme=scheme)
                problems.extend(f"{path}, {scheme}: {fault}" for fault in seen.page.evaluate(*script))

        for path in paths:
            seen.open(f"{address}/{path}")
            seen.page.evaluate(OPEN_ALL)
            seen.page.evaluate(AXE_SCRIPT)
            look(STICKING_OUT)
            problems += [f"{path}: {rule}" for rule in seen.page.evaluate(RUN_AXE, STRUCTURE)]
            if colours:
                seen.page.evaluate(THIN_OUT)
                look(RUN_AXE, COLOURS)
            problems += [f"{path}: {trouble}" for trouble in seen.troubles()]
    return problems


@pytest.mark.parametrize("width", [320, 1280])
def test_every_kind_of_page_is_accessible_and_fits_in_both_themes(browser, site, served, width):
    # A page has the same colours at every width, and to ask for them is most of the time.
    assert faults(browser, served, representative(site), width, colours=width == 1280) == []


@pytest.mark.parametrize(("width", "scheme"), [(320, "dark"), (1280, "light")])
def test_published_pages_are_accessible_and_fit(browser, published, width, scheme):
    assert faults(browser, published, [*PUBLISHED], width, (scheme,)) == []


def test_the_checks_see_what_they_are_for(browser, tmp_path):
    """A page with a fault of each kind: otherwise a check that never runs would pass for ever."""
    (tmp_path / "index.html").write_text(
        "<!doctype html><html><head><title>t</title><style>@media (prefers-color-scheme: dark) { #by-night"
        "{ color:#aaa } }</style></head><body><p id='wide' style='width:2000px'>wide</p><p id='by-night'>pale</p>"
        "<script>document.createElement('x'); console.error('said')</script></body></html>"
    )
    problems = "\n".join(faults(browser, f"file://{tmp_path}", ["index.html"], 320))
    for fault in ("light: sticks out", "dark: sticks out", "html-has-lang", "console: said", "dark: color-contrast"):
        assert fault in problems
    assert "light: color-contrast" not in problems
