"""A shape of no experiment is answered from the sample of `lab zoo`, or by the nearest; a slip by what was meant."""

import json

import pytest
from visits import reader

PAGES = {"index.html": "#answers", "search/index.html": "#found"}


def ask(seen, typed: str, told: str) -> None:
    """Until that is told: the index loads when the first word is typed."""
    seen.page.fill("#query", typed)
    seen.page.locator("#found-count", has_text=told).wait_for()


def sampled(site) -> list[dict]:
    text = (site / "zoo" / "shapes.js").read_text().removeprefix("window.kernelEvidenceTried = ").removesuffix(";\n")
    held = json.loads(text)
    return [dict(zip(held["columns"], row, strict=True)) for row in held["rows"]]


@pytest.mark.parametrize("page", PAGES)
def test_a_shape_of_the_sample_is_found_with_both_times_and_leads_to_its_verdicts(browser, site, served, page):
    (shot, *_) = [shot for shot in sampled(site) if shot["title"] == "RMSNorm"]
    with reader(browser) as seen:
        seen.open(f"{served}/{page}")
        told = "from a sample of shapes" if page == "index.html" else " found."
        ask(seen, f"rmsnorm {shot['shape']} {shot['dtype']}", told)
        found = seen.page.locator(PAGES[page])
        text = found.inner_text()
        assert shot["seconds"] in text
        assert shot["rival_seconds"] in text
        address = found.locator("a").first.get_attribute("href").removeprefix("../")
        assert address == shot["page"]
        assert (site / address).is_file()
        assert seen.troubles() == []


def test_the_figures_of_a_sampled_shape_point_to_their_data(browser, site, served):
    (shot, *_) = [shot for shot in sampled(site) if shot["title"] == "RMSNorm"]
    data = json.loads((site / "zoo" / "data.json").read_text())
    with reader(browser) as seen:
        seen.open(f"{served}/index.html")
        ask(seen, f"rmsnorm {shot['shape']} {shot['dtype']}", "from a sample of shapes")
        for source in seen.page.locator(".answer data").evaluate_all("all => all.map(each => each.dataset.src)"):
            place, _, pointer = source.partition("#")
            assert place == "zoo/data.json"
            held = data
            for name in pointer.split("/")[1:]:
                held = held[name]
            assert held > 0


SLIPS = {"rmsnrom": "rmsnorm", "sofmax": "softmax", "rmsnrom 4096 fp16": "rmsnorm 4096 fp16", "swiglo": "swiglu"}


def test_a_shape_that_was_measured_in_another_dtype_comes_first(browser, served):
    """Bytes and not the dtype decide how long a norm takes."""
    with reader(browser) as seen:
        seen.open(f"{served}/index.html")
        ask(seen, "rmsnorm 4096x4096 bf16", "No shape fits. Nearest measured: RMSNorm ")
        near = seen.page.locator("#found-count a").all_inner_texts()
        assert near[0] == "RMSNorm 4096×4096 fp16"
        assert all(text.endswith("bf16") for text in near[1:])
        assert seen.troubles() == []


def test_sizes_that_only_begin_those_of_another_operator_are_no_answer(browser, published):
    """A row of a norm is no token of a norm joined with RoPE, whose shape begins alike."""
    with reader(browser) as seen:
        seen.open(f"{published}/index.html")
        ask(seen, "rmsnorm 1x4096 bf16", "No shape fits. Nearest measured: RMSNorm 16×3584 bf16")
        assert seen.page.locator(".answer").count() == 0
        ask(seen, "rmsnorm rope 1x4096 bf16", "1 shape fits.")
        seen.page.locator(".answer h2", has_text="RMSNorm and RoPE 1×4096×28×128").wait_for()
        assert seen.troubles() == []


@pytest.mark.parametrize("typed", ["fa3", "flash attention 3", "FlashAttention-3"])
def test_another_version_is_not_offered_as_what_was_meant(browser, published, typed):
    with reader(browser) as seen:
        seen.open(f"{published}/index.html")
        ask(seen, typed, "Nothing has “fa3”")
        assert "Did you mean" not in seen.page.locator("#found-count").inner_text()


@pytest.mark.parametrize("page", PAGES)
def test_what_does_not_fit_is_answered_with_what_would(browser, site, served, page):
    """A slip with what was meant, a shape with the nearest, and else with the word that excludes the rest."""
    with reader(browser) as seen:
        seen.open(f"{served}/{page}")
        for typed, meant in SLIPS.items():
            ask(seen, typed, f"Did you mean {meant}?")
        ask(seen, "rmsnorm a100", "Not measured on A100; on ")
        ask(seen, "layernorm swiglu", "“layernorm” fits none of the ")
        ask(seen, "layernorm qqqqqqqq", "nothing has “qqqqqqqq”")
        ask(seen, "rmsnorm 4097x4095 fp16", "Nearest measured: RMSNorm ")
        nearest = seen.page.locator("#found-count a")
        assert nearest.first.inner_text() == "RMSNorm 4096×4096 fp16"
        assert all(text.startswith("RMSNorm ") and text.endswith("fp16") for text in nearest.all_inner_texts())
        assert (site / nearest.first.get_attribute("href").removeprefix("../")).is_file()
        ask(seen, "rmsnrom", "Did you mean rmsnorm?")
        seen.page.locator("#found-count a").click()
        seen.page.wait_for_function("document.getElementById('query').value === 'rmsnorm'")
        seen.page.locator("#found-count", has_not_text="Did you mean").wait_for()
        assert seen.troubles() == []
