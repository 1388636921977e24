"""Search: an index that a page loads when it is asked, and the same links as plain lists, for those without scripts."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from types import SimpleNamespace as View

from lab.website.addresses import experiment_folder
from lab.website.outputs import Attachment, Document, Output, SiteContext
from lab.website.pages.decisions import decision_rows
from lab.website.pages.outline import outlines
from lab.website.pages.pagination import leaves
from lab.website.pages.policy import CHAPTERS
from lab.website.pages.zoo import has_zoo
from lab.website.wording.references import words


@dataclass(frozen=True, slots=True)
class SearchEntry:
    """`href` is relative to the site's root."""

    text: str
    href: str
    context: str


@dataclass(frozen=True, slots=True)
class Kind:
    name: str
    title: str
    entries: tuple[SearchEntry, ...]


def search_pages(context: SiteContext) -> Iterator[Output]:
    """search/index.html, its index beside it, and every link by kind in pages of their own."""
    outlined = outlines(context)
    current = outlined.current
    kinds = tuple(kind for kind in _kinds(context, current) if kind.entries)
    counted = tuple((kind.name, kind.title, len(kind.entries)) for kind in kinds)
    yield Document(
        path="search/index.html",
        template="search.html",
        view={"kinds": counted, "zoo": not context.label and has_zoo(outlined)},
    )
    yield Attachment(path="search/index.js", content=_index(current, kinds))
    for kind in kinds:
        for leaf in leaves(kind.entries, f"search/{kind.name}"):
            yield Document(
                path=leaf.path, template="listing.html", view={"kind": kind.name, "title": kind.title, "leaf": leaf}
            )


def _kinds(context: SiteContext, current: Sequence[View]) -> Iterator[Kind]:
    pages = [(item, f"experiments/{item.name}") for item in current]
    entries = (SearchEntry(item.title, f"{page}/index.html", item.question) for item, page in pages)
    yield Kind("experiments", "Experiments", tuple(entries))
    entries = (
        SearchEntry(text, f"{page}/index.html#claim-{name}", item.title)
        for item, page in pages
        for name, text in item.claims
    )
    yield Kind("claims", "Claims", tuple(entries))
    entries = (
        SearchEntry(label, f"{page}/cases/{experiment_folder(name)}/index.html", item.title)
        for item, page in pages
        for name, label in item.cases
    )
    yield Kind("cases", "Cases", tuple(entries))
    entries = (
        SearchEntry(row.title, f"decisions/{row.slug}/index.html", ", ".join(filter(None, (row.status, row.freshness))))
        for row in decision_rows(context)
    )
    yield Kind("decisions", "Decisions", tuple(entries))
    terms = (term for terms in CHAPTERS.values() for term in terms)
    entries = (SearchEntry(term.name, f"glossary/index.html#{term.anchor}", term.text) for term in terms)
    yield Kind("words", "Words", tuple(entries))


def _index(current: Iterable[View], kinds: Iterable[Kind]) -> str:
    """A classic script, which works from a file too. What many experiments have in common is in it once: their form."""
    forms: dict[tuple[tuple[str, ...], tuple[str, ...]], int] = {}
    rows = []
    for item in current:
        claims = tuple(_line(*claim) for claim in item.claims)
        cases = tuple(_line(*case) for case in item.cases)
        form = forms.setdefault((claims, cases), len(forms))
        rows.append(_line(item.name, item.title, item.question, str(form), item.machine_name))
    entries_by_kind = {kind.name: kind.entries for kind in kinds}
    rest = {
        name: [_line(entry.href, entry.text, entry.context) for entry in entries_by_kind.get(name, ())]
        for name in ("decisions", "words")
    }
    whole = {"experiments": rows, "forms": [{"claims": claims, "cases": cases} for claims, cases in forms]} | rest
    return f"window.kernelEvidenceIndex = {json.dumps(whole, separators=(',', ':'))};\n"


def _line(*fields: str) -> str:
    """Fields between tabs; any other white space in them is a space, and a figure that prose refers to is its text."""
    return words("\t".join(" ".join(field.split()) for field in fields))
