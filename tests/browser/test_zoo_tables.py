"""The tables of the page of shapes, side by side where they fit and below one another where they do not."""

import pytest
from visits import visit

OVERFLOWING = """
[...document.querySelectorAll(".scroll")]
  .filter(each => each.scrollWidth > each.clientWidth).map(each => each.innerText)
"""


@pytest.mark.parametrize("width", [390, 800, 1100, 1265, 1440])
def test_no_column_is_cut_off(browser, served, width):
    with visit(browser, f"{served}/zoo/index.html", width=width) as seen:
        seen.page.wait_for_selector("table", state="attached")
        assert seen.page.locator(".columns.tables table").count() > 5
        assert seen.page.evaluate(OVERFLOWING) == []
        assert seen.page.evaluate("document.documentElement.scrollWidth") <= width
