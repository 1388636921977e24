"""Characters that nobody sees, shown: a name may not hide, turn round or forge what stands beside it."""

import re

# Controls, except the white space of text files; formats, the marks that turn writing round among them; separators of
# lines that are none; fillers and the empty braille cell; halves of a character; what is no character at all.
HIDDEN = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\xad\u034f\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u115f\u1160"
    "\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u2800\u3164\ud800-\udfff\ufdd0-\ufdef\ufeff"
    "\uffa0\ufff0-\ufffb\ufffe\uffff\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
# Nearly all of a page. What is left when these bytes are taken away is quickly looked through.
PLAIN = bytes([*b"\t\n\r", *range(0x20, 0x7F)])


def visible(text: str) -> str:
    """`text` with each hidden character named: '[U+202E]'."""
    return HIDDEN.sub(lambda match: f"[U+{ord(match[0]):04X}]", text)


def encoded(text: str) -> bytes:
    """The visible text as a file holds it."""
    content = text.encode("utf-8", "surrogatepass")
    rest = content.translate(None, PLAIN).decode("utf-8", "surrogatepass")
    return visible(text).encode() if HIDDEN.search(rest) else content
