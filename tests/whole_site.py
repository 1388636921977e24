"""What must hold of every file of a built site together; each question answers with its complaints, none if sound.

complaints = [complaint for ask in QUESTIONS for complaint in ask(Whole(folder))]
"""

import csv
import io
import json
import re
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit

import html5lib
import jsonschema
from plain_html import plain_tree

from lab.website.files.inventory import MANIFEST
from lab.website.verification.files import check_manifest

Complaints = Iterator[str]
ATOM = "{http://www.w3.org/2005/Atom}"
SITEMAP = "{http://www.sitemaps.org/schemas/sitemap/0.9}"
LINKING = ("href", "src", "data-script", "data-index")
WITHOUT_SCHEMA = ("compare/", "methods/", "trust/")  # no program reads these
POLICY = ("default-src 'none'", "connect-src 'none'", "form-action 'none'", "base-uri 'none'")
# Where a reader may be sent by a link, and from where nothing is ever loaded.
ELSEWHERE = frozenset({"github.com"})

BLOCKS = frozenset({
    "address", "article", "aside", "blockquote", "details", "div", "dl", "fieldset", "figure", "footer", "form",
    "h1", "h2", "h3", "h4", "h5", "h6", "header", "hr", "main", "nav", "ol", "p", "pre", "section", "table", "ul",
})  # fmt: skip
# What may hold text and marks on text alone; a link or an insertion may hold what its parent may.
PHRASING = frozenset({
    "abbr", "b", "button", "cite", "code", "data", "dfn", "em", "h1", "h2", "h3", "h4", "h5", "h6", "i", "kbd",
    "label", "mark", "p", "pre", "q", "s", "samp", "small", "span", "strong", "sub", "sup", "time", "u", "var",
})  # fmt: skip
CHILDREN = {
    "ul": {"li", "script", "template"}, "ol": {"li", "script", "template"},
    "dl": {"dt", "dd", "div", "script", "template"},
    "table": {"caption", "colgroup", "thead", "tbody", "tfoot", "tr"},
    "thead": {"tr"}, "tbody": {"tr"}, "tfoot": {"tr"}, "tr": {"th", "td"}, "select": {"option", "optgroup"},
}  # fmt: skip
PARENTS = {"li": {"ul", "ol"}, "dt": {"dl", "div"}, "dd": {"dl", "div"}, "figcaption": {"figure"},
           "summary": {"details"}, "legend": {"fieldset"}}  # fmt: skip
INTERACTIVE = frozenset({
    "a", "button", "details", "input", "label", "select", "textarea",
})  # fmt: skip
REFERRING = frozenset({"aria-labelledby", "aria-describedby", "aria-controls", "for", "headers", "list"})


class Page:
    """One page as a browser takes it: parsed by the rules of HTML, with what it found wrong."""

    def __init__(self, path: Path, site: Path) -> None:
        self.name = path.relative_to(site).as_posix()
        self.text = path.read_text(encoding="utf-8")
        self.errors: list[str] = []
        plain = plain_tree(self.text)
        self.tree = self._parsed() if plain is None else plain
        self.elements = [element for element in self.tree.iter() if isinstance(element.tag, str)]
        self.ids = [element.get("id", "") for element in self.elements if element.get("id") is not None]

    def _parsed(self) -> ET.Element:
        parser = html5lib.HTMLParser(namespaceHTMLElements=False)
        tree: ET.Element = parser.parse(self.text)
        self.errors = [f"line {at[0]}: {code} {data}" for at, code, data in parser.errors]
        return tree

    def each(self, tag: str) -> list[ET.Element]:
        return [element for element in self.elements if element.tag == tag]

    @cached_property
    def links(self) -> list[tuple[str, str]]:
        """(tag, address) of everything that the page refers to."""
        return [
            (str(element.tag), address)
            for element in self.elements
            for name in LINKING
            if (address := element.get(name)) is not None
        ]

    def meta(self, **attribute: str) -> str:
        ((name, value),) = attribute.items()
        name = name.replace("_", "-")
        return next(
            (attributes.get("content", "") for attributes in self.each("meta") if attributes.get(name) == value), ""
        )


