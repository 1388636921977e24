"""Figures as HTML: each in a <data> element with its value and the pointer to it. What templates call `parts.num` …"""

from markupsafe import Markup, escape

from lab.website.figure import Figure, Sentence

NOTHING = Markup('<span class="soft" title="no value">–</span>')


def number(figure: Figure | None, data: str = "data.json") -> Markup:
    """`data` is the file that holds the value, relative to the page."""
    return NOTHING if not figure else Markup(_html(figure, f"{escape(data)}#{escape(figure.source)}"))


def near(figure: Figure | None, at: str) -> Markup:
    """Inside an element whose data-at holds the beginning of its pointer: of long tables that is most of it."""
    return NOTHING if not figure else Markup(_html(figure, escape(figure.source[len(at) :])))


def sentence(parts: Sentence, data: str = "data.json") -> Markup:
    return Markup("".join(escape(part) if isinstance(part, str) else number(part, data) for part in parts))


def near_sentence(parts: Sentence, at: str) -> Markup:
    return Markup("".join(escape(part) if isinstance(part, str) else near(part, at) for part in parts))


def _html(figure: Figure, source: str) -> str:
    return f'<data value="{escape(figure.value)}" data-src="{source}">{escape(figure.text)}</data>'
