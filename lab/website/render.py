"""Pages → files. The only room that knows of Jinja; it decides nothing and computes nothing."""

import os
import shutil
import tempfile
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from lab.errors import LabError
from lab.evidence.source import ROOT
from lab.website.addresses import experiment_folder
from lab.website.charts.speedups import STYLE_HASHES, plotly_script
from lab.website.hidden import encoded
from lab.website.inventory import write_inventory
from lab.website.lint import refuse_untraced
from lab.website.outputs import Document
from lab.website.pages.site import Site
from lab.website.references import words, written
from lab.website.schemas import data_text

TEMPLATES = ROOT / "site_templates"
ASSETS = ("style.css", "explore.js", "search.js", "compare.js", "icon.svg")
A_SITE = ("index.html", "policy/index.html", "assets/style.css")  # what every site that was built holds


def write_site(site: Site, out: Path) -> int:
    """Render every page beside `out`, then put it in its place at once; returns the number of files.

    LabError where it cannot be written, or holds anything but a site, which would be lost.
    """
    if not TEMPLATES.is_dir():
        raise LabError(f"{TEMPLATES} is missing: build from a whole checkout")
    try:
        _refuse_to_replace(out)
        out.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}-") as scratch:
            fresh, old = Path(scratch) / "fresh", Path(scratch) / "old"
            fresh.mkdir()
            _render(site, fresh)
            if out.exists():
                os.replace(out, old)
            os.replace(fresh, out)
    except OSError as refusal:
        raise LabError(f"{out}: the site cannot be written there ({refusal.strerror}); choose another folder") from None
    return sum(path.is_file() for path in out.rglob("*"))


def _refuse_to_replace(out: Path) -> None:
    """LabError unless `out` is absent, empty, or a site that was built before."""
    if out.is_dir() and (not any(out.iterdir()) or all((out / path).is_file() for path in A_SITE)):
        return
    if out.exists() or out.is_symlink():
        raise LabError(f"{out}: holds something else than a site, which building would replace; choose a new folder")


def environment() -> Environment:
    made = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    # A decision's body comes from markdown-it with raw HTML off: the one string that is already markup.
    made.filters["rendered_markdown"] = Markup
    made.filters["folder"] = experiment_folder  # a name of evidence as part of an address
    made.filters["safe_json"] = _json_in_script
    made.globals["plotly_styles"] = Markup(" ".join(STYLE_HASHES))
    return made


def _render(site: Site, out: Path) -> None:
    templates = environment()
    plotly_name, plotly_code = plotly_script()

    def page(template: str, path: str, **view: object) -> None:
        up = "../" * path.count("/")
        text = templates.get_template(template).render(site=site, root=up, plotly=plotly_name, **view)
        text = written(text, up)
        if not site.label:  # a preview is no publication, and shows whatever its run holds
            refuse_untraced(path, text, site.quotable)
        _write(out / path, text)

    page("policy.html", "policy/index.html", policy=site.policy)
    if site.trust:
        page("trust.html", "trust/index.html", trust=site.trust)
        _write(out / "trust" / "data.json", data_text(site.trust.data, "trust/data.json", "trust"))
    if site.methods:
        page("methods.html", "methods/index.html", methods=site.methods)
        _write(out / "methods" / "data.json", data_text(site.methods.data, "methods/data.json", "methods"))
    for experiment in site.experiments:
        folder = f"experiments/{experiment.slug}"
        page("experiment.html", f"{folder}/index.html", page=experiment)
        _write(out / folder / "data.json", data_text(experiment.data, f"{folder}/data.json", "experiment"))
    for output in site.outputs:
        if isinstance(output, Document):
            page(output.template, output.path, **output.view)
        else:
            content = output.content
            _write(out / output.path, words(content) if isinstance(content, str) else content)
    _write(out / "assets" / plotly_name, plotly_code.encode())
    for name in ASSETS:
        (out / "assets").mkdir(exist_ok=True)
        shutil.copyfile(TEMPLATES / name, out / "assets" / name)
    write_inventory(out, site.base_url)


def _json_in_script(text: str) -> Markup:
    """JSON that cannot end the script element it stands in."""
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


def _write(path: Path, content: str | bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(encoded(content) if isinstance(content, str) else content)
