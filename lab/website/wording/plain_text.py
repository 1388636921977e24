"""Text of evidence for files that are no pages: what XML forbids, or what turns the words around it, is taken out."""

import re

FORBIDDEN = re.compile(
    "[\x00-\x1f\x7f-\x9f"  # control characters
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # marks that set the direction of what follows
    "\ud800-\udfff\ufffe\uffff]"  # halves of pairs, and what is no character
)


def plain(text: str) -> str:
    """In one line; each character that has no place there becomes U+FFFD, which shows that one was there."""
    return FORBIDDEN.sub("\ufffd", text)
