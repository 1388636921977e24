"""The last files of a site, made of all others: its sitemap, then its manifest."""

from pathlib import Path
from urllib.parse import urlsplit

from lab.errors import LabError
from lab.website import manifest
from lab.website.sitemap import sitemaps


def write_inventory(out: Path, base_url: str = "") -> None:
    pages = [path.relative_to(out).as_posix() for path in out.rglob("*.html")]
    for name, text in sitemaps(pages, base_url).items():
        (out / name).write_text(text, encoding="utf-8", newline="")
    (out / manifest.NAME).write_text(manifest.manifest_text(manifest.read_files(out)), encoding="utf-8", newline="")


def checked_base_url(text: str) -> str:
    """With a slash at its end; empty stays empty. LabError where it is no address of a website."""
    parts = urlsplit(text)
    if not text or (parts.scheme in ("http", "https") and parts.netloc and not parts.query and not parts.fragment):
        return text if not text or text.endswith("/") else f"{text}/"
    raise LabError(f"--base-url {text!r}: must be where the site will stand, such as https://example.org/lab/")
