"""Promotion: only finished, undamaged runs of committed code, copied whole and never altered."""

import shutil
import subprocess
from pathlib import Path

import pytest
from factory import measured_run, publish

from lab.errors import EvidenceError, LabError
from lab.evidence import journal
from lab.evidence.source import MEASURED, ROOT, source_digest
from lab.verdict.judge_run import load_run
from lab.website.data.judged_cache import judged
from lab.website.data.promoted import load_evidence, promote

TIMES = {"torch-baseline": 200e-6, "torch-fused": 30e-6, "triton-fused-rmsnorm": 22e-6}


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A git repository with the lab's own measuring source, committed."""
    root = tmp_path / "repository"
    for pattern in MEASURED:
        for path in ROOT.glob(pattern):
            target = root / path.relative_to(ROOT)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
    git(root, "init", "--quiet")
    git(root, "add", "--all")
    git(root, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "--quiet", "--message", "measured")
    return root


def git(root: Path, *arguments: str) -> None:
    subprocess.run(["git", "-C", str(root), *arguments], check=True)


def test_a_promoted_run_is_loaded_with_its_digest_and_the_commit_that_was_measured(tmp_path, repository):
    directory = measured_run(tmp_path, TIMES, source=source_digest(repository))
    done = promote(directory, tmp_path / "evidence", repository)
    (loaded,) = load_evidence(tmp_path / "evidence")
    assert (loaded.digest, loaded.commit) == (done.digest, done.commit)
    assert loaded.run.plan.run_id == "synthetic"
    assert len(done.commit) == 40


def test_promoting_twice_changes_nothing(tmp_path, repository):
    directory = measured_run(tmp_path, TIMES, source=source_digest(repository))
    first = promote(directory, tmp_path / "evidence", repository)
    again = promote(directory, tmp_path / "evidence", repository)
    assert first.fresh
    assert not again.fresh
    assert first.digest == again.digest


def test_another_run_under_a_published_run_id_is_refused(tmp_path, repository):
    digest = source_digest(repository)
    promote(measured_run(tmp_path / "one", TIMES, source=digest), tmp_path / "evidence", repository)
    other = measured_run(tmp_path / "two", TIMES, source=digest, seed=2)
    with pytest.raises(EvidenceError, match="never replaced"):
        promote(other, tmp_path / "evidence", repository)


def test_a_source_that_no_commit_has_is_refused(tmp_path, repository):
    directory = measured_run(tmp_path, TIMES, source="0" * 64)
    with pytest.raises(EvidenceError, match="no commit has the source"):
        promote(directory, tmp_path / "evidence", repository)
    assert not (tmp_path / "evidence").exists()


def test_an_unfinished_run_is_refused(tmp_path, repository):
    directory = measured_run(tmp_path, TIMES, source=source_digest(repository), finished=False)
    with pytest.raises(EvidenceError, match="unfinished"):
        promote(directory, tmp_path / "evidence", repository)


def test_a_journal_too_large_to_be_read_back_is_refused(tmp_path, repository, monkeypatch):
    directory = measured_run(tmp_path, TIMES, source=source_digest(repository))
    monkeypatch.setattr(journal, "MOST_BYTES", 10_000)
    with pytest.raises(EvidenceError, match="at most 10,000 can be published; measure its experiments in several runs"):
        promote(directory, tmp_path / "evidence", repository)
    assert not (tmp_path / "evidence").exists()


def test_a_damaged_journal_is_refused_with_its_line(tmp_path, repository):
    directory = measured_run(tmp_path, TIMES, source=source_digest(repository))
    journal = directory / "journal.jsonl"
    lines = journal.read_text().splitlines()
    lines[4] = lines[4].replace("sweep", "sweeq", 1)
    journal.write_text("\n".join(lines) + "\n")
    with pytest.raises(EvidenceError, match="line 5"):
        promote(directory, tmp_path / "evidence", repository)


def test_a_private_path_in_a_reason_is_refused(tmp_path, repository):
    outcomes = {"liger": ("failed", "OSError: /home/someone/secret is missing")}
    directory = measured_run(tmp_path, TIMES, source=source_digest(repository), outcomes=outcomes)
    with pytest.raises(EvidenceError, match="private to the machine"):
        promote(directory, tmp_path / "evidence", repository)


def test_an_altered_plan_is_not_loaded(tmp_path, repository):
    directory = measured_run(tmp_path, TIMES, source=source_digest(repository))
    altered = promote(directory, tmp_path / "evidence", repository).directory / "plan.json"
    altered.write_text(altered.read_text() + "\n")
    with pytest.raises(EvidenceError, match=r"plan\.json"):
        load_evidence(tmp_path / "evidence")


@pytest.mark.parametrize(
    ("alter", "message"),
    [
        (lambda path: path.write_bytes(journal.packed(journal.content_of(path) + b"\n")), "is not the file"),
        (lambda path: path.write_bytes(path.read_bytes()[:-100]), "cannot be unpacked"),
        (Path.unlink, "holds no journal"),
    ],
    ids=["altered", "cut", "missing"],
)
def test_an_altered_journal_is_not_loaded(tmp_path, repository, alter, message):
    directory = measured_run(tmp_path, TIMES, source=source_digest(repository))
    done = promote(directory, tmp_path / "evidence", repository)
    alter(done.directory / journal.PACKED)
    with pytest.raises(EvidenceError, match=message):
        load_evidence(tmp_path / "evidence")


def test_a_promoted_journal_is_compressed_and_judged_as_it_was(tmp_path, repository):
    directory = measured_run(tmp_path, TIMES, source=source_digest(repository))
    done = promote(directory, tmp_path / "evidence", repository)
    assert not (done.directory / journal.NAME).exists()
    assert load_run(done.directory) == load_run(directory)


def test_a_run_that_writes_the_marks_of_figures_is_neither_promoted_nor_judged(tmp_path, repository):
    outcomes = {"liger": ("failed", "Error: \ue000experiments/x/data.json#/a\ue0019\ue0019.00×\ue002 as fast")}
    directory = measured_run(tmp_path, TIMES, source=source_digest(repository), outcomes=outcomes)
    with pytest.raises(EvidenceError, match=r"journal.jsonl, line \d+: holds U\+E000"):
        promote(directory, tmp_path / "evidence", repository)
    publish(tmp_path / "evidence", directory)
    (slipped_in,) = load_evidence(tmp_path / "evidence")
    with pytest.raises(EvidenceError, match=r"journal.jsonl, line \d+: holds U\+E000"):
        judged(slipped_in, tmp_path / "kept")


def test_what_was_kept_of_it_and_cannot_be_read_is_named_with_what_to_do(tmp_path):
    publish(tmp_path / "evidence", measured_run(tmp_path, TIMES, sweeps=3))
    (evidence,) = load_evidence(tmp_path / "evidence")
    (item,) = judged(evidence, tmp_path / "kept")
    path = next((tmp_path / "kept").rglob("data.json"))
    path.write_text(path.read_text()[:-100])
    with pytest.raises(LabError, match="delete the folder, and build again"):
        _ = item.data
    (path.parents[1] / "experiments.json").write_text("{")
    with pytest.raises(LabError, match="delete the folder, and build again"):
        judged(evidence, tmp_path / "kept")
