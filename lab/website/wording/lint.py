"""A figure on a page without a pointer to its datum fails the build.

Every text of every page is looked at, as it was rendered, just before it is written. A digit with a unit may stand in

- `<data>`, which has the pointer;
- `<code>`, `<pre>`, `<script>`, `<style>` and `<time>`: commands, definitions and dates;
- a chart's `<text>`, `<title>` and `<desc>`, and a page's `<title>`: the same figures stand with their pointers in the
  table beside a chart;
- an element with `data-constant`: what the code that judges prints of its own constants, and what makers print;
- an element with `data-authored`: prose of a template or a page's module about how something is measured;
- what is quoted, word for word, from the plan of a run or from its data: names of GPUs, titles, descriptions and
  claims as they were registered (authors' figures are another room's business, wording.references), and the reasons
  that the judge gave, which are data that `lab verify` computes again.

A marked element holds no element of its own kind. Attributes are not looked at: they repeat what the text says.
"""

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from html import unescape

from lab.definition.claim_words import claim_sentence
from lab.definition.plan import PlannedExperiment
from lab.errors import DefinitionError
from lab.website.data.judged import Judged
from lab.website.wording.references import DIGIT, FIGURE, RARE_DIGIT, SPACE, UNITS


# What a page may quote word for word: names and texts of a plan, and sentences that are data themselves.
def quoted(item: Judged) -> tuple[str, ...]:
    """What of one experiment may be quoted, as far as it holds a figure; without line breaks, as on pages."""
    phrases = (*_phrases(item), *_machine(item))
    return tuple(dict.fromkeys(" ".join(phrase.split()) for phrase in phrases if _holds_figure(phrase)))


class Quotable:
    """What pages may quote: a page of an experiment is given the phrases of that one, lists and runs those of all."""

    def __init__(self, phrases: Iterable[str]) -> None:
        # A shorter one may be part of a longer one.
        self._phrases = sorted(set(phrases), key=lambda phrase: (-len(phrase), phrase))
        self._left: dict[str, str] = {}  # by text: many pages say the same

    def without(self, text: str) -> str:
        """What is left of a text when everything that it quotes is taken away."""
        if text not in self._left:
            left = text
            for phrase in self._phrases:
                left = left.replace(phrase, " ")
            self._left[text] = left
        return self._left[text]


@lru_cache(maxsize=1 << 14)
def _holds_figure(phrase: str) -> bool:
    """Every run of an experiment has nearly the same phrases."""
    return FIGURE.search(phrase) is not None


def _machine(item: Judged) -> Iterator[str]:
    yield from (value for value in item.machine.values() if isinstance(value, str))
    yield from ("{}={}".format(*pair) for pair in (item.machine.get("environment") or {}).items())


def _phrases(item: Judged) -> Iterator[str]:
    yield from _registered(item.plan)
    yield str(item.evidence.get("cut_short", ""))
    yield str(item.evidence.get("run_id", ""))
    yield from (item.evidence.get("damages") or {}).values()
    for claim in item.data["claims"].values():
        yield from (verdict["reason"] for verdict in claim["cases"].values())
    for control in item.data["controls"].values():
        yield from control["spoiled_because"]
    for case in item.data["cells"].values():
        for cell in case.values():
            yield cell["reason"]
            yield from (cell.get("unmeasured") or {}).values()
            yield from (cell[part].get("reason") or "" for part in ("traffic", "counters") if part in cell)
    for rows in item.data["explained"].values():
        yield from (reason for row in rows.values() for reason in row["others"])


def _registered(plan: PlannedExperiment) -> Iterator[str]:
    yield from (plan.title, plan.question, plan.importance, plan.focus, *plan.does_not_show)
    for case in plan.cases:
        yield from (case.description, case.description[1:])  # a page may begin a sentence with it
    for profile in plan.profiles:
        yield from (profile.title, profile.technique, profile.hypothesis, profile.signal)
    for claim in plan.claims:
        yield from (claim_sentence(claim), claim.text)
    yield from (name for names in plan.metrics.values() for name in names)


MARKS = ("data-constant", "data-authored")
EXEMPT = frozenset({"data", "code", "pre", "script", "style", "time", "text", "tspan", "title", "desc"})
INLINE = r"(?:/?(?:abbr|b|em|i|mark|small|span|strong|sub|sup|var)\b[^>]*>|!--.*?-->)"  # behind its `<`
INLINES = re.compile(f"<{INLINE}")


def _text(digit: str) -> re.Pattern[str]:
    """The text of an element up to the next tag, where it holds a figure. A `<data>` is passed over: most are."""
    return re.compile(rf">(?![^<]*</data>)([^<]*{digit}{SPACE}{UNITS}(?![\w/])[^<]*)<")


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
    texts = list(dict.fromkeys(untraced(html, quotable)))
    if texts:
        more = f" ({len(texts) - MOST_TOLD} more)" if len(texts) > MOST_TOLD else ""
        raise DefinitionError(
            f"{page}: figures without a pointer to their datum: {'; '.join(map(repr, texts[:MOST_TOLD]))}{more}. "
            "Make each a Figure of the page's DataView; or mark its element data-constant where the code prints a "
            "constant of its own, or data-authored where it is prose about the method (lab/website/wording/lint.py)"
        )


def untraced(html: str, quotable: Quotable) -> Iterator[str]:
    """Every text of a page that says a figure without a pointer."""
    marked: list[tuple[int, int]] | None = None
    for start, end in _figures(html):
        if _around(html, start) in EXEMPT:
            continue
        marked = list(_marked(html)) if marked is None else marked
        if any(first <= start < last for first, last in marked):
            continue
        text = " ".join(unescape(INLINES.sub("", html[start:end])).split())
        if FIGURE.search(quotable.without(text)):
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
