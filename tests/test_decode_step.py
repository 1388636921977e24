"""The decoding step on a tiny model, on the CPU: what it computes, and that the kernels' short way is taken."""

from collections.abc import Iterator

import pytest
import torch

from experiments import decode_step, qwen
from experiments.decode_step import (
    DECODE_STEP,
    KERNELS,
    decode_inputs,
    decode_reference,
    decode_standard,
    decode_traffic,
    rewound,
    stepped,
    the_cache,
)
from experiments.qwen import another, the_model
from experiments.qwen_compiled import compile_layers_with_cache
from lab.kernels import hugging_face_layer
from lab.kernels.patching import patch

SMALL = {
    "hidden_size": 128, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "vocab_size": 97, "max_position_embeddings": 64,
}  # fmt: skip


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    pytest.importorskip("transformers", reason="transformers is not installed; the extra 'models' brings it")
    for name, size in SMALL.items():
        monkeypatch.setitem(qwen.SIZES, name, size)
    for cached in (the_model, the_cache):
        cached.cache_clear()
    yield
    for cached in (the_model, the_cache):
        cached.cache_clear()


def worst(logits: torch.Tensor, truth: torch.Tensor) -> float:
    return float((logits.double() - truth).abs().max())


@pytest.mark.parametrize("batch", [1, 3])
def test_the_model_with_its_cache_gives_the_truth(small: None, batch: int) -> None:
    embeddings, context = decode_inputs((batch, 9), torch.float32, "cpu", seed=1)
    truth = decode_reference(embeddings, context)
    logits = decode_standard(embeddings, context)
    assert logits.shape == (batch, SMALL["vocab_size"])
    assert not logits.requires_grad
    torch.testing.assert_close(logits.double(), truth, rtol=1e-4, atol=1e-5)


def test_the_truth_depends_on_the_whole_context(small: None) -> None:
    embeddings, context = decode_inputs((1, 9), torch.float32, "cpu", seed=1)
    before = decode_reference(embeddings, context)
    the_cache("cpu", torch.float32, 1, 9).static.layers[1].keys[0, 0, 3] += 3.0
    assert worst(before, decode_reference(embeddings, context)) > 1e-3


@pytest.mark.parametrize("batch", [1, 3])
def test_the_patched_step_takes_the_short_way_and_is_as_near_to_the_truth(
    small: None, batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    embeddings, context = decode_inputs((batch, 70), torch.float16, "cpu", seed=1)
    short: list[int] = []
    one_token = hugging_face_layer._one_token
    monkeypatch.setattr(
        hugging_face_layer, "_one_token", lambda *arguments: (short.append(1), one_token(*arguments))[1]
    )
    truth = decode_reference(embeddings, context)
    cached = the_cache("cpu", torch.float16, batch, 70)
    model = another(the_model("cpu", torch.float16), "sdpa")
    patch(model, KERNELS)
    step = rewound(stepped(model, cached), cached)
    logits = step(embeddings)
    assert len(short) == SMALL["num_hidden_layers"]
    assert worst(logits, truth) <= 2 * worst(decode_standard(embeddings, context), truth)
    assert torch.equal(step(embeddings), logits)
    assert [int(layer.cumulative_length) for layer in cached.static.layers] == [70, 70]


def test_two_tokens_one_after_the_other(small: None) -> None:
    """The kernels' short way leaves the cache as transformers would."""
    model = another(the_model("cpu", torch.float16), "sdpa")
    tokens = [decode_inputs((1, 6), torch.float16, "cpu", seed)[0] for seed in (1, 2)]
    cached = the_cache("cpu", torch.float16, 1, 6)
    layers = cached.static.layers

    def both() -> list[torch.Tensor]:
        for layer in layers:
            layer.cumulative_length.fill_(4)
        return [stepped(model, cached)(token).clone() for token in tokens]

    before, kept = both(), [(layer.keys.clone(), layer.values.clone()) for layer in layers]
    with patch(model, KERNELS):
        after = both()
        for layer, (keys, values) in zip(layers, kept, strict=True):
            torch.testing.assert_close(layer.keys, keys, rtol=0.01, atol=0.01)
            torch.testing.assert_close(layer.values, values, rtol=0.01, atol=0.01)
            assert int(layer.cumulative_length) == 6
    for one, other in zip(before, after, strict=True):
        torch.testing.assert_close(one, other, rtol=0.01, atol=0.01)


def test_layers_with_a_cache_share_one_compilation_and_leave_the_cache_as_transformers_does(small: None) -> None:
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    embeddings, context = decode_inputs((2, 9), torch.float32, "cpu", seed=3)
    cached = the_cache("cpu", torch.float32, 2, 9)
    layers = cached.static.layers
    expected = decode_standard(embeddings, context)
    kept = [(layer.keys.clone(), layer.values.clone()) for layer in layers]
    for layer in layers:
        layer.keys[:, :, -1], layer.values[:, :, -1] = 0, 0
    model = another(the_model("cpu", torch.float32), "sdpa")
    compile_layers_with_cache(model, cached.static, backend="eager")
    step = rewound(stepped(model, cached), cached)
    with torch.no_grad():
        for _ in range(2):
            torch.testing.assert_close(step(embeddings), expected)
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1
    for layer, (keys, values) in zip(layers, kept, strict=True):
        torch.testing.assert_close(layer.keys, keys)
        torch.testing.assert_close(layer.values, values)
        assert int(layer.cumulative_length) == 9
    torch.testing.assert_close(decode_standard(embeddings, context), expected)


def test_the_traffic_counts_the_weights_of_the_model_and_the_cache(small: None) -> None:
    model = the_model("cpu", torch.float32)
    embeddings = model.model.embed_tokens.weight.numel()
    vectors = sum(parameter.numel() for parameter in model.parameters() if parameter.dim() == 1)
    matrices = sum(parameter.numel() for parameter in model.parameters()) - embeddings - vectors
    keys_and_values = sum(
        tensor[:, :, :-1].numel()
        for layer in the_cache("cpu", torch.float32, 2, 9).static.layers
        for tensor in (layer.keys, layer.values)
    )
    assert decode_traffic((2, 9), 2).read_bytes == 2 * (matrices + keys_and_values + 2 * SMALL["hidden_size"])


def test_a_step_reads_14_gigabytes() -> None:
    assert decode_traffic(DECODE_STEP.cases[0].shape, 2).read_bytes == pytest.approx(14.2e9, rel=0.01)


def test_few_cases_are_measured_unless_all_are_asked_for() -> None:
    (usual,) = (case for case in decode_step.CASES if not case.only_with)
    assert usual.shape == (1, 1024)
    names = [profile.name for profile in DECODE_STEP.profiles if usual.operator.name in profile.implementations]
    assert names == ["cuda-graph", "patched-graph"]
