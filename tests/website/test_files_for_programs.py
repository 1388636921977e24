"""CSV, JSON Schemas, sitemap and manifest: what programs read of the site."""

import csv
import hashlib
import io
import json
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from factory import LARGE, SMALL, plan_of, records_of, small_experiment, take_stock

from lab.errors import LabError
from lab.verdict.judge_run import judge_run
from lab.website.data.judged import Judged, judged_run, not_measured
from lab.website.data.typed import DATA_SCHEMA
from lab.website.files.csv_tables import csv_files, csv_text
from lab.website.files.inventory import checked_base_url, sitemap
from lab.website.files.schemas import DOCUMENTS, data_text, schema
from lab.website.verification.files import check_manifest

TIMES = {(case.name, profile): time for case in (SMALL, LARGE) for profile, time in (("plain", 60e-6), ("fast", 40e-6))}
SITEMAP = "{http://www.sitemaps.org/schemas/sitemap/0.9}"


def measured() -> Judged:
    plan = plan_of(experiments=[small_experiment()], include=("large-sweep",), profiling=True)
    return judged_run(judge_run(plan, records_of(plan, TIMES)), digest="ab" * 32)[0]


def tables(item: Judged) -> dict[str, list[dict[str, str]]]:
    return {
        file.path.removeprefix("x/"): list(csv.DictReader(io.StringIO(str(file.content), newline="")))
        for file in csv_files(item, "x")
    }


def test_a_tables_numbers_are_those_of_the_data_to_the_last_digit() -> None:
    item = measured()
    files = tables(item)
    row = next(row for row in files["cells.csv"] if (row["case"], row["profile"]) == (LARGE.name, "fast"))
    cell = item.data["cells"][LARGE.name]["fast"]
    assert row["device_cold_p50_seconds"] == repr(cell["p50_seconds"])
    assert row["graph_p95_seconds"] == repr(cell["scopes"]["graph"]["p95_seconds"])
    assert row["ncu_dram_percent"] == repr(cell["counters"]["call"]["dram_percent"])
    assert (row["shape"], row["included"], row["launch_bound"]) == ("4096x4096", "true", "false")
    verdicts = {row["case"]: row for row in files["claims.csv"]}
    assert verdicts[SMALL.name]["ratio"] == repr(item.data["claims"]["fast-beats-plain"]["cases"][SMALL.name]["ratio"])
    assert len(files["comparisons.csv"]) == 4
    assert len(files["kernels.csv"]) == 4
    assert {row["case"] for row in files["cases.csv"]} == {SMALL.name, LARGE.name}


def test_every_row_says_of_which_machine_and_which_evidence_it_is() -> None:
    for name, rows in tables(measured()).items():
        for row in rows:
            assert (row["device"], row["machine"]) == ("cuda", "NVIDIA H100 80GB HBM3"), name
            assert (row["run_id"], row["evidence_digest"]) == ("synthetic", "ab" * 6), name


def test_of_what_nobody_measured_the_tables_hold_what_is_registered() -> None:
    files = tables(not_measured(measured().plan))
    assert {(row["outcome"], row["machine"]) for row in files["cells.csv"]} == {("unfinished", "")}
    assert {row["status"] for row in files["claims.csv"]} == {"no-evidence"}
    assert "kernels.csv" not in files


def test_a_table_survives_any_text_and_gives_no_spreadsheet_a_formula() -> None:
    nasty = [
        '=HYPERLINK("http://x")',
        "+1",
        "-2",
        "@x",
        'say "so", then\r\nagain',
        "a\x00b",
        "plain",
        " =1",
        "a; =1;b",
        "＝1",
        "\n1",
    ]
    text = csv_text(("what",), [[each] for each in nasty])
    rows = [row[0] for row in csv.reader(io.StringIO(text, newline=""), strict=True)]
    assert rows == [
        "what",
        '\'=HYPERLINK("http://x")',
        "'+1",
        "'-2",
        "'@x",
        nasty[4],
        "a\ufffdb",
        "plain",
        " '=1",
        "a; '=1;b",
        "'＝1",
        "'\n1",
    ]
    assert (
        csv_text(("x",), [[-1.5], [None], [True], [[1, 2]], [["a", "b"]]])
        == 'x\r\n-1.5\r\n""\r\ntrue\r\n1x2\r\na b\r\n'
    )


