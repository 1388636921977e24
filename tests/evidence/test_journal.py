"""Intact lines of a damaged journal are read, and the others are reported with their position."""

import os
from pathlib import Path

import pytest
from factory import plan_of, records_of

from lab.evidence import journal
from lab.evidence.chain import checksum_of
from lab.evidence.journal import append, drop_torn_end, read
from lab.evidence.record import Record, RunFinish

RECORDS = [*records_of(plan_of(sweeps=1, include=()), {})[:4], RunFinish(finished_utc="2026-01-02T03:04:05Z")]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / journal.NAME
    for record in RECORDS:
        append(file, record)
    return file


def test_what_was_appended_is_read_back_in_order(path: Path) -> None:
    contents = read(path)
    assert contents.records == tuple(RECORDS)
    assert contents.damages == ()
    assert contents.intact_bytes == path.stat().st_size


def test_what_was_appended_was_synced_whole(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(os.fstat(descriptor).st_size))
    path.unlink()
    sizes = [append(path, record) for record in RECORDS]
    assert synced == sizes


def test_a_file_that_is_not_there_holds_nothing(tmp_path: Path) -> None:
    assert read(tmp_path / "none.jsonl").records == ()


def test_a_file_cut_off_at_any_byte_gives_its_whole_lines_and_no_damage(path: Path) -> None:
    content = path.read_bytes()
    ends = [i + 1 for i, byte in enumerate(content) if byte == ord("\n")]
    for length in range(len(content) + 1):
        path.write_bytes(content[:length])
        contents = read(path)
        whole = sum(end <= length for end in ends)
        assert contents.records == tuple(RECORDS[:whole])
        assert contents.damages == ()
        assert contents.intact_bytes == max([0, *(end for end in ends if end <= length)])


def test_what_was_appended_together_is_there_as_a_whole_or_not_at_all(path: Path) -> None:
    path.unlink()
    append(path, RECORDS[0])
    before = path.stat().st_size
    append(path, *RECORDS[1:4])
    append(path, RECORDS[4])
    content = path.read_bytes()
    ends = [i + 1 for i, byte in enumerate(content) if byte == ord("\n")]
    for length in range(before, ends[-2]):
        path.write_bytes(content[:length])
        assert read(path).records == (RECORDS[0],)
        assert read(path).intact_bytes == before
    path.write_bytes(content)
    assert read(path).records == tuple(RECORDS)
    path.write_bytes(content[: ends[-3]])
    drop_torn_end(path)
    assert path.stat().st_size == before


@pytest.mark.parametrize("cut", [1, 2, 50])
def test_once_the_torn_line_is_dropped_the_next_record_starts_a_line_of_its_own(path: Path, cut: int) -> None:
    path.write_bytes(path.read_bytes()[:-cut])
    drop_torn_end(path)
    kept = read(path).records
    assert kept == tuple(RECORDS[:-1])
    append(path, RECORDS[-1])
    assert read(path).records == (*kept, RECORDS[-1])
    assert read(path).damages == ()


def test_dropping_a_torn_line_leaves_a_whole_file_alone(path: Path) -> None:
    before = path.read_bytes()
    drop_torn_end(path)
    assert path.read_bytes() == before


def test_dropping_a_torn_line_of_a_file_that_is_not_there_makes_none(tmp_path: Path) -> None:
    drop_torn_end(tmp_path / journal.NAME)
    assert not (tmp_path / journal.NAME).exists()


def test_any_altered_byte_is_reported_with_its_line_and_the_other_lines_are_used(path: Path) -> None:
    content = path.read_bytes()
    start = content.index(b"\n") + 1
    for position in range(start, content.index(b"\n", start)):
        altered = bytearray(content)
        altered[position] ^= 1
        if altered[position] == ord("\n"):
            continue
        path.write_bytes(altered)
        contents = read(path)
        assert [damage.line_number for damage in contents.damages] == [2], position
        assert contents.records == (RECORDS[0], *RECORDS[2:])


@pytest.mark.parametrize(
    "line",
    [b"", b"hello", b"0123456789abcdef {}", b"\xff\xfe\x00", b"[" * 100_000],
    ids=["empty", "prose", "bad checksum", "no text", "deep"],
)
def test_a_foreign_line_is_reported_and_the_others_are_used(path: Path, line: bytes) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:3], line + b"\n", *lines[3:]]))
    contents = read(path)
    assert [damage.line_number for damage in contents.damages] == [4]
    assert "checksum does not match" in contents.damages[0].reason
    assert contents.records == tuple(RECORDS)


def test_a_line_with_a_right_checksum_of_an_unknown_kind_is_reported(path: Path) -> None:
    for content in ('{"kind":"Gossip","record":{}}', "[]", '{"kind":"Cell","record":{}}', "not json"):
        with path.open("a") as file:
            file.write(f"{checksum_of(content)} {content}\n")
    contents = read(path)
    assert [damage.line_number for damage in contents.damages] == [6, 7, 8, 9]
    assert "unknown kind of record; accepted are ['Canary', 'Cell'" in contents.damages[0].reason
    assert "field 'case' is missing" in contents.damages[2].reason
    assert contents.records == tuple(RECORDS)


def test_text_beyond_ascii_survives(tmp_path: Path) -> None:
    strange: Record = RunFinish(finished_utc="2026-01-02T03:04:05Z", cut_short="ü \u2028 \x85 \n 🙂")
    append(tmp_path / journal.NAME, strange)
    assert read(tmp_path / journal.NAME).records == (strange,)
