"""The finder finds what a reader means by another name, and where nothing has all words what has most of them."""

import re

import pytest
from visits import reader

PAGES = ("index.html", "search/index.html")
FULL = "rmsnorm 4096x4096 fp16 h100"
ALIKE = (
    "rms norm 4096 x 4096 half h100", "h100 rms_norm 4096×4096 float16", "RMS-Norm 4096 by 4096 half precision H100",
    "h100 rmsnorm float 16 4096 x 4096", "which rms normalization 4096 × 4096 fp16 is fastest on h100",
)  # fmt: skip


def told(seen, typed: str, wanted: str) -> str:
    seen.page.fill("#query", typed)
    seen.page.locator("#found-count", has_text=wanted).wait_for()
    return " ".join(seen.page.locator("#found-count").inner_text().split())


def found(seen, page: str) -> list[str]:
    return seen.page.locator("#found li" if page != "index.html" else ".grid tr[data-at]:visible").all_inner_texts()


@pytest.mark.parametrize("page", PAGES)
def test_other_names_and_spaces_in_a_shape_find_the_same(browser, served, page):
    with reader(browser) as seen:
        seen.open(f"{served}/{page}")
        said = told(seen, FULL, "1 shape fits." if page == "index.html" else " found")
        expected = found(seen, page)
        assert expected
        for typed in ALIKE:
            seen.page.fill("#query", "")
            seen.page.locator("#found-count:empty").wait_for(state="attached")
            assert told(seen, typed, said) == said, typed
            assert found(seen, page) == expected, typed
        assert seen.troubles() == []


def test_a_kv_cache_is_no_cold_cache(browser, published):
    with reader(browser) as seen:
        seen.open(f"{published}/index.html")
        seen.page.get_by_label("In a CUDA graph", exact=True).check(force=True)
        told(seen, "kv cache", "fit")
        assert seen.page.get_by_label("In a CUDA graph", exact=True).is_checked()
        seen.page.fill("#query", "")
        seen.page.locator("#found-count:empty").wait_for(state="attached")
        told(seen, "cold cache rmsnorm", "fit")
        assert not seen.page.get_by_label("In a CUDA graph", exact=True).is_checked()


def test_products_are_matmuls_and_float8_is_fp8(browser, served):
    with reader(browser) as seen:
        seen.open(f"{served}/search/index.html")
        for typed, other in (("products bf16", "gemm bfloat16"), ("float8 rms norm", "rmsnorm fp8")):
            lists = []
            for each in (typed, other):
                seen.page.fill("#query", "")
                seen.page.locator("#found-count:empty").wait_for(state="attached")
                assert re.match(r"\d+ found", told(seen, each, "found")), each
                lists.append(found(seen, "search/index.html"))
            assert lists[0] == lists[1], typed


@pytest.mark.parametrize("page", PAGES)
def test_where_nothing_has_a_word_what_the_others_find_is_shown(browser, served, page):
    """And it is said which word that is."""
    with reader(browser) as seen:
        seen.open(f"{served}/{page}")
        said = told(seen, "llama 4096x4096 rmsnorm fp16 h100", "Nothing has “llama”")
        assert "With some of the words: " in said
        assert any("RMSNorm" in text and "4096×4096" in text for text in found(seen, page))
        assert all("4096×4096" in text for text in found(seen, page))
        told(seen, "qqqqqqqq zzzzzzzz", "Nothing has “qqqqqqqq” or “zzzzzzzz”.")
        assert found(seen, page) == []
        assert seen.troubles() == []


def test_the_front_page_answers_without_the_word_that_nothing_has(browser, served):
    with reader(browser) as seen:
        seen.open(f"{served}/index.html")
        said = told(seen, "llama 4096x4096 rmsnorm fp16 h100", "Nothing has “llama”")
        assert said.endswith("Search the whole site")
        assert seen.page.locator(".answer h2").first.inner_text().startswith("RMSNorm 4096×4096 fp16")
        link = seen.page.locator("#found-count a").get_attribute("href")
        assert link.endswith("/search/index.html?q=llama%204096x4096%20rmsnorm%20fp16%20h100")


@pytest.mark.parametrize(
    ("typed", "headed"),
    [
        ("decoding attention", "Decode attention "), ("rms norm 4096 x 4096 half", "RMSNorm 4096×4096 fp16"),
        ("llama 4096x14336 swiglu", "SwiGLU 4096×14336 "),
        ("layer norm 4096 × 4096 float16", "LayerNorm 4096×4096 fp16"),
    ],
)  # fmt: skip
def test_the_published_front_page_answers_what_readers_ask(browser, published, typed, headed):
    with reader(browser) as seen:
        seen.open(f"{published}/index.html")
        seen.page.fill("#query", typed)
        seen.page.locator(".answer h2", has_text=headed).first.wait_for()


def test_the_published_front_page_shows_float8_matmuls_as_products(browser, published):
    with reader(browser) as seen:
        seen.open(f"{published}/index.html")
        told(seen, "fp8 products", " shapes fit.")
        seen.page.wait_for_url("**?q=fp8*")
        assert all(text.startswith("FP8 matmul") for text in found(seen, "index.html"))
        assert len(found(seen, "index.html")) > 1
