"""Pages → bytes. It decides nothing and computes nothing."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from markupsafe import Markup, escape

from lab.errors import LabError
from lab.website.addresses import experiment_folder
from lab.website.charts.speedups import STYLE_HASHES, plotly_script
from lab.website.marked import near, near_sentence, number, sentence
from lab.website.outputs import Attachment, Document, Output
from lab.website.pages.verdict_words import mark_words, verdict_word
from lab.website.templates import TEMPLATES, Templates, templates
from lab.website.wording.hidden import encoded
from lab.website.wording.lint import refuse_untraced
from lab.website.wording.quoted import Quotable
from lab.website.wording.references import words, written

CODE = re.compile(r"`([^`]+)`")
ASSETS = ("style.css", "explore.js", "search.js", "compare.js", "icon.svg")


@dataclass(frozen=True, kw_only=True, slots=True)
class Frame:
    """What every page may know of the site that it is a part of."""

    label: str  # of a preview
    trust: bool  # whether there is this page
    methods: bool
    ceilings: bool


class Renderer:
    """Makes files of outputs. LabError where the templates are not there."""

    def __init__(self, frame: Frame) -> None:
        if not TEMPLATES.is_dir():
            raise LabError(f"{TEMPLATES} is missing: build from a whole checkout")
        self._label = frame.label
        self._templates = environment()
        self._templates.globals |= {"site": frame, "plotly": plotly_script()[0]}

    def file(self, output: Output, quotable: Quotable) -> tuple[str, bytes]:
        """Its path and what it holds; `quotable` is what a page may quote without a pointer."""
        if isinstance(output, Document):
            return output.path, encoded(self._page(output, quotable))
        content = output.content
        return output.path, encoded(words(content)) if isinstance(content, str) else content

    def _page(self, page: Document, quotable: Quotable) -> str:
        root = "../" * page.path.count("/")
        text = written(self._templates.get_template(page.template).render(root=root, **page.view), root)
        if not self._label:  # a preview is no publication, and shows whatever its run holds
            refuse_untraced(page.path, text, quotable)
        return text


def assets() -> Iterator[Attachment]:
    """What pages load: style, scripts, and the library of interactive charts."""
    name, code = plotly_script()
    yield Attachment(path=f"assets/{name}", content=code.encode())
    for name in ASSETS:
        yield Attachment(path=f"assets/{name}", content=(TEMPLATES / name).read_bytes())


def environment() -> Templates:
    made = templates()
    # A decision's body comes from markdown-it with raw HTML off: the one string that is already markup.
    made.filters["rendered_markdown"] = Markup
    made.filters["folder"] = experiment_folder  # a name of evidence as part of an address
    made.filters["with_code"] = _with_code
    made.filters["safe_json"] = _json_in_script
    made.globals["plotly_styles"] = Markup(" ".join(STYLE_HASHES))
    # Figures are most of a page: a macro for each would be most of the work.
    made.globals |= {"number": number, "near": near, "sentence": sentence, "near_sentence": near_sentence}
    made.globals |= {"verdict_word": verdict_word, "mark_words": mark_words}
    return made


def _with_code(text: str) -> Markup:
    """Authored prose, whose backticks mark what is code."""
    return Markup(CODE.sub(r"<code>\1</code>", str(escape(text))))


def _json_in_script(text: str) -> Markup:
    """JSON that cannot end the script element it stands in."""
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))
