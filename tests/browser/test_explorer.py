"""The chart to explore: plotly comes from the site itself after a click, draws, and uploads nothing."""

import pytest
from visits import visit

PAGES = ("normalization-fusion", "gpu-ceilings")


def charts(page) -> list[str]:
    """The buttons of a page, by the chart that each opens."""
    return [button.get_attribute("data-explore") for button in page.locator("[data-explore]").all()]


@pytest.fixture(params=["http", "file"])
def address(request, site, served) -> str:
    return served if request.param == "http" else f"file://{site}"


@pytest.fixture(params=["light", "dark"])
def seen(request, browser, address):
    path = f"{address}/experiments/normalization-fusion/index.html"
    with visit(browser, path, color_scheme=request.param) as seen:
        yield seen


def test_plotly_is_asked_for_only_by_a_click(seen):
    asked: list[str] = []
    seen.page.on("request", lambda request: asked.append(request.url))
    assert seen.page.evaluate("typeof window.Plotly") == "undefined"
    names = charts(seen.page)
    assert names
    for name in names:
        seen.page.click(f"[data-explore='{name}']")
        seen.page.wait_for_selector(f"#{name} .main-svg")
    assert len(asked) == 1, "one library serves every chart of the page"
    assert "/assets/plotly-" in asked[0]
    assert seen.troubles() == []


def test_it_draws_every_point_of_the_picture_in_the_page(seen):
    seen.page.click("[data-explore='speedups-plot']")
    seen.page.wait_for_selector("#speedups-plot .main-svg")
    drawn = seen.page.locator("#speedups-plot .scatterlayer .point").count()
    whiskers = seen.page.locator("#speedups > .scroll .whisker").count()
    assert drawn == whiskers > 10
    assert seen.page.locator("#speedups-plot .scatterlayer").first.bounding_box()["height"] > 100


def test_it_can_upload_nothing(seen):
    seen.page.click("[data-explore='speedups-plot']")
    seen.page.wait_for_selector("#speedups-plot .main-svg")
    plot = "document.getElementById('speedups-plot')"
    chosen = seen.page.evaluate(f"(({{_context: c}}) => [c.showSendToCloud, c.plotlyServerURL, c.displaylogo])({plot})")
    assert chosen == [False, "", False]
    titles = seen.page.evaluate(
        f"[...{plot}.querySelectorAll('.modebar-btn')].map(button => button.dataset.title || '')"
    )
    assert len(titles) > 3, "the bar was looked at"
    assert [
        title for title in titles if any(word in title.lower() for word in ("share", "cloud", "send", "edit"))
    ] == []
    assert seen.page.locator("#speedups-plot a[href^='http']").count() == 0


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
