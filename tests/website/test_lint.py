"""A figure without a pointer to its datum fails the build; what may stand without one is a short list."""

import dataclasses
import time
from html import escape

import pytest
from factory import FAST, LARGE, PLAIN, SMALL, machine, measured_run, plan_of, records_of, small_experiment, write_run
from test_site import TIMES, publish

from lab.errors import DefinitionError
from lab.verdict.judge_run import load_run
from lab.website import render
from lab.website.data.judged import judged_run
from lab.website.site import build_preview, build_site
from lab.website.wording.lint import Quotable, quoted, refuse_untraced, untraced
from lab.website.wording.references import FIGURE

NOTHING = Quotable(())
PAGE = "experiments/doubling/index.html"


def untraced_texts(html, quotable=NOTHING):
    return list(untraced(html, quotable))


@pytest.mark.parametrize(
    "figure",
    ["23.61 µs", "1.3 ms", "2 s", "4930 GB/s", "3.35 TB/s", "67 MB", "50 MiB", "80GB", "2 %", "±2%", "1.33×",
     "989 TFLOP/s", "1980 MHz", "700 W", "38 °C", "0.5 J", "5 per cent", "10 seconds", "3\u00a0µs", "7\u202f%",
     "3\u2009ms", "3  ms", "3\nms", "3-ms", "2 μs", "2 us", "1.3x", "1.3 times as", "80 percent", "2-fold", "3 GiB/s",
     "3 TFLOPS", "３.２ ms", "٣ ms", "½ ms"],
)  # fmt: skip
def test_a_digit_with_a_unit_is_a_figure(figure):
    assert FIGURE.search(figure)
    (text,) = untraced_texts(f"<p>It took {figure} here.</p>")
    assert text == " ".join(f"It took {figure} here.".split())


@pytest.mark.parametrize(
    "html",
    ["3&nbsp;ms", "3&#8201;ms", "3 <b>ms</b>", "<span>3</span> <span>ms</span>", "3<!-- --> ms", "<b>3 </b>ms",
     "<i><b>٣</b></i> ms"],
)  # fmt: skip
def test_a_figure_may_not_hide_between_entities_elements_or_comments(html):
    assert untraced_texts(f"<p>It took {html} here.</p>")


def test_a_figure_whose_digits_are_traced_or_whose_parts_are_exempt_is_none():
    assert untraced_texts('<p><data value="1" data-src="data.json#/a">1</data> <span>ms</span></p>') == []
    assert untraced_texts("<pre>3 <b>ms</b></pre>") == []
    assert untraced_texts('<p>2 <a href="x">second</a></p>') == []
    assert untraced_texts("<p data-constant>3 <b>ms</b></p>") == []
    assert untraced_texts("<table><tr><td>3</td><td>ms</td></tr></table>") == []


@pytest.mark.parametrize(
    "text", ["4096×8192", "16 sequences", "H100", "5 sweeps", "float16", "2 kernels", "sm_90", "v3.6"]
)
def test_shapes_counts_and_names_are_none(text):
    assert untraced_texts(f"<p>{text}</p>") == []


@pytest.mark.parametrize(
    "html",
    [
        '<p><data value="2e-05" data-src="data.json#/a">20 µs</data></p>', "<code>sleep 5 s</code>",
        "<pre tabindex=0><code>5 s</code></pre>", '<time datetime="x">5 s</time>', "<script>5 %</script>",
        "<style>width: 5%</style>", '<svg><text class="tick">1.5×</text><title>1.5×</title><desc>1.5×</desc></svg>',
        "<title>1.5×</title>",
        "<p data-constant>within 2 % <em>or</em> 3 %</p>", '<dd class="x" data-authored>2 s</dd>',
        '<td width="5 %">5</td>',
    ],
)  # fmt: skip
def test_the_exemptions(html):
    assert untraced_texts(f"<div>{html}</div>") == []


def test_a_mark_ends_with_its_element_and_is_no_word_of_a_text():
    assert untraced_texts("<div><p data-constant>2 %</p><p>3 %</p></div>") == ["3 %"]
    assert untraced_texts("<p>data-constant 3 %</p>") == ["data-constant 3 %"]
    assert untraced_texts('<p>2 %<span data-constant title="x">3 %</span> 4 %</p>') == ["2 %", "4 %"]


