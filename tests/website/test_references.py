"""Authored prose refers to figures, and types none in."""

import dataclasses
import datetime
from types import SimpleNamespace as View

import pytest
from factory import FAST, PLAIN, small_experiment

from lab.definition.catalogue import load_experiments
from lab.definition.planning import planned
from lab.errors import DefinitionError, EvidenceError
from lab.website.data.judged import Judged, not_measured
from lab.website.decision_records import cited, load_decisions
from lab.website.decisions import Decision
from lab.website.site import DECISIONS, cited_plan
from lab.website.wording.references import (
    References,
    check_prose,
    check_references,
    check_typed,
    refuse_marks,
    value_text,
    words,
    written,
)

HELD = {
    "doubling": View(data={
        "claims": {"fast": {"largest_ratio": 1.336, "supported": 3, "cases": {"a/b": {"ratio": 1.3344, "low": 1.331,
            "high": 1.337}}}},
        "cells": {"x": {"p50_seconds": 2.36123e-5}},
    })
}  # fmt: skip
REFERENCES = References(HELD)
LARGEST = "{{doubling/claims/fast/largest_ratio}}"


def decision(**changes):
    facts = {
        "slug": "0001-x", "title": "T", "status": "accepted", "date": datetime.date(2026, 1, 1), "rests_on": (),
        "review_by": datetime.date(2027, 1, 1), "acknowledged": "", "body": "Because.",
    }  # fmt: skip
    return Decision(**(facts | changes))


def test_a_reference_becomes_the_figure_that_stands_there_today():
    html = written(f"<p>It ran {REFERENCES.resolve(LARGEST, 'here')} as fast.</p>")
    source = "site:experiments/doubling/data.json#/claims/fast/largest_ratio"
    assert html == f'<p>It ran <data value="1.336" data-src="{source}">1.34×</data> as fast.</p>'


def test_it_cannot_go_stale():
    moved = {"doubling": View(data={"claims": {"fast": {"largest_ratio": 1.5}}})}
    assert words(References(moved).resolve(LARGEST, "here")) == "1.50×"


@pytest.mark.parametrize(
    ("reference", "text"),
    [
        ("doubling/claims/fast/cases/a~1b/ratio", "1.334×"), ("doubling/claims/fast/supported", "3"),
        (" doubling/cells/x/p50_seconds ", "23.61 µs"),
    ],
)  # fmt: skip
def test_a_reference_shows_a_value_in_its_usual_format(reference, text):
    assert words(REFERENCES.resolve(f"{{{{{reference}}}}}", "here")) == text


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [("bytes_per_second", 2.93e12, "2930 GB/s"), ("dram_bytes", 67.1e6, "67.1 MB"), ("attained", 0.924, "92.4 %"),
     ("dram_percent", 91.2, "91.2 %"), ("flops_per_second", 7.33e14, "733 TFLOP/s"), ("status", "refuted", "refuted")],
)  # fmt: skip
def test_each_quantity_has_its_unit(key, value, text):
    assert value_text(key, value, {}) == text


@pytest.mark.parametrize(
    ("reference", "says"),
    [
        ("doublin/claims", r"names no experiment; accepted are \['doubling'\]"),
        ("doubling/claims/fats/largest_ratio", r"leads nowhere: doubling/claims holds \['fast'\]"),
        ("doubling/cells/x/p50_seconds/more", "leads nowhere: doubling/cells/x/p50_seconds holds a value"),
        ("doubling/claims/fast", "is no single value; it holds .*'largest_ratio'"),
        ("doubling", "is no single value"), ("", "names no experiment"),
    ],
)  # fmt: skip
def test_a_reference_that_leads_nowhere_says_what_there_is(reference, says):
    with pytest.raises(DefinitionError, match=f"decision 0001-x: .*{says}"):
        cited(decision(body=f"So {{{{{reference}}}}}."), REFERENCES)


@pytest.mark.parametrize(
    "claim", [{"status": "rerun-noise", "judged": 1}, {"status": "rerun-noise", "smallest_ratio": 3.0}]
)
def test_a_ratio_that_todays_evidence_could_not_judge_is_said_to_be_missing(claim):
    """A run in which one claim is too noisy must not keep the whole site from being built."""
    references = References({"doubling": View(data={"claims": {"fast": claim}})})
    assert references.resolve(f"It ran {LARGEST} as fast.", "here") == "It ran (no figure: too noisy to call) as fast."
    with pytest.raises(DefinitionError, match="leads nowhere: doubling/claims/fast holds"):
        references.resolve("{{doubling/claims/fast/largest_ration}}", "here")


