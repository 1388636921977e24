"""An experiment's page in a browser: its contest is read at either width, and folds open where a link leads."""

import pytest
from visits import visit

PAGE = "experiments/normalization-fusion/index.html"
SMALLEST = 10.5  # px, of a text in a chart
TEXTS = """chart => [...document.querySelectorAll(`${chart} svg text`)].map(text => {
  const svg = text.ownerSVGElement;
  const scale = svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
  const box = text.getBoundingClientRect();
  return {size: parseFloat(getComputedStyle(text).fontSize) * scale, left: box.left, right: box.right};
})"""


@pytest.mark.parametrize("width", [1366, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_contest_comes_before_the_table_and_is_read_without_scrolling_sideways(browser, served, width, scheme):
    with visit(browser, f"{served}/{PAGE}", width=width, color_scheme=scheme) as seen:
        texts = seen.page.evaluate(TEXTS, "#contest")
        assert len(texts) > 5
        assert [text for text in texts if text["size"] < SMALLEST] == []
        assert [text for text in texts if text["left"] < 0 or text["right"] > width] == []
        tops = [seen.page.locator(name).first.bounding_box()["y"] for name in ("#contest svg", "table.cells")]
        assert tops == sorted(tops)
        assert seen.page.evaluate("document.documentElement.scrollWidth") <= width
        assert seen.troubles() == []


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_history_is_read_without_scrolling_sideways(browser, served, width, scheme):
    with visit(browser, f"{served}/{PAGE}#history", width=width, color_scheme=scheme) as seen:
        seen.page.locator("#history svg").first.wait_for(state="visible")
        texts = seen.page.evaluate(TEXTS, "#history")
        assert len(texts) > 5
        assert [text for text in texts if text["size"] < SMALLEST] == []
        assert [text for text in texts if text["left"] < 0 or text["right"] > width] == []
        assert seen.page.evaluate("document.documentElement.scrollWidth") <= width


def test_every_interval_of_the_contest_has_a_length_and_a_colour(browser, served):
    with visit(browser, f"{served}/{PAGE}") as seen:
        drawn = seen.page.evaluate(
            "[...document.querySelectorAll('#contest .whisker')].map(line => "
            "[line.getBoundingClientRect().width, getComputedStyle(line).stroke])"
        )
        assert any(width > 2 for width, _ in drawn)
        assert "none" not in [stroke for _, stroke in drawn]


def test_what_is_folded_is_closed_at_first_and_opens_where_a_link_leads(browser, served):
    with visit(browser, f"{served}/{PAGE}") as seen:
        assert not seen.page.locator("#limits").is_visible()
    with visit(browser, f"{served}/{PAGE}#limits") as seen:
        seen.page.locator("#limits").wait_for(state="visible")


def test_a_fold_opens_by_keyboard(browser, served):
    with visit(browser, f"{served}/{PAGE}") as seen:
        seen.page.locator(".folds summary").first.focus()
        seen.page.keyboard.press("Enter")
        assert seen.page.locator(".folds details").first.get_attribute("open") is not None
        assert seen.troubles() == []
