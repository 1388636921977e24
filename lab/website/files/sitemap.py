"""sitemap.xml: every page of the site, and when what it shows was measured.

The protocol asks for absolute addresses, and the lab does not know where its site will stand: `lab build --base-url`
says it. Without that the pages are still listed, by their paths from the sitemap: nothing is made up, and whoever
resolves them against the sitemap's own address finds every page, but a search engine will not, as its comment says.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from urllib.parse import quote
from xml.sax.saxutils import escape, unescape

NAME = "sitemap.xml"
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
        return {NAME: _listing("urlset", "url", ordered, base_url, moment)}
    parts = {
        f"sitemap-{number + 1}.xml": _listing(
            "urlset", "url", ordered[number * most : (number + 1) * most], base_url, moment
        )
        for number in range(math.ceil(len(ordered) / most))
    }
    return {NAME: _listing("sitemapindex", "sitemap", list(parts), base_url, lambda path: ""), **parts}


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
