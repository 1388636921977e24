"""Figures as HTML: each in a <data> element with its value and the pointer to it. What templates call `parts.num` …"""

import re
from collections.abc import Callable
from functools import partial

from markupsafe import Markup, escape

from lab.website.figure import Figure, Sentence

SPECIAL = re.compile("[&<>'\"]")
_markup: Callable[[str], Markup] = partial(str.__new__, Markup)  # Markup itself asks first what it is given
NOTHING = Markup('<span class="soft" title="no value">–</span>')


def number(figure: Figure | None, data: str = "data.json") -> Markup:
    """`data` is the file that holds the value, relative to the page."""
    return NOTHING if not figure else _markup(_html(figure, f"{data}#{figure.source}"))


def near(figure: Figure | None, at: str) -> Markup:
    """Inside an element whose data-at holds the beginning of its pointer: of long tables that is most of it."""
    return NOTHING if not figure else _markup(_html(figure, figure.source[len(at) :]))


def sentence(parts: Sentence, data: str = "data.json") -> Markup:
    return _markup("".join([_escaped(part) if isinstance(part, str) else number(part, data) for part in parts]))


def near_sentence(parts: Sentence, at: str) -> Markup:
    return _markup("".join([_escaped(part) if isinstance(part, str) else near(part, at) for part in parts]))


def _html(figure: Figure, source: str) -> str:
    """Hardly any figure has anything to escape; to see that is faster than to do it."""
    value, text = str(figure.value), figure.text
    if SPECIAL.search(f"{value}{source}{text}"):
        value, source, text = map(_escaped, (value, source, text))
    return f'<data value="{value}" data-src="{source}">{text}</data>'


def _escaped(text: str) -> str:
    return str(escape(text)) if SPECIAL.search(text) else text
