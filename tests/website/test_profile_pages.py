"""The page of a profile: everywhere it was measured, where it wins and where it does not."""

import dataclasses
from types import SimpleNamespace as View

from factory import FAST, LARGE, PLAIN, SMALL, plan_of, profile, records_of, small_experiment

from lab.verdict.results import judge_run
from lab.website.data.judged import judged_run, not_measured
from lab.website.outputs import Document, SiteContext
from lab.website.pages.profile import profile_pages
from lab.website.table import table

TIMES = {
    (SMALL.name, "plain"): 60e-6, (SMALL.name, "fast"): 40e-6,
    (LARGE.name, "plain"): 59.9e-6, (LARGE.name, "fast"): 60e-6,
}  # fmt: skip


def pages_of(**how: object) -> dict[str, View]:
    """The pages of the profiles of two experiments, of which the second was never measured."""
    second = dataclasses.replace(small_experiment(), name="again", title="Again", profiles=(PLAIN, FAST))
    plan = plan_of(experiments=[small_experiment(profiles=(PLAIN, FAST, profile("third"))), second], sweeps=5,
                   include=("large-sweep",))  # fmt: skip
    item = judged_run(judge_run(plan, records_of(plan, TIMES, noise=0.001, **how)))[0]  # type: ignore[arg-type]
    context = SiteContext(
        label="", current=(item, not_measured(plan.experiments[1])), published=(), decisions=(), files=()
    )  # fmt: skip
    pages = {}
    for output in (output for group in profile_pages(context) for output in group.make()):
        if isinstance(output, Document):
            page = output.view["page"]
            assert isinstance(page, View)
            pages[output.path] = page
    return pages


def test_every_profile_has_one_page_over_all_experiments() -> None:
    pages = pages_of()
    assert list(pages) == [f"profiles/{name}/index.html" for name in ("plain", "fast", "third")]
    assert [each.experiment for each in pages["profiles/plain/index.html"].appearances] == ["doubling", "again"]
    assert [each.experiment for each in pages["profiles/third/index.html"].appearances] == ["doubling"]


def test_it_says_where_the_profile_is_fastest_level_or_slower() -> None:
    plain, fast, third = pages_of(outcomes={"third": ("failed", "it broke")}).values()
    assert list(fast.appearances[0].standings) == ["fastest", "level with the fastest"]
    assert list(plain.appearances[0].standings) == [
        "slower than the fastest", "level with the fastest"
    ]  # fmt: skip
    assert [row[-1] for row in third.appearances[0].csv] == ["failed: it broke"] * 2
    assert fast.lede == "In 2 experiments: fastest at 1 case, level with the fastest at 1."
    assert third.lede == "In one experiment: without a time at 2 cases."


def test_on_a_phone_each_case_is_a_paragraph_that_names_its_columns() -> None:
    """A table would be so narrow there that its words stood one under another."""
    html = table(pages_of()["profiles/fast/index.html"].appearances[0].table)
    assert '<table class="stacks standings">' in html
    for label in ("Standing:", "Median, µs:", "Times as fast:", "Interval:"):
        assert html.count(f'data-label="{label}"') == 2


def test_its_times_stand_against_the_fastest_other_and_point_into_the_experiments_data() -> None:
    page = pages_of()["profiles/fast/index.html"].appearances[0]
    (*_, ratio, _, against, _) = page.csv[0]
    assert against == "plain"
    assert ratio.source == f"../../experiments/doubling/data.json#/against/{SMALL.name}/fast/plain/ratio"
    assert abs(float(ratio.value) - 1.5) < 0.01
    assert page.table.rows[0].cells[3] == (ratio,)


def test_its_claims_stand_with_their_verdicts_and_its_part_in_them() -> None:
    pages = pages_of()
    (subject,) = pages["profiles/fast/index.html"].appearances[0].claims
    (baseline,) = pages["profiles/plain/index.html"].appearances[0].claims
    assert (subject.role, baseline.role) == ("against plain", "as the baseline of fast")
    assert subject.status == baseline.status == "refuted"
    (never,) = pages["profiles/fast/index.html"].appearances[1].claims
    assert never.status == "no-evidence"


def test_where_nothing_was_published_it_says_so() -> None:
    item = not_measured(plan_of(experiments=[small_experiment()]).experiments[0])
    groups = profile_pages(SiteContext(label="", current=(item,), published=(), decisions=(), files=()))
    (page, _) = (document.view["page"] for group in groups for document in group.make())
    assert isinstance(page, View)
    assert page.lede == "In one experiment; no run that measured it has been published yet."
    assert page.appearances[0].machine == ""
