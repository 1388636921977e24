"""A site that is built again holds what a clean build would, whatever happened to it in between."""

import os
import random
import re
import shutil
import signal
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from factory import measured_run
from test_site import TIMES, publish

from lab.errors import LabError
from lab.website import exchange as exchanging
from lab.website.folder import MOST_SITES, NextSite, Part, replace_site
from lab.website.site import build_site

Files = dict[str, str]


def part(name: str, files: Files, made: list[str] | None = None) -> Part:
    """A part with these files and a key that names them; tells `made` when it is made."""

    def make() -> Iterator[tuple[str, bytes]]:
        if made is not None:
            made.append(name)
        return iter([(path, text.encode()) for path, text in files.items()])

    return Part(name=name, key=repr(files), make=make)


def tree(folder: Path) -> Files:
    return {path.relative_to(folder).as_posix(): path.read_text() for path in folder.rglob("*") if path.is_file()}


class Site:
    """A site that is built again and again from the same parts."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.out, self.memory = folder, folder / "site", folder / "remembered"

    def build(self, parts: dict[str, Files], made: list[str] | None = None) -> None:
        self.add([part(name, files, made) for name, files in parts.items()])

    def add(self, parts: Iterable[Part]) -> None:
        def fill(site: NextSite) -> None:
            for each in parts:
                site.add(each)

        replace_site(self.out, self.memory, fill)


@pytest.fixture
def site(tmp_path) -> Site:
    return Site(tmp_path)


@pytest.mark.parametrize("seed", range(12))
def test_after_any_sequence_of_edits_the_site_is_that_of_a_clean_build(site, seed) -> None:
    dice = random.Random(seed)
    parts: dict[str, Files] = {}
    for step in range(25):
        edit(dice, parts, step)
        damage(dice, site, step)
        site.build(parts)
        assert tree(site.out) == {path: text for files in parts.values() for path, text in files.items()}
        assert all(any(path.iterdir()) for path in site.out.rglob("*") if path.is_dir()), "an empty folder stayed"


def edit(dice: random.Random, parts: dict[str, Files], step: int) -> None:
    """A part comes, goes, or has other files."""
    name = f"p{dice.randrange(5)}"
    if dice.random() < 0.3:
        parts.pop(name, None)
    places = dice.sample(["index.html", "a/data.json", "a/b/index.html", "c"], dice.randrange(1, 5))
    parts[dice.choice([*parts, name])] = {f"{name}-{step}/{path}": f"{step} {path}" for path in places} | {
        f"{name}/{path}": dice.choice(["x", "y"]) for path in places
    }
    taken: set[str] = set()
    for files in parts.values():  # no two parts write one file
        for path in [path for path in files if path in taken]:
            del files[path]
        taken |= files.keys()


def damage(dice: random.Random, site: Site, step: int) -> None:
    """Somebody writes into the site, deletes from it, or clears what was remembered."""
    files = [path for path in site.out.rglob("*") if path.is_file()] if site.out.exists() else []
    what = dice.random()
    if what < 0.2 and files:
        dice.choice(files).write_text(f"not what was built, at step {step}")
    elif what < 0.4 and files:
        dice.choice(files).unlink()
    elif what < 0.5 and files:
        (site.out / f"stray-{step}").mkdir()
        (site.out / f"stray-{step}" / "file").write_text("nobody built this")
    elif what < 0.6:
        shutil.rmtree(site.memory, ignore_errors=True)
    elif what < 0.7 and (memories := list(site.memory.glob("*.json"))):
        memories[0].write_text('{"parts": 1}')
    elif what < 0.75:
        shutil.rmtree(site.out, ignore_errors=True)


def test_only_what_changed_is_made(site) -> None:
    parts = {"one": {"1/index.html": "1"}, "two": {"2/index.html": "2", "2/data.json": "{}"}}
    site.build(parts)
    before = site.out.stat().st_ino
    made: list[str] = []
    site.build(parts, made)
    assert (made, site.out.stat().st_ino) == ([], before), "nothing changed, and the folder is the same"
    parts["two"] = {"2/index.html": "other", "2/data.json": "{}"}
    site.build(parts, made)
    assert made == ["two"]
    assert (site.out / "1" / "index.html").read_text() == "1"


def test_a_build_that_fails_leaves_the_site_as_it_was(site, monkeypatch) -> None:
    parts = {"one": {"1/index.html": "1"}, "two": {"2/index.html": "2"}, "three": {"3/index.html": "3"}}
    site.build(parts)
    before = tree(site.out)

    def fails() -> Iterator[tuple[str, bytes]]:
        yield "4/index.html", b"4"
        raise LabError("refused")

    with pytest.raises(LabError, match="refused"):
        site.add([part("one", {"1/index.html": "other"}), Part(name="bad", key="", make=fails)])
    assert tree(site.out) == before

    def full(source: Path, target: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("lab.website.folder.exchange", full)
    with pytest.raises(OSError, match="No space"):
        site.build({"one": {"1/index.html": "a"}, "two": {"2/index.html": "b"}, "three": {"new/index.html": "c"}})
    monkeypatch.undo()
    assert tree(site.out) == before
    assert [path.name for path in site.folder.iterdir() if path.name.startswith(".")] == []


OLD = {"one": {"index.html": "1", "gone/index.html": "1"}, "two": {"2/index.html": "2"}}
NEW = {"one": {"index.html": "a", "3/index.html": "3"}, "two": {"2/index.html": "b"}}
WHOLE = [{path: text for files in parts.values() for path, text in files.items()} for parts in (OLD, NEW)]


@pytest.mark.parametrize("at_once", [True, False])
def test_a_build_that_is_killed_at_any_moment_leaves_one_whole_site(site, monkeypatch, at_once) -> None:
    """Killed at random while it builds one site and the other in turn; a system that cannot exchange folders mends
    what is missing when it builds next."""
    if not at_once:
        monkeypatch.setattr(exchanging, "_at_once", lambda one, other: False)
    dice = random.Random(1)
    seen = set()
    for attempt in range(300):  # longer and longer, since a busy machine may kill each of the first 30 too early
        if attempt >= 30 and len(seen) == 2:
            break
        site.build(OLD)
        child = os.fork()
        if child == 0:
            while True:
                site.build(NEW)
                site.build(OLD)
        time.sleep(dice.uniform(0.0, 0.01) * (1 + attempt // 30))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        if not at_once:
            exchanging.recover(site.out)
        assert tree(site.out) in WHOLE
        seen.add(tree(site.out) == WHOLE[0])
        site.build(NEW)
        assert tree(site.out) == WHOLE[1]
    assert seen == {True, False}, "kills came before and after the exchange"
    assert not list(site.folder.glob(".*")), "what the killed builds left is gone"


@pytest.mark.parametrize("steps", range(4))
def test_a_kill_between_the_steps_of_an_exchange_loses_nothing(tmp_path, monkeypatch, steps) -> None:
    """Where the system cannot exchange two folders at once."""
    monkeypatch.setattr(exchanging, "_at_once", lambda one, other: False)
    place, fresh = tmp_path / "site", tmp_path / "fresh"
    for folder, text in ((place, "old"), (fresh, "new")):
        folder.mkdir()
        (folder / "index.html").write_text(text)
    child = os.fork()
    if child == 0:
        rename, left = Path.rename, iter(range(steps))

        def killed(source: Path, target: Path) -> Path:
            if next(left, None) is None:
                os.kill(os.getpid(), signal.SIGKILL)
            return rename(source, target)

        Path.rename = killed  # type: ignore[method-assign]
        exchanging.exchange(fresh, place)
        os._exit(0)
    os.waitpid(child, 0)
    exchanging.recover(place)
    assert tree(place) == {"index.html": "old" if steps < 2 else "new"}


def test_two_folders_change_places(tmp_path) -> None:
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "index.html").write_text(name)
    exchanging.exchange(tmp_path / "one", tmp_path / "other")
    assert tree(tmp_path) == {"one/index.html": "other", "other/index.html": "one"}


def test_of_two_builds_at_once_neither_disturbs_the_other(site) -> None:
    """They begin together, and the first holds the second up while it makes a part."""
    reads, writes = os.pipe()

    def slow() -> Iterator[tuple[str, bytes]]:
        os.write(writes, b"x")
        time.sleep(0.2)
        yield "a/index.html", b"a"

    child = os.fork()
    if child == 0:
        try:
            site.add([Part(name="a", key="a", make=slow)])
        finally:
            os._exit(0)
    os.read(reads, 1)
    made: list[str] = []
    site.build({"b": {"b/index.html": "b"}}, made)
    os.waitpid(child, 0)
    assert tree(site.out) == {"b/index.html": "b"}
    assert made == ["b"]
    site.build({"b": {"b/index.html": "b"}}, made)
    assert made == ["b"], "what the later build remembers is its own"


def test_two_files_of_one_size_and_time_that_change_places_are_put_right(site) -> None:
    parts = {"one": {"a.svg": "supported", "b.svg": "not known"}}
    site.build(parts)
    first, second = site.out / "a.svg", site.out / "b.svg"
    os.utime(second, ns=(first.stat().st_atime_ns, first.stat().st_mtime_ns))
    (memory,) = site.memory.glob("*.json")
    memory.write_text(re.sub(r'("b\.svg":\[\d+,)\d+', rf"\g<1>{first.stat().st_mtime_ns}", memory.read_text()))
    first.rename(site.out / "c.svg")
    second.rename(first)
    (site.out / "c.svg").rename(second)
    site.build(parts)
    assert tree(site.out) == parts["one"]


def test_a_folder_where_a_page_was_gives_way(site) -> None:
    parts = {"one": {"index.html": "1"}, "two": {"a/index.html": "2"}}
    site.build(parts)
    (site.out / "index.html").unlink()
    (site.out / "index.html").mkdir()
    (site.out / "index.html" / "x").write_text("x")
    shutil.rmtree(site.out / "a")
    (site.out / "a").write_text("a file")
    site.build(parts)
    assert tree(site.out) == {"index.html": "1", "a/index.html": "2"}


def test_the_folder_that_was_replaced_stays_with_other_names_of_the_files_that_both_have(site) -> None:
    parts = {"one": {"index.html": "1", "a/b/index.html": "b"}, "two": {"2/index.html": "2"}}
    site.build(parts)
    before = tree(site.out)
    parts["two"] = {"3/index.html": "3"}
    site.build(parts)
    (spare,) = site.memory.glob("*/spare")
    assert tree(spare) == before
    assert all((spare / path).samefile(site.out / path) for path in parts["one"])
    assert sorted(path.name for path in spare.parent.iterdir()) == ["spare"]


def test_a_second_folder_that_somebody_changed_is_put_right_and_never_written_through(site) -> None:
    """A file of it is the site's own: it is replaced, and not overwritten."""
    parts = {"one": {"index.html": "1", "a/index.html": "a"}, "two": {"2/index.html": "2"}}
    site.build(parts)
    parts["two"] = {"2/index.html": "another"}
    site.build(parts)
    (spare,) = site.memory.glob("*/spare")
    (spare / "index.html").unlink()
    (spare / "index.html").mkdir()
    (spare / "index.html" / "x").write_text("x")
    shutil.rmtree(spare / "a")
    (spare / "a").write_text("a file")
    (spare / "stray").symlink_to(site.out)
    before = (site.out / "2" / "index.html").open()
    parts["two"] = {"2/index.html": "other"}
    site.build(parts)
    assert before.read() == "another"
    assert tree(site.out) == {"index.html": "1", "a/index.html": "a", "2/index.html": "other"}


