"""A table is the same on a page and as CSV, and each of its figures leads to its datum."""

from lab.quantities import heading_of, tracked, unit_of
from lab.website.figure import DataView, Figure
from lab.website.markup import table_html
from lab.website.table import PageTable, Soft, TableRow, column, csv_file, named, numbers, row, table_row
from lab.website.verification.figures import Figures

DATA = {"some_runs": {"a&b": {"read_bytes": 12_340_000.0, "hit_percent": 51.26}, "c": {"read_bytes": 5e6}}}
HEADS = (named("run", "Run"), column("read_bytes", "Read, MB"), column("hit_percent", "Hits, %"))


def table() -> PageTable:
    view = DataView(DATA)
    rows = [row(view.at("some_runs", name), HEADS, run=(name, Soft(("a note",)))) for name in DATA["some_runs"]]
    group = TableRow(kind="group", cells=(("All", Soft(("of them",))),))
    return PageTable(label="All <runs>", heads=HEADS, rows=(group, *rows))


def test_a_figure_stands_on_the_page_in_the_unit_of_its_quantity_with_its_pointer() -> None:
    page = table_html(table())
    assert '<tr data-at="/some_runs/a&amp;b/">' in page
    assert '<td class="num"><data value="12340000.0" data-src="read_bytes">12.3</data></td>' in page
    assert 'aria-label="All &lt;runs&gt;"' in page
    assert '<th scope="rowgroup" colspan="3">All<span class="small soft below">of them</span></th>' in page
    assert '<th scope="row">a&amp;b<span class="small soft below">a note</span></th>' in page


def test_every_pointer_leads_to_its_datum_also_where_a_row_has_figures_of_several_files() -> None:
    own, other = DataView(DATA), DataView(DATA, "other.json#")
    rows = [
        table_row("both", own.figure("some_runs", "c", "read_bytes"), other.figure("some_runs", "a&b", "read_bytes")),
        table_row(
            "other", other.figure("some_runs", "a&b", "read_bytes"), other.figure("some_runs", "a&b", "hit_percent")
        ),
        table_row("own", own.figure("some_runs", "a&b", "read_bytes"), own.figure("some_runs", "a&b", "hit_percent")),
    ]
    for many in (1, 20):  # of the other file alone there is a table too
        for shown in (rows * many, rows[1:2] * many):
            page = Figures()
            page.feed(
                f'<main data-at="d.json#">{table_html(PageTable(label="", heads=numbers("", "A", "B"), rows=shown))}'
            )
            wanted = [part for row in shown for cell in row.cells for part in cell if isinstance(part, Figure)]
            files = ("" if "#" in figure.source else "d.json#" for figure in wanted)
            assert [figure[1] for figure in page.figures] == [
                file + figure.source for file, figure in zip(files, wanted, strict=True)
            ]


def test_the_csv_holds_the_data_themselves_and_no_heading_of_a_group() -> None:
    file = csv_file(table(), "trust/runs.csv")
    assert file.path == "trust/runs.csv"
    assert file.content == "run,read_bytes,hit_percent\r\na&b,12340000.0,51.26\r\nc,5000000.0,\r\n"


def test_the_end_of_a_name_tells_its_unit() -> None:
    assert (unit_of("dram_read_bytes").symbol, unit_of("l2_hit_percent").symbol) == ("MB", "%")
    assert (unit_of("p50_seconds").text(23.614e-6), unit_of("bytes_per_second").text(2.847e12)) == ("23.61", "2847")
    assert (heading_of("l2_hit_percent"), heading_of("stages")) == ("L2 hits, %", "Stages")
    assert unit_of("stages").symbol == ""


def test_a_metric_of_mlflow_says_its_unit() -> None:
    names = ("l2_hit_percent", "dram_read_bytes", "kernels", "traffic_ratio")
    assert [tracked("ncu", name) for name in names] == ["ncu/l2_hit_pct", "ncu/dram_read_mb", "ncu/kernels",
                                                        "ncu/traffic_ratio"]  # fmt: skip
    assert tracked("noise", "ratio") == "noise/ratio"
