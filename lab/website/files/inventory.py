"""The last files of a site, made of all others: its sitemap with the moment each page changed, then its manifest."""

import hashlib
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, urlsplit
from xml.sax.saxutils import escape, unescape

from lab.errors import LabError
from lab.website.addresses import experiment_folder, short

# manifest.json: the SHA-256 and the size of every file of a site but itself, by path, in their order.
MANIFEST = "manifest.json"
SCHEMA = 1


@dataclass(frozen=True, slots=True)
class Listed:
    sha256: str
    size_bytes: int


def listed(content: bytes) -> Listed:
    return Listed(hashlib.sha256(content).hexdigest(), len(content))


def read_files(site: Path) -> dict[str, Listed]:
    """Every file that lies there, but the manifest."""
    return {
        name: listed(path.read_bytes())
        for path in site.rglob("*")
        if path.is_file() and (name := path.relative_to(site).as_posix()) != MANIFEST
    }


def manifest_text(files: Mapping[str, Listed]) -> str:
    """One line a file: two manifests can be compared by eye."""
    quoted = json.JSONEncoder().encode
    lines = ",\n".join(
        f'  {quoted(name)}: {{"bytes": {listed_file.size_bytes}, "sha256": "{listed_file.sha256}"}}'
        for name, listed_file in sorted(files.items())
    )
    return f'{{\n "$schema": "schemas/manifest.json",\n "schema": {SCHEMA},\n "files": {{\n{lines}\n }}\n}}\n'


# When a page last had something new to say: the end of the newest run that it shows, in its history too.
OF_EXPERIMENTS, OF_RUNS, OF_PAIRS = "experiments", "runs", "compare"


def last_modified(experiments: Mapping[str, str], runs: Mapping[str, str]) -> Callable[[str], str]:
    """By path, a moment in UTC or, where nothing is measured yet, nothing.

    `experiments`: when the newest run of each one ended; `runs`: when each ended, by its digest.
    """
    of_experiments = {experiment_folder(name): finished for name, finished in experiments.items()}
    of_runs = {short(digest): finished for digest, finished in runs.items()}
    newest = max([*of_experiments.values(), *of_runs.values()], default="")

    def moment(path: str) -> str:
        kind, _, rest = path.partition("/")
        name = rest.partition("/")[0]
        if kind == OF_EXPERIMENTS and name in of_experiments:
            return of_experiments[name]
        if kind in (OF_RUNS, OF_PAIRS):
            ends = [of_runs[each] for each in name.split("-") if each in of_runs]
            return max(ends, default=newest)
        return newest

    return moment


# sitemap.xml: every page of the site, and when what it shows was measured.
SITEMAP = "sitemap.xml"
MOST_PAGES = 50_000  # of one sitemap, by the protocol; of more there is an index of sitemaps
NAMESPACE = "http://www.sitemaps.org/schemas/sitemap/0.9"
RELATIVE = (
    "<!-- Paths from this file: the site's address was not known when it was built. Search engines want whole "
    "addresses: the option base-url of lab build gives them. -->\n"
)


def sitemaps(
    pages: Sequence[str], base_url: str = "", moment: Callable[[str], str] = lambda path: "", most: int = MOST_PAGES
) -> Mapping[str, str]:
    """Files by name: one sitemap, or an index and as many sitemaps as it takes. `moment` says when a page changed."""
    ordered = sorted(pages)
    if len(ordered) <= most:
        return {SITEMAP: _listing("urlset", "url", ordered, base_url, moment)}
    parts = {
        f"sitemap-{number + 1}.xml": _listing(
            "urlset", "url", ordered[number * most : (number + 1) * most], base_url, moment
        )
        for number in range(math.ceil(len(ordered) / most))
    }
    return {SITEMAP: _listing("sitemapindex", "sitemap", list(parts), base_url, lambda path: ""), **parts}


def address_in(sitemap: str) -> str:
    """The address of the site that a sitemap was made for; empty where it was not known."""
    locations = re.findall(r"<loc>([^<]*)</loc>", sitemap)
    folder, slash, _ = unescape(min(locations, key=len, default="")).rpartition("/")
    return folder + slash


def _listing(root: str, item: str, paths: Sequence[str], base_url: str, moment: Callable[[str], str]) -> str:
    lines = "".join(
        f"<{item}><loc>{escape(base_url + quote(path))}</loc>{_changed(moment(path))}</{item}>\n" for path in paths
    )
    comment = "" if base_url else RELATIVE
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{comment}<{root} xmlns="{NAMESPACE}">\n{lines}</{root}>\n'


def _changed(moment: str) -> str:
    return f"<lastmod>{escape(moment)}</lastmod>" if moment else ""


def inventory(
    files: Mapping[str, Listed], base_url: str = "", moment: Callable[[str], str] = lambda path: ""
) -> Iterator[tuple[str, bytes]]:
    """Path and content of each, where all other files are `files`; `moment` says when a page changed."""
    listing = dict(files)
    pages = [path for path in files if path.endswith(".html")]
    for name, text in sitemaps(pages, base_url, moment).items():
        content = text.encode()
        listing[name] = listed(content)
        yield name, content
    yield MANIFEST, manifest_text(listing).encode()


def checked_base_url(text: str) -> str:
    """With a slash at its end; empty stays empty. LabError where it is no address of a website."""
    parts = urlsplit(text)
    if not text or (parts.scheme in ("http", "https") and parts.netloc and not parts.query and not parts.fragment):
        return text if not text or text.endswith("/") else f"{text}/"
    raise LabError(f"--base-url {text!r}: must be where the site will stand, such as https://example.org/lab/")
