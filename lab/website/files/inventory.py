"""The last files of a site, made of all others: its sitemap, then its manifest."""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated
from urllib.parse import quote, urlsplit
from xml.sax.saxutils import escape, unescape

from lab.errors import LabError

# manifest.json: the SHA-256 and the size of every file of a site but itself, by path, in their order.
MANIFEST = "manifest.json"
SCHEMA = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class FileData:
    bytes: int
    sha256: Annotated[str, re.compile("^[0-9a-f]{64}$")]


@dataclass(frozen=True, kw_only=True, slots=True)
class ManifestData:
    """What each file of the site must be, but this one."""

    schema: int
    files: Annotated[dict[str, FileData], "By path from the site's root."]


def listed(content: bytes) -> FileData:
    return FileData(bytes=len(content), sha256=hashlib.sha256(content).hexdigest())


def read_files(site: Path) -> dict[str, FileData]:
    """Every file that lies there, but the manifest."""
    return {
        name: listed(path.read_bytes())
        for path in site.rglob("*")
        if path.is_file() and (name := path.relative_to(site).as_posix()) != MANIFEST
    }


def manifest_text(files: Mapping[str, FileData]) -> str:
    """One line a file: two manifests can be compared by eye."""
    quoted = json.JSONEncoder().encode
    lines = ",\n".join(
        f'  {quoted(name)}: {{"bytes": {listed_file.bytes}, "sha256": "{listed_file.sha256}"}}'
        for name, listed_file in sorted(files.items())
    )
    return f'{{\n "$schema": "schemas/manifest.json",\n "schema": {SCHEMA},\n "files": {{\n{lines}\n }}\n}}\n'


# sitemap.xml: every page of the site. Search engines read up to 50,000 of one sitemap.
SITEMAP = "sitemap.xml"
NAMESPACE = "http://www.sitemaps.org/schemas/sitemap/0.9"
RELATIVE = (
    "<!-- Paths from this file: the site's address was not known when it was built. Search engines want whole "
    "addresses: the option base-url of lab build gives them. -->\n"
)


def sitemap(pages: Iterable[str], base_url: str = "") -> str:
    lines = "".join(f"<url><loc>{escape(base_url + quote(path))}</loc></url>\n" for path in sorted(pages))
    comment = "" if base_url else RELATIVE
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{comment}<urlset xmlns="{NAMESPACE}">\n{lines}</urlset>\n'


def address_in(sitemap: str) -> str:
    """The address of the site that a sitemap was made for; empty where it was not known."""
    locations = re.findall(r"<loc>([^<]*)</loc>", sitemap)
    folder, slash, _ = unescape(min(locations, key=len, default="")).rpartition("/")
    return folder + slash


def inventory(files: Mapping[str, FileData], base_url: str = "") -> Iterator[tuple[str, bytes]]:
    """Path and content of each, where all other files are `files`."""
    content = sitemap((path for path in files if path.endswith(".html")), base_url).encode()
    yield SITEMAP, content
    yield MANIFEST, manifest_text({**files, SITEMAP: listed(content)}).encode()


def checked_base_url(text: str) -> str:
    """With a slash at its end; empty stays empty. LabError where it is no address of a website."""
    parts = urlsplit(text)
    if not text or (parts.scheme in ("http", "https") and parts.netloc and not parts.query and not parts.fragment):
        return text if not text or text.endswith("/") else f"{text}/"
    raise LabError(f"--base-url {text!r}: must be where the site will stand, such as https://example.org/lab/")
