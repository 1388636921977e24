"""Which code was measured, asked of a working tree and of the commits of a real git repository."""

import hashlib
import shutil
import subprocess
from pathlib import Path

import pytest

from lab.errors import EvidenceError
from lab.evidence.source import ROOT, child_environment, commit_of, head, source_digest, timed_digest

FILES = {
    "lab/quantities.py": "print('counters')\n",
    "lab/worker/clock.py": "print('clock')\n",
    "lab/definition/default_inputs.py": "print('inputs')\n",
    "lab/definition/plan.py": "print('definition')\n",
    "lab/terminal.py": "print('colours')\n",
    "lab/verdict/judge.py": "print('judge')\n",
    "lab/kernels/rmsnorm.py": "print('kernel')\n",
    "lab/kernels/cuda/rmsnorm.cu": "int run();\n",
    "lab/kernels/cuda/rows.cuh": "// shared\n",
    "lab/kernels/cuda/notes.md": "not compiled\n",
    "experiments/norms.py": "print('experiment')\n",
    "experiments/mine/kernels.py": "print('a part of it')\n",
    "experiments/mine/deep/inside.py": "print('a part of a part')\n",
    "experiments/mine/deep/kernel.cu": "int mine();\n",
    "experiments/audits/papers.py": "print('no measurement')\n",
    "pyproject.toml": "[project]\n",
    "README.md": "read me\n",
    "site_templates/page.html": "<p>\n",
    "lab/pages/views.py": "print('view')\n",
    "experiments/evidence/run/journal.jsonl": "{}\n",
    "tests/lab/quantities.py": "print('not measured')\n",
}
MEASURED = (
    "lab/definition/default_inputs.py",
    "lab/definition/plan.py",
    "lab/quantities.py",
    "lab/worker/clock.py",
    "lab/kernels/rmsnorm.py",
    "lab/kernels/cuda/rmsnorm.cu",
    "lab/kernels/cuda/rows.cuh",
    "experiments/norms.py",
    "experiments/mine/kernels.py",
    "experiments/mine/deep/inside.py",
    "experiments/mine/deep/kernel.cu",
    "pyproject.toml",
)


def git(root: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=A Tester", "-c", "user.email=tester@example.org", "-c", "commit.gpgsign=false"]
    return subprocess.run(
        ["git", "-C", str(root), *identity, *arguments], capture_output=True, text=True, check=True
    ).stdout.strip()


def commit(root: Path, message: str = "a change") -> str:
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", message)
    return git(root, "rev-parse", "HEAD")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "tree"
    for name, text in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    git(root, "init", "--quiet")
    return root


def test_a_copy_without_git_has_the_same_digest(root: Path, tmp_path: Path) -> None:
    commit(root)
    copy = tmp_path / "copy"
    shutil.copytree(root, copy, ignore=shutil.ignore_patterns(".git"))
    assert source_digest(copy) == source_digest(root)


@pytest.mark.parametrize("name", MEASURED)
def test_a_change_of_the_measuring_source_changes_the_digest(root: Path, name: str) -> None:
    before = source_digest(root)
    (root / name).write_text("print('changed')\n")
    assert source_digest(root) != before


@pytest.mark.parametrize("name", sorted(set(FILES) - set(MEASURED)))
def test_a_change_of_anything_else_does_not(root: Path, name: str) -> None:
    before = source_digest(root)
    (root / name).write_text("changed\n")
    assert source_digest(root) == before
    assert commit(root) == commit_of(before, root)


def test_a_file_more_or_less_or_renamed_changes_the_digest(root: Path) -> None:
    digests = [source_digest(root)]
    (root / "lab/kernels/softmax.py").write_text("print('kernel')\n")
    digests.append(source_digest(root))
    (root / "lab/kernels/rmsnorm.py").unlink()
    digests.append(source_digest(root))
    assert len(set(digests)) == 3


@pytest.mark.parametrize("name", MEASURED)
def test_what_is_timed_is_told_apart_from_what_defines_and_records_it(root: Path, name: str) -> None:
    before = timed_digest(root)
    (root / name).write_text("print('changed')\n")
    times_nothing = name in ("lab/definition/plan.py", "lab/quantities.py", "pyproject.toml")
    assert (timed_digest(root) == before) is times_nothing


def test_the_commit_of_a_digest_is_found_among_all(root: Path) -> None:
    first = commit(root)
    digest = source_digest(root)
    (root / "lab/quantities.py").write_text("print('later')\n")
    later = commit(root)
    assert commit_of(digest, root) == first
    assert commit_of(source_digest(root), root) == later


def test_of_several_commits_with_one_source_the_first_is_named(root: Path) -> None:
    first = commit(root)
    (root / "README.md").write_text("said better\n")
    commit(root)
    assert commit_of(source_digest(root), root) == first


def test_evidence_of_when_the_judge_counted_is_found_in_the_commit_whose_judge_it_had(root: Path) -> None:
    """The digest is of the rule of before: git blob ids and paths of these files, and of lab/*.py and the judge."""
    commit(root)
    (root / "lab/verdict/judge.py").write_text("print('another judge')\n")
    second = commit(root)
    (root / "lab/terminal.py").write_text("print('other colours')\n")
    commit(root)
    paths = sorted((*MEASURED, "lab/terminal.py", "lab/verdict/judge.py"))
    lines = "".join(f"{git(root, 'rev-parse', f'{second}:{path}')} {path}\n" for path in paths)
    before = hashlib.sha256(lines.encode()).hexdigest()
    assert commit_of(before, root) == second


def test_a_commit_of_another_branch_counts(root: Path) -> None:
    commit(root)
    git(root, "checkout", "--quiet", "-b", "aside")
    (root / "lab/quantities.py").write_text("print('aside')\n")
    aside = commit(root)
    digest = source_digest(root)
    git(root, "checkout", "--quiet", "-")
    assert commit_of(digest, root) == aside


def test_a_source_that_no_commit_has_is_refused_with_what_to_do(root: Path) -> None:
    commit(root)
    (root / "lab/quantities.py").write_text("print('not committed')\n")
    with pytest.raises(EvidenceError, match=r"no commit has the source that was measured .*; commit it"):
        commit_of(source_digest(root), root)


def test_a_tree_without_any_commit_is_refused(root: Path) -> None:
    with pytest.raises(EvidenceError, match="no commit has the source"):
        commit_of(source_digest(root), root)


def test_the_head_is_clean_until_the_measuring_source_changes(root: Path) -> None:
    newest = commit(root)
    assert head(root) == (newest, False)
    (root / "README.md").write_text("changed\n")
    assert head(root) == (newest, False)
    (root / "lab/quantities.py").write_text("changed\n")
    assert head(root) == (newest, True)


def test_a_tree_that_git_does_not_know_has_no_head(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert head(tmp_path) == ("", False)


def test_a_machine_without_git_has_no_head(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commit(root)
    monkeypatch.setenv("PATH", "/nowhere")
    assert head(root) == ("", False)


def test_the_labs_own_root_holds_what_is_measured() -> None:
    assert (ROOT / "lab" / "kernels" / "rmsnorm.py").is_file()
    assert (ROOT / "pyproject.toml").is_file()


def test_a_child_counts_gpus_as_nvml_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_DEVICE_ORDER", "FASTEST_FIRST")
    assert child_environment()["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
