"""Every kind of page in both themes, on a desk and on a phone: axe finds nothing, and nothing sticks out."""

from pathlib import Path

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
DESK, PHONE, HEIGHT = 1280, 320, 900
STATES = ("normalization-fusion", "gpu-ceilings", "softmax-fusion", "swiglu-fusion", "rmsnorm-rope-fusion")
PUBLISHED = ("index.html", "trust/index.html", "experiments/rope-fusion/index.html", "decisions/index.html")
RUN_AXE = """options => axe.run(document, options).then(found => found.violations.map(
  rule => rule.id + ": " + rule.nodes.slice(0, 3).map(node => node.html.slice(0, 160)).join(" | ")))"""
OPEN_ALL = "document.querySelectorAll('details').forEach(details => { details.open = true; })"
# Contrast is most of axe's time, and the same for all that is built alike and stands in the same place: two of each.
THIN_OUT = """() => {
  const met = new Map(), places = new Map();
  const place = element => {
    if (!places.has(element)) {
      const above = element.parentElement ? place(element.parentElement) : "";
      places.set(element, `${above}>${element.tagName}.${element.getAttribute("class")}`);
    }
    return places.get(element);
  };
  document.querySelectorAll("body :not(title, desc)").forEach(element => {
    if (!element.isConnected) { return; }
    const built = element.outerHTML.replace(/>[^<]+/g, ">")
      .replace(/ (?!(?:class|checked|open|hidden|aria-current)=)[-\\w:]+="[^"]*"/g, "");
    const shape = place(element.parentElement) + built;
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


def faults(browser, address: str, paths: list[str]) -> list[str]:
    """Each page is opened once, and then seen at both widths and in both themes.

    All of it is looked at on a desk; on a phone, whose width changes alike what is built alike, and for its colours,
    which are the same at every width, what is left of it when it is thinned out.
    """
    from axe_playwright_python.base import AXE_SCRIPT

    problems = []
    with reader(browser, width=DESK) as seen:

        def look(*script) -> None:
            for scheme in SCHEMES:
                seen.page.emulate_media(color_scheme=scheme)
                problems.extend(f"{path}, {scheme}: {fault}" for fault in seen.page.evaluate(*script))

        def resize(width: int) -> None:
            seen.page.set_viewport_size({"width": width, "height": HEIGHT})

        def structure(width: int) -> list[str]:
            return [f"{path}, {width} px: {rule}" for rule in seen.page.evaluate(RUN_AXE, STRUCTURE)]

        for path in paths:
            resize(DESK)
            seen.open(f"{address}/{path}")
            seen.page.evaluate(OPEN_ALL)
            seen.page.evaluate(AXE_SCRIPT)
            look(STICKING_OUT)
            problems += structure(DESK)
            resize(PHONE)
            look(STICKING_OUT)
            seen.page.evaluate(THIN_OUT)
            problems += structure(PHONE)
            look(RUN_AXE, COLOURS)
            problems += [f"{path}: {trouble}" for trouble in seen.troubles()]
    return problems


def test_every_kind_of_page_is_accessible_and_fits_in_both_themes(browser, site, served):
    assert faults(browser, served, representative(site)) == []


def test_published_pages_are_accessible_and_fit(browser, published):
    assert faults(browser, published, [*PUBLISHED]) == []


def test_the_checks_see_what_they_are_for(browser, tmp_path):
    """A page with a fault of each kind: otherwise a check that never runs would pass for ever."""
    (tmp_path / "index.html").write_text(
        "<!doctype html><html><head><title>t</title><style>@media (prefers-color-scheme: dark) { #by-night"
        "{ color:#aaa } }</style></head><body><p id='wide' style='width:2000px'>wide</p><p id='by-night'>pale</p>"
        "<script>document.createElement('x'); console.error('said')</script></body></html>"
    )
    problems = "\n".join(faults(browser, f"file://{tmp_path}", ["index.html"]))
    for fault in ("light: sticks out", "dark: sticks out", "html-has-lang", "console: said", "dark: color-contrast"):
        assert fault in problems
    assert "light: color-contrast" not in problems
