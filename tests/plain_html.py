"""Pages of a small part of HTML, read by the C parser for XML: the tree is what html5lib makes of them, tenfold faster.

In that part every element is closed where it has to be, and nothing stands where a parser of HTML would close an
element, move it or make another one. Of any other page `plain_tree` says nothing, and html5lib has to read it.
"""

import re
import xml.etree.ElementTree as ET

SVG = "{http://www.w3.org/2000/svg}"
HEAD = frozenset({"base", "link", "meta", "script", "title"})
BLOCKS = frozenset({
    "address", "article", "aside", "blockquote", "details", "div", "dl", "fieldset", "figcaption", "figure", "footer",
    "form", "h1", "h2", "h3", "h4", "h5", "h6", "header", "hr", "main", "nav", "ol", "p", "pre", "search", "section",
    "summary", "table", "ul", "li", "dt", "dd",
})  # fmt: skip
MARKS = frozenset({
    "abbr", "b", "br", "cite", "code", "data", "dfn", "em", "i", "img", "input", "kbd", "label", "legend", "mark", "q",
    "s", "samp", "small", "span", "strong", "sub", "sup", "svg", "time", "u", "var", "wbr",
})  # fmt: skip
HEADINGS = frozenset({"h1", "h2", "h3", "h4", "h5", "h6"})
CLOSING = frozenset({"a", "button", "form", "p", *HEADINGS})  # which a second one inside would close
ITEMS = {"li": ("ul", "ol"), "dt": ("dl", "div"), "dd": ("dl", "div")}
# Children that may stand there, and no text beside them; where these are not known, marks and blocks and text may.
ONLY = {
    "html": frozenset({"head", "body"}), "head": HEAD, "ul": frozenset({"li"}), "ol": frozenset({"li"}),
    "dl": frozenset({"dt", "dd", "div"}), "table": frozenset({"caption", "thead", "tbody", "tfoot"}),
    "thead": frozenset({"tr"}), "tbody": frozenset({"tr"}), "tfoot": frozenset({"tr"}), "tr": frozenset({"th", "td"}),
    "select": frozenset({"option"}),
}  # fmt: skip
NOTHING: frozenset[str] = frozenset()
TEXT_ALONE = frozenset({"title", "option", "textarea", "script"})
ANYWHERE = BLOCKS | MARKS | {"a", "button", "select", "textarea", "script"}
DRAWN = frozenset({
    "circle", "clipPath", "defs", "desc", "g", "line", "path", "polygon", "polyline", "rect", "svg", "text", "title",
    "tspan", "use",
})  # fmt: skip
VOID = r"br|hr|img|input|link|meta|wbr"
ATTRIBUTES = r'(?:\s+[a-zA-Z][\w:-]*="[^"<>]*")*'
DOCTYPE = "<!doctype html>\n"
# Before they are made fit for XML: an attribute without its value, and an element that is never closed.
BARE = re.compile(rf"(<[a-z][a-z0-9]*{ATTRIBUTES}\s+[a-z][a-z-]*)(?=[\s>])")
UNCLOSED = re.compile(rf"(<(?:{VOID})\b{ATTRIBUTES})\s*>")
SPACES = " \t\n"  # of HTML; one that does not break is text
CLOSED_IN_ITSELF = re.compile(rf"<(?!(?:{'|'.join(DRAWN - {'title'})})\b)[^<>]*/>")
OTHER_REFERENCE = re.compile(r"&(?!(?:amp|lt|gt|quot|nbsp|#34|#39);)|<!(?!doctype html>\n<html)|<\?|\r|\f")


def plain_tree(text: str) -> ET.Element | None:
    """The page's elements as html5lib has them (without namespaces for HTML's own); None where only that can say."""
    if not text.startswith(f"{DOCTYPE}<html") or OTHER_REFERENCE.search(text) or CLOSED_IN_ITSELF.search(text):
        return None
    document = text.removeprefix(DOCTYPE).replace("&nbsp;", "\N{NO-BREAK SPACE}")
    changed = 1
    while changed:
        document, changed = BARE.subn(r'\1=""', document)
    try:
        root = ET.fromstring(UNCLOSED.sub(r"\1/>", document))
    except ET.ParseError:
        return None
    plain = root.tag == "html" and [child.tag for child in root] == ["head", "body"]
    return root if plain and _plain(root, frozenset()) else None


def _plain(element: ET.Element, above: frozenset[str]) -> bool:
    """Whether everything in an element stays where it stands. `above` are those around it that others close."""
    tag = element.tag
    allowed = ONLY.get(tag, NOTHING if tag in TEXT_ALONE else ANYWHERE)
    if tag in ONLY and any((text or "").strip(SPACES) for text in (element.text, *(child.tail for child in element))):
        return False
    if tag == "script" and element.text:
        return False
    inside = above | {"heading" if tag in HEADINGS else tag} if tag in CLOSING else above
    for child in element:
        name = child.tag
        if name == "svg":
            if not _drawn(child):
                return False
            continue
        if name not in allowed or (name in CLOSING and ("heading" if name in HEADINGS else name) in inside):
            return False
        if name in BLOCKS and "p" in inside:
            return False
        if name in ITEMS and tag not in ITEMS[name]:
            return False
        if not _plain(child, inside):
            return False
    return True


def _drawn(drawing: ET.Element) -> bool:
    """Whether a drawing holds nothing but shapes and text, which then are called by SVG's names."""
    for part in drawing.iter():
        if part.tag not in DRAWN:
            return False
        part.tag = f"{SVG}{part.tag}"
    return True
