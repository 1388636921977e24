"""Every figure on every page: it has a datum, the datum's value, and a text that says that value."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from html.parser import HTMLParser
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote

from lab.errors import EvidenceError
from lab.website.verification.files import Mismatch, read_json

NUMBER = re.compile(r"[-−]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?")
AFTER = re.compile(r"[ \u00a0\u202f]?([µmn]?s|min|h|[kMGT]?(?:B|FLOP)(?:/s)?|[KMG]iB|[kMG]?Hz|%|×)?")
PREFIXES = {"": 1.0, "k": 1e-3, "M": 1e-6, "G": 1e-9, "T": 1e-12}
UNITS: Mapping[str, float] = {
    **{prefix + unit: scale for unit in ("B", "B/s", "FLOP", "FLOP/s", "Hz") for prefix, scale in PREFIXES.items()},
    "h": 1 / 3600, "min": 1 / 60, "s": 1.0, "ms": 1e3, "µs": 1e6, "ns": 1e9,
    "KiB": 2.0**-10, "MiB": 2.0**-20, "GiB": 2.0**-30, "%": 1.0, "×": 1.0,
}  # fmt: skip
# Where the unit stands beside the value in the data, the key that it stands for.
AMOUNTS = {"seconds": "seconds", "bytes": "bytes", "bytes_per_second": "bytes_per_second", "share": "attained"}
# What a number without a unit of its own may be in, by the end of its key; a heading beside it names the unit.
QUANTITIES: tuple[tuple[tuple[str, ...], tuple[float, ...]], ...] = (
    (("bytes_per_second", "flops_per_second"), (1e-9, 1e-12)),
    (
        ("tokens_per_second", "stage_seconds", "wall_seconds", "profiling_seconds", "prepare_seconds",
         "compile_seconds", "autotune_seconds"), (1.0,),
    ),
    (("clock_step_seconds",), (1e9,)),
    (("seconds",), (1e6,)),
    (("bytes",), (1.0, 1e-3, 1e-6, 1e-9, 2.0**-10, 2.0**-20, 2.0**-30)),
    (("bytes_per_block",), (1e-3,)),
    (("hertz",), (1e-6, 1e-9)),
    (("flops",), (1.0, 1e-6, 1e-9)),
    (("between_sweep_spread", "peak_share", "attained"), (100.0,)),
    (("share",), (100.0, 1.0)),
)  # fmt: skip
PLAIN = (1.0,)
# Values that are no numbers, as pages word them; any other stands as it is, or begins as the text does.
WORDED: Mapping[Any, str] = {
    True: "yes", False: "no", "cuda": "a GPU", "cpu": "a CPU", "": "set to nothing", "not on record": "not known",
}  # fmt: skip
# What no page of a site holds, and what Python's parser takes minutes for where there is much of it: a tag that begins
# inside another, and a comment.
UNREADABLE = re.compile(r"<[a-zA-Z/?][^<>]*<|<[!?](?!doctype html>)")
VOID = frozenset({"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"})


class Figures(HTMLParser):
    """The `data` elements of a page: value, full pointer and text of each."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.figures: list[tuple[str, str, str]] = []
        self._around: list[tuple[str, str]] = []  # open elements with the data-at that holds in them
        self._names: Counter[str] = Counter()  # of these elements
        self._open: tuple[str, str] | None = None
        self._text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = {name: value or "" for name, value in attrs}
        around = self._around[-1][1] if self._around else ""
        at = resolved(around, attributes.get("data-at", ""))
        if tag not in VOID:
            self._around.append((tag, at))
            self._names[tag] += 1
        if tag == "data":
            self._open = attributes.get("value", ""), resolved(at, attributes.get("data-src", ""))
            self._text = ""

    def handle_data(self, data: str) -> None:
        if self._open:
            self._text += data

    def handle_endtag(self, tag: str) -> None:
        if tag == "data" and self._open:
            self.figures.append((*self._open, self._text))
            self._open = None
        while self._names[tag]:
            name, _ = self._around.pop()
            self._names[name] -= 1
            if name == tag:
                break


def resolved(at: str, pointer: str) -> str:
    """The whole pointer that an element says inside `at`: it names a file, or begins anew in the file of `at`, or goes
    on from there."""
    if "#" in pointer:
        return pointer
    return f"{at.partition('#')[0]}#{pointer}" if pointer.startswith("/") else at + pointer


