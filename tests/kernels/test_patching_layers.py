"""Attention and joined norms in living models: what is replaced and left, and what the model answers then."""

from collections import Counter
from typing import Any

import pytest
import torch
from torch import Tensor

from lab.kernels import hugging_face, hugging_face_attention, hugging_face_layer
from lab.kernels.hugging_face import CACHE_NAMES, by_either_name, cache_name
from lab.kernels.hugging_face_attention import NAME
from lab.kernels.patching import KERNELS, patch

transformers = pytest.importorskip("transformers", reason="transformers is not installed; the extra 'models' brings it")

SIZES = {
    "vocab_size": 61, "hidden_size": 128, "intermediate_size": 80, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 128, "pad_token_id": 0,
}  # fmt: skip
FAMILIES: dict[str, dict[str, Any]] = {
    "Llama": {"attention_bias": True},
    "Mistral": {"sliding_window": 5},
    "Qwen2": {},
    "Qwen3": {"head_dim": 32},
    "Gemma": {"head_dim": 32},
    "Gemma2": {"head_dim": 32},
    "Gemma3": {"head_dim": 32},
}
JOINED = ("Llama", "Mistral", "Qwen2", "Qwen3")


def made(family: str, dtype: torch.dtype = torch.float16, **more: Any) -> Any:
    """A tiny model whose norms and biases have learnt something."""
    torch.manual_seed(3)
    suffix = "TextConfig" if family == "Gemma3" else "Config"
    config = getattr(transformers, family + suffix)(**{**SIZES, **FAMILIES[family], **more})
    model = getattr(transformers, f"{family}ForCausalLM")(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(0.3 * torch.randn_like(parameter))
    return model.to(dtype).to("cuda" if torch.cuda.is_available() else "cpu")


@pytest.fixture
def tokens() -> Tensor:
    tokens = torch.randint(1, SIZES["vocab_size"], (2, 7), generator=torch.Generator().manual_seed(1))
    return tokens.to("cuda" if torch.cuda.is_available() else "cpu")


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each of the kernels that matter here is called."""
    counted: Counter[str] = Counter()

    def count(module: Any, name: str) -> None:
        own = getattr(module, name)

        def call(*arguments: Any, **more: Any) -> Any:
            counted[name] += 1
            return own(*arguments, **more)

        monkeypatch.setattr(module, name, call)

    for name in ("flash_attention", "decode_attention"):
        count(hugging_face_attention, name)
    for name in ("_one_token", "gated_mlp"):
        count(hugging_face_layer, name)
    return counted


@torch.no_grad()
def logits(model: Any, tokens: Tensor, **more: Any) -> Tensor:
    output: Tensor = model(tokens, **more).logits
    return output.float()


def assert_as_near(model: Any, before: Tensor, after: Tensor, tokens: Tensor, **more: Any) -> None:
    """After the patch at most twice as far from the float32 model as before, or within a few roundings."""
    truth = logits(model.float(), tokens, **more)
    allowed = max(2 * (before - truth).abs().max().item(), 4e-3)
    assert (after - truth).abs().max().item() <= allowed


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("kernels", [("attention",), ("rmsnorm_linear",), KERNELS], ids=["attention", "joined", "all"])
def test_a_prompt_is_answered_as_before(family: str, kernels: tuple[str, ...], tokens: Tensor) -> None:
    if family == "Gemma2" and kernels == ("attention",):
        kernels = ("attention", "glu")  # since a patch that replaces nothing is refused
    model = made(family)
    before = logits(model, tokens)
    attention = model.config._attn_implementation
    with patch(model, kernels):
        after = logits(model, tokens)
    assert torch.equal(logits(model, tokens), before)
    assert model.config._attn_implementation == attention
    assert not any("forward" in vars(module) for module in model.modules())
    assert_as_near(model, before, after, tokens)


@pytest.mark.parametrize("family", FAMILIES)
def test_attention_is_replaced_in_every_layer_unless_its_scores_have_a_cap(
    family: str, tokens: Tensor, calls: Counter[str]
) -> None:
    model = made(family)
    if family == "Gemma2":
        with pytest.raises(ValueError, match="Gemma2Attention: its scores have a soft cap"):
            patch(model, ("attention",))
        return
    patched = patch(model, ("attention",))
    assert [each.kernel for each in patched.replaced] == ["attention"] * SIZES["num_hidden_layers"]
    assert model.config._attn_implementation == NAME
    logits(model, tokens)
    sees_all = family != "Mistral"  # whose window of 5 hides tokens of 7, so that the kernel must not be called
    assert calls["flash_attention"] == SIZES["num_hidden_layers"] * sees_all


@pytest.mark.parametrize("family", FAMILIES)
def test_layers_are_joined_unless_they_are_of_another_form(family: str) -> None:
    model = made(family)
    patched = patch(model, ("rmsnorm_linear",))
    counts = Counter(each.kernel for each in patched.replaced)
    assert counts["joined_linear"] == 1
    assert counts["rmsnorm_linear"] == SIZES["num_hidden_layers"] * (family in JOINED)
    reasons = {each.reason for each in patched.left}
    assert reasons == (
        set() if family in JOINED else {"it is not a layer of two plain norms, an attention and a gated unit"}
    )


@pytest.mark.parametrize("family", ["Llama", "Qwen2", "Qwen3", "Gemma3"])
@torch.no_grad()
def test_generating_with_a_static_cache_gives_the_same_tokens(family: str, tokens: Tensor, calls: Counter[str]) -> None:
    model = made(family)
    more = {"max_new_tokens": 4, "do_sample": False, "cache_implementation": "static", "disable_compile": True}
    before = model.generate(tokens, attention_mask=torch.ones_like(tokens), **more)
    kernels = ("rmsnorm", "attention", "rmsnorm_linear") if family in JOINED else ("rmsnorm", "attention")
    with patch(model, kernels):
        after = model.generate(tokens, attention_mask=torch.ones_like(tokens), **more)
    assert torch.equal(after, before)


@pytest.mark.parametrize("family", ["Llama", "Qwen2", "Qwen3"])
@torch.no_grad()
def test_one_token_with_a_static_cache_takes_the_short_way_where_heads_have_no_norms(
    family: str, tokens: Tensor, calls: Counter[str]
) -> None:
    model = made(family)
    before = logits(model, tokens)[:, -1]
    with patch(model, ("attention", "rmsnorm_linear")):
        cache = {cache_name(model.forward): transformers.StaticCache(config=model.config, max_cache_len=20)}
        model(tokens[:, :-1], **cache, use_cache=True)
        after = model(tokens[:, -1:], **cache, use_cache=True).logits[:, -1].float()
    layers = SIZES["num_hidden_layers"]
    assert calls["_one_token"] == (0 if family == "Qwen3" else layers)
    assert calls["decode_attention"] == (layers if family == "Qwen3" else 0)  # the short way has its own
    assert calls["gated_mlp"] == (2 if family == "Qwen3" else 1) * layers
    torch.testing.assert_close(after, before, rtol=0.02, atol=0.02)


@torch.no_grad()
def test_lengths_that_generate_made_before_are_taken_as_they_are(tokens: Tensor, calls: Counter[str]) -> None:
    model = made("Llama")
    before = logits(model, tokens)[:, -1]
    lengths = torch.full((len(tokens),), tokens.shape[1], dtype=torch.int32, device=tokens.device)
    with patch(model, ("attention", "rmsnorm_linear")):
        cache = {cache_name(model.forward): transformers.StaticCache(config=model.config, max_cache_len=20)}
        model(tokens[:, :-1], **cache)
        after = model(tokens[:, -1:], attention_mask=lengths, **cache).logits[:, -1].float()
    assert calls["_one_token"] == SIZES["num_hidden_layers"]
    torch.testing.assert_close(after, before, rtol=0.02, atol=0.02)


def test_a_cache_by_the_other_name_is_kept_and_two_are_refused() -> None:
    taken = by_either_name(lambda self, x, cache=None, **more: (cache, more))
    model = torch.nn.Module()
    assert taken(model, 1, past_key_values="a") == ("a", {})
    assert taken(model, 1, cache="a", past_key_values=None) == ("a", {})
    assert taken(model, 1, cache=None, past_key_values="a") == ("a", {})
    with pytest.raises(TypeError, match="the cache is given twice, as cache and as past_key_values"):
        taken(model, 1, cache="a", past_key_values="b")


@pytest.mark.parametrize("name", CACHE_NAMES)
@torch.no_grad()
def test_a_replaced_layer_and_its_attention_take_a_cache_by_either_name(name: str, tokens: Tensor) -> None:
    model = made("Llama")
    cache = transformers.DynamicCache(config=model.config)
    x = model.model.embed_tokens(tokens)
    angles = model.model.rotary_emb(x, torch.arange(x.shape[1], device=x.device)[None])
    layer = model.model.layers[0]
    with patch(model, ("rope", "rmsnorm_linear")):
        for times, part in enumerate((layer, layer.self_attn), 1):
            part(x, attention_mask=None, position_embeddings=angles, **{name: cache})
            assert cache.get_seq_length() == times * x.shape[1]


def test_parts_that_take_a_cache_by_an_unknown_name_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """As those of another version of transformers might."""
    monkeypatch.setattr(hugging_face, "CACHE_NAMES", ("kept",))
    patched = patch(made("Llama"), ("rope", "rmsnorm_linear"))
    assert {(each.kind, each.reason) for each in patched.left} == {
        (f"Llama{part}", "its forward takes a cache by no name that is known") for part in ("Attention", "DecoderLayer")
    }


@torch.no_grad()
def test_one_token_with_a_growing_cache(tokens: Tensor, calls: Counter[str]) -> None:
    model = made("Llama")
    before = logits(model, tokens)[:, -1]
    with patch(model, ("attention",)):
        name = cache_name(model.forward)
        cache = model(tokens[:, :-1], use_cache=True)[name]
        after = model(tokens[:, -1:], **{name: cache}).logits[:, -1].float()
    assert calls["decode_attention"] == SIZES["num_hidden_layers"]
    torch.testing.assert_close(after, before, rtol=0.02, atol=0.02)


@torch.no_grad()
def test_padding_is_left_to_transformers(tokens: Tensor, calls: Counter[str]) -> None:
    model = made("Qwen2")
    padding = torch.ones_like(tokens)
    padding[0, :3] = 0
    before = logits(model, tokens, attention_mask=padding)
    with patch(model, ("attention",)):
        after = logits(model, tokens, attention_mask=padding)
    assert not calls
    torch.testing.assert_close(after[:, 3:], before[:, 3:], rtol=1e-3, atol=1e-3)


def test_float32_is_left_to_transformers(tokens: Tensor, calls: Counter[str]) -> None:
    model = made("Qwen2", torch.float32)
    before = logits(model, tokens)
    with patch(model, ("attention", "rmsnorm_linear")):
        assert torch.equal(logits(model, tokens), before)
    assert not calls


def test_an_implementation_that_was_changed_since_is_not_thrown_away() -> None:
    model = made("Qwen2")
    patched = patch(model, ("attention",))
    with pytest.raises(ValueError, match="its attention has been replaced already"):
        patch(model, ("attention",))
    model.set_attn_implementation("eager")
    with pytest.raises(
        RuntimeError, match="the model's attention implementation was changed after the patch, to 'eager'"
    ):
        patched.restore()
    model.set_attn_implementation(NAME)
    patched.restore()
    patched.restore()
    assert model.config._attn_implementation == "sdpa"


def test_attention_outside_of_a_model_is_left() -> None:
    model = made("Qwen2")
    layers = torch.nn.ModuleDict({"first": model.model.layers[0]})
    patched = patch(layers, ("rmsnorm", "attention"))
    assert {(each.kind, each.reason) for each in patched.left} == {
        ("Qwen2Attention", "it is not in a model of transformers, which chooses the implementation")
    }
