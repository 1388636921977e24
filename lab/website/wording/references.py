"""Figures in authored prose, by reference: `{{softmax-fusion/claims/near-quack/smallest_ratio}}`.

A reference names an experiment and, after it, a JSON pointer into the data of its page. When the site is built it
becomes the figure that stands there today, with its pointer, so that no sentence can go stale. Until a page is
written it travels through Markdown and templates as one word between characters that no text holds.
"""

import re
from collections.abc import Mapping
from html import escape
from typing import Any

from lab.errors import DefinitionError, LabError
from lab.website import format
from lab.website.figure import DataView, pointer

REFERENCE = re.compile(r"\{\{\s*([^{}]*?)\s*\}\}")
# Of Unicode's private use: texts of authors and of evidence that hold one are refused (refuse_marks).
BEGIN, BETWEEN, END = "\ue000", "\ue001", "\ue002"
MARK = re.compile(r"[\ue000-\ue002]|(?<!\\)(?:\\\\)*\\u[eE]00[0-2]")  # one of them, or its escape in JSON
TRAVELLING = re.compile(f"{BEGIN}([^{BEGIN}]*?){BETWEEN}([^{BEGIN}]*?){BETWEEN}([^{BEGIN}]*?){END}")
WORDS_ONLY = re.compile(r"<(?:title|script|style|code|pre|text|tspan|desc)\b[^>]*>$")


class References:
    """Looks up what authored prose refers to, in the data of the experiments as their pages show them.

    `lenient` shows no value where a reference leads nowhere: of a preview, which holds few experiments, and of plans
    that are published and can be mended no more.
    """

    def __init__(self, data: Mapping[str, Mapping[str, Any]], *, lenient: bool = False) -> None:
        self._data = data
        self._lenient = lenient

    def resolve(self, text: str, place: str, *, lenient: bool = False) -> str:
        """The text with each reference resolved. DefinitionError names the place and the reference that fails."""

        def figure_for(match: re.Match[str]) -> str:
            resolved = self._resolved(match[1])
            if resolved is None and not (lenient or self._lenient):
                raise DefinitionError(f"{place}: {match[0]} {self._why_not(match[1])}")
            return resolved or "–"

        return REFERENCE.sub(figure_for, text)

    def _resolved(self, reference: str) -> str | None:
        experiment, *path = _parts(reference)
        if experiment not in self._data or not path:
            return None
        view = DataView(self._data[experiment])
        value = view.value(*path)
        if value is None or isinstance(value, Mapping | list | bool):
            return None
        text = value_text(path[-1], value, view.value(*path[:-1]))
        return f"{BEGIN}experiments/{experiment}/data.json#{pointer(*path)}{BETWEEN}{value}{BETWEEN}{text}{END}"

    def _why_not(self, reference: str) -> str:
        """What is wrong with a reference, and what there is instead where it stops leading on."""
        experiment, *path = _parts(reference)
        if experiment not in self._data:
            return f"names no experiment; accepted are {sorted(self._data)}"
        view, node = DataView(self._data[experiment]), self._data[experiment]
        for length in range(1, len(path) + 1):
            below = view.value(*path[:length])
            if below is None:
                where = "/".join((experiment, *path[: length - 1]))
                return f"leads nowhere: {where} holds {sorted(node) if isinstance(node, Mapping) else 'a value'}"
            node = below
        return f"is no single value; it holds {sorted(node) if isinstance(node, Mapping) else 'a list'}"


def _parts(reference: str) -> list[str]:
    return [part.replace("~1", "/").replace("~0", "~") for part in reference.split("/")]


def value_text(key: str, value: Any, around: Any) -> str:
    """A value in the usual format of its quantity, with its unit."""
    if isinstance(value, str):
        return value
    if key in ("ratio", "low", "high") and isinstance(around, Mapping) and around.get("low") is not None:
        return format.ratio(value, around["low"], around["high"])
    asked = around.get("threshold") if isinstance(around, Mapping) else None
    for ending, show in (
        ("ratio", format.beside(asked, format.times)),
        ("geometric_mean", format.times), ("threshold", format.threshold),
        ("bytes_per_second", lambda v: f"{format.gigabytes_per_second(v)} GB/s"),
        ("flops_per_second", lambda v: f"{format.teraflops_per_second(v)} TFLOP/s"),
        ("seconds", lambda v: f"{format.microseconds(v)} µs"), ("bytes", lambda v: f"{format.megabytes(v)} MB"),
        ("share", lambda v: f"{format.share(v)} %"), ("attained", lambda v: f"{format.share(v)} %"),
        ("percent", lambda v: f"{format.percent(v)} %"),
    ):  # fmt: skip
        if key.endswith(ending):
            return show(value)
    return f"{value:,}" if isinstance(value, int) else format.significant(value, 3)


def written(html: str, root: str) -> str:
    """A rendered page with its references as figures; in attributes, titles, charts and code as their text alone."""
    if BEGIN not in html:
        return html

    def figure(match: re.Match[str]) -> str:
        source, value, text = match.groups()
        before = html[: match.start()]
        tag = before.rfind("<")
        if tag > before.rfind(">") or WORDS_ONLY.match(before[tag : before.rfind(">") + 1]):
            return text
        return f'<data value="{value}" data-src="{escape(root + source)}">{text}</data>'

    return TRAVELLING.sub(figure, html)


def refuse_marks(text: str, place: str, error: type[LabError]) -> None:
    """`error` where a text that others wrote, or its JSON, holds a character that stands for a reference here.

    It could pass for a figure with a pointer that nobody computed.
    """
    if mark := MARK.search(text):
        code = f"{ord(mark[0]):04X}" if len(mark[0]) == 1 else mark[0][-4:].upper()
        line = text.count("\n", 0, mark.start()) + 1
        raise error(f"{place}, line {line}: holds U+{code}, a private character that marks figures on pages; remove it")


def words(text: str) -> str:
    """A text with its references as plain words, for files that are no pages."""
    return TRAVELLING.sub(lambda match: match[3], text)
