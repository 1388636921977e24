"""A badge says a verdict by word, shape and colour, and never more than was measured."""

import dataclasses
import re
import xml.etree.ElementTree as ET

import pytest
from factory import FAST, LARGE, PLAIN, SMALL, plan_of, records_of, small_experiment

from lab.definition.experiment import Claim
from lab.verdict.judge import Status
from lab.verdict.results import judge_run
from lab.website.data.judged import Judged, judged_run, not_measured
from lab.website.outputs import Attachment, Document, SiteContext
from lab.website.pages.badges import COLOURS, LONGEST_WORDS, badge, badge_pages, svg
from lab.website.table import icon

TIMES = {(SMALL.name, "plain"): 60e-6, (SMALL.name, "fast"): 40e-6,
         (LARGE.name, "plain"): 600e-6, (LARGE.name, "fast"): 300e-6}  # fmt: skip
EVIL = "</title><script>alert(1)</script>\"'&{{ 7*7 }}\x00\u202e"
SVG = "{http://www.w3.org/2000/svg}"


def claimed(times=TIMES, device: str = "cuda", noise: float = 0.001, **changes) -> Judged:
    """The small experiment with its one claim changed, measured."""
    claim = dataclasses.replace(small_experiment().claims[0], **changes)
    experiment = small_experiment(claims=(claim,), headlines=(claim,))
    plan = plan_of(experiments=[experiment], device=device, include=["large-sweep"])
    return judged_run(judge_run(plan, records_of(plan, times, noise=noise)), digest="ab" * 32)[0]


def said(item: Judged) -> str:
    return badge(item, item.plan.claims[0]).said


def test_a_range_over_cases_names_the_gpu_and_the_types() -> None:
    assert re.fullmatch(r"doubling: fast vs plain: supported 1\.50–2\.00×, H100 80GB HBM3, f32", said(claimed()))


def test_one_case_has_its_interval_and_another_threshold_than_the_usual_is_reported() -> None:
    text = said(claimed(cases=(SMALL,), threshold=1.2))
    assert re.fullmatch(
        r"doubling: fast vs plain: supported 1\.\d+× \[1\.\d+, 1\.\d+\] \(asked 1\.20×\), H100 80GB HBM3, f32", text
    )


def test_another_scope_than_the_headlines_is_reported() -> None:
    assert "eager calls" in said(claimed(scope="eager"))


def test_where_not_every_case_was_fit_to_be_judged_no_range_speaks_for_all() -> None:
    """The large case was measured without the profile that the claim is about, or all of it in noise."""
    assert said(claimed({key: time for key, time in TIMES.items() if key != (LARGE.name, "fast")})).endswith(
        ": no-evidence"
    )
    assert said(claimed(noise=0.3, threshold=1.8)) == "doubling: fast vs plain: rerun-noise, H100 80GB HBM3, f32"


def test_where_some_cases_were_not_fit_to_be_judged_it_says_of_how_many_it_speaks() -> None:
    item = claimed()
    claims = item.data["claims"]
    some = claims["fast-beats-plain"] | {"status": "rerun-noise", "compared": 1, "supported": 1}
    text = said(dataclasses.replace(item, data={**item.data, "claims": {"fast-beats-plain": some}}))
    assert text == "doubling: fast vs plain: rerun-noise (1 of 2 cases supported), H100 80GB HBM3, f32"


def test_evidence_of_a_cpu_says_so() -> None:
    item = claimed(device="cpu")
    assert ", CPU evidence: A Processor, f32" in said(item)
    described = badge(item, item.plan.claims[0]).description
    assert "Measured on the CPU A Processor: CPU time, nothing cached" in described
    assert "GPU" not in described


def test_a_description_holds_the_claim_its_shapes_and_its_evidence() -> None:
    item = claimed()
    described = badge(item, item.plan.claims[0]).description
    for words in ("Fast is faster than plain, by 2 % or more.", "on NVIDIA H100 80GB HBM3", "GPU time, nothing cached",
                  "64x128, 4096x4096 f32 doubling", "It holds for nothing else.",
                  "Evidence abababababab of 2026-01-02."):  # fmt: skip
        assert words in described, words


def test_what_nobody_measured_has_a_badge_that_says_so() -> None:
    item = not_measured(claimed().plan)
    assert said(item) == "doubling: fast vs plain: no-evidence"
    assert "No published evidence speaks of it." in badge(item, item.plan.claims[0]).description


def test_a_test_of_the_lab_itself_that_came_out_as_it_should_says_so() -> None:
    assert "supported, as it should be, 1.50–2.00×" in said(claimed(expected=("supported",)))
    assert "as it should be" not in said(claimed(expected=("rejected",)))


def test_verdicts_differ_by_shape_and_their_words_can_be_read() -> None:
    """Refuted and rejected share the cross, as on the pages: the word tells them apart."""
    shapes = {icon(status) for status in Status}
    assert len(shapes) == len(Status) - 1
    for colour in (*COLOURS.values(), "#33373f"):
        assert 1.05 / (luminance(colour) + 0.05) >= 4.5, colour


def luminance(colour: str) -> float:
    """WCAG 2's relative luminance."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def test_hostile_text_is_shown_and_nothing_more() -> None:
    subject = dataclasses.replace(FAST, title=EVIL * 9)
    claim = Claim(name="evil", text=EVIL * 40, subject=subject, baseline=PLAIN, cases=(SMALL,))
    experiment = small_experiment(profiles=(PLAIN, subject), claims=(claim,), headlines=(claim,))
    plan = plan_of(experiments=[experiment], include=())
    (item,) = judged_run(judge_run(plan, records_of(plan, TIMES)), digest="ab" * 32)
    text = svg(badge(item, item.plan.claims[0]))
    assert len(text.encode()) <= 2 * 1536  # entities take room, but never without bound
    root = ET.fromstring(text)
    assert {element.tag.removeprefix(SVG) for element in root.iter()} <= {
        "svg", "title", "desc", "rect", "g", "path", "circle", "text", "tspan"
    }  # fmt: skip
    drawn = "".join(root.find(f"{SVG}g[@font-size]/{SVG}text").itertext())
    assert "<script>alert(1)</script>" in drawn
    assert len(drawn) <= LONGEST_WORDS
    assert not set("\x00\u202e") & set(text)


@pytest.mark.parametrize("address", ["", "https://example.org/lab/"])
def test_the_page_of_badges_has_markdown_for_each(address: str) -> None:
    item = claimed(text="It is *fast* [really].")
    outputs = list(
        badge_pages(SiteContext(label="", current=(item,), published=(), decisions=(), files=(), base_url=address))
    )
    (picture,) = (output for output in outputs if isinstance(output, Attachment))
    (page,) = (output for output in outputs if isinstance(output, Document))
    assert picture.path == "experiments/doubling/badges/fast-beats-plain.svg"
    ((_, markdown),) = page.view["page"].badges
    at = f"{address or 'ADDRESS/'}experiments/doubling"
    words = r"It is \*fast\* \[really\], faster by 2 % or more."
    assert markdown == f"[![{words}]({at}/{picture.path.split('/', 2)[2]})]({at}/index.html#claim-fast-beats-plain)"


def test_a_preview_is_not_to_be_embedded() -> None:
    assert not list(
        badge_pages(SiteContext(label="Preview", current=(claimed(),), published=(), decisions=(), files=()))
    )
