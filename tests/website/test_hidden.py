"""What cannot be seen is named, in every file of text that a build writes."""

import sys
import unicodedata

import pytest

from lab.evidence.source import ROOT
from lab.website.wording.hidden import HIDDEN, encoded, visible

WHITE_SPACE = "\t\n\r"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("gpu\u202e0001H", "gpu[U+202E]0001H"), ("a\x00b\x1b[31m", "a[U+0000]b[U+001B][31m"),
        ("zero\u200bwidth", "zero[U+200B]width"), ("\ud800", "[U+D800]"), ("tag\U000e0041", "tag[U+E0041]"),
        ("soft\xadhyphen", "soft[U+00AD]hyphen"), ("line\u2028break", "line[U+2028]break"),
    ],
)  # fmt: skip
def test_a_hidden_character_is_named_in_its_place(text: str, shown: str) -> None:
    assert visible(text) == shown
    assert encoded(text) == shown.encode()


def test_what_can_be_seen_stays_as_it_is() -> None:
    text = "1.334× [1.331, 1.337], 23.6 µs – naïve 日本語 مرحبا 🙂\n\tnext"
    assert visible(text) == text
    assert encoded(text) == text.encode()


def test_every_control_and_format_of_unicode_counts_as_hidden() -> None:
    strange = [
        f"U+{code:04X}"
        for code in range(sys.maxunicode + 1)
        if unicodedata.category(chr(code)) in ("Cc", "Cf", "Cs", "Zl", "Zp")
        and chr(code) not in WHITE_SPACE
        and not HIDDEN.fullmatch(chr(code))
    ]
    assert strange == []


def test_no_letter_mark_or_sign_counts_as_hidden() -> None:
    """Fillers are letters to Unicode; they have no shape."""
    fillers = {0x34F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x180B, 0x180C, 0x180D, 0x180F, 0x2800, 0x3164, 0xFFA0}
    hidden = {code for code in range(0xE0000) if HIDDEN.fullmatch(chr(code))}
    assert {code for code in hidden if unicodedata.category(chr(code))[0] in "LMNPSZ"} - fillers <= {
        *range(0x2028, 0x202A),
        *range(0x13439, 0x13440),  # hieroglyphs' formats, some of which newer editions of Unicode count as marks
    }


@pytest.mark.parametrize("folder", ["site_templates", "experiments/decisions"])
def test_nothing_that_is_written_by_hand_holds_one(folder: str) -> None:
    for path in (ROOT / folder).iterdir():
        if path.suffix in (".html", ".js", ".css", ".md"):
            assert not HIDDEN.search(path.read_text(encoding="utf-8")), path