def test_a_reference_in_a_record_survives_markdown_and_stays_text_in_attributes_and_titles():
    resolved = REFERENCES.resolve(LARGEST, "here")
    page = f'<title>{resolved}</title><a title="{resolved}">{resolved}</a><code>{resolved}</code>'
    html = written(page)
    assert html.count("<data ") == 1
    assert "<title>1.34×</title>" in html
    assert 'title="1.34×"' in html
    assert "<code>1.34×</code>" in html


def test_hostile_text_that_looks_like_a_reference_is_left_alone():
    html = "<p>{{doubling/claims/fast/largest_ratio}} {{ 7*7 }}</p>"
    assert written(html) == html


@pytest.mark.parametrize("text", ["It is 5 % faster.", "23 µs", "1.33×", f"{LARGEST}, or 3 ms"])
def test_a_typed_in_figure_is_refused_with_what_to_do(text):
    with pytest.raises(DefinitionError, match=r"decision 0001-x, text: says .*must be a reference, \{\{experiment/"):
        cited(decision(body=text), REFERENCES)
    with pytest.raises(DefinitionError, match="acknowledged: says"):
        cited(decision(acknowledged=text), REFERENCES)


@pytest.mark.parametrize(
    "text", [f"It ran {LARGEST} as fast.", "programs of `2 KiB`", "```\nsleep 5 s\n```", "4096×4096"]
)
def test_references_definitions_and_shapes_may_be_written(text):
    check_prose(text, "here")


def test_a_title_refers_to_nothing():
    with pytest.raises(DefinitionError, match="its title refers to a figure"):
        cited(decision(title=LARGEST), REFERENCES)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"importance": "It saves 5 %."}, "doubling: importance: says '5 %'"),
        ({"does_not_show": ("Below 20 µs.",)}, "doubling: does_not_show: says '20 µs'"),
        ({"importance": "{{doubling/none}}"}, "doubling: importance: .* leads nowhere"),
        ({"profiles": (PLAIN, dataclasses.replace(FAST, hypothesis="It takes 3 ms"))}, "hypothesis of fast: says"),
        ({"profiles": (PLAIN, dataclasses.replace(FAST, hypothesis=LARGEST))}, "hypothesis of fast refers to a result"),
    ],
)  # fmt: skip
def test_a_definition_that_types_a_figure_in_is_refused(changes, says):
    def check(experiments):
        check_typed(experiments)
        check_references(experiments, REFERENCES)

    with pytest.raises(DefinitionError, match=says):
        check([small_experiment(**changes)])


def test_a_plan_is_plain_text_without_the_backticks_of_definitions():
    plan = planned(small_experiment(importance="Below `20 µs`.", does_not_show=("At `1 GiB`.",)), frozenset())
    assert (plan.importance, plan.does_not_show) == ("Below 20 µs.", ("At 1 GiB.",))


def test_a_published_plan_shows_what_it_refers_to_and_never_fails():
    item = not_measured(planned(small_experiment(importance=f"{LARGEST} or {{{{gone/x}}}}"), frozenset()))
    assert isinstance(item, Judged)
    assert words(cited_plan(item, References(HELD, lenient=True)).plan.importance) == "1.34× or –"


def test_a_preview_shows_no_value_where_a_reference_leads_to_what_it_does_not_hold():
    lenient = References({}, lenient=True)
    assert cited(decision(body=LARGEST), lenient).body == "–"


def test_the_labs_own_prose_types_no_figure_in():
    check_typed(load_experiments())
    check_references(load_experiments(), References({}, lenient=True))
    for record in load_decisions(DECISIONS):
        cited(record, References({}, lenient=True))


@pytest.mark.parametrize("mark", ["\ue000", "\ue001", "\ue002", "\\ue000", "\\\\\\uE002"])
def test_nobody_else_may_write_the_marks_of_a_figure(mark):
    with pytest.raises(EvidenceError, match=r"run/plan.json, line 2: holds U\+E00[012], a private character"):
        refuse_marks(f"one\nanother {mark}", "run/plan.json", EvidenceError)


@pytest.mark.parametrize("text", ["\ue003", "\\\\ue000", "\\ud83d\\ude00", "U+E000"])
def test_other_characters_and_a_backslash_before_letters_are_theirs(text):
    refuse_marks(text, "run/plan.json", EvidenceError)


def test_a_record_that_holds_a_mark_is_refused(tmp_path):
    (tmp_path / "0001-x.md").write_text("---\ntitle: \ue000\n---\n", encoding="utf-8")
    with pytest.raises(DefinitionError, match=r"0001-x.md, line 2: holds U\+E000"):
        load_decisions(tmp_path)
