"""A figure on a page without a pointer to its datum fails the build.

Every text of every page is looked at, as it was rendered, just before it is written. A digit with a unit may stand in

- `<data>`, which has the pointer;
- `<code>`, `<pre>`, `<script>`, `<style>` and `<time>`: commands, definitions and dates;
- a chart's `<text>`, `<title>` and `<desc>`, and a page's `<title>`: the same figures stand with their pointers in the
  table beside a chart;
- an element with `data-constant`: what the code that judges prints of its own constants, and what makers print;
- an element with `data-authored`: prose of a template or a page's module about how something is measured;
- what is quoted, word for word, from the plan of a run or from its data: names of GPUs, titles, descriptions and
  claims as they were registered (authors' figures are another room's business, wording.prose), and the reasons
  that the judge gave, which are data that `lab verify` computes again.

A marked element holds no element of its own kind. Attributes are not looked at: they repeat what the text says.
"""

import re
from collections.abc import Iterator
from html import unescape

from lab.errors import DefinitionError
from lab.website.wording.figures_said import DIGIT, FIGURE, RARE_DIGIT, SPACE, UNITS
from lab.website.wording.quoted import Quotable

MARKS = ("data-constant", "data-authored")
EXEMPT = frozenset({"data", "code", "pre", "script", "style", "time", "text", "tspan", "title", "desc"})
INLINE = r"(?:/?(?:abbr|b|em|i|mark|small|span|strong|sub|sup|var)\b[^>]*>|!--.*?-->)"  # behind its `<`
INLINES = re.compile(f"<{INLINE}")


def _text(digit: str) -> re.Pattern[str]:
    """The text of an element up to the next tag, where it holds a figure. A `<data>` is passed over: most are."""
    return re.compile(rf">([^<]*{digit}{SPACE}{UNITS}(?![\w/])[^<]*)<(?!/data>)")


def _parted(digit: str) -> re.Pattern[str]:
    """From the tag on that stands between a digit and its unit, which is no link: a run may be called 'second'.

    To look for tags is faster than to look for digits.
    """
    return re.compile(rf"<(?:(?<={digit}<)|(?<={digit}\s<)){INLINE}(?:<{INLINE}|{SPACE})*{UNITS}(?![\w/])")


USUAL = _text("[0-9]"), _parted("[0-9]")
ANY = _text(DIGIT), _parted(DIGIT)
ASCII = bytes(range(128))
TAG = re.compile(r"</?([a-zA-Z0-9]+)")
MOST_TOLD = 10


def refuse_untraced(page: str, html: str, quotable: Quotable) -> None:
    """DefinitionError that names the page, the texts and what to do, where a figure has no pointer."""
    found = list(dict.fromkeys(untraced(page, html, quotable)))
    if found:
        more = f" ({len(found) - MOST_TOLD} more)" if len(found) > MOST_TOLD else ""
        raise DefinitionError(
            f"{page}: figures without a pointer to their datum: {'; '.join(map(repr, found[:MOST_TOLD]))}{more}. "
            "Make each a Figure of the page's Ledger; or mark its element data-constant where the code prints a "
            "constant of its own, or data-authored where it is prose about the method (lab/website/wording/lint.py)"
        )


def untraced(page: str, html: str, quotable: Quotable) -> Iterator[str]:
    """Every text of a page that says a figure without a pointer."""
    marked: list[tuple[int, int]] | None = None
    for start, end in _figures(html):
        if _around(html, start) in EXEMPT:
            continue
        marked = list(_marked(html)) if marked is None else marked
        if any(first <= start < last for first, last in marked):
            continue
        text = " ".join(unescape(INLINES.sub("", html[start:end])).split())
        if FIGURE.search(quotable.without(page, text)):
            yield text


def _figures(html: str) -> Iterator[tuple[int, int]]:
    """From where to where each text goes that holds a figure."""
    rest = html.encode("utf-8", "surrogatepass").translate(None, ASCII).decode("utf-8", "surrogatepass")
    whole, parted = ANY if RARE_DIGIT.search(rest) else USUAL
    yield from (match.span(1) for match in whole.finditer(html))
    yield from ((html.rfind(">", 0, match.start()) + 1, match.end()) for match in parted.finditer(html))


def _around(html: str, position: int) -> str:
    """The name of the element whose start tag ends here; that of a closed one says nothing of what is around."""
    start = html.rfind("<", 0, position)
    match = TAG.match(html, start) if start >= 0 else None
    return match[1] if match and html[start + 1] != "/" else ""


def _marked(html: str) -> Iterator[tuple[int, int]]:
    """From where to where each marked element goes."""
    for mark in MARKS:
        position = html.find(mark)
        while position >= 0:
            start = html.rfind("<", 0, position)
            tag = TAG.match(html, start)
            end = html.find(f"</{tag[1]}>", position) if tag else -1
            if start >= 0 and html.find(">", start) > position:  # within a tag, and not a word of the text
                yield start, end if end >= 0 else len(html)
            position = html.find(mark, position + 1)
