"""What one process compiled, another finds: binaries at their new place, and nothing that was chosen."""

import json
from pathlib import Path

import pytest

from lab.supervisor.caches import Caches, copy_binaries


def compiled(triton: Path, key: str, *, whole: bool = True) -> Path:
    """A kernel as Triton leaves it in its cache."""
    entry = triton / key
    entry.mkdir(parents=True)
    names = ["add.cubin", "add.ptx", "add.json", "add.ttir", "add.llir"]
    for name in names:
        (entry / name).write_text(f"{key} {name}")
    if whole:
        (entry / "__grp__add.json").write_text(json.dumps({"child_paths": {name: str(entry / name) for name in names}}))
    return entry


def test_a_kernel_is_copied_with_what_it_is_loaded_from_and_its_list_names_the_copies(tmp_path: Path) -> None:
    compiled(tmp_path / "a", "KEY")
    copy_binaries(tmp_path / "a", tmp_path / "b")
    place = tmp_path / "b" / "KEY"
    assert sorted(file.name for file in place.iterdir()) == ["__grp__add.json", "add.cubin", "add.json", "add.ptx"]
    listed = json.loads((place / "__grp__add.json").read_text())["child_paths"]
    assert listed == {name: str(place / name) for name in ("add.cubin", "add.ptx", "add.json")}
    assert (place / "add.cubin").read_text() == "KEY add.cubin"


def test_triton_itself_finds_a_kernel_at_its_new_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from triton.runtime.cache import FileCacheManager

    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "a"))
    written = FileCacheManager("KEY")
    written.put_group("add.json", {"add.cubin": written.put(b"code", "add.cubin")})
    copy_binaries(tmp_path / "a", tmp_path / "b")
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "b"))
    group = FileCacheManager("KEY").get_group("add.json")
    assert group == {"add.cubin": str(tmp_path / "b" / "KEY" / "add.cubin")}


def test_tritons_own_modules_are_handed_on(tmp_path: Path) -> None:
    (tmp_path / "a" / "UTILS").mkdir(parents=True)
    (tmp_path / "a" / "UTILS" / "cuda_utils.cpython-312-x86_64-linux-gnu.so").write_bytes(b"module")
    copy_binaries(tmp_path / "a", tmp_path / "b")
    assert (tmp_path / "b" / "UTILS" / "cuda_utils.cpython-312-x86_64-linux-gnu.so").read_bytes() == b"module"


def test_a_choice_is_never_handed_on(tmp_path: Path) -> None:
    entry = compiled(tmp_path / "a", "KEY")
    (entry / "add.autotune.json").write_text("{}")
    alone = tmp_path / "a" / "CHOICE"
    alone.mkdir()
    (alone / "mul.autotune.json").write_text("{}")
    copy_binaries(tmp_path / "a", tmp_path / "b")
    assert not list((tmp_path / "b").rglob("*.autotune.json"))
    assert [entry.name for entry in (tmp_path / "b").iterdir()] == ["KEY"]


def test_a_kernel_that_was_half_written_is_left_out(tmp_path: Path) -> None:
    compiled(tmp_path / "a", "HALF", whole=False)
    copy_binaries(tmp_path / "a", tmp_path / "b")
    assert not (tmp_path / "b" / "HALF").exists()


def test_what_is_there_already_stays_as_it_is(tmp_path: Path) -> None:
    compiled(tmp_path / "a", "KEY")
    copy_binaries(tmp_path / "a", tmp_path / "b")
    (tmp_path / "b" / "KEY" / "add.cubin").write_text("first")
    copy_binaries(tmp_path / "a", tmp_path / "b")
    assert (tmp_path / "b" / "KEY" / "add.cubin").read_text() == "first"


def test_a_list_that_cannot_be_read_is_a_kernel_that_is_not_there(tmp_path: Path) -> None:
    entry = compiled(tmp_path / "a", "KEY")
    (entry / "__grp__add.json").write_text("[")
    copy_binaries(tmp_path / "a", tmp_path / "b")
    assert (tmp_path / "b" / "KEY" / "__grp__add.json").read_text() == "{}"


def test_a_cache_begins_empty_of_choices_and_none_outlives_the_run(tmp_path: Path) -> None:
    with Caches(tmp_path) as caches:
        first = caches.fresh()
        compiled(first.triton, "KEY")
        chosen = Path(first.environment["TORCHINDUCTOR_CACHE_DIR"])
        chosen.mkdir()
        (chosen / "kernel.best_config").write_text("{}")
        caches.gather(first)
        caches.drop(first)
        second = caches.fresh()
        caches.fill(second)
        assert (second.triton / "KEY" / "add.cubin").is_file()
        assert not Path(second.environment["TORCHINDUCTOR_CACHE_DIR"]).exists()
        assert caches.for_passes() == first  # counters are of what was timed
        assert (chosen / "kernel.best_config").is_file()
        caches.drop(second)
        assert not second.folder.exists()
    assert list(tmp_path.iterdir()) == []


def test_a_pass_without_a_sweep_in_this_process_has_the_binaries(tmp_path: Path) -> None:
    with Caches(tmp_path) as caches:
        ahead = caches.fresh()
        compiled(ahead.triton, "KEY")
        caches.gather(ahead)
        assert (caches.for_passes().triton / "KEY" / "add.cubin").is_file()
