"""Markdown that somebody wrote → HTML that can be read and followed, and does nothing else."""

import re

from markdown_it import MarkdownIt

# To a place of this site, or over the web; never a script, data, a file or another host by its name alone.
HARMLESS = re.compile(r"https?://|(?![/\\]{2})[^:/?#]*(?:[/?#]|$)", re.IGNORECASE)


class _Reader(MarkdownIt):
    def validateLink(self, url: str) -> bool:
        return HARMLESS.match(url) is not None


def prose_html(text: str) -> str:
    """CommonMark without raw HTML, pictures, or links that leave the web."""
    return str(_Reader("commonmark", {"html": False}).disable("image").render(text))