def test_a_file_that_is_made_again_and_is_the_same_is_not_written(site) -> None:
    """Nor one of a part that is kept: each stays the file that it was."""
    site.build({"one": {"index.html": "1", "a/b/index.html": "b"}, "two": {"2/index.html": "2"}})
    before = {path: (site.out / path).stat().st_ino for path in tree(site.out)}
    site.build({"one": {"index.html": "other", "a/b/index.html": "b"}, "two": {"2/index.html": "2"}})
    after = {path: (site.out / path).stat().st_ino for path in tree(site.out)}
    assert [path for path in after if after[path] != before[path]] == ["index.html"]


def test_two_parts_may_not_write_one_file(site) -> None:
    with pytest.raises(LabError, match="two parts"):
        site.build({"one": {"index.html": "1"}, "two": {"index.html": "2"}})


@pytest.mark.usefixtures("few_experiments")
def test_a_site_that_is_built_again_after_evidence_and_decisions_changed_equals_a_clean_one(tmp_path) -> None:
    evidence, decisions = tmp_path / "evidence", tmp_path / "decisions"
    decisions.mkdir()

    def build(name: str, memory: str) -> Files:
        build_site(tmp_path / name, decisions, evidence, remembered=tmp_path / memory)
        files = {p.relative_to(tmp_path / name): p.read_bytes() for p in (tmp_path / name).rglob("*") if p.is_file()}
        return {path.as_posix(): content.hex() for path, content in files.items()}

    build("again", "memory")
    publish(evidence, measured_run(tmp_path, TIMES, run_id="first"))
    build("again", "memory")
    (decisions / "0001-x.md").write_text(
        "---\ntitle: t\nstatus: accepted\ndate: 2026-01-01\nreview_by: 2027-01-01\n"
        "rests_on:\n  - {claim: normalization-fusion/triton-rmsnorm-beats-decomposed, expects: supported}\n---\nx\n"
    )
    assert build("again", "memory") == build("clean", "other")


