"""Runs for other programs and for colleagues: rows, and bundles that are not trusted."""

import csv
import importlib
import io
import json
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from factory import measured_run

from lab.bundle import FILES, LIST, import_bundle, write_bundle
from lab.cli import main
from lab.errors import EvidenceError
from lab.evidence import journal
from lab.verdict.judge_run import load_run

TIMES = {"torch-baseline": 90e-6, "torch-fused": 30e-6, "triton-fused-rmsnorm": 20e-6}


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run in a project outside git, because searching all commits of the lab is slow."""
    measured_run(tmp_path / "runs", TIMES, include=())
    monkeypatch.setenv("LAB_RUNS", str(tmp_path / "runs"))
    monkeypatch.setenv("LAB_PROJECT", str(tmp_path))
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    return tmp_path / "runs"


@pytest.fixture
def bundle(runs: Path, tmp_path: Path) -> Path:
    write_bundle(runs / "synthetic", tmp_path / "run.zip")
    return tmp_path / "run.zip"


def rezipped(bundle: Path, change: Callable[[dict[str, bytes]], None]) -> Path:
    with zipfile.ZipFile(bundle) as old:
        contents = {name: old.read(name) for name in old.namelist()}
    change(contents)
    with zipfile.ZipFile(bundle, "w", zipfile.ZIP_DEFLATED) as new:
        for name, content in contents.items():
            new.writestr(name, content)
    return bundle


# Rows


@pytest.mark.parametrize("table", ["cells", "claims", "samples"])
def test_csv_and_json_hold_the_same_rows(runs: Path, capsys: pytest.CaptureFixture[str], table: str) -> None:
    assert main(["export", "synthetic", "--csv", "--table", table]) == 0
    as_csv = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert main(["export", "synthetic", "--json", "--table", table]) == 0
    as_json = json.loads(capsys.readouterr().out)
    assert as_json["run"]["run_id"] == "synthetic"
    assert len(as_csv) == len(as_json["rows"]) > 0
    assert [row["case"] for row in as_csv] == [row["case"] for row in as_json["rows"]]


def test_a_cell_is_exported_as_it_was_judged(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["export", "synthetic", "--json"])
    (row,) = [
        row
        for row in json.loads(capsys.readouterr().out)["rows"]
        if (row["case"], row["profile"], row["scope"]) == ("rmsnorm-4096x4096-float16", "torch-fused", "device_cold")
    ]
    (experiment,) = load_run(runs / "synthetic").experiments
    cell = experiment.cells[row["case"], row["profile"]]
    assert cell.latency
    assert row["p50_seconds"] == cell.latency.p50_seconds
    assert row["bytes_per_second"] == cell.bytes_per_second


def test_parquet_is_written_where_there_is_pyarrow_and_refused_clearly_elsewhere(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "claims.parquet"
    assert main(["export", "synthetic", "--parquet"]) == 2
    assert "name a file with --out" in capsys.readouterr().err
    assert main(["export", "synthetic", "--parquet", "--table", "claims", "--out", str(out)]) == 0
    parquet = pytest.importorskip("pyarrow.parquet")
    assert "ratio_low" in parquet.read_table(out).column_names

    def absent(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", absent)
    assert main(["export", "synthetic", "--parquet", "--out", str(out)]) == 2
    assert "pyarrow is not installed here" in capsys.readouterr().err


# Bundles


def test_a_bundle_comes_back_as_the_run_that_it_was(runs: Path, bundle: Path, tmp_path: Path) -> None:
    imported = import_bundle(bundle, tmp_path / "elsewhere")
    assert imported.directory == tmp_path / "elsewhere" / "synthetic"
    assert load_run(imported.directory) == load_run(runs / "synthetic")
    assert imported.listed
    assert sorted(path.name for path in imported.directory.iterdir()) == sorted(FILES)


def test_a_packed_journal_in_a_folder_is_read_too(bundle: Path, tmp_path: Path) -> None:
    def change(contents: dict[str, bytes]) -> None:
        contents.pop(LIST)
        contents[f"run/{journal.PACKED}"] = journal.packed(contents.pop(journal.NAME))
        contents["run/plan.json"] = contents.pop("plan.json")

    assert not import_bundle(rezipped(bundle, change), tmp_path / "elsewhere").listed


def test_the_command_says_what_is_known_of_its_origin(
    bundle: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["import", str(bundle)]) == 2
    assert "a run of this id is here already" in capsys.readouterr().err
    monkeypatch.setenv("LAB_RUNS", str(tmp_path / "elsewhere"))
    assert main(["import", str(bundle)]) == 0
    assert "which matches no commit here: it can be judged but not published" in capsys.readouterr().err


def cut(contents: dict[str, bytes]) -> None:
    contents[journal.NAME] = contents[journal.NAME][:-200]


def altered_unlisted(contents: dict[str, bytes]) -> None:
    contents.pop(LIST)
    lines = contents[journal.NAME].splitlines(keepends=True)
    contents[journal.NAME] = b"".join([*lines[:-3], lines[-3].replace(b"0", b"1", 1), *lines[-2:]])


def without_plan(contents: dict[str, bytes]) -> None:
    contents.pop("plan.json")


def renamed(name: str) -> Callable[[dict[str, bytes]], None]:
    def change(contents: dict[str, bytes]) -> None:
        contents[name] = b"x"

    return change


def many(contents: dict[str, bytes]) -> None:
    contents.update({f"{number}/plan.json": b"" for number in range(40)})


DAMAGE = {
    "cut": (cut, "journal.jsonl is not the file that bundle.json lists"),
    "altered": (altered_unlisted, r"journal.jsonl, line \d+ is damaged"),
    "no plan": (without_plan, "holds no plan.json"),
    "traversal": (renamed("../../plan.json"), r"has the entry '\.\./\.\./plan.json'; accepted are"),
    "absolute": (renamed("/etc/plan.json"), "has the entry '/etc/plan.json'"),
    "a backslash": (renamed("..\\plan.json"), "has the entry"),
    "code": (renamed("conftest.py"), "has the entry 'conftest.py'"),
    "two folders": (renamed("b/evidence.json"), "in one folder"),
    "many entries": (many, "has 43 entries; accepted are at most 16"),
}


@pytest.mark.parametrize(("change", "message"), DAMAGE.values(), ids=DAMAGE)
def test_a_bundle_that_is_wrong_is_refused_and_leaves_nothing(
    bundle: Path, tmp_path: Path, change: Callable[[dict[str, bytes]], None], message: str
) -> None:
    rezipped(bundle, change)
    with pytest.raises(EvidenceError, match=message):
        import_bundle(bundle, tmp_path / "elsewhere")
    assert list((tmp_path / "elsewhere").glob("*")) == []


BOMB_BYTES, MEMORY_BYTES = 96 << 20, 64 << 20  # whoever holds a bomb whole exceeds it


def one_line(contents: dict[str, bytes]) -> None:
    contents[journal.NAME] = bytes(BOMB_BYTES)


def packed_line(contents: dict[str, bytes]) -> None:
    contents.pop(journal.NAME)
    contents[journal.PACKED] = journal.packed(bytes(BOMB_BYTES))


def packed_lines(contents: dict[str, bytes]) -> None:
    contents.pop(journal.NAME)
    contents[journal.PACKED] = journal.packed(b"\n" * BOMB_BYTES)


def large_plan(contents: dict[str, bytes]) -> None:
    contents["plan.json"] = b"[" + b"[]," * (BOMB_BYTES // 3) + b"[]]"


BOMBS = {
    "a line": (one_line, r"journal\.jsonl: has a line of more than 16,777,216 bytes"),
    "a packed line": (packed_line, r"journal\.jsonl: has a line of more than 16,777,216 bytes"),
    "packed lines": (packed_lines, r"journal\.jsonl, line 1 is damaged"),
    "a plan": (large_plan, r"'plan\.json' unpacks to more than 16,777,216 bytes"),
}


@pytest.mark.parametrize(("change", "message"), BOMBS.values(), ids=BOMBS)
def test_a_bomb_is_refused_in_little_memory(
    bundle: Path, tmp_path: Path, change: Callable[[dict[str, bytes]], None], message: str
) -> None:
    def unlisted(contents: dict[str, bytes]) -> None:
        contents.pop(LIST)
        change(contents)

    rezipped(bundle, unlisted)
    tracemalloc.start()
    try:
        with pytest.raises(EvidenceError, match=message):
            import_bundle(bundle, tmp_path / "elsewhere")
        assert tracemalloc.get_traced_memory()[1] < MEMORY_BYTES
    finally:
        tracemalloc.stop()
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_journal_that_unpacks_to_too_much_is_named(
    bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "MOST_BYTES", 1000)
    with pytest.raises(EvidenceError, match=r"'journal\.jsonl' unpacks to more than 1,000 bytes"):
        import_bundle(bundle, tmp_path / "elsewhere")

    def packed(contents: dict[str, bytes]) -> None:
        contents[journal.PACKED] = journal.packed(bytes(1001))
        contents.pop(journal.NAME)

    with pytest.raises(EvidenceError, match=r"'journal\.jsonl\.gz' unpacks to more than 1,000 bytes"):
        import_bundle(rezipped(bundle, packed), tmp_path / "elsewhere")


def test_a_packed_journal_that_is_cut_is_named(bundle: Path, tmp_path: Path) -> None:
    def change(contents: dict[str, bytes]) -> None:
        contents[journal.PACKED] = journal.packed(contents.pop(journal.NAME))[:-100]

    with pytest.raises(EvidenceError, match=r"'journal\.jsonl\.gz' cannot be unpacked"):
        import_bundle(rezipped(bundle, change), tmp_path / "elsewhere")


def test_a_link_in_a_bundle_is_refused(bundle: Path, tmp_path: Path) -> None:
    link = zipfile.ZipInfo("evidence.json")
    link.external_attr = 0o120777 << 16
    with zipfile.ZipFile(bundle, "a") as archive:
        archive.writestr(link, "/etc/passwd")
    with pytest.raises(EvidenceError, match=r"'evidence\.json' is no plain file"):
        import_bundle(bundle, tmp_path / "elsewhere")


def test_what_is_no_zip_is_named(tmp_path: Path) -> None:
    (tmp_path / "x.zip").write_text("no zip")
    with pytest.raises(EvidenceError, match="is no zip that can be read"):
        import_bundle(tmp_path / "x.zip", tmp_path / "runs")
    with pytest.raises(EvidenceError, match="no such file"):
        import_bundle(tmp_path / "y.zip", tmp_path / "runs")
