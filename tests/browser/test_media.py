"""Readers who ask for less motion, and readers on paper."""

import pytest
from test_accessible import representative
from visits import reader, visit

MOVING = """[...document.querySelectorAll("*")].filter(element => {
  const style = getComputedStyle(element);
  return [style.animationDuration, style.transitionDuration].some(time => parseFloat(time) > 0)
    || style.scrollBehavior === "smooth";
}).map(element => element.outerHTML.slice(0, 80))"""
# What a reader of the paper could neither scroll to nor unfold.
UNPRINTED = """[...document.querySelectorAll("table")].filter(table => !table.checkVisibility()
    || getComputedStyle(table.parentElement).overflowX !== "visible"
  ).map(table => table.parentElement.getAttribute("aria-label"))"""
PAGE = "experiments/normalization-fusion/index.html"
PAPER = 718  # A4 between Chromium's margins, in pixels
SHRINKS = 1.5  # at most so much: what is still wider is cut off
ATTENTION = "experiments/flash-attention"
WIDE = (
    PAGE, f"{ATTENTION}/index.html", "experiments/matmul-tiling/index.html",
    f"{ATTENTION}/cases/attention-causal-2x16x16x8192x128-bfloat16/index.html",
)  # fmt: skip


def test_nothing_moves_for_those_who_ask_for_that(browser, site, served):
    with reader(browser, reduced_motion="reduce") as seen:
        for path in representative(site):
            seen.open(f"{served}/{path}")
            assert seen.page.evaluate(MOVING) == [], path


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_paper_shows_the_evidence_and_no_controls(browser, served, scheme):
    with visit(browser, f"{served}/{PAGE}", color_scheme=scheme) as seen:
        seen.page.emulate_media(media="print", color_scheme=scheme)
        for gone in ("nav", "button:not(.sort)"):
            assert not any(element.is_visible() for element in seen.page.locator(gone).all()), gone
        # A heading that sorts is still its column's name, without the arrow.
        arrows = "[...document.querySelectorAll('.sort')].map(it => getComputedStyle(it, '::after').content)"
        assert set(seen.page.evaluate(arrows)) <= {"none"}
        assert all(heading.is_visible() for heading in seen.page.locator("#cases ~ .scroll .sort").all())
        digest = seen.page.locator("dl.facts a[href*='/runs/'], dl.facts a[href*='runs/']").first
        assert digest.is_visible()
        assert len(digest.inner_text()) == 12
        assert seen.page.locator("details").count() > 0
        assert seen.page.evaluate(UNPRINTED) == []


def test_a_page_prints_in_dark_ink_on_white_whatever_the_theme(browser, served):
    with visit(browser, f"{served}/{PAGE}", color_scheme="dark") as seen:
        seen.page.emulate_media(media="print", color_scheme="dark")
        style = "getComputedStyle(document.body)"
        assert seen.page.evaluate(f"{style}.backgroundColor") == "rgb(255, 255, 255)"
        assert seen.page.evaluate(f"{style}.color") == "rgb(27, 29, 33)"


def test_it_becomes_a_pdf(browser, served):
    with visit(browser, f"{served}/{PAGE}") as seen:
        assert seen.page.pdf(format="A4").startswith(b"%PDF-")


def test_no_column_of_a_wide_table_is_cut_off_on_paper(browser, published):
    with reader(browser, width=int(PAPER * SHRINKS)) as seen:
        seen.page.emulate_media(media="print")
        for path in WIDE:
            seen.open(f"{published}/{path}")
            assert seen.page.evaluate("document.documentElement.scrollWidth") <= PAPER * SHRINKS, path


def test_the_list_of_runs_fits_a_desk(browser, published):
    with visit(browser, f"{published}/runs/index.html", width=1280) as seen:
        scroll = seen.page.locator(".scroll:has(> table.runs)")
        assert scroll.evaluate("it => it.scrollWidth - it.clientWidth") <= 0
