"""A run whose commit is in no history: its pages say so, and nobody is sent to check it out."""

import json
import subprocess
from pathlib import Path

import pytest

from lab.errors import EvidenceError
from lab.project import CODE
from lab.website.data import lost_commits
from lab.website.render import SiteInfo, environment

LOST = "f" * 40
SITE = SiteInfo(label="", trust=False, methods=False, lost_commits={LOST: "its branch is gone"})
EVIDENCE = CODE / "experiments" / "evidence"


def git(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["git", *arguments], cwd=CODE, capture_output=True, text=True, check=False)


def test_pages_say_it_of_a_lost_commit_alone() -> None:
    templates = environment()
    templates.globals |= {"site": SITE}
    parts = templates.get_template("_parts.html").module
    said = str(parts.lost(LOST))  # type: ignore[attr-defined]
    assert "is not in this repository's history: its branch is gone." in said
    assert "every figure and verdict can still be verified" in said
    assert not str(parts.lost("a" * 40)).strip()  # type: ignore[attr-defined]


def test_a_list_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    for text in ("[]", '{"f": 1}', "{"):
        path = tmp_path / f"{len(text)}.json"
        path.write_text(text)
        with pytest.raises(EvidenceError, match="must be an object of commits and reasons"):
            lost_commits._read(path)
    assert lost_commits._read(tmp_path / "none.json") == {}


def test_the_labs_own_list_is_of_the_published_commits_that_its_history_lacks() -> None:
    if git("rev-parse", "--is-shallow-repository").stdout.strip() != "false":
        pytest.skip("needs the whole history")
    published = {json.loads(path.read_text())["commit"] for path in EVIDENCE.glob("*/evidence.json")}
    lacking = {commit for commit in published if git("merge-base", "--is-ancestor", commit, "HEAD").returncode}
    assert set(json.loads((EVIDENCE / lost_commits.NAME).read_text())) == lacking