class Data:
    """The data files of a site, each read once."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._held: dict[str, Any] = {}

    def file(self, name: str) -> Any:
        if name not in self._held:
            self._held[name] = read_json(self._root, name)
        return self._held[name]

    def look_up(self, file: str, pointer: str) -> list[Any]:
        """The values along a JSON pointer, the document first. LookupError where it leads nowhere."""
        nodes = [self.file(file)]
        for part in pointer.split("/")[1:]:
            name = part.replace("~1", "/").replace("~0", "~")
            node = nodes[-1]
            nodes.append(node[int(name)] if isinstance(node, list) else node[name])
        return nodes


def check_page(page: str, html: str, data: Data) -> Iterator[Mismatch]:
    """Every figure of a page that its data do not bear out."""
    if strange := UNREADABLE.search(html):
        where = f"{page}, line {html.count(chr(10), 0, strange.start()) + 1}"
        yield Mismatch(where, "holds a tag inside a tag, or a comment, which no page has; its figures are not followed")
        return
    parser = Figures()
    parser.feed(html)
    parser.close()
    for value, source, text in parser.figures:
        file, _, pointer = source.partition("#")
        place = f"{page} → {source}"
        try:
            nodes = data.look_up(_beside(page, file), pointer)
        except EvidenceError as problem:
            yield Mismatch(place, str(problem))
            continue
        except (LookupError, TypeError, ValueError):
            yield Mismatch(place, f"points at nothing, and says {text!r}")
            continue
        if str(nodes[-1]) != value:
            yield Mismatch(place, f"holds the value {value!r}, and its datum is {nodes[-1]!r}")
        elif wrong := misread(text, nodes, pointer):
            yield Mismatch(place, wrong)


def count_figures(html: str) -> int:
    return html.count("<data ")


def _beside(page: str, file: str) -> str:
    """The path of a file, relative to the site, that a page names relative to itself. LookupError if it leads out."""
    parts: list[str] = []
    for part in (*PurePosixPath(page).parent.parts, *unquote(file).split("/")):
        if part == "..":
            parts.pop()
        elif part:
            parts.append(part)
    return "/".join(parts)


def misread(text: str, nodes: list[Any], pointer: str) -> str:
    """In which way a text does not say the value at the end of `nodes`; empty where it does."""
    value, around = nodes[-1], nodes[-2] if len(nodes) > 1 else None
    keys = [part for part in reversed(pointer.split("/")) if part and not part.isdecimal()][:2]
    if isinstance(value, bool) or not isinstance(value, int | float):
        worded = (WORDED.get(value), "not known" if value == "" else None)
        right = (text and str(value).startswith(text)) or text in worded
        return "" if right else f"says {text!r}, and its datum is {value!r}"
    numbers = list(NUMBER.finditer(text))
    if not numbers:
        return f"says {text!r}, and its datum is {value!r}"
    if isinstance(around, dict) and keys[:1] == ["value"] and around.get("unit") in AMOUNTS:
        keys = [AMOUNTS[around["unit"]]]
    scales = _scales(text, numbers[0], keys)
    if not any(_says(numbers[0][0], value * scale) for scale in scales):
        return f"says {text!r}, and its datum is {value!r}"
    for further in numbers[1:]:  # of an interval, or of bounds: the upper end stands beside the lower
        high = around.get("high") if isinstance(around, dict) and keys[:1] == ["low"] else None
        if high is None or not any(_says(further[0], high * scale) for scale in scales):
            return f"says {text!r}, and {further[0]} is not in its data"
    return ""


def _scales(text: str, number: re.Match[str], keys: Sequence[str]) -> tuple[float, ...]:
    """By what the value may have been multiplied: told by the unit in the text, else by its key or the one above."""
    match = AFTER.match(text, number.end())
    unit = match[1] if match else None
    if unit == "%" and not any(key.endswith("percent") for key in keys):
        return (100.0,)
    if unit:
        return (UNITS[unit],)
    return next((scales for key in keys for ends, scales in QUANTITIES if key.endswith(ends)), PLAIN)


def _says(number: str, value: float) -> bool:
    """Whether a printed number is the value, rounded to the decimals that are printed."""
    plain = number.replace("−", "-").replace(",", "")
    mantissa, _, exponent = plain.partition("e")
    step = 10.0 ** (int(exponent or 0) - len(mantissa.partition(".")[2]))  # of the last digit that is printed
    return abs(float(plain) - value) <= 0.5 * step * (1 + 1e-6) + abs(value) * 1e-12
