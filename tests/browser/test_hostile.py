"""Whatever stands in evidence and definitions is text: it runs nothing, hides nothing, and breaks no layout."""

from pathlib import Path

import pytest
from hostile_site import LONG, MARKUP, TEMPLATE, hostile_site
from test_accessible import DESK, HEIGHT, OPEN_ALL, PHONE, STICKING_OUT
from visits import kinds, reader, visit

from lab.website.wording.hidden import HIDDEN

DANGEROUS = """[...document.querySelectorAll("*")].filter(element =>
    [...element.attributes].some(attribute => attribute.name.startsWith("on")
      || ["href", "src", "action", "data"].includes(attribute.name)
        && /^\\s*(javascript|data|vbscript):/i.test(attribute.value))
    || element.matches("iframe, object, embed, base, form[action], img:not([src$='.svg']), b")
  ).map(element => element.outerHTML.slice(0, 160))"""
EVERYTHING = """[document.title, document.body.innerText, ...[...document.querySelectorAll("*")].flatMap(
    element => [...element.attributes].map(attribute => attribute.value))].join("\\n")"""


@pytest.fixture(scope="session")
def hostile(browser, tmp_path_factory) -> Path:
    return hostile_site(tmp_path_factory.mktemp("hostile"))


@pytest.fixture(scope="session")
def pages(hostile) -> list[Path]:
    """Of every kind of page that shows the attack the largest."""
    hostile_pages = [path for path in sorted(hostile.rglob("*.html")) if "EVIL" in path.read_text(encoding="utf-8")]
    by_kind = kinds([path.relative_to(hostile).as_posix() for path in hostile_pages])
    assert len(by_kind) >= 10
    return [hostile / max(paths, key=lambda path: (hostile / path).stat().st_size) for paths in by_kind.values()]


def test_it_runs_nothing_and_keeps_the_layout(browser, pages):
    faults = []
    with reader(browser) as seen:
        for path in pages:
            seen.page.set_viewport_size({"width": DESK, "height": HEIGHT})
            seen.open(f"file://{path}")
            seen.page.evaluate(OPEN_ALL)
            problems = seen.page.evaluate(STICKING_OUT)
            seen.page.set_viewport_size({"width": PHONE, "height": HEIGHT})
            problems += [*seen.page.evaluate(STICKING_OUT), *seen.page.evaluate(DANGEROUS), *seen.troubles()]
            ran = seen.page.evaluate("window.ran")
            faults += [f"{path.parent.name}: {fault}" for fault in ([f"ran: {ran}"] if ran else []) + problems]
    assert faults == []


def test_it_is_shown_as_it_was_written_except_for_what_hides(browser, pages):
    with reader(browser, scripts=False) as seen:
        for path in pages:
            seen.open(f"file://{path}")
            texts = seen.page.evaluate(EVERYTHING)
            assert not HIDDEN.search(texts), path
            if path.parent.name == "normalization-fusion":
                for part in ("[U+202E]", MARKUP, TEMPLATE):
                    assert part in texts, path


def test_the_charts_of_it_hold_text_alone(browser, hostile):
    with visit(browser, f"file://{hostile}/experiments/normalization-fusion/index.html") as seen:
        assert seen.page.evaluate("window.ran") is None
        assert seen.page.locator("#contest svg").count() > 0
        assert seen.page.locator("#contest svg :is(a, b, img, script)").count() == 0
        assert not any(HIDDEN.search(text) for text in seen.page.locator("#contest").all_text_contents())
        assert seen.troubles() == []


def test_no_file_is_written_outside_the_site(hostile):
    assert sorted(path.name for path in hostile.parent.iterdir()) == ["decisions", "evidence", "runs", "site"]


def test_text_files_beside_the_pages_hide_nothing_either(hostile):
    for path in hostile.rglob("*"):
        if path.suffix in (".json", ".js", ".csv", ".atom", ".xml", ".svg"):
            text = path.read_text(encoding="utf-8")
            assert not HIDDEN.search(text), path
            assert LONG not in text or "EVIL" in text
