"""A journal shows what is missing: a line that is deleted, added, edited, moved or doubled is named with its place."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from factory import measured_run, plan_of, records_of

from lab.cli import main
from lab.evidence import journal
from lab.evidence.chain import checksum_of
from lab.evidence.codec import canonical
from lab.evidence.journal import append, read
from lab.evidence.record import Canary, Cell, RunFinish, SweepFinish, SweepStart, Watch
from lab.evidence.source import ROOT
from lab.verdict.judge_run import load_run

RECORDS = records_of(plan_of(sweeps=2, include=()), {"torch-fused": 30e-6, "torch-baseline": 40e-6})
Lines = list[bytes]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("chain") / journal.NAME
    for record in RECORDS:
        append(path, record)
    return path


@pytest.fixture
def spoiled(whole: Path, tmp_path: Path) -> Callable[[Callable[[Lines], Lines]], dict[int, str]]:
    """What is told of the journal after a change of its lines: damage by line."""

    def reasons(change: Callable[[Lines], Lines]) -> dict[int, str]:
        path = tmp_path / journal.NAME
        path.write_bytes(b"".join(change(whole.read_bytes().splitlines(keepends=True))))
        return {damage.line_number: damage.reason for damage in read(path).damages}

    return reasons


def resealed(line: bytes, old: bytes, new: bytes) -> bytes:
    """An edited line with a right checksum of its own."""
    content = line.partition(b" ")[2].rstrip(b"\n")
    assert old in content
    edited = content.replace(old, new, 1).decode()
    return f"{checksum_of(edited)} {edited}\n".encode()


def line_of(kind: type, after: int = 0) -> int:
    return next(at for at, record in enumerate(RECORDS) if at >= after and isinstance(record, kind))


def test_a_whole_journal_says_how_many_lines_it_has_and_their_digest(whole: Path) -> None:
    contents = read(whole)
    assert contents.records == tuple(RECORDS)
    assert contents.damages == ()
    assert (contents.seal.lines, contents.seal.chained) == (len(RECORDS), True)


def test_every_deleted_line_is_missed_where_it_was(spoiled: Callable[..., dict[int, str]]) -> None:
    for gone in range(len(RECORDS) - 1):
        reasons = spoiled(lambda lines, gone=gone: lines[:gone] + lines[gone + 1 :])
        assert list(reasons) == [gone + 1], gone
        assert f"line {gone + 1} is missing before it" in reasons[gone + 1]


def test_a_whole_sweep_that_is_deleted_is_missed(spoiled: Callable[..., dict[int, str]]) -> None:
    begin, end = line_of(SweepStart, after=line_of(SweepFinish)), len(RECORDS) - 1
    assert isinstance(RECORDS[end], RunFinish)
    (damage,) = spoiled(lambda lines: lines[:begin] + lines[end:]).values()
    assert f"{end - begin} lines after line {begin} are missing before it" in damage


@pytest.mark.parametrize("kind", [Canary, Watch, Cell], ids=lambda kind: kind.__name__)
def test_all_records_of_a_kind_that_are_deleted_are_missed(spoiled: Callable[..., dict[int, str]], kind: type) -> None:
    assert spoiled(lambda lines: [line for line, r in zip(lines, RECORDS, strict=True) if not isinstance(r, kind)])


def test_a_line_that_was_edited_and_given_a_right_checksum_is_named(spoiled: Callable[..., dict[int, str]]) -> None:
    at = line_of(Cell)
    reasons = spoiled(lambda lines: [*lines[:at], resealed(lines[at], b'"sweep":0', b'"sweep":1'), *lines[at + 1 :]])
    assert reasons == {at + 1: "was altered after it was written: the line after it names another in its place"}


def test_a_line_that_was_moved_doubled_or_added_is_named(spoiled: Callable[..., dict[int, str]]) -> None:
    at = line_of(Cell)
    moved = spoiled(lambda lines: [*lines[:at], lines[at + 1], lines[at], *lines[at + 2 :]])
    assert list(moved) == [at + 1, at + 2]
    doubled = spoiled(lambda lines: [*lines[: at + 1], lines[at], *lines[at + 1 :]])
    assert "out of order or twice" in doubled.pop(at + 2)
    assert not doubled
    plain = json.dumps({"kind": "RunFinish", "record": {"finished_utc": "2026-01-01T00:00:00Z"}})
    added = spoiled(lambda lines: [*lines[:at], f"{checksum_of(plain)} {plain}\n".encode(), *lines[at:]])
    assert "carries neither its number" in added.pop(at + 1)
    assert not added


def test_a_journal_whose_links_were_all_made_right_again_does_not_end_as_its_run_did(
    tmp_path: Path, whole: Path
) -> None:
    """Whoever edits and writes all later lines anew, but not the SHA-256 at the end."""
    path = tmp_path / journal.NAME
    append(path, *[record for record in RECORDS[:-1] if not isinstance(record, Canary)])
    last = json.loads(whole.read_bytes().splitlines()[-1].partition(b" ")[2])
    own = json.loads(path.read_bytes().splitlines()[-1].partition(b" ")[2])
    last |= {"line": own["line"] + 1, "previous": path.read_bytes().splitlines()[-1][:16].decode()}
    content = canonical(last)
    with path.open("a") as file:
        file.write(f"{checksum_of(content)} {content}\n")
    (damage,) = read(path).damages
    assert "ends the run with the SHA-256 of other lines than stand before it" in damage.reason


def test_a_line_after_the_end_of_a_run_is_named(tmp_path: Path, whole: Path) -> None:
    path = tmp_path / journal.NAME
    path.write_bytes(whole.read_bytes())
    append(path, RECORDS[line_of(Cell)])
    (damage,) = read(path).damages
    assert (damage.line_number, damage.reason) == (len(RECORDS) + 1, "stands after the end of the run")


def test_links_that_were_taken_off_are_missed(spoiled: Callable[..., dict[int, str]]) -> None:
    def bare(lines: Lines) -> Lines:
        bare_lines = []
        for line in lines:
            data = json.loads(line.partition(b" ")[2])
            content = canonical({"kind": data["kind"], "record": data["record"]})
            bare_lines.append(f"{checksum_of(content)} {content}\n".encode())
        return bare_lines

    assert "does not carry its number; the journal was rewritten" in spoiled(bare)[1]


def test_lines_longer_than_a_piece_are_followed_too(tmp_path: Path) -> None:
    path = tmp_path / journal.NAME
    long = RunFinish(finished_utc="2026-01-02T03:04:05Z", cut_short="x" * (3 * journal.PIECE_BYTES))
    append(path, RECORDS[0])
    append(path, long)
    append(path, RECORDS[1])
    assert [damage.reason for damage in read(path).damages] == ["stands after the end of the run"]


def test_judging_and_publishing_name_the_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory = measured_run(tmp_path, {"torch-fused": 30e-6, "torch-baseline": 40e-6}, sweeps=3, include=())
    path = directory / journal.NAME
    assert main(["judge", str(directory)]) == 0
    seal = read(path).seal
    assert f"journal: {seal.lines} lines, none is missing; SHA-256 {seal.sha256}" in capsys.readouterr().out
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:5] + lines[6:]))
    assert main(["judge", str(directory)]) == 0
    assert "journal line 6 not used: is line 7 of the journal as it was written" in capsys.readouterr().out
    assert main(["publish", str(directory)]) == 2
    assert "journal line 6 is damaged: is line 7" in capsys.readouterr().err
    path.write_bytes(b"".join(lines[1:]))
    assert main(["judge", str(directory)]) == 2
    assert "line 1 is line 2 of the journal as it was written: line 1 is missing before it" in capsys.readouterr().err


def test_published_journals_of_older_schemas_are_read_and_reported_as_not_chained() -> None:
    packed = ROOT / "experiments" / "evidence" / "h100-2026-11-21"
    run = load_run(packed)
    assert run.damages == ()
    assert run.seal is not None
    assert run.seal.chained is False
    assert run.seal.lines == len(gzip.decompress((packed / journal.PACKED).read_bytes()).splitlines())