class Whole:
    """A built site, read once. Pages that are files of a site `like` it too, by a hard link, are not read again."""

    def __init__(self, folder: Path, like: "Whole | None" = None) -> None:
        self.folder = folder
        self.files = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
        self._names = frozenset(self.files)
        self.pages = {
            name: like.pages[name] if like and self._shares(name, like) else Page(folder / name, folder)
            for name in self.files
            if name.endswith(".html")
        }

    def _shares(self, name: str, like: "Whole") -> bool:
        return name in like.pages and (self.folder / name).samefile(like.folder / name)

    def read(self, name: str) -> str:
        return (self.folder / name).read_text(encoding="utf-8")

    def named(self, ending: str) -> list[str]:
        return [name for name in self.files if name.endswith(ending)]

    def resolves(self, page: str, link: str) -> bool:
        """Whether a link of a file leads to a file of the site and, with a fragment, to something in it."""
        target = urlsplit(urljoin(f"file:///site/{page}", link))
        name = unquote(target.path).removeprefix("/site/")
        exists = name in self._names and unquote(target.path).startswith("/site/")
        return exists and (not target.fragment or name not in self.pages or self.holds(name, target.fragment))

    def holds(self, name: str, fragment: str) -> bool:
        return unquote(fragment) in self.pages[name].ids


def links_that_lead_nowhere(site: Whole) -> Complaints:
    for name, page in site.pages.items():
        for tag, link in page.links:
            target = urlsplit(link)
            if target.scheme or target.netloc:
                if tag != "a" or target.scheme not in ("http", "https") or target.hostname not in ELSEWHERE:
                    yield f"{name}: <{tag}> leaves the site for {link}"
            elif not site.resolves(name, link):
                yield f"{name}: {link} leads nowhere"


def styles_that_ask_elsewhere(site: Whole) -> Complaints:
    for name in site.named(".css"):
        for address in re.findall(r"url\(([^)]*)\)|@import\s+(\S+)", site.read(name)):
            yield f"{name}: loads {''.join(address)}"


def ids_that_are_not_one(site: Whole) -> Complaints:
    for name, page in site.pages.items():
        yield from (
            f"{name}: {count} elements are called {identifier!r}" for identifier, count in _more_than_one(page.ids)
        )
        ids = set(page.ids)
        for element in page.elements:
            for attribute in REFERRING.intersection(element.keys()):
                missing = set(element.get(attribute, "").split()) - ids
                yield from (f"{name}: {attribute} names {other!r}, which is not there" for other in missing)


def names_that_are_not_one(site: Whole) -> Complaints:
    """Titles and descriptions: what tells pages apart in a list of tabs, of bookmarks, of results of a search."""
    titles = {name: "".join(page.tree.find("head/title").itertext()) for name, page in site.pages.items()}
    descriptions = {name: page.meta(name="description") for name, page in site.pages.items()}
    for kind, texts in (("title", titles), ("description", descriptions)):
        yield from (f"{name}: has no {kind}" for name, text in texts.items() if not text.strip())
        for text, _ in _more_than_one(texts.values()):
            yield f"{kind} {text!r} is of {[name for name, other in texts.items() if other == text][:4]}"


def html_that_is_not_valid(site: Whole) -> Complaints:
    for name, page in site.pages.items():
        yield from (f"{name}: {error}" for error in page.errors)
        yield from (f"{name}: {error}" for error in _misplaced(page))
        for tag in ("main", "h1", "title"):
            count = len(page.each(tag))
            if count != 1:
                yield f"{name}: holds {count} <{tag}>"
        if page.tree.get("lang") != "en":
            yield f"{name}: does not say its language"
        yield from (f"{name}: an image without alt" for image in page.each("img") if image.get("alt") is None)
        yield from (
            f"{name}: <data> without a value" for attributes in page.each("data") if attributes.get("value") is None
        )


def pages_without_a_policy(site: Whole) -> Complaints:
    for name, page in site.pages.items():
        policy = page.meta(http_equiv="Content-Security-Policy")
        yield from (f"{name}: its policy lacks {rule}" for rule in POLICY if rule not in policy)
        if "unsafe-" in policy or "http" in policy:
            yield f"{name}: its policy is {policy}"
        for element in page.elements:
            yield from (f"{name}: <{element.tag} {key}>" for key in element.attrib if re.match("on|style$", key))