def test_whatever_comes_goes_or_changes_in_a_folder_is_seen(site) -> None:
    """Also right after a build, and in a folder that has no file of its own."""
    parts = {"one": {"index.html": "1", "a/b/index.html": "b", "a/c/index.html": "c"}}
    wanted = parts["one"]
    for place in ("stray", "a/stray", "a/b/stray"):
        site.build(parts)
        (site.out / place).write_text("nobody built this")
        site.build(parts)
        assert tree(site.out) == wanted
    for place in wanted:
        (site.out / place).write_text("x")
        site.build(parts)
        (site.out / place).unlink()
        site.build(parts)
        (site.out / place).rename(site.out / "moved")
        site.build(parts)
        assert tree(site.out) == wanted


def remember_more_than_are_kept(memory: Path, folder: Path) -> None:
    for number in range(MOST_SITES + 1):
        replace_site(folder / f"other-{number}", memory, lambda site: site.add(part("a", {"a.txt": "1"})))


def test_only_the_newest_sites_are_remembered_but_none_is_forgotten_that_is_being_built(tmp_path: Path) -> None:
    memory, out = tmp_path / "remembered", tmp_path / "site"

    def fill(site: NextSite) -> None:
        remember_more_than_are_kept(memory, tmp_path)
        assert first.exists()
        site.add(part("a", {"a.txt": "2"}))

    replace_site(out, memory, lambda site: site.add(part("a", {"a.txt": "1"})))
    (first,) = memory.glob("*.json")
    replace_site(out, memory, fill)
    assert tree(out) == {"a.txt": "2"}
    remember_more_than_are_kept(memory, tmp_path)
    assert not first.exists()
    assert len([*memory.glob("*.json")]) == MOST_SITES


def test_what_another_build_has_just_forgotten_stops_none(tmp_path: Path) -> None:
    """A name without a file stands for one that is deleted between two looks at it."""
    memory = tmp_path / "remembered"
    memory.mkdir()
    (memory / "gone.json").symlink_to(tmp_path / "nowhere")
    remember_more_than_are_kept(memory, tmp_path)
    assert not (memory / "gone.json").is_symlink()
