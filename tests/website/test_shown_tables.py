"""CSV behind the tables of pages that speak of several runs."""

import csv
import io

from lab.website.figure import Figure
from lab.website.files.csv_tables import shown_table


def rows_of(headings, rows):
    content = shown_table("trust/x.csv", headings, rows).content
    assert isinstance(content, str)
    return list(csv.reader(io.StringIO(content, newline="")))


def test_a_column_of_figures_has_the_name_of_its_datum_and_its_value():
    figure = Figure("23.61", 2.36123e-05, "/cells/x/p50_seconds")
    assert rows_of(("Case", "p50, µs"), [(("a", " b"), (figure,)), ("c", None)]) == [
        ["case", "p50_seconds"], ["a b", "2.36123e-05"], ["c", ""],
    ]  # fmt: skip


def test_columns_of_one_datum_are_reported_apart_by_their_headings():
    figure = Figure("23.61", 2.36123e-05, "/p50_seconds")
    (names, _) = rows_of(("Older:", "Newer:", "newer_over_older_ratio"), [(figure, figure, None)])
    assert names == ["older_p50_seconds", "newer_p50_seconds", "newer_over_older_ratio"]


def test_a_stage_keeps_the_unit_of_the_stages():
    (names, _) = rows_of(("Load",), [(Figure("45", 45.254, "/cost/a/stage_seconds/load"),)])
    assert names == ["load_stage_seconds"]


def test_a_sentence_of_several_figures_is_its_text_and_a_dash_is_nothing():
    two = (Figure("1", 1, "/a"), " to ", Figure("2", 2, "/b"))
    assert rows_of(("Span", "None"), [(two, ("–",))]) == [["span", "none"], ["1 to 2", ""]]


def test_a_column_is_never_called_by_a_unit_that_its_values_do_not_have():
    """The page shows µs, the file holds seconds."""
    figure = Figure("23.61", 2.36123e-05, "/instruments/a/do_bench_seconds")
    headings = ("do_bench, µs", "Agree with device_cold")
    (names, values) = rows_of(headings, [(figure, "neither")])
    assert names == ["do_bench_seconds", "agree_with_device_cold"]
    assert values == ["2.36123e-05", "neither"]
