"""What readers call a thing is known to the search, on each of its two pages."""

import json
import re
from html import unescape

from lab.website.pages.labels import DTYPES, TITLES
from lab.website.render import environment
from lab.website.wording.search_words import finder_words

KNOWN = json.loads(finder_words())
ALIKE = KNOWN["alike"]


def test_what_readers_type_is_what_the_search_calls_it() -> None:
    meant = {
        "decoding": "decode", "product": "matmul", "products": "matmul", "gemm": "matmul", "half": "fp16",
        "rms norm": "rmsnorm", "layer norm": "layernorm", "half the": "half the", "silu and mul": "swiglu",
        "fused add": "add", "gqa": "grouped", "flash attention 3": "flash fa3",
    }  # fmt: skip
    assert {phrase: ALIKE[phrase] for phrase in meant} == meant
    for name, short in DTYPES.items():
        assert ALIKE[name.replace("_", " ")] == short


def test_the_names_of_the_sizes_of_a_product_say_nothing_of_what_is_looked_for() -> None:
    assert {"m", "n", "k", "versus", "vs"} <= set(KNOWN["empty"])


def test_phrases_are_as_the_script_reads_a_text_and_longer_ones_come_first() -> None:
    assert all(re.fullmatch(r"[a-z0-9]+( [a-z0-9]+)*", phrase) for phrase in [*ALIKE, *ALIKE.values()])
    lengths = list(map(len, ALIKE))
    assert lengths == sorted(lengths, reverse=True)


def test_what_a_phrase_becomes_is_what_operators_are_called() -> None:
    """Else readers' words would lead away from the titles."""
    titles = " ".join(TITLES.values()).lower()
    for name in ("matmul", "rmsnorm", "layernorm", "attention", "decode", "rope", "fp8", "quantis"):
        assert name in titles


def test_both_pages_hand_the_words_to_the_script() -> None:
    made = environment()
    for name in ("index.html", "search.html"):
        source, _, _ = made.loader.get_source(made, name)
        assert 'data-words="{{ finder_words }}"' in source
    assert json.loads(unescape(made.from_string("{{ finder_words }}").render())) == KNOWN
