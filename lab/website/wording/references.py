"""Figures in authored prose, by reference: `{{softmax-fusion/claims/near-quack/smallest_ratio}}`; none is typed in.

A reference names an experiment and, after it, a JSON pointer into the data of its page. When the site is built it
becomes the figure that stands there today, with its pointer, so that no sentence can go stale; where today's evidence
could not judge the claim, it says so. Until a page is written it travels through Markdown and templates as one word
between characters that no text holds.

In decision records, and in what an experiment's definition says of its importance, focus, hypotheses and limits, a
digit with a unit is refused unless it stands in backticks, which say that it is a definition: a size, a threshold.
Titles, claims, profiles and descriptions of cases define; they are registered before anything is measured and cannot
quote a result. Plans of runs that are published are shown as they were registered, whatever today's rule: a plan's
digest is its runs' address, and its text can no longer be mended.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from typing import Any, Protocol

from lab.definition.experiment import Experiment
from lab.definition.plan import PlannedExperiment
from lab.errors import DefinitionError, LabError
from lab.quantities import unit_of
from lab.verdict.judge import Status
from lab.verdict.plain_words import STATUS_WORDS
from lab.website import format
from lab.website.addresses import SITE
from lab.website.figure import DataView, pointer

REFERENCE = re.compile(r"\{\{\s*([^{}]*?)\s*\}\}")
# Of Unicode's private use: texts of authors and of evidence that hold one are refused (refuse_marks).
BEGIN, BETWEEN, END = "\ue000", "\ue001", "\ue002"
MARK = re.compile(r"[\ue000-\ue002]|(?<!\\)(?:\\\\)*\\u[eE]00[0-2]")  # one of them, or its escape in JSON
IN_A_MARK = (BEGIN, BETWEEN, END, r"\ue00", r"\uE00")  # one of these, which is quickly looked for in long journals
TRAVELLING = re.compile(f"{BEGIN}([^{BEGIN}]*?){BETWEEN}([^{BEGIN}]*?){BETWEEN}([^{BEGIN}]*?){END}")
RATIOS = ("smallest_ratio", "largest_ratio", "geometric_mean", "ratio", "low", "high")  # that a verdict may lack
WORDS_ONLY = re.compile(r"<(?:title|script|style|code|pre|text|tspan|desc)\b[^>]*>$")


class WithData(Protocol):
    @property
    def data(self) -> Mapping[str, Any]: ...


class References:
    """Looks up what authored prose refers to, in the data of the experiments as their pages show them.

    `lenient` shows no value where a reference leads nowhere: of a preview, which holds few experiments, and of plans
    that are published and can be mended no more.
    """

    def __init__(self, experiments: Mapping[str, WithData], *, lenient: bool = False) -> None:
        self._experiments = experiments
        self._lenient = lenient

    def resolve(self, text: str, place: str) -> str:
        """The text with each reference resolved. DefinitionError names the place and the reference that fails."""

        def figure_for(match: re.Match[str]) -> str:
            try:
                return self._resolved(match[1])
            except LookupError as problem:
                if self._lenient:
                    return "–"
                raise DefinitionError(f"{place}: {match[0]} {problem.args[0]}") from None

        return REFERENCE.sub(figure_for, text)

    def _resolved(self, reference: str) -> str:
        """LookupError with what is wrong, and what there is instead where the reference stops leading on."""
        experiment, *path = _parts(reference)
        value, folder = self._data_of(experiment, path)
        view, around = DataView(value), value
        for place in range(len(path)):
            around, value = value, view.value(*path[: place + 1])
            if value is None and place == len(path) - 1 and (why := _unjudged(around, path[place])):
                return f"(no figure: {why})"
            if value is None:
                where = "/".join((experiment, *path[:place]))
                raise LookupError(
                    f"leads nowhere: {where} holds {sorted(around) if isinstance(around, Mapping) else 'a value'}"
                )
        if isinstance(value, Mapping | list | bool):
            holds = sorted(value) if isinstance(value, Mapping) else "a list"
            raise LookupError(f"is no single value; it holds {holds}")
        text = value_text(path[-1], value, around)
        return f"{BEGIN}{SITE}{folder}/data.json#{pointer(*path)}{BETWEEN}{value}{BETWEEN}{text}{END}"

    def _data_of(self, experiment: str, path: Sequence[str]) -> tuple[Any, str]:
        """The data that a reference goes into, and in which folder of the site they stand."""
        if experiment not in self._experiments:
            raise LookupError(f"names no experiment; accepted are {sorted(self._experiments)}")
        return self._experiments[experiment].data, f"experiments/{experiment}"


def _unjudged(around: Any, key: str) -> str:
    """Why a claim, or a claim at a case, has no such ratio; empty for all else."""
    if key not in RATIOS or not isinstance(around, Mapping) or "status" not in around:
        return ""
    return STATUS_WORDS[Status(around["status"])]


def _parts(reference: str) -> list[str]:
    return [part.replace("~1", "/").replace("~0", "~") for part in reference.split("/")]


def value_text(key: str, value: Any, around: Any) -> str:
    """A value in the usual format of its quantity, with its unit."""
    if isinstance(value, str):
        return value
    if key in ("ratio", "low", "high") and isinstance(around, Mapping) and around.get("low") is not None:
        return format.ratio(value, around["low"], around["high"])
    if key.endswith("ratio"):
        return format.beside(around.get("threshold") if isinstance(around, Mapping) else None, format.times)(value)
    if key in ("threshold", "geometric_mean"):
        return format.threshold(value) if key == "threshold" else format.times(value)
    if (unit := unit_of(key)).symbol:
        return f"{unit.text(value)} {unit.symbol}"
    return f"{value:,}" if isinstance(value, int) else format.significant(value, 3)


def written(html: str) -> str:
    """A rendered page with its references as figures; in attributes, titles, charts and code as their text alone."""
    if BEGIN not in html:
        return html

    def figure(match: re.Match[str]) -> str:
        source, value, text = match.groups()
        before = html[: match.start()]
        tag = before.rfind("<")
        if tag > before.rfind(">") or WORDS_ONLY.match(before[tag : before.rfind(">") + 1]):
            return text
        return f'<data value="{value}" data-src="{escape(source)}">{text}</data>'

    return TRAVELLING.sub(figure, html)


def refuse_marks(text: str, place: str, error: type[LabError]) -> None:
    """`error` where a text that others wrote, or its JSON, holds a character that stands for a reference here.

    It could pass for a figure with a pointer that nobody computed.
    """
    if any(each in text for each in IN_A_MARK) and (mark := MARK.search(text)):
        code = f"{ord(mark[0]):04X}" if len(mark[0]) == 1 else mark[0][-4:].upper()
        line = text.count("\n", 0, mark.start()) + 1
        raise error(f"{place}, line {line}: holds U+{code}, a private character that marks figures on pages; remove it")


def words(text: str) -> str:
    """A text with its references as plain words, for files that are no pages."""
    return TRAVELLING.sub(lambda match: match[3], text) if BEGIN in text else text


# A measured figure that is typed into authored prose, and so would go stale.
DEFINITION = re.compile(r"(`+).+?\1", re.DOTALL)  # what stands in backticks is a size or a threshold
WHAT_TO_DO = (
    "A measured figure must be a reference, {{experiment/pointer/into/data}}, which cannot go stale; a size or "
    "threshold that is a definition goes in backticks"
)


def typed_figure(text: str) -> str:
    """The first such figure, or nothing."""
    figure = FIGURE.search(REFERENCE.sub("", DEFINITION.sub("", text)))
    return figure[0] if figure else ""


def argued(experiment: Experiment | PlannedExperiment) -> Iterator[tuple[str, str]]:
    """(place, text) of what an experiment argues, and so may not type a figure into."""
    yield f"{experiment.name}: importance", experiment.importance
    yield f"{experiment.name}: focus", experiment.focus
    yield from ((f"{experiment.name}: does_not_show", text) for text in experiment.does_not_show)
    yield from ((f"{experiment.name}: hypothesis of {p.name}", p.hypothesis) for p in experiment.profiles)


def typed_figures(experiments: Iterable[Experiment]) -> Iterator[tuple[str, str]]:
    """(the experiment's name, what is wrong) of every figure that is typed in."""
    for experiment in experiments:
        for place, text in argued(experiment):
            if figure := typed_figure(text):
                yield experiment.name, f"{place}: says {figure!r}. {WHAT_TO_DO}"


def check_prose(text: str, place: str) -> None:
    """DefinitionError where authored prose types in a figure."""
    if figure := typed_figure(text):
        raise DefinitionError(f"{place}: says {figure!r}. {WHAT_TO_DO}")


def check_typed(experiments: Iterable[Experiment]) -> None:
    """DefinitionError where one types in a figure. Plans are without the backticks that mark a definition."""
    for _, wrong in typed_figures(experiments):
        raise DefinitionError(wrong)


def check_references(experiments: Iterable[Experiment | PlannedExperiment], references: References) -> None:
    """DefinitionError where one refers to what is not there, or where it must not."""
    for experiment in experiments:
        for place, text in argued(experiment):
            references.resolve(text, place)
        for profile in experiment.profiles:
            if REFERENCE.search(profile.hypothesis):
                raise DefinitionError(
                    f"{experiment.name}: hypothesis of {profile.name} refers to a result; it is registered before any"
                )


UNITS = (
    r"(?:[µμmnu]?s|seconds?|minutes?|hours?|per ?cent|%|×|x(?!\w)|fold|times (?:as|the|its|faster|slower|longer)\b"
    r"|[kMGTP]?B(?:/s)?|[KMGT]iB(?:/s)?|[kMGTP]?FLOPs?(?:/s)?|[kMGTP]?FLOPS|[kMG]?Hz|[km]?W|m?J|°C)"
)
DIGIT = r"[\d½¼¾⅓⅔]"  # of any script
RARE_DIGIT = re.compile(r"(?![0-9])[\d½¼¾⅓⅔]")
SPACE = r"(?:\s|&(?:nbsp|[a-z]*sp|#\w+);)*-?"  # as HTML may write it too
# 4096×8192 is a shape and no factor: there a digit follows.
FIGURE = re.compile(rf"(?:\d[\d.,]*)?{DIGIT}{SPACE}{UNITS}(?![\w/])")
