"""The log of publications: only added to, and a run that was published and is gone is told by page and command."""

import shutil

import pytest
from factory import measured_run, publish, take_stock
from test_site import TIMES

from lab.errors import EvidenceError
from lab.website.data.publication_log import NAME, add, head, read_log, take_back
from lab.website.site import build_site
from lab.website.verification.verify import verify

pytestmark = pytest.mark.usefixtures("few_experiments")


def note(evidence, run_id, digest):
    return add(
        evidence / NAME, published_utc="2026-01-03T00:00:00Z", run_id=run_id, digest=digest, commit="c" * 40
    )  # fmt: skip


@pytest.fixture
def log(tmp_path):
    for number in range(4):
        assert note(tmp_path, f"run-{number}", str(number) * 64)
    return tmp_path / NAME


def test_entries_are_chained_and_a_run_is_noted_once(log):
    entries = read_log(log)
    assert [entry.run_id for entry in entries] == ["run-0", "run-1", "run-2", "run-3"]
    assert entries[0].previous == ""
    assert entries[1].previous == head(entries[:1])
    assert not note(log.parent, "run-1", "1" * 64)
    assert read_log(log) == entries


@pytest.mark.parametrize(
    ("change", "place"),
    [
        (lambda lines: lines[1:], 1),
        (lambda lines: [lines[0], *lines[2:]], 2),
        (lambda lines: [lines[1], lines[0], *lines[2:]], 1),
        (lambda lines: [*lines[:2], lines[2].replace("run-2", "run-9"), lines[3]], 4),
        (lambda lines: [*lines, lines[3]], 5),
        (lambda lines: [*lines, "{}\n"], 5),
        (lambda lines: [lines[0].replace("run-0", "<b>run</b>"), *lines[1:]], 1),
        (lambda lines: [*lines, "[" * 9999 + "\n"], 5),
    ],
    ids=["first", "deleted", "moved", "edited", "doubled", "foreign", "hostile", "deep"],
)
def test_what_is_done_to_it_is_named_with_its_line(log, change, place):
    log.write_text("".join(change(log.read_text().splitlines(keepends=True))))
    with pytest.raises(EvidenceError, match=f"line {place}: .*restore it from git"):
        read_log(log)


def test_a_torn_last_line_is_none(log):
    whole = read_log(log)
    log.write_text(log.read_text() + '{"commit":"')
    assert read_log(log) == whole
    assert note(log.parent, "run-4", "4" * 64)
    assert len(read_log(log)) == 5


def test_only_the_last_entry_is_taken_back(log):
    take_back(log, "1" * 64)
    assert len(read_log(log)) == 4
    take_back(log, "3" * 64)
    assert [entry.run_id for entry in read_log(log)] == ["run-0", "run-1", "run-2"]


@pytest.fixture(scope="module")
def two_runs(tmp_path_factory):
    """Evidence of two runs, logged, and the site of both."""
    folder = tmp_path_factory.mktemp("logged")
    for number, name in enumerate(("welcome", "unwelcome")):
        digest = publish(folder / "evidence", measured_run(folder, TIMES, run_id=name, sweeps=3, seed=number))
        note(folder / "evidence", name, digest)
    (folder / "decisions").mkdir()
    build_site(folder / "site", folder / "decisions", folder / "evidence")
    return folder


def differences_of(folder, site):
    known = folder / "evidence" / NAME
    return [str(each) for each in verify(site, lambda _: None, folder / "decisions", known).differences]


def test_a_site_with_every_run_of_its_log_verifies_and_says_so(two_runs):
    assert differences_of(two_runs, two_runs / "site") == []
    page = (two_runs / "site" / "trust" / "index.html").read_text()
    assert "Every run that was published is still here." in page
    assert head(read_log(two_runs / "evidence" / NAME)) in page


def test_a_run_that_is_left_out_is_reported_by_the_page_and_by_verifying(two_runs, tmp_path):
    shutil.copytree(two_runs / "evidence", tmp_path / "evidence")
    shutil.rmtree(tmp_path / "evidence" / "unwelcome")
    build_site(tmp_path / "site", two_runs / "decisions", tmp_path / "evidence")
    page = (tmp_path / "site" / "trust" / "index.html").read_text()
    assert '<span class="id">unwelcome</span>, published on' in page
    (difference,) = differences_of(two_runs, tmp_path / "site")
    assert difference.startswith("runs/log.jsonl: run unwelcome was published on 2026-01-03T00:00:00Z, and is gone")


def test_nor_does_it_help_to_shorten_the_log_or_to_leave_it_out(two_runs, tmp_path):
    shutil.copytree(two_runs / "evidence", tmp_path / "evidence")
    shutil.rmtree(tmp_path / "evidence" / "unwelcome")
    (tmp_path / "evidence" / NAME).write_text((two_runs / "evidence" / NAME).read_text().splitlines(True)[0])
    build_site(tmp_path / "site", two_runs / "decisions", tmp_path / "evidence")
    assert differences_of(two_runs, tmp_path / "site") == [
        "runs/log.jsonl: ends before the log of this checkout, which goes on with run unwelcome"
    ]
    (tmp_path / "evidence" / NAME).unlink()
    build_site(tmp_path / "site", two_runs / "decisions", tmp_path / "evidence")
    assert differences_of(two_runs, tmp_path / "site") == [
        "runs/log.jsonl: is missing; the log of this checkout holds runs that are published here"
    ]


def test_a_log_that_was_edited_in_a_site_is_named(two_runs, tmp_path):
    shutil.copytree(two_runs / "site", tmp_path / "site")
    path = tmp_path / "site" / "runs" / NAME
    path.write_text(path.read_text().replace("welcome", "renamed", 1))
    take_stock(tmp_path / "site")
    assert any(
        "runs/log.jsonl, line 2: does not follow the line before it" in line
        for line in differences_of(two_runs, tmp_path / "site")
    )
