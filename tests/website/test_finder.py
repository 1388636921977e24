"""Long lists come in pages, and the index of the search stays light, however many experiments there are."""

import gzip
import json
from dataclasses import replace

import pytest
from factory import plan_of

from lab.website.data.judged import Judged, not_measured
from lab.website.outputs import Attachment, Document, SiteContext
from lab.website.pages.front import front_pages
from lab.website.pages.pagination import PER_PAGE, leaves
from lab.website.pages.search import search_pages

INDEX_BYTES_PER_EXPERIMENT, INDEX_BYTES = 12, 4_000  # in gzip: 124 KB for ten thousand experiments


def many(count: int) -> SiteContext:
    (plan,) = plan_of().experiments
    item = not_measured(plan)
    current = tuple(
        Judged(plan=replace(plan, name=f"experiment-{n:05}", title=f"Experiment {n}"), data=item.data)
        for n in range(count)
    )
    return SiteContext(label="", current=current, published=(), decisions=(), files=())


@pytest.mark.parametrize("count", [0, 1, PER_PAGE, PER_PAGE + 1, 3 * PER_PAGE])
def test_every_item_is_on_one_page_and_pages_lead_to_one_another(count):
    pages = list(leaves(range(count), "things"))
    assert [item for page in pages for item in page.items] == list(range(count))
    assert len(pages) == max(1, -(-count // PER_PAGE))
    assert [page.previous for page in pages[1:]] == [page.path for page in pages[:-1]]
    assert [page.next for page in pages[:-1]] == [page.path for page in pages[1:]]
    assert not pages[0].previous
    assert not pages[-1].next


def test_the_front_page_shows_the_first_experiments_and_the_others_have_pages_of_their_own():
    documents = [output for output in front_pages(many(450)) if isinstance(output, Document)]
    assert [document.path for document in documents] == [
        "index.html", *(f"experiments/page-{number}/index.html" for number in range(2, 6)),
    ]  # fmt: skip
    shown = [row.slug for document in documents for row in document.view["leaf"].items]
    assert len(shown) == len(set(shown)) == 450


def test_the_index_of_many_experiments_is_light():
    outputs = search_pages(many(2_000))
    (index,) = (output for output in outputs if isinstance(output, Attachment))
    assert isinstance(index.content, str)
    assert len(gzip.compress(index.content.encode(), 9)) <= INDEX_BYTES + 2_000 * INDEX_BYTES_PER_EXPERIMENT
    index_data = json.loads(index.content.removeprefix("window.kernelEvidenceIndex = ").removesuffix(";\n"))
    assert len(index_data["experiments"]) == 2_000
    assert len(index_data["forms"]) == 1


def test_no_list_has_more_than_its_share_of_links():
    documents = [output for output in search_pages(many(450)) if isinstance(output, Document)]
    sizes = [len(document.view["leaf"].items) for document in documents if "leaf" in document.view]
    assert max(sizes) == PER_PAGE
    assert sum(sizes) > 450 * 10


def test_hostile_text_in_the_index_is_data():
    context = many(1)
    evil = "</script>\t\n\u2028\u202e<img src=x>"
    hostile = replace(context.current[0], plan=replace(context.current[0].plan, title=evil))
    outputs = search_pages(replace(context, current=(hostile,)))
    (index,) = (output for output in outputs if isinstance(output, Attachment))
    assert isinstance(index.content, str)
    assert index.content.isascii()
    assert index.content.count("\n") == 1
    index_data = json.loads(index.content.removeprefix("window.kernelEvidenceIndex = ").removesuffix(";\n"))
    assert len(index_data["experiments"][0].split("\t")) == 5