def pages_that_the_sitemap_lacks(site: Whole) -> Complaints:
    listed = [location for name in site.named(".xml") for location in _locations(site, name)]
    pages = [location for location in listed if not location.endswith(".xml")]
    yield from (f"sitemap: lists {name} {count} times" for name, count in _more_than_one(pages))
    for name in set(pages) ^ set(site.pages):
        yield f"sitemap: {name} is {'listed, and no page' if name in pages else 'a page that is not listed'}"


def files_that_the_manifest_denies(site: Whole) -> Complaints:
    yield from map(str, check_manifest(site.folder))


def data_that_no_schema_allows(site: Whole) -> Complaints:
    validators = {}
    for name in (*site.named("data.json"), MANIFEST):
        data = json.loads(site.read(name))
        if name.startswith(WITHOUT_SCHEMA) and "$schema" not in data:
            continue
        schema = urljoin(name, data.get("$schema", ""))
        if schema not in site.files or not schema.startswith("schemas/"):
            yield f"{name}: its $schema is {data.get('$schema')!r}, which is not there"
            continue
        if schema not in validators:
            definition = json.loads(site.read(schema))
            jsonschema.Draft202012Validator.check_schema(definition)
            validators[schema] = jsonschema.Draft202012Validator(definition)
        for error in validators[schema].iter_errors(data):
            yield f"{name}: /{'/'.join(map(str, error.absolute_path))}: {error.message[:300]}"


def feed_that_is_no_atom(site: Whole) -> Complaints:
    """RFC 4287, as far as this feed goes; ids are tags, and links lead to pages."""
    feed = ET.fromstring(site.read("feed.atom"))
    entries = feed.findall(f"{ATOM}entry")
    for element in (feed, *entries):
        lacking = [tag for tag in ("id", "title", "updated") if not (element.findtext(ATOM + tag) or "").strip()]
        yield from (f"feed: an entry or the feed itself has no {tag}" for tag in lacking)
        if not re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", element.findtext(f"{ATOM}updated") or ""):
            yield f"feed: {element.findtext(f'{ATOM}updated')!r} is no moment"
        for link in element.findall(f"{ATOM}link"):
            if not site.resolves("feed.atom", link.get("href", "")):
                yield f"feed: {link.get('href')} leads nowhere"
    if not feed.findtext(f"{ATOM}author/{ATOM}name") or not feed.findall(f"{ATOM}link[@rel='self']"):
        yield "feed: has no author, or does not name itself"
    ids = [element.findtext(f"{ATOM}id") or "" for element in (feed, *entries)]
    yield from (
        f"feed: {entry_id} is no tag" for entry_id in ids if not re.fullmatch(r"tag:[^,]+,\d{4}:[\w./-]+", entry_id)
    )
    yield from (f"feed: {entry_id} is the id of {count} entries" for entry_id, count in _more_than_one(ids))
    newest = max((entry.findtext(f"{ATOM}updated") or "" for entry in entries), default="")
    if entries and feed.findtext(f"{ATOM}updated") != newest:
        yield "feed: was not updated with its newest entry"


def tables_that_are_not_as_shown(site: Whole) -> Complaints:
    """Rows of the CSV of an experiment: those of its data, and of the claims those that its page shows."""
    for name in site.named("/cells.csv"):
        folder = name.rpartition("/")[0]
        data = json.loads(site.read(f"{folder}/data.json"))
        cells, claims = (_rows(site, f"{folder}/{table}.csv") for table in ("cells", "claims"))
        wanted = {(case, profile) for case, profiles in data["cells"].items() for profile in profiles}
        if len(cells) != len(wanted) or {(row["case"], row["profile"]) for row in cells} != wanted:
            yield f"{name}: {len(cells)} rows of {len(wanted)} cells"
        for row in cells:
            yield from (f"{name}: {problem}" for problem in _unlike(row, data["cells"][row["case"]][row["profile"]]))
        for row in claims:
            verdict = data["claims"][row["claim"]]["cases"][row["case"]]
            yield from (f"{folder}/claims.csv: {problem}" for problem in _unlike(row, verdict))
        shown = Counter(row["claim"] for row in claims)
        for claim, result in data["claims"].items():
            if shown[claim] != len(result["cases"]):
                yield f"{folder}/claims.csv: {shown[claim]} rows of {claim}, of {len(result['cases'])} verdicts"
        page = site.pages.get(f"{folder}/index.html")
        # On a CPU the claims that need a GPU are one line.
        rows = _rows_case_by_case(page) if page and (data["machine"] or {}).get("device") != "cpu" else None
        if rows is not None and rows != len(claims):
            yield f"{folder}: its page shows {rows} verdicts case by case, its CSV {len(claims)}"


