"""Somebody with an operator, a shape, a dtype and a way of calling types them and reads who is fastest, by how much,
how that varied, and what to import: on a screen and on a phone, and without scripts at least the grid."""

import json
from urllib.parse import quote

import pytest
from visits import reader

from lab.evidence.source import ROOT

WIDTHS = [(1366, 768), (390, 844)]
SECONDS = 10
# How people say a call mode and a dtype, and what the page calls them.
MODES = {"graph": ("in a CUDA graph", "In a CUDA graph"), "device_cold": ("", "Cold cache, GPU time"),
         "eager": ("called eagerly", "Eager call")}  # fmt: skip
DTYPES = {"bfloat16": ("bf16", "bf16"), "float16": ("float16", "fp16"), "float32": ("fp32", "fp32")}


def asked() -> list[tuple[str, str, dict]]:
    """What somebody types, what the answer is headed, and the row of the published data that it must show: in each call
    mode and dtype at the shape with the most implementations."""
    gpu, modes = next(iter(json.loads((ROOT / "site" / "data.json").read_text()).get("shapes", {}).items()), ("", {}))
    answers = []
    for mode, rows in modes.items():
        for dtype in sorted({row["dtype"] for row in rows.values()} & DTYPES.keys()):
            row = max((row for row in rows.values() if row["dtype"] == dtype), key=lambda row: len(row["cells"]))
            (said, called), (typed, short) = MODES[mode], DTYPES[dtype]
            size = "×".join(map(str, row["shape"]))
            answers.append((f"{typed} {row['op']} {size} {said}", f"{size} {short} · {called} · {gpu}", row))
    return answers


ASKED = asked()


def test_the_answer_is_read_at_once(browser, published):
    assert ASKED
    with reader(browser) as seen:
        seen.open(f"{published}/index.html")
        for typed, headed, row in ASKED:
            seen.page.fill("#query", typed)
            answer = seen.page.locator(".answer", has_text=headed)
            answer.wait_for(timeout=SECONDS * 1000)
            text = " ".join(answer.inner_text().split())
            assert seen.page.locator(".answer").count() == 1, typed
            p50 = answer.locator(".who data")
            assert p50.get_attribute("data-src").endswith(f"/{row['case']}/cells/{row['best']}/p50_seconds"), typed
            assert float(p50.inner_text().split()[0]) == pytest.approx(
                row["cells"][row["best"]]["p50_seconds"] * 1e6, rel=0.006
            )
            assert "Margin" in text
            assert "as fast as" in text or "too few sweeps" in text
            assert "Range" in text
            assert "import " in answer.locator("pre").inner_text(), typed
            for width, height in WIDTHS:
                seen.page.set_viewport_size({"width": width, "height": height})
                box = answer.bounding_box()
                assert box["y"] + box["height"] <= height, f"{typed}: it is seen without scrolling"
                assert box["x"] >= 0
                assert box["x"] + box["width"] <= width
        assert seen.troubles() == []


def test_an_answer_says_how_fast_torch_compile_is_there_as_the_grid_does(browser, published):
    with reader(browser) as seen:
        seen.open(f"{published}/index.html")
        seen.page.fill("#query", "geglu h100")
        answer = seen.page.locator(".answer", has_text="GEGLU")
        answer.wait_for()
        assert "as fast as torch.compile" in answer.inner_text()
        assert answer.locator("dt", has_text="torch.compile").count() == 0
        seen.page.fill("#query", "rmsnorm 1024x2048 h100")
        answer = seen.page.locator(".answer", has_text="RMSNorm 1024×2048")
        answer.wait_for()
        term = answer.locator("dt", has_text="torch.compile, µs")
        figures = term.locator("xpath=following-sibling::dd[1]").locator("data")
        cell = seen.page.locator("tr[data-at$='/H100/device_cold/rmsnorm-1024x2048-float16/cells/']")
        assert figures.all_inner_texts() == cell.locator("[data-c='torch.compile'] data").all_inner_texts() != []
        sources = figures.evaluate_all("all => all.map(each => each.dataset.src)")
        assert sources[0] == f"data.json#{cell.get_attribute('data-at')}compile/p50_seconds"
        assert seen.troubles() == []


def headed_dtype() -> str:
    return ASKED[0][1].split()[1]


