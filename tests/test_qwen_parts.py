"""The parts of a layer on a tiny model, on the CPU: what they compute, and that the kernels compute the same."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from experiments import decode_step, qwen, qwen_parts
from experiments.qwen import Graphed, keeping_truths, the_layer
from experiments.qwen_parts import Part, parts
from experiments.qwen_prefill import PARTS
from lab.kernels.patching import KERNELS
from lab.worker.correctness import check_profile

SMALL = {
    "hidden_size": 64, "intermediate_size": 80, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "vocab_size": 97, "max_position_embeddings": 64,
}  # fmt: skip
CACHES = (the_layer, decode_step.the_part_cache)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Without CUDA graphs."""
    pytest.importorskip("transformers", reason="transformers is not installed; the extra 'models' brings it")
    for name, size in SMALL.items():
        monkeypatch.setitem(qwen.SIZES, name, size)
    for module in (qwen_parts, decode_step):
        monkeypatch.setattr(module, "graphed", lambda run, *examples: run)
    for cached in CACHES:
        cached.cache_clear()
    yield
    for cached in CACHES:
        cached.cache_clear()


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.name)
def test_a_part_gives_the_truth_as_it_is_and_with_its_kernels(small: None, part: Part) -> None:
    arguments = part.operator.inputs((1, 9), torch.float16, "cpu", seed=1)
    for kernels in ((), part.kernels):
        correctness = check_profile(part.operator, part.loader(kernels), [arguments], [1])
        assert correctness.passed, (kernels, correctness.message)


@pytest.mark.parametrize("patched", [False, True])
@pytest.mark.parametrize("operator", decode_step.PARTS, ids=lambda operator: operator.name)
def test_a_part_of_a_step_gives_the_truth_each_time(small: None, operator: Any, patched: bool) -> None:
    arguments = operator.inputs((1, 9), torch.float16, "cpu", seed=1)
    function = decode_step._in_part(decode_step.PARTS[operator], patched)
    for _ in range(2):
        correctness = check_profile(operator, function, [arguments], [1])
        assert correctness.passed, correctness.message


def test_the_parts_are_made_of_a_model_of_one_layer(small: None) -> None:
    assert len(the_layer("cpu", torch.float16).model.layers) == 1


def test_each_kernel_of_the_patched_model_is_in_a_part() -> None:
    assert {kernel for part in parts(KERNELS) if part.name != "qwen-layer" for kernel in part.kernels} == set(KERNELS)


def test_what_a_graph_reads_lives_as_long_as_the_graph() -> None:
    class Replayed:
        def replay(self) -> None:
            result.copy_(own + mask)

    own, mask, result = torch.zeros(3), torch.ones(3), torch.zeros(3)
    call = Graphed(lambda x: x + mask, [own], Replayed(), result)  # type: ignore[arg-type]
    given = torch.arange(3.0)
    output = call(given)
    assert torch.equal(output, given + 1)
    assert output.data_ptr() != result.data_ptr()
    assert mask in [cell.cell_contents for cell in call.run.__closure__ or ()]


def test_a_truth_is_computed_once_for_the_inputs_that_all_profiles_get() -> None:
    asked: list[float] = []

    def reference(x: torch.Tensor) -> torch.Tensor:
        asked.append(float(x[0]))
        return 2 * x.double()

    kept = keeping_truths(reference)
    seeds = [1.0, 2.0, 3.0]
    for own in ([4.0, 5.0], [6.0, 7.0], [8.0, 9.0]):  # that one profile alone is asked
        for value in seeds + own:
            assert float(kept(torch.full((2,), value))[0]) == 2 * value
    assert asked == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0]
    kept(torch.full((2,), 4.0))
    assert asked[-1] == 4.0  # memory is bounded
