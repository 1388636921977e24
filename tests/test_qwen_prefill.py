"""The whole-model experiment on a tiny model, on the CPU: what it computes, and that its profiles share weights."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from experiments import qwen
from experiments.qwen import another, for_each_shape, put_in, the_model
from experiments.qwen_compiled import compile_layers
from experiments.qwen_prefill import (
    CASES,
    QWEN_PREFILL,
    masks_of,
    prefill_inputs,
    prefill_reference,
    prefill_standard,
    prefill_traffic,
    prefilled,
)
from lab.kernels import hugging_face
from lab.kernels.patching import KERNELS, patch

SMALL = {
    "hidden_size": 48, "intermediate_size": 80, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "vocab_size": 97, "max_position_embeddings": 64,
}  # fmt: skip


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    pytest.importorskip("transformers", reason="transformers is not installed; the extra 'models' brings it")
    for name, size in SMALL.items():
        monkeypatch.setitem(qwen.SIZES, name, size)
    the_model.cache_clear()
    yield the_model("cpu", torch.float32)
    the_model.cache_clear()


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("patched", [False, True])
def test_every_way_gives_the_logits_of_the_last_position(small: Any, attention: str, patched: bool) -> None:
    (embeddings,) = prefill_inputs((2, 9), torch.float32, "cpu", seed=1)
    model = another(small, attention)
    if patched:
        assert len(patch(model).replaced) == 9
    logits = prefilled(model)(embeddings)
    with_masks = prefilled(model, masks_of(model, embeddings))(embeddings)
    assert not logits.requires_grad
    assert logits.shape == (2, SMALL["vocab_size"])
    torch.testing.assert_close(logits.double(), prefill_reference(embeddings), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(with_masks, logits, rtol=1e-5, atol=1e-6)


def test_only_eager_attention_needs_a_mask_of_every_position(small: Any) -> None:
    (embeddings,) = prefill_inputs((1, 9), torch.float32, "cpu", seed=1)
    masks = {name: masks_of(another(small, name), embeddings)["full_attention"] for name in ("eager", "sdpa")}
    assert masks["sdpa"] is None
    assert masks["eager"] is not None
    assert masks["eager"].shape == (1, 1, 9, 9)


def test_what_is_made_for_a_shape_stays_as_long_as_the_shape() -> None:
    made: list[tuple[int, int]] = []

    def make(embeddings: torch.Tensor, context: int) -> Any:
        made.append((len(embeddings), context))
        return lambda embeddings, context: embeddings + context

    call = for_each_shape(make)
    for batch, context in ((1, 5), (1, 5), (2, 5), (2, 6), (2, 6), (1, 5)):
        assert torch.equal(call(torch.zeros(batch), context), torch.full((batch,), float(context)))
    assert made == [(1, 5), (2, 5), (2, 6), (1, 5)]


def test_a_usual_run_compares_two_models_and_compiles_none() -> None:
    (usual,) = (case.operator.name for case in CASES if not case.only_with)
    names = [profile.name for profile in QWEN_PREFILL.profiles if usual in profile.implementations]
    assert names == ["sdpa", "patched"]


def test_all_layers_share_one_compilation(small: Any) -> None:
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    (embeddings,) = prefill_inputs((1, 9), torch.float32, "cpu", seed=3)
    model = another(small, "sdpa")
    compile_layers(model, backend="eager")
    with torch.no_grad():
        logits = prefilled(model)(embeddings)
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1
    assert SMALL["num_hidden_layers"] > 1
    torch.testing.assert_close(logits, prefill_standard(embeddings))


def test_the_truth_is_that_of_the_model_itself_in_float64(small: Any) -> None:
    (embeddings,) = prefill_inputs((1, 5), torch.float32, "cpu", seed=2)
    truth = prefill_reference(embeddings)
    with torch.no_grad():
        whole = small(inputs_embeds=embeddings, use_cache=False).logits[:, -1]
    torch.testing.assert_close(truth, whole.double(), rtol=1e-5, atol=1e-6)
    assert truth.dtype == torch.float64


def test_another_way_of_attention_has_the_same_weights_in_the_same_memory(small: Any) -> None:
    other = another(small, "eager")
    pairs = zip(small.parameters(), other.parameters(), strict=True)
    assert all(one.data_ptr() == two.data_ptr() for one, two in pairs)
    assert (small.config._attn_implementation, other.config._attn_implementation) == ("sdpa", "eager")
    patch(other)
    assert not any("forward" in vars(module) for module in small.modules())


def test_what_is_patched_only_in_part_is_not_measured(small: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    put_in(another(small, "sdpa"), KERNELS)
    monkeypatch.setattr(hugging_face, "CACHE_NAMES", ("kept",))
    with pytest.raises(RuntimeError, match=r"the patch is not whole:\n(.*\n)*left 2 × Qwen2DecoderLayer: its forward"):
        put_in(another(small, "sdpa"), KERNELS)


def test_the_traffic_counts_the_weights_of_the_model(small: Any) -> None:
    embeddings = small.model.embed_tokens.weight.numel()
    vectors = sum(parameter.numel() for parameter in small.parameters() if parameter.dim() == 1)
    matrices = sum(parameter.numel() for parameter in small.parameters()) - embeddings - vectors
    assert prefill_traffic((1, 1), 2).read_bytes == 2 * (matrices + SMALL["hidden_size"])


def test_a_prompt_of_2048_tokens_is_27_teraflops() -> None:
    case = next(case for case in CASES if case.shape == (1, 2048))
    assert prefill_traffic(case.shape, 2).flops == pytest.approx(27.6e12, rel=0.02)
