"""Search: an index that a page loads when it is asked, and the same links as plain lists, for those without scripts."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from types import SimpleNamespace as View
from typing import TypeVar

from lab.website.addresses import experiment_folder
from lab.website.outputs import Attachment, Document, Output, SiteContext
from lab.website.pages.decisions import decision_rows
from lab.website.pages.outline import outlines
from lab.website.pages.policy import CHAPTERS
from lab.website.wording.references import words

# Long lists in pages, so that the first one stays light however many there are.
PER_PAGE = 200
Item = TypeVar("Item")


def leaves(items: Sequence[Item], folder: str, first: str = "", per_page: int = PER_PAGE) -> Iterator[View]:
    """`folder`/index.html (or `first`), then `folder`/page-2/index.html and so on; one page where there is nothing."""
    count = max(1, -(-len(items) // per_page))
    paths = [first or f"{folder}/index.html", *(f"{folder}/page-{number}/index.html" for number in range(2, count + 1))]
    for index, path in enumerate(paths):
        yield View(
            number=index + 1, of=count, path=path, items=tuple(items[index * per_page : (index + 1) * per_page]),
            total=len(items), previous=paths[index - 1] if index else "",
            next=paths[index + 1] if index + 1 < count else "",
        )  # fmt: skip


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
    current = outlines(context).current
    kinds = tuple(kind for kind in _kinds(context, current) if kind.entries)
    counted = tuple((kind.name, kind.title, len(kind.entries)) for kind in kinds)
    yield Document(path="search/index.html", template="search.html", view={"kinds": counted})
    yield Attachment(path="search/index.js", content=_index(current, kinds))
    for kind in kinds:
        for leaf in leaves(kind.entries, f"search/{kind.name}"):
            yield Document(
                path=leaf.path, template="listing.html", view={"kind": kind.name, "title": kind.title, "leaf": leaf}
            )


def _kinds(context: SiteContext, current: Sequence[View]) -> Iterator[Kind]:
    yield Kind("experiments", "Experiments", tuple(_experiment(item) for item in current))
    yield Kind("claims", "Claims", tuple(entry for item in current for entry in _claims(item)))
    yield Kind("cases", "Cases", tuple(entry for item in current for entry in _cases(item)))
    yield Kind("profiles", "Profiles", tuple(_profiles(current)))
    decisions = tuple(
        SearchEntry(row.title, f"decisions/{row.slug}/index.html", ", ".join(filter(None, (row.status, row.freshness))))
        for row in decision_rows(context)
    )
    yield Kind("decisions", "Decisions", decisions)
    words = tuple(
        SearchEntry(term.name, f"glossary/index.html#{term.anchor}", term.text)
        for terms in CHAPTERS.values()
        for term in terms
    )
    yield Kind("words", "Words", words)


def _experiment(item: View) -> SearchEntry:
    return SearchEntry(item.title, f"experiments/{item.name}/index.html", item.question)


def _claims(item: View) -> Iterator[SearchEntry]:
    for name, text in item.claims:
        yield SearchEntry(text, f"experiments/{item.name}/index.html#claim-{name}", item.title)


def _cases(item: View) -> Iterator[SearchEntry]:
    for name, label in item.cases:
        yield SearchEntry(label, f"experiments/{item.name}/cases/{experiment_folder(name)}/index.html", item.title)


def _profiles(current: Iterable[View]) -> Iterator[SearchEntry]:
    """Each once, though many experiments measure it."""
    seen: set[str] = set()
    for item in current:
        for name, title, technique in item.profiles:
            if name not in seen:
                seen.add(name)
                yield SearchEntry(title, f"profiles/{experiment_folder(name)}/index.html", technique)


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
        for name in ("profiles", "decisions", "words")
    }
    whole = {"experiments": rows, "forms": [{"claims": claims, "cases": cases} for claims, cases in forms]} | rest
    return f"window.kernelEvidenceIndex = {json.dumps(whole, separators=(',', ':'))};\n"


def _line(*fields: str) -> str:
    """Fields between tabs; any other white space in them is a space, and a figure that prose refers to is its text."""
    return words("\t".join(" ".join(field.split()) for field in fields))