def each_object(schema: Any) -> Iterator[dict[str, Any]]:
    if isinstance(schema, dict):
        if schema.get("type") in ("object", ["object", "null"]):
            yield schema
        for value in schema.values():
            yield from each_object(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from each_object(value)


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_schema_is_valid_and_closed_and_tells_the_units(name: str) -> None:
    described = schema(name)
    jsonschema.Draft202012Validator.check_schema(described)
    for part in each_object(described):
        assert part.get("additionalProperties") is False or isinstance(part["additionalProperties"], dict)
        for field, property in part.get("properties", {}).items():
            if field.endswith(("seconds", "bytes", "hertz", "percent", "watts", "per_second")) and "type" in property:
                assert property.get("description") or property["type"] == "object", f"{name}: {field} has no unit"


def shape_of(schema: Any) -> Any:
    """A schema without the texts that describe it; a property may be called `description` too."""
    if isinstance(schema, dict):
        told = ("description", "title")
        return {key: shape_of(value) for key, value in schema.items() if key not in told or isinstance(value, dict)}
    return [shape_of(each) for each in schema] if isinstance(schema, list) else schema


def test_the_number_of_the_data_files_stands_for_one_shape_of_them() -> None:
    """Where this fails, the data files have another shape than those that were published under their number: raise
    DATA_SCHEMA, say in the changelog what changed, and write the new number and digest here."""
    shapes = {name: shape_of(schema(name)) for name in DOCUMENTS if name != "manifest"}  # which has its own number
    digest = hashlib.sha256(json.dumps(shapes, sort_keys=True).encode()).hexdigest()
    assert (DATA_SCHEMA, digest[:16]) == (22, "a1331e9614735b90")


def test_a_schema_refuses_what_it_does_not_know_and_what_is_missing() -> None:
    data = json.loads(data_text(measured().data, "experiments/doubling/data.json", "experiment"))
    validator = jsonschema.Draft202012Validator(schema("experiment"))
    assert data["$schema"] == "../../schemas/experiment.json"
    assert not list(validator.iter_errors(data))
    for broken in (
        data | {"more": 1},
        {key: value for key, value in data.items() if key != "claims"},
        data | {"claims": {"x": {**data["claims"]["fast-beats-plain"], "status": "won"}}},
        data | {"evidence": {**data["evidence"], "digest": "not a digest"}},
    ):
        assert list(validator.iter_errors(broken))


def test_data_of_what_nobody_measured_are_valid_too() -> None:
    data = json.loads(data_text(not_measured(measured().plan).data, "a/b/data.json", "experiment"))
    assert not list(jsonschema.Draft202012Validator(schema("experiment")).iter_errors(data))


def test_a_sitemap_has_whole_addresses_where_the_sites_is_known() -> None:
    text = sitemap(["b/index.html", "a b/index.html"], "https://example.org/lab/")
    addresses = [location.text for location in ET.fromstring(text).iter(f"{SITEMAP}loc")]
    assert addresses == ["https://example.org/lab/a%20b/index.html", "https://example.org/lab/b/index.html"]
    assert "<!--" not in text


def test_a_sitemap_without_an_address_lists_paths_and_says_so() -> None:
    text = sitemap(["index.html"])
    assert [location.text for location in ET.fromstring(text).iter(f"{SITEMAP}loc")] == ["index.html"]
    assert "address was not known" in text


def test_an_address_is_taken_with_or_without_its_last_slash_and_nothing_else_is_an_address() -> None:
    assert checked_base_url("") == ""
    assert checked_base_url("https://example.org/lab") == checked_base_url("https://example.org/lab/")
    for bad in ("example.org", "ftp://example.org/", "https://", "https://example.org/?q=1", "javascript:alert(1)"):
        with pytest.raises(LabError, match="base-url"):
            checked_base_url(bad)


def test_a_manifest_names_every_file_but_itself_in_order(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "z.txt").write_text("z")
    (tmp_path / "a.html").write_text("<p>a")
    take_stock(tmp_path)
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    assert list(manifest["files"]) == ["a.html", "b/z.txt", "sitemap.xml"]
    sha256 = "594e519ae499312b29433b7dd8a97ff068defcba9755b6d5d00e84c524d67b06"  # echo -n z | sha256sum
    assert manifest["files"]["b/z.txt"] == {"bytes": 1, "sha256": sha256}
    assert not list(check_manifest(tmp_path))
    (tmp_path / "b" / "z.txt").write_text("y")
    assert [mismatch.place for mismatch in check_manifest(tmp_path)] == ["b/z.txt"]