@pytest.mark.parametrize(("width", "height"), WIDTHS)
def test_without_scripts_the_switch_works_and_the_whole_grid_is_there(browser, published, width, height):
    with reader(browser, width=width, height=height, scripts=False) as seen:
        seen.open(f"{published}/index.html")
        shown = seen.page.locator(".grid tr[data-at]:visible")
        if (every_shape := seen.page.locator("label:has(#s1)")).is_visible():  # on a phone
            every_shape.click()
        cold = seen.page.locator(".board:visible").get_attribute("aria-label")
        seen.page.locator("label", has_text="In a CUDA graph").click()
        assert seen.page.locator(".board:visible").get_attribute("aria-label") != cold
        all_rows = shown.count()
        seen.page.locator("label", has_text=headed_dtype()).click()
        assert 0 < shown.count() < all_rows
        assert not seen.page.locator("#query").is_visible()


# By operator how many implementations were timed at the shape that is shown, and at most at any.
TIMED = """() => [...document.querySelectorAll(".board .grid tbody")].filter(it => it.checkVisibility()).map(body => {
  const timed = row => row.querySelectorAll("td[class]").length, rows = [...body.rows];
  return [timed(rows.find(row => row.checkVisibility())), Math.max(...rows.map(timed))];
})"""


def test_a_phone_shows_of_each_operator_the_shape_of_most_rivals_until_all_are_asked_for(browser, published):
    with reader(browser, width=390, height=844) as seen:
        seen.open(f"{published}/index.html")
        assert all(timed == most > 0 for timed, most in seen.page.evaluate(TIMED))
    with reader(browser, width=390, height=844, scripts=False) as seen:
        seen.open(f"{published}/index.html")
        shown, operators = (
            seen.page.locator(f".board:visible .grid {name}:visible") for name in ("tr[data-at]", "tbody")
        )
        assert shown.count() == operators.count() > 0
        seen.page.locator("label:has(#s1)").click()
        assert shown.count() > operators.count()


def test_a_shape_that_nobody_measured_is_said_to_be_missing(browser, published):
    with reader(browser) as seen:
        seen.open(f"{published}/index.html")
        seen.page.fill("#query", "rmsnorm 17x19")
        seen.page.locator("#found-count", has_text="No shape fits. Nearest measured: RMSNorm").wait_for()
        assert seen.page.locator(".answer").count() == 0
        seen.page.fill("#query", "zzzzqqq")
        seen.page.locator("#none-left").wait_for()


def shapes(site) -> dict:
    return json.loads((site / "data.json").read_text())["shapes"]


def test_a_size_is_found_wherever_it_stands_in_a_shape(browser, site, served):
    rows = next(iter(shapes(site).values()))["device_cold"].values()
    with reader(browser) as seen:
        seen.open(f"{served}/index.html")
        for size in {str(size) for row in rows for size in row["shape"][1:]}:
            seen.page.fill("#query", size)
            seen.page.wait_for_url(f"**?q={size}")
            held = sum(size in map(str, row["shape"]) for row in rows)
            assert seen.page.locator(".grid tr[data-at]:visible").count() >= held > 0, size


@pytest.mark.parametrize("typed", ["rmsnorm+4096 h100", "torch.compile swiglu h100", "lab (CUDA C++) h100"])
def test_shapes_are_found_by_implementations_that_have_a_time_there(browser, served, typed):
    with reader(browser) as seen:
        seen.open(f"{served}/index.html")
        seen.page.fill("#query", typed)
        seen.page.wait_for_url("**?q=*")
        assert seen.page.locator(".grid tr[data-at]:visible").count() > 0


def test_an_answer_from_another_machine_says_so(browser, site, served):
    (one, has), (other, lacks) = list(shapes(site).items())[:2]
    (row, *_) = [
        row for row in has["device_cold"].values()
        if not any(each["shape"] == row["shape"] for each in lacks["device_cold"].values())
    ]  # fmt: skip
    with reader(browser) as seen:
        seen.open(f"{served}/index.html")
        seen.page.fill("#query", f"{row['op']} {'x'.join(map(str, row['shape']))} {other}")
        seen.page.locator(".answer").first.wait_for()
        assert seen.page.locator("#found-count").inner_text() == f"Not measured on {other}; on {one}:"
        assert not seen.page.locator("#none-left").is_visible()


def test_the_operator_of_just_that_name_answers_first(browser, published):
    with reader(browser) as seen:
        seen.open(f"{published}/index.html")
        seen.page.fill("#query", "matmul 4096x4096x4096")
        seen.page.locator(".answer").first.wait_for()
        assert seen.page.locator(".answer h2").first.inner_text().startswith("Matmul")


def test_an_address_with_a_question_opens_with_its_answer(browser, published):
    with reader(browser) as seen:
        typed, headed, _ = ASKED[0]
        seen.open(f"{published}/index.html?q={quote(typed)}")
        seen.page.locator(".answer", has_text=headed).wait_for()
