"""Folders of processes that measure: gone at their end, and those of killed processes at the next start."""

import os
import tempfile
from pathlib import Path

import pytest

from lab.supervisor.scratch import OLD_SECONDS, PREFIX, scratch_folder


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def aged(folder: Path, seconds: float) -> Path:
    then = folder.stat().st_mtime - seconds
    os.utime(folder, (then, then))
    return folder


def test_a_folder_ends_with_what_uses_it(place: Path) -> None:
    with scratch_folder() as folder:
        (folder / "caches").mkdir()
        assert folder.parent == place
    assert not folder.exists()


def test_what_a_killed_process_left_is_removed_and_what_is_used_or_new_stays(place: Path) -> None:
    for name in ("left", "new"):
        (place / f"{PREFIX}{name}" / "caches").mkdir(parents=True)
    other = place / "another-program"
    other.mkdir()
    aged(other, 2 * OLD_SECONDS)
    aged(place / f"{PREFIX}left", 2 * OLD_SECONDS)
    with scratch_folder() as used:
        aged(used, 2 * OLD_SECONDS)
        with scratch_folder():
            assert used.exists()
            assert not (place / f"{PREFIX}left").exists()
    assert {path.name for path in place.iterdir()} == {f"{PREFIX}new", "another-program"}


def test_a_link_to_another_folder_is_left_alone(place: Path) -> None:
    target = place / "target"
    (target / "precious").mkdir(parents=True)
    aged(target, 2 * OLD_SECONDS)
    (place / f"{PREFIX}link").symlink_to(target)
    with scratch_folder():
        assert (target / "precious").exists()
