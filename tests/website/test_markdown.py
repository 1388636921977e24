"""What a decision's author writes can be read and followed, and does nothing else."""

import pytest

from lab.website.pages.decisions import prose_html


@pytest.mark.parametrize(
    "link",
    [
        "javascript:alert(1)", "JaVaScRiPt:alert(1)", "javascript&colon;alert(1)", "&#106;avascript:alert(1)",
        "\\javascript:alert(1)", "vbscript:x", "data:text/html,<script>alert(1)</script>", "data:image/png;base64,AAAA",
        "file:///etc/hostname", "ftp://example.org/x", "//example.org/x",
        "mailto:someone@example.org",
        "blob:https://example.org/1", "https:alert(1)",
    ],
)  # fmt: skip
def test_a_link_that_is_not_to_the_web_or_the_site_stays_text(link: str) -> None:
    for text in (f"[go]({link})", f"[go](<{link}>)", f"<{link}>", f"[go][1]\n\n[1]: {link}"):
        html = prose_html(text)
        assert "href" not in html, html
        assert "<script" not in html


@pytest.mark.parametrize(
    "link", ["https://example.org/a:b", "../0001-a/index.html#why", "#context", "a.html?b=c:d", "HTTP://x.org"]
)
def test_a_link_to_the_web_or_the_site_is_a_link(link: str) -> None:
    assert f'<a href="{link}">go</a>' in prose_html(f"[go]({link})")


def test_markup_is_text_and_pictures_are_not_fetched() -> None:
    html = prose_html(
        "<img src=x onerror=alert(1)> **bold** ![p](https://example.org/p.png) <!-- c --> <b>\n\n<script>x</script>"
    )
    assert "<strong>bold</strong>" in html
    for tag in ("<img", "<script", "<b>", "<!--"):
        assert tag not in html
