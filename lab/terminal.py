"""Text as a terminal may show it: names and reasons come from files that a stranger may have written."""

import unicodedata

ACTS = {"Cc", "Cf", "Cs", "Zl", "Zp"}  # control signs, signs that turn the direction of a line, ends of a line


def printable(text: str) -> str:
    """With what would move the cursor, colour or reorder the text written out, such as `\\x1b`; lines stay lines."""
    if text.isprintable():
        return text
    return "".join(repr(sign)[1:-1] if sign != "\n" and unicodedata.category(sign) in ACTS else sign for sign in text)
