"""The last files of a site, made of all others: its sitemap, then its manifest."""

from collections.abc import Callable, Iterator, Mapping
from urllib.parse import urlsplit

from lab.errors import LabError
from lab.website.files import manifest
from lab.website.files.manifest import Listed, listed
from lab.website.files.sitemap import sitemaps


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
    yield manifest.NAME, manifest.manifest_text(listing).encode()


def checked_base_url(text: str) -> str:
    """With a slash at its end; empty stays empty. LabError where it is no address of a website."""
    parts = urlsplit(text)
    if not text or (parts.scheme in ("http", "https") and parts.netloc and not parts.query and not parts.fragment):
        return text if not text or text.endswith("/") else f"{text}/"
    raise LabError(f"--base-url {text!r}: must be where the site will stand, such as https://example.org/lab/")