def tables_that_no_reader_reads(site: Whole) -> Complaints:
    """RFC 4180: CRLF, a header of names without repeats, and as many fields in every row."""
    for name in site.named(".csv"):
        text = (site.folder / name).read_bytes().decode("utf-8")
        rows = list(csv.reader(io.StringIO(text, newline=""), strict=True))
        if not text.endswith("\r\n") or len(rows) != text.count("\r\n"):
            yield f"{name}: its lines do not end in CRLF"
        yield from (f"{name}: {count} columns {column!r}" for column, count in _more_than_one(rows[0]))
        if {len(row) for row in rows} != {len(rows[0])}:
            yield f"{name}: rows of {sorted({len(row) for row in rows})} fields"


def tables_that_are_only_shown(site: Whole) -> Complaints:
    """A page with a table leads to a file of its rows."""
    for page in site.pages.values():
        if page.tree.find(".//table") is not None and not any(link.endswith(".csv") for _, link in page.links):
            yield f"{page.name}: has a table, and no CSV"


QUESTIONS: tuple[Callable[[Whole], Complaints], ...] = (
    links_that_lead_nowhere, styles_that_ask_elsewhere, ids_that_are_not_one, names_that_are_not_one,
    html_that_is_not_valid, pages_without_a_policy, pages_that_the_sitemap_lacks, files_that_the_manifest_denies,
    data_that_no_schema_allows, feed_that_is_no_atom, tables_that_are_not_as_shown,
    tables_that_no_reader_reads, tables_that_are_only_shown,
)  # fmt: skip


def _misplaced(page: Page) -> Iterator[str]:
    """Elements where HTML does not allow them; the parser itself finds what was not closed."""

    def walk(element: ET.Element, parents: tuple[str, ...]) -> Iterator[str]:
        tag = str(element.tag)
        for child in element:
            name = child.tag
            if not isinstance(name, str) or name.startswith("{"):
                continue  # a comment, or a drawing
            if name not in CHILDREN.get(tag, {name}) or tag not in PARENTS.get(name, {tag}):
                yield f"<{name}> in <{tag}>"
            if name in BLOCKS and tag in PHRASING and not (tag == "summary" and name[0] == "h"):
                yield f"<{name}> in <{tag}>"
            if name in INTERACTIVE and {"a", "button"} & {tag, *parents}:
                yield f"<{name}> in a link or a button"
            yield from walk(child, (*parents, tag))

    yield from walk(page.tree, ())


def _more_than_one(values) -> Iterator[tuple[str, int]]:
    return ((each, count) for each, count in Counter(values).items() if count > 1)


def _locations(site: Whole, name: str) -> list[str]:
    root = ET.fromstring(site.read(name))
    base = urljoin(_common(site), ".")
    return [unquote((element.text or "").removeprefix(base)) for element in root.iter(f"{SITEMAP}loc")]


def _common(site: Whole) -> str:
    """The address of the site, where its pages say one."""
    links = site.pages["index.html"].each("link")
    return next((link.get("href", "") for link in links if link.get("rel") == "canonical"), "")


def _rows(site: Whole, name: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO((site.folder / name).read_bytes().decode("utf-8"), newline="")))


def _unlike(row: dict[str, str], datum: dict) -> Iterator[str]:
    """Columns that are called as a number of the datum, and are not that number."""
    for column in row.keys() & datum.keys():
        value = datum[column]
        if isinstance(value, int | float) and not isinstance(value, bool) and float(row[column] or "nan") != value:
            yield f"{column} is {row[column]} in a row whose datum is {value}"


def _rows_case_by_case(page: Page) -> int | None:
    """Verdicts in the fold of that name; None where the page has none. Rows with one cell name the claim."""
    fold = next((element for element in page.elements if element.get("id") == "case-by-case"), None)
    return None if fold is None else sum(len(row) > 1 for row in fold.iterfind(".//tbody/tr"))
