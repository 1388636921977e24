"""From a web server, from a folder, with scripts and without: the pages say the same, and ask nobody else."""

from pathlib import Path

from test_accessible import OPEN_ALL, representative
from visits import reader, visit

# What only scripts can offer may be missing without them; whatever says something may not.
TEXT_ELEMENTS = "h1, h2, h3, h4, p, li, dt, dd, th, td, caption, figcaption, summary, pre, svg text"
TEXT_SCRIPT = """selector => [...document.querySelectorAll(selector)]
  .filter(element => element.checkVisibility() && !element.closest("form, search, [role=search], [data-explore]"))
  .filter(element => !element.querySelector("button, input, select"))
  .filter(element => element.textContent.trim())
  .map(element => element.tagName + ": " + element.textContent.trim().replace(/\\s+/g, " ")).join("\\n")"""
PICTURES = "[...document.querySelectorAll('svg, table, img')].filter(element => element.checkVisibility()).length"


def test_pages_from_a_folder_are_whole_and_silent_and_nothing_is_missing_without_javascript(browser, site):
    with reader(browser) as seen, reader(browser, scripts=False) as unscripted:
        for path in representative(site):
            (text, pictures), (text_without, pictures_without) = (
                _content(reading, f"file://{site}/{path}") for reading in (seen, unscripted)
            )
            assert text - text_without == set(), path
            assert pictures <= pictures_without, path
            assert text_without, path


def _content(reading, address: str) -> tuple[set[str], int]:
    """What a page says, with all of it unfolded, and its pictures."""
    reading.open(address)
    styled = reading.page.evaluate("getComputedStyle(document.querySelector('.page')).maxWidth")
    assert styled != "none", f"{address}: without its style sheet"
    assert reading.troubles() == [], address
    reading.page.evaluate(OPEN_ALL)
    text = reading.page.evaluate(TEXT_SCRIPT, TEXT_ELEMENTS)
    return set(text.split("\n")) - {""}, reading.page.evaluate(PICTURES)


def test_a_request_to_another_host_would_be_seen(browser, tmp_path: Path):
    (tmp_path / "index.html").write_text("<!doctype html><img src='http://example.invalid/x.png' alt=''>")
    with visit(browser, f"file://{tmp_path}/index.html") as seen:
        assert any("request to another host: http://example.invalid/x.png" in trouble for trouble in seen.troubles())


def test_the_troubles_of_one_page_are_not_laid_to_the_next(browser, tmp_path: Path):
    (tmp_path / "bad.html").write_text("<!doctype html><link rel=icon href=data:,><script>x()</script>")
    (tmp_path / "good.html").write_text("<!doctype html><link rel=icon href=data:,>")
    with reader(browser) as seen:
        for name, troubles in (("bad", 1), ("good", 0), ("bad", 1)):
            seen.open(f"file://{tmp_path}/{name}.html")
            assert len(seen.troubles()) == troubles


def test_a_breach_of_the_policy_would_be_seen(browser, tmp_path: Path):
    (tmp_path / "index.html").write_text(
        "<!doctype html><meta http-equiv='Content-Security-Policy' content=\"default-src 'none'\"><p onclick='x()'>"
        "<script>x()</script>"
    )
    with visit(browser, f"file://{tmp_path}/index.html") as seen:
        assert any(trouble.startswith("policy: script-src") for trouble in seen.troubles())
