"""What a search found is kept in a file, and used by the kernel that it holds for, and by no other."""

import json
import os
import warnings
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from lab.kernels import rmsnorm as module
from lab.kernels.fp8 import quantize_fp8_tuning
from lab.kernels.launch import Configuration, gpu_of
from lab.kernels.layernorm import LAYERNORM_TUNING
from lab.kernels.rmsnorm import RMSNORM_TUNING, rmsnorm, rmsnorm_choices, rmsnorm_inputs, rmsnorm_reference
from lab.kernels.rows import norm_rule
from lab.kernels.tuned import Key, by_elements, by_heads, by_rows, drop, keep, read_tuned, source_digest, tuned_file

SHAPE = (40, 500)
FOUND = {"run_id": "tune", "ratio": 1.05}


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "cache" / "tuned.json"
    monkeypatch.setenv("LAB_TUNED", str(path))
    return path


def key(device: str, shape: tuple[int, ...] = SHAPE, dtype: str = "float32") -> Key:
    return RMSNORM_TUNING.key(shape, dtype, gpu_of(torch.empty(0, device=device).get_device()))


def tensor(device: str, shape: tuple[int, ...] = SHAPE, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.empty(shape, dtype=dtype, device=device)


def other_than_the_rule(shape: tuple[int, ...] = SHAPE) -> Configuration:
    return next(choice for choice in rmsnorm_choices(shape, 4) if choice != norm_rule(shape, 4))


def test_a_kernel_launches_what_was_found(file: Path, device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shape = (6, 300)
    keep(file, key(device, shape), other_than_the_rule(shape), FOUND)
    launched = []
    original = module.row_launch

    def noting(kernel: object, tiled: object, x: Tensor, chosen: Configuration) -> object:
        launched.append(chosen)
        return original(kernel, tiled, x, chosen)

    monkeypatch.setattr(module, "row_launch", noting)
    x, weight = rmsnorm_inputs(shape, torch.float32, device, seed=1)
    assert torch.allclose(rmsnorm(x, weight).double(), rmsnorm_reference(x, weight), atol=1e-5)
    explicit = norm_rule(shape, 4)
    rmsnorm(x, weight, configuration=explicit)
    assert launched == [other_than_the_rule(shape), explicit]


def test_it_is_used_for_its_class_of_shapes_only(file: Path, device: str) -> None:
    keep(file, key(device), other_than_the_rule(), FOUND)
    for rows in (33, 40, 64):
        assert RMSNORM_TUNING.choose((rows, 500), tensor(device)) == other_than_the_rule()
    for shape in ((32, 500), (65, 500), (40, 501)):
        assert RMSNORM_TUNING.choose(shape, tensor(device)) == norm_rule(shape, 4)


def test_classes_of_shapes() -> None:
    assert by_rows((4096, 8192)) == by_rows((2049, 8192)) == by_rows((64, 64, 8192))
    assert by_rows((4096, 8192)) != by_rows((4096, 8193))
    assert by_elements((1024, 1000)) == by_elements((2**20,)) == "up to 1048576 elements"
    assert by_elements((2**20 + 1,)) == "up to 2097152 elements"
    assert by_heads((1, 32, 500, 128)) == "32 heads of 128, up to 512 positions, batch up to 1"
    assert by_heads((3, 32, 8, 257, 128)) == "32 and 8 heads of 128, up to 512 positions, batch up to 4"
    assert by_heads((1, 2, 8, 33)) == by_heads((1, 2, 8, 32))
    for other in ((1, 31, 500, 128), (1, 32, 500, 64), (1, 32, 513, 128), (2, 32, 500, 128), (500, 32, 1, 128)):
        assert by_heads(other) != by_heads((1, 32, 500, 128))


def test_groups_share_what_was_found_for_as_many_and_tensors_for_as_many_elements() -> None:
    groups, tensor = quantize_fp8_tuning("group"), quantize_fp8_tuning("tensor")
    assert (groups.operator, tensor.operator) == ("fp8-group-128", "fp8-tensor")
    assert groups.shapes((4096, 4096)) == groups.shapes((1024, 16_384)) == "128 columns, up to 131072 rows"
    assert groups.shapes((4096, 100)) == "100 columns, up to 4096 rows"
    assert tensor.shapes((4096, 4096)) == "up to 16777216 elements"
    assert quantize_fp8_tuning("group", 64).operator == "fp8-group-64"


def test_it_is_used_for_its_dtype_and_operator_only(file: Path, device: str) -> None:
    keep(file, key(device), other_than_the_rule(), FOUND)
    assert RMSNORM_TUNING.choose(SHAPE, tensor(device, dtype=torch.float16)) == norm_rule(SHAPE, 2)
    assert LAYERNORM_TUNING.choose(SHAPE, tensor(device)) == norm_rule(SHAPE, 4)


@pytest.mark.parametrize(
    "change",
    [{"gpu": "NVIDIA H200, 132 multiprocessors"}, {"triton": "2.0.0"}, {"source": "0" * 64}],
    ids=["another GPU", "another Triton", "kernels that have changed"],
)
def test_what_was_found_elsewhere_is_not_used(file: Path, device: str, change: dict[str, str]) -> None:
    keep(file, replace(key(device), **change), other_than_the_rule(), FOUND)
    assert RMSNORM_TUNING.choose(SHAPE, tensor(device)) == norm_rule(SHAPE, 4)


def test_what_no_search_would_try_is_not_used(file: Path, device: str) -> None:
    keep(file, key(device), Configuration.of(BLOCK=3, num_warps=99), FOUND)
    assert RMSNORM_TUNING.choose(SHAPE, tensor(device)) == norm_rule(SHAPE, 4)


def test_the_digest_of_an_operator_covers_the_modules_that_its_launch_rests_on() -> None:
    assert source_digest("lab.kernels.rmsnorm") != source_digest("lab.kernels.layernorm")
    assert source_digest("lab.kernels.rmsnorm") != source_digest("lab.kernels.rows")


def test_without_a_file_the_rule_chooses(file: Path, device: str) -> None:
    assert read_tuned(file) == {}
    assert RMSNORM_TUNING.choose(SHAPE, tensor(device)) == norm_rule(SHAPE, 4)
    assert drop(file, key(device)) is False
    assert not file.parent.exists()


def test_a_variable_names_the_file_or_says_that_there_is_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LAB_TUNED", "")
    assert tuned_file() is None
    monkeypatch.setenv("LAB_TUNED", "/elsewhere.json")
    assert tuned_file() == Path("/elsewhere.json")
    monkeypatch.delenv("LAB_TUNED")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert tuned_file() == tmp_path / "kernel-evidence-lab" / "tuned.json"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert tuned_file() == tmp_path / ".cache" / "kernel-evidence-lab" / "tuned.json"


DAMAGED = ["{", "[]", '{"schema": 9, "entries": []}', '{"schema": 1, "entries": [{"key": {}}]}', "\0"]


@pytest.mark.parametrize("text", DAMAGED)
def test_a_damaged_file_is_reported_of_once_and_kernels_go_on(file: Path, device: str, text: str) -> None:
    file.parent.mkdir()
    file.write_text(text)
    with pytest.warns(RuntimeWarning, match=r"tuned\.json: is no file of tuned configurations .*by their rules"):
        assert RMSNORM_TUNING.choose(SHAPE, tensor(device)) == norm_rule(SHAPE, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert RMSNORM_TUNING.choose(SHAPE, tensor(device)) == norm_rule(SHAPE, 4)


@pytest.mark.parametrize("text", DAMAGED)
def test_a_damaged_file_is_not_written_over(file: Path, device: str, text: str) -> None:
    file.parent.mkdir()
    file.write_text(text)
    for change in (lambda: keep(file, key(device), other_than_the_rule(), FOUND), lambda: drop(file, key(device))):
        with pytest.raises(ValueError, match=r"tuned\.json: is no file of tuned configurations"):
            change()
    assert file.read_text() == text


def test_an_entry_can_be_replaced_and_dropped(file: Path, device: str) -> None:
    first, second = list(rmsnorm_choices(SHAPE, 4))[:2]
    other = key(device, (40, 501))
    keep(file, other, second, FOUND)
    keep(file, key(device), first, FOUND)
    keep(file, key(device), second, {"ratio": 1.1})
    assert read_tuned(file) == {other: (second, FOUND), key(device): (second, {"ratio": 1.1})}
    assert drop(file, key(device)) is True
    assert read_tuned(file) == {other: (second, FOUND)}
    assert json.loads(file.read_text())["schema"] == 1


def test_writers_at_once_lose_nothing(file: Path, device: str) -> None:
    writers = []
    for name in ("one", "other"):
        writers.append(os.fork())
        if not writers[-1]:
            try:
                for number in range(20):
                    key = Key("gpu", f"{name}-{number}", "shapes", "float32", "3", "source")
                    keep(file, key, Configuration.of(BLOCK=number, num_warps=4), {})
                os._exit(0)
            finally:
                os._exit(1)
    assert [os.waitpid(writer, 0)[1] for writer in writers] == [0, 0]
    assert len(read_tuned(file)) == 40
    assert sorted(path.name for path in file.parent.iterdir()) == ["tuned.json", "tuned.json.lock"]
