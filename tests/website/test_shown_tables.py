"""CSV behind the tables of pages that speak of several runs."""

import csv
import io

from lab.website.figure import Figure
from lab.website.table import csv_table


def rows_of(columns, rows):
    content = csv_table("trust/x.csv", columns, rows).content
    assert isinstance(content, str)
    return list(csv.reader(io.StringIO(content, newline="")))


def test_a_figure_is_the_value_of_its_datum():
    """The page shows µs, the file holds seconds."""
    figure = Figure("23.61", 2.36123e-05, "/cells/x/p50_seconds")
    assert rows_of(("case", "p50_seconds"), [(("a", " b"), (figure,)), ("c", None)]) == [
        ["case", "p50_seconds"], ["a b", "2.36123e-05"], ["c", ""],
    ]  # fmt: skip


def test_a_sentence_of_several_figures_is_its_text_and_a_dash_is_nothing():
    two = (Figure("1", 1, "/a"), " to ", Figure("2", 2, "/b"))
    assert rows_of(("span", "none"), [(two, ("–",))]) == [["span", "none"], ["1 to 2", ""]]


def test_numbers_and_truths_stay_what_they_are():
    assert rows_of(("count", "changed"), [(3, True)]) == [["count", "changed"], ["3", "true"]]