def test_text_after_a_traced_figure_is_looked_at_too():
    assert untraced_texts('<p><data value="1" data-src="data.json#/a">1 %</data> against 2 %</p>') == ["against 2 %"]


def test_the_refusal_names_page_text_and_remedy():
    with pytest.raises(
        DefinitionError, match=r"experiments/doubling/index\.html: .*'about 5 µs'.*Figure.*data-constant"
    ):
        refuse_untraced(PAGE, "<p>about 5 µs</p>", NOTHING)


def quotable(tmp_path, reason="it ran for 5 s"):
    slow = dataclasses.replace(PLAIN, title="2 % more work", hypothesis="It takes 3 % longer.")
    case = dataclasses.replace(SMALL, description="about 20 µs & <b> on an H100")
    changed = small_experiment(profiles=(slow, FAST), cases=(case, LARGE))
    plan = plan_of("small", experiments=[changed])
    records = records_of(plan, {"plain": 2e-5}, outcomes={"fast": ("failed", reason)}, on=machine(gpu="GPU with 80GB"))
    items = judged_run(load_run(write_run(tmp_path / "small", plan, records)))
    return Quotable(phrase for item in items for phrase in quoted(item))


@pytest.mark.parametrize(
    "text",
    ["2 % more work against fast", "GPU with 80GB: this one machine.", "failed: it ran for 5 s", "It takes 3 % longer.",
     "About 20 µs & <b> on an H100. Least traffic", "it ran\n  for 5 s"],
)  # fmt: skip
def test_what_is_registered_or_is_data_may_be_quoted_word_for_word(tmp_path, text):
    quotes = quotable(tmp_path)
    assert untraced_texts(f"<p>{escape(text)}</p>", quotes) == []
    assert untraced_texts(f"<p>{escape(text)} and 9 %</p>", quotes) != []


@pytest.mark.usefixtures("few_experiments")
def test_a_figure_typed_into_a_template_fails_the_build_and_keeps_the_old_site(tmp_path, monkeypatch):
    (tmp_path / "decisions").mkdir()
    publish(tmp_path / "evidence", directory := measured_run(tmp_path, TIMES, sweeps=3))
    build_site(tmp_path / "site", tmp_path / "decisions", tmp_path / "evidence")
    before = (tmp_path / "site" / "index.html").read_bytes()
    made = render.environment()
    typed_in = made.overlay(loader=_Spoilt(made.loader))
    monkeypatch.setattr(render, "environment", lambda: typed_in)
    with pytest.raises(DefinitionError, match=r"'It is 12\.3 % faster\.'"):
        build_site(tmp_path / "site", tmp_path / "decisions", tmp_path / "evidence", remembered=tmp_path / "nothing")
    assert (tmp_path / "site" / "index.html").read_bytes() == before
    build_preview(directory)  # which is no publication


class _Spoilt:
    """Templates, one of which has a figure typed in."""

    def __init__(self, loader):
        self._loader = loader

    def load(self, environment, name, globals=None):
        if name != "decisions.html":
            return self._loader.load(environment, name, globals)
        source, path, fresh = self._loader.get_source(environment, name)
        source = source.replace("{% block content %}", "{% block content %}<p>It is 12.3 % faster.</p>")
        return environment.template_class.from_code(
            environment, environment.compile(source, name, path), environment.make_globals(globals), fresh
        )


def test_looking_is_fast():
    """A page of a hundred kilobytes in a few milliseconds, most of it spent passing over traced figures."""
    row = (
        "<tr><th>4096×4096 float16</th>"
        + '<td class="num"><data value="2.361e-05" data-src="/p">23.61 µs</data></td>' * 6
    )
    html = f"<table>{row * 300}</table>"
    least = min(_seconds(lambda: untraced_texts(html)) for _ in range(5))
    assert least / len(html) < 100e-9, f"{1e9 * least / len(html):.0f} ns a character"


def _seconds(work):
    before = time.process_time()
    work()
    return time.process_time() - before
