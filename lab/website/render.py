"""Pages → bytes. It decides nothing and computes nothing."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib.metadata import version

from jinja2 import Environment, FileSystemBytecodeCache, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from lab.errors import LabError
from lab.project import project
from lab.website.addresses import experiment_folder, relative
from lab.website.charts.svg import style_sheet
from lab.website.markup import fold_html, folded_html, number, table_html, verdict_html, words_html
from lab.website.outputs import Attachment, Document, Output
from lab.website.sources import TEMPLATES
from lab.website.verdict_words import verdict_word
from lab.website.wording.hidden import encoded
from lab.website.wording.lint import Quotable, refuse_untraced
from lab.website.wording.references import words, written
from lab.website.wording.search_words import finder_words

COMPILED = project().cache / "templates"
CODE = re.compile(r"`([^`]+)`")
ASSETS = ("search.js", "tables.js", "icon.svg")


@dataclass(frozen=True, kw_only=True, slots=True)
class SiteInfo:
    """What every page may know of the site that it is a part of."""

    label: str  # of a preview
    trust: bool  # whether there is this page
    methods: bool
    title: str = "Kernel Evidence Lab"
    base_url: str = ""  # where the site will stand, with a slash at its end
    lab: str = "lab"  # how a reader calls it
    lost_commits: Mapping[str, str] = field(default_factory=dict)  # why, by commit: lab.website.data.lost_commits


class Renderer:
    """Makes files of outputs. LabError where the templates are not there."""

    def __init__(self, info: SiteInfo) -> None:
        if not TEMPLATES.is_dir():
            raise LabError(f"{TEMPLATES} is missing: build from a whole checkout or an installed wheel")
        self._site = info
        self._templates = environment()
        self._templates.globals |= {"site": info}

    def file(self, output: Output, quotable: Quotable) -> tuple[str, bytes]:
        """Its path and what it holds; `quotable` is what a page may quote without a pointer."""
        if isinstance(output, Document):
            return output.path, encoded(self._page(output, quotable))
        content = output.content
        return output.path, encoded(words(content)) if isinstance(content, str) else content

    def _page(self, page: Document, quotable: Quotable) -> str:
        root = "../" * page.path.count("/")
        address = self._site.base_url + page.path.removesuffix("index.html")
        template = self._templates.get_template(page.template)
        text = relative(written(template.render(root=root, address=address, **page.view)), root)
        if not self._site.label:  # a preview is no publication, and shows whatever its run holds
            refuse_untraced(page.path, text, quotable)
        return text


def assets() -> Iterator[Attachment]:
    """What pages load: the style sheet with the colours of charts, and scripts."""
    style = (TEMPLATES / "style.css").read_text(encoding="utf-8")
    yield Attachment(path="assets/style.css", content=f"{style}{style_sheet()}".encode())
    for name in ASSETS:
        yield Attachment(path=f"assets/{name}", content=(TEMPLATES / name).read_bytes())


def environment() -> Environment:
    """Compiling the templates takes longer than making the pages of an experiment again: what was compiled is kept."""
    COMPILED.mkdir(parents=True, exist_ok=True)
    made = Environment(
        loader=FileSystemLoader(TEMPLATES), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True, keep_trailing_newline=True, auto_reload=False,
        bytecode_cache=FileSystemBytecodeCache(str(COMPILED), f"{version('jinja2')}-%s"),
    )  # fmt: skip
    # A decision's body comes from markdown-it with raw HTML off: the one string that is already markup.
    made.filters["rendered_markdown"] = Markup
    made.filters["folder"] = experiment_folder  # a name of evidence as part of an address
    made.filters["with_code"] = _with_code
    # Figures are most of a page: a macro for each would be most of the work.
    made.globals |= {
        "number": number, "words_html": words_html, "table_html": table_html, "fold_html": fold_html,
        "folded_html": folded_html, "verdict_html": verdict_html, "verdict_word": verdict_word,
        "finder_words": finder_words(),
    }  # fmt: skip
    return made


def _with_code(text: str) -> Markup:
    """Authored prose, whose backticks mark what is code."""
    return Markup(CODE.sub(r"<code>\1</code>", str(escape(text))))
