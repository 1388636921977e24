"""Without a mouse: everything that can be used is reached, in order, and is seen to be."""

from pathlib import Path

from test_accessible import THIN_OUT
from visits import kinds, reader, visit

# Where Tab may stop: what can be used and is shown.
STOPS = """() => [...document.querySelectorAll(
    "a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex='0']")]
  .filter(element => element.checkVisibility() && !element.disabled).length"""
# Notes at each Tab where the one before it has led, which by then was scrolled to.
MARK = """() => {
  window.stops = [];
  document.addEventListener("keydown", () => {
    const here = document.activeElement;
    if (here === document.body || here.dataset.reached) { return; }
    here.dataset.reached = "yes";
    const style = getComputedStyle(here), box = here.getBoundingClientRect();
    window.stops.push({
      name: here.outerHTML.slice(0, 120), outlined: style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0,
      shown: box.width > 0 && box.right > 0 && box.bottom > 0 && box.top < innerHeight,
    });
  }, true);
}"""
MISSED = """() => [...document.querySelectorAll(
    "a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex='0']")]
  .filter(element => element.checkVisibility() && !element.disabled && !element.dataset.reached)
  // Tab stops at the chosen one of a radio group; arrow keys reach the others.
  .filter(element => element.type !== "radio" || element.checked ||
    !document.querySelector(`input[type=radio][name="${element.name}"]:checked`)?.dataset.reached)
  .slice(0, 5).map(element => element.outerHTML.slice(0, 120))"""
# The pages' policy refuses what Playwright polls with.
HEED = """region => {
  window.scrolled = new Promise((done, fail) => {
    region.addEventListener("scroll", () => done(), { once: true });
    setTimeout(fail, 10000, "nothing scrolled");
  });
}"""
MOST_STOPS = 80  # of a page with more than so many, two of all that is built alike are left


def walked(page) -> list[dict]:
    """Every stop of Tab, which is pressed often enough to come round."""
    page.evaluate(MARK)
    for _ in range(page.evaluate(STOPS) + 1):
        page.keyboard.press("Tab")
    return page.evaluate("window.stops")


def test_tab_reaches_all_that_can_be_used_on_every_kind_of_page(browser, site, served):
    with reader(browser, reduced_motion="reduce") as seen:
        for path in _fullest(site):
            seen.open(f"{served}/{path}")
            if seen.page.evaluate(STOPS) > MOST_STOPS:
                seen.page.evaluate(THIN_OUT)
            stops = walked(seen.page)
            assert seen.page.evaluate(MISSED) == [], path
            assert [stop["name"] for stop in stops if not stop["outlined"]] == [], f"{path}: focus is not seen"
            assert [stop["name"] for stop in stops if not stop["shown"]] == [], f"{path}: focus is out of sight"
            assert 'class="skip"' in stops[0]["name"], path


def test_the_skip_link_leads_past_the_navigation(browser, served):
    with visit(browser, f"{served}/decisions/index.html") as seen:
        seen.page.keyboard.press("Tab")
        assert seen.page.evaluate("document.activeElement.getBoundingClientRect().left") >= 0
        seen.page.keyboard.press("Enter")
        seen.page.keyboard.press("Tab")
        assert seen.page.evaluate("document.getElementById('content').contains(document.activeElement)")


def test_a_table_wider_than_a_phone_scrolls_by_keyboard(browser, served):
    with visit(browser, f"{served}/experiments/normalization-fusion/index.html#limits", width=320) as seen:
        wide = "each => each.checkVisibility() && each.scrollWidth > each.clientWidth"
        region = f"[...document.querySelectorAll('.scroll')].find({wide})"
        assert seen.page.evaluate(f"{region}.tabIndex") == 0
        seen.page.evaluate(f"{region}.focus()")
        seen.page.evaluate(f"({HEED})({region})")
        seen.page.keyboard.press("ArrowRight")
        seen.page.evaluate("window.scrolled")
        assert seen.page.evaluate(f"{region}.scrollLeft") > 0


def _fullest(site: Path) -> list[str]:
    """Of every kind the page with the most that can be used."""
    pages = sorted(path.relative_to(site).as_posix() for path in site.rglob("*.html"))
    return [max(paths, key=lambda path: _controls(site / path)) for paths in kinds(pages).values()]


def _controls(page: Path) -> int:
    text = page.read_text(encoding="utf-8")
    return sum(text.count(mark) for mark in ("<a ", "<button", "<summary", "<input", "<select", 'tabindex="0"'))


def test_search_finds_and_opens_by_keyboard(browser, site):
    """From a folder too, where nothing can be fetched."""
    with visit(browser, f"file://{site}/search/index.html") as seen:
        seen.page.keyboard.press("/")
        assert seen.page.evaluate("document.activeElement.id") == "query"
        seen.page.keyboard.type("normalization")
        seen.page.wait_for_selector("#found a")
        seen.page.keyboard.press("ArrowDown")
        address = seen.page.evaluate("document.activeElement.href")
        assert "normalization" in address
        seen.page.keyboard.press("Enter")
        seen.page.wait_for_url(address)
        assert seen.troubles() == []


def test_a_long_table_is_sorted_by_keyboard(browser, site):
    """By the numbers behind its figures, and the other way round at the second press."""
    with visit(browser, f"file://{site}/experiments/gpu-ceilings/index.html") as seen:
        table = seen.page.locator("table:has(th.num .sort)").first
        heading = table.locator("th.num .sort").first
        column = heading.evaluate("button => button.parentNode.cellIndex")
        read = """(table, at) => [...table.tBodies[0].rows].map(row => row.cells[at].querySelector("data"))
          .filter(Boolean).map(datum => parseFloat(datum.value))"""
        heading.focus()
        seen.page.keyboard.press("Enter")
        up = table.evaluate(read, column)
        seen.page.keyboard.press("Enter")
        down = table.evaluate(read, column)
        assert len(up) > 1
        assert (up, down) == (sorted(up), sorted(up, reverse=True))
        assert seen.troubles() == []


def test_two_runs_are_compared_by_keyboard(browser, site):
    with visit(browser, f"file://{site}/compare/index.html") as seen:
        link = seen.page.locator("details .pairs a").first
        pair = Path(link.get_attribute("href")).parent.name
        seen.page.locator("main summary").first.focus()
        seen.page.keyboard.press("Enter")
        seen.page.keyboard.press("Tab")
        assert link.evaluate("each => each === document.activeElement")
        seen.page.keyboard.press("Enter")
        seen.page.wait_for_url(f"**/compare/{pair}/index.html")
        assert seen.troubles() == []
