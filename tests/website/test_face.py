"""What an experiment's page says before anything is unfolded: 1,200 words, beside its table of every cell."""

import dataclasses
from html.parser import HTMLParser

import pytest

from lab.evidence.source import ROOT
from lab.verdict.cells import SCOPE
from lab.website.data.promoted import EVIDENCE, load_evidence
from lab.website.data.winners import winners
from lab.website.figure import DataView
from lab.website.outputs import Document, SiteContext
from lab.website.pages.experiment import experiment_pages
from lab.website.pages.standing import rivals
from lab.website.render import Renderer, SiteInfo
from lab.website.site import DECISIONS, gather
from lab.website.wording.lint import Quotable

MOST_WORDS = 1200
MOST_TABLES = 5
FOLDS = ("details", "summary", "title", "desc")
FRAME = SiteInfo(label="a test", trust=True, methods=True)


class Face(HTMLParser):
    """The words and tables outside folds; of a fold its summary counts, of a drawing its texts.

    The table of every cell counts as one table, and its words do not: they are as many as the experiment has cells.
    """

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.words = self.tables = 0
        self._open: list[str] = []
        self.feed(html[html.index("<main") : html.index("</main>")])

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tables += tag == "table" and not self._hidden
        if tag in FOLDS or (tag == "table" and "cells" in (dict(attrs).get("class") or "").split()):
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if self._open and self._open[-1] == tag:
            self._open.pop()

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            self.words += sum(any(c.isalnum() for c in word) for word in data.split())

    @property
    def _hidden(self) -> bool:
        folded = self._open.count("details") > self._open.count("summary")
        return folded or any(tag in self._open for tag in ("title", "desc", "table"))


@pytest.fixture(scope="module")
def faces() -> dict[str, Face]:
    """Of every experiment with published evidence, as it would be published now."""
    context = gather(load_evidence(EVIDENCE), DECISIONS)
    renderer, face_by_page = Renderer(FRAME), {}
    for item in context.current:
        decided = [pair for pair in context.decisions if item.plan.name in {r.experiment for r in pair[0].rests_on}]
        face_by_page[item.plan.name] = Face(
            page_of(dataclasses.replace(context, current=[item], decisions=decided), renderer)
        )
    return face_by_page


def page_of(context: SiteContext, renderer: Renderer) -> str:
    (page,) = (each for each in experiment_pages(context) if isinstance(each, Document))
    return renderer.file(page, Quotable(()))[1].decode()


def test_the_face_of_every_experiment_is_short(faces: dict[str, Face]) -> None:
    assert len(faces) > 10
    assert {name: face.words for name, face in faces.items() if face.words > MOST_WORDS} == {}
    assert {name: face.tables for name, face in faces.items() if face.tables > MOST_TABLES} == {}


def test_a_word_behind_a_fold_is_not_on_the_face() -> None:
    html = "<main><p>two words</p><details><summary>one</summary><p>not these</p></details>"
    html += '<table class="cells"><td>nor these</td></table><table><td>but this</td></table></main>'
    assert (Face(html).words, Face(html).tables) == (5, 2)


def test_a_page_of_a_case_and_that_of_its_experiment_say_who_shares_the_first_place() -> None:
    shared = 0
    for item in (each.loaded for each in gather(load_evidence(EVIDENCE), DECISIONS).current if each.evidence):
        for case in item.plan.included_cases:
            words = [rival.word for rival in rivals(item, case, DataView(item.data)).values()]
            page = ROOT / "site/experiments" / item.plan.name / "cases" / case.name / "index.html"
            if words and page.exists():
                assert ("shared the first place" in page.read_text()) == ("tie" in words), page
                shared += "tie" in words
    assert shared > 10


def test_an_experiments_page_and_the_grid_of_the_front_page_say_the_same() -> None:
    cells = others = contradicted = 0
    for item in (each.loaded for each in gather(load_evidence(EVIDENCE), DECISIONS).current if each.evidence):
        cases = {case.name: case for case in item.plan.included_cases}
        for row in winners(item, ()):
            if row["mode"] == SCOPE:
                standing = rivals(item, cases[row["case"]], DataView(item.data))
                if next(iter(standing)) != row["cells"][row["best"]]["profile"]:
                    others += 1  # a variant leads, which the grid leaves out: ratios there are to another one
                    continue
                odd = [c for c in row["cells"].values() if standing[c["profile"]].word != c["call"]]
                assert not odd, (item.plan.name, row["case"])
                apart = {c["profile"] for c in row["cells"].values() if "quotient_of_medians" in c}
                assert apart == {c["profile"] for c in row["cells"].values() if standing[c["profile"]].medians}
                contradicted += len(apart)
                cells += len(row["cells"])
    assert cells > 100
    assert contradicted > 10
    assert others < 10
