"""Search: an index that a page loads when it is asked, and the same links as plain lists, for those without scripts."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from lab.website.addresses import experiment_folder
from lab.website.data.outline import Outline
from lab.website.outputs import Attachment, Document, Gathered, Output
from lab.website.pages.decisions import decision_rows
from lab.website.pages.glossary import CHAPTERS
from lab.website.pages.outline import outlines
from lab.website.pages.paging import leaves
from lab.website.wording.references import words


@dataclass(frozen=True, slots=True)
class Entry:
    """`href` is relative to the site's root."""

    text: str
    href: str
    context: str


@dataclass(frozen=True, slots=True)
class Kind:
    name: str
    title: str
    entries: tuple[Entry, ...]


def search_pages(gathered: Gathered) -> Iterator[Output]:
    """search/index.html, its index beside it, and every link by kind in pages of their own."""
    current = outlines(gathered).current
    kinds = tuple(kind for kind in _kinds(gathered, current) if kind.entries)
    counted = tuple((kind.name, kind.title, len(kind.entries)) for kind in kinds)
    yield Document(path="search/index.html", template="search.html", view={"kinds": counted})
    yield Attachment(path="search/index.js", content=_index(current, kinds))
    for kind in kinds:
        for leaf in leaves(kind.entries, f"search/{kind.name}"):
            yield Document(
                path=leaf.path, template="listing.html", view={"kind": kind.name, "title": kind.title, "leaf": leaf}
            )


def _kinds(gathered: Gathered, current: Sequence[Outline]) -> Iterator[Kind]:
    yield Kind("experiments", "Experiments", tuple(_experiment(item) for item in current))
    yield Kind("claims", "Claims", tuple(entry for item in current for entry in _claims(item)))
    yield Kind("cases", "Cases", tuple(entry for item in current for entry in _cases(item)))
    yield Kind("profiles", "Profiles", tuple(_profiles(current)))
    decisions = tuple(
        Entry(row.title, f"decisions/{row.slug}/index.html", ", ".join(filter(None, (row.status, row.freshness))))
        for row in decision_rows(gathered)
    )
    yield Kind("decisions", "Decisions", decisions)
    words = tuple(
        Entry(term.name, f"glossary/index.html#{term.anchor}", term.text)
        for chapter in CHAPTERS
        for term in chapter.terms
    )
    yield Kind("words", "Words", words)


def _experiment(item: Outline) -> Entry:
    return Entry(item.title, f"experiments/{item.name}/index.html", item.question)


def _claims(item: Outline) -> Iterator[Entry]:
    for name, text in item.claims:
        yield Entry(text, f"experiments/{item.name}/index.html#claim-{name}", item.title)


def _cases(item: Outline) -> Iterator[Entry]:
    for name, label in item.cases:
        yield Entry(label, f"experiments/{item.name}/cases/{experiment_folder(name)}/index.html", item.title)


def _profiles(current: Iterable[Outline]) -> Iterator[Entry]:
    """Each once, though many experiments measure it."""
    seen: set[str] = set()
    for item in current:
        for name, title, technique in item.profiles:
            if name not in seen:
                seen.add(name)
                yield Entry(title, f"profiles/{experiment_folder(name)}/index.html", technique)


def _index(current: Iterable[Outline], kinds: Iterable[Kind]) -> str:
    """A classic script, which works from a file too. What many experiments have in common is in it once: their form."""
    forms: dict[tuple[tuple[str, ...], tuple[str, ...]], int] = {}
    rows = []
    for item in current:
        claims = tuple(_line(*claim) for claim in item.claims)
        cases = tuple(_line(*case) for case in item.cases)
        form = forms.setdefault((claims, cases), len(forms))
        rows.append(_line(item.name, item.title, item.question, str(form)))
    held = {kind.name: kind.entries for kind in kinds}
    rest = {
        name: [_line(entry.href, entry.text, entry.context) for entry in held.get(name, ())]
        for name in ("profiles", "decisions", "words")
    }
    whole = {"experiments": rows, "forms": [{"claims": claims, "cases": cases} for claims, cases in forms]} | rest
    return f"window.kernelEvidenceIndex = {json.dumps(whole, separators=(',', ':'))};\n"


def _line(*fields: str) -> str:
    """Fields between tabs; any other white space in them is a space, and a figure that prose refers to is its text."""
    return words("\t".join(" ".join(field.split()) for field in fields))
