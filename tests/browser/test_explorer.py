"""The chart to explore: plotly comes from the site itself after a click, draws, and uploads nothing."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from playwright.sync_api import Page
from visits import reader, visit

PAGES = ("normalization-fusion", "gpu-ceilings")


def charts(page) -> list[str]:
    """The buttons of a page, by the chart that each opens."""
    return [button.get_attribute("data-explore") for button in page.locator("[data-explore]").all()]


@pytest.fixture(scope="module", params=["http", "file"])
def address(request, site, served) -> str:
    return served if request.param == "http" else f"file://{site}"


@dataclass(frozen=True)
class Explored:
    """A page all of whose charts were opened, and what was asked for meanwhile."""

    page: Page
    asked_before: list[str]
    asked: list[str]
    troubles: list[str]


@pytest.fixture(scope="module", params=["light", "dark"])
def explored(request, browser, address) -> Iterator[Explored]:
    with reader(browser, color_scheme=request.param) as seen:
        asked: list[str] = []
        seen.page.on("request", lambda request: "/assets/plotly-" in request.url and asked.append(request.url))
        seen.open(f"{address}/experiments/normalization-fusion/index.html")
        asked_before = [*asked, *seen.page.evaluate("typeof window.Plotly === 'undefined' ? [] : ['Plotly']")]
        for name in charts(seen.page):
            seen.page.click(f"[data-explore='{name}']")
            seen.page.wait_for_selector(f"#{name} .main-svg")
        yield Explored(seen.page, asked_before, asked, seen.troubles())


def test_plotly_is_asked_for_only_by_a_click(explored):
    assert explored.asked_before == []
    assert len(explored.asked) == 1, "one library serves every chart of the page"
    assert explored.page.locator(".main-svg").count() > 1
    assert explored.troubles == []


def test_it_draws_every_point_of_the_picture_in_the_page(explored):
    drawn = explored.page.locator("#speedups-plot .scatterlayer .point").count()
    whiskers = explored.page.locator("#speedups > .scroll .whisker").count()
    assert drawn == whiskers > 5
    assert explored.page.locator("#speedups-plot .scatterlayer").first.bounding_box()["height"] > 100


def test_it_can_upload_nothing(explored):
    plot = "document.getElementById('speedups-plot')"
    chosen = explored.page.evaluate(
        f"(({{_context: c}}) => [c.showSendToCloud, c.plotlyServerURL, c.displaylogo])({plot})"
    )
    assert chosen == [False, "", False]
    titles = explored.page.evaluate(
        f"[...{plot}.querySelectorAll('.modebar-btn')].map(button => button.dataset.title || '')"
    )
    assert len(titles) > 3, "the bar was looked at"
    assert [
        title for title in titles if any(word in title.lower() for word in ("share", "cloud", "send", "edit"))
    ] == []
    assert explored.page.locator("#speedups-plot a[href^='http']").count() == 0


def test_a_library_that_does_not_load_leaves_the_page_usable(browser, served):
    with visit(browser, f"{served}/experiments/normalization-fusion/index.html") as seen:
        seen.page.route("**/plotly-*", lambda route: route.abort())
        seen.page.click("[data-explore='speedups-plot']")
        button = seen.page.locator("[data-explore='speedups-plot']")
        button.get_by_text("did not load").wait_for()
        assert button.is_enabled()


@pytest.mark.parametrize("name", PAGES)
def test_every_chart_of_a_page_can_be_explored_by_keyboard(browser, served, name):
    with visit(browser, f"{served}/experiments/{name}/index.html") as seen:
        for chart in charts(seen.page):
            seen.page.focus(f"[data-explore='{chart}']")
            seen.page.keyboard.press("Enter")
            seen.page.wait_for_selector(f"#{chart} .main-svg")
        assert seen.troubles() == []
