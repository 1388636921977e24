"""Kernels in living models: tiny random ones of each family, on the CPU through Triton's interpreter or on a GPU."""

import copy
import functools
from collections import Counter
from types import MethodType
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from lab.kernels.hugging_face import cache_name
from lab.kernels.patching import USUAL, Patch, patch

transformers = pytest.importorskip("transformers", reason="transformers is not installed; the extra 'models' brings it")

SIZES = {
    "vocab_size": 61, "hidden_size": 32, "intermediate_size": 56, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 64,
}  # fmt: skip
# Configuration, model, what is unusual; the gate's kernel and what is known of a norm.
FAMILIES: dict[str, tuple[str, str, dict[str, Any], str, str]] = {
    "llama": (
        "LlamaConfig", "LlamaForCausalLM", {"mlp_bias": True, "attention_bias": True, "rms_norm_eps": 1e-5},
        "swiglu", "eps 1e-05",
    ),
    "mistral": ("MistralConfig", "MistralForCausalLM", {"sliding_window": 4}, "swiglu", "eps 1e-06"),
    "qwen2": ("Qwen2Config", "Qwen2ForCausalLM", {"rms_norm_eps": 1e-4}, "swiglu", "eps 0.0001"),
    "qwen3": ("Qwen3Config", "Qwen3ForCausalLM", {"head_dim": 24}, "swiglu", "eps 1e-06"),
    "gemma": ("GemmaConfig", "GemmaForCausalLM", {"head_dim": 16}, "geglu_tanh", "eps 1e-06, weight + 1"),
    "gemma2": ("Gemma2Config", "Gemma2ForCausalLM", {"head_dim": 16}, "geglu_tanh", "eps 1e-06, weight + 1"),
    "gemma3": ("Gemma3TextConfig", "Gemma3ForCausalLM", {"head_dim": 16}, "geglu_tanh", "eps 1e-06, weight + 1"),
}  # fmt: skip
QK_NORMS = {"qwen3", "gemma3"}
every_family = pytest.mark.parametrize("family", FAMILIES)


def made(family: str, device: str, **more: Any) -> Any:
    """A tiny model whose norms and biases have learnt something, so that none of them can be forgotten unnoticed."""
    config, model, unusual, _, _ = FAMILIES[family]
    torch.manual_seed(3)
    made = getattr(transformers, model)(getattr(transformers, config)(**{**SIZES, **unusual, **more})).eval()
    with torch.no_grad():
        for parameter in made.parameters():
            if parameter.dim() == 1:
                parameter.add_(0.3 * torch.randn_like(parameter))
    return made.to(device)


def logits(model: Any, tokens: Tensor) -> Tensor:
    with torch.no_grad():
        output: Tensor = model(tokens).logits
    return output


@pytest.fixture
def tokens(device: str) -> Tensor:
    return torch.randint(0, SIZES["vocab_size"], (2, 7), generator=torch.Generator().manual_seed(1)).to(device)


@pytest.fixture
def device() -> str:
    return "cuda" if torch.cuda.is_available() else "cpu"


@every_family
def test_a_patched_model_answers_as_before_and_is_itself_again_after(family: str, device: str, tokens: Tensor) -> None:
    model = made(family, device)
    before, state = logits(model, tokens), {name: value.clone() for name, value in model.state_dict().items()}
    with patch(model) as patched:
        torch.testing.assert_close(logits(model, tokens), before, rtol=1e-5, atol=2e-6)
        assert model.state_dict().keys() == state.keys()
    assert torch.equal(logits(model, tokens), before)
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())
    assert not any("forward" in vars(module) for module in model.modules())
    assert not patched.left


@every_family
def test_it_says_what_it_replaced(family: str, device: str) -> None:
    patched = patch(made(family, device))
    gate, norm = FAMILIES[family][3:]
    assert {(each.kernel, each.about) for each in patched.replaced if each.kernel == "rmsnorm"} == {("rmsnorm", norm)}
    counts = Counter(each.kernel for each in patched.replaced)
    assert counts[gate] == counts["rope_qk"] == SIZES["num_hidden_layers"]
    assert sum("q_norm" in each.path or "k_norm" in each.path for each in patched.replaced) == 4 * (family in QK_NORMS)
    assert f"replaced 2 × {FAMILIES[family][0].removesuffix('TextConfig').removesuffix('Config')}MLP" in str(patched)


@every_family
@pytest.mark.parametrize("kernel", USUAL)
def test_each_kernel_alone_answers_as_before(family: str, kernel: str, device: str, tokens: Tensor) -> None:
    model = made(family, device)
    before = logits(model, tokens)
    patched = patch(model, kernels=(kernel,))
    torch.testing.assert_close(logits(model, tokens), before, rtol=1e-5, atol=2e-6)
    assert {each.kernel for each in patched.replaced} <= {kernel, "rope_qk", "swiglu", "geglu_tanh"}
    endings = {"rmsnorm": "RMSNorm", "rope": "Attention", "glu": "MLP"}
    assert all(each.kind.endswith(endings[kernel]) for each in patched.replaced)


@pytest.mark.parametrize("family", ["qwen2", "gemma3"])
def test_one_token_after_others_from_a_cache(family: str, device: str, tokens: Tensor) -> None:
    model = made(family, device)
    whole = logits(model, tokens)
    with patch(model), torch.no_grad():
        first = model(tokens[:, :-1], use_cache=True)
        name = cache_name(model.forward)
        last = model(tokens[:, -1:], **{name: first[name]}, use_cache=True).logits
    torch.testing.assert_close(last[:, 0], whole[:, -1], rtol=1e-5, atol=5e-6)


def test_sequences_at_positions_of_their_own(device: str, tokens: Tensor) -> None:
    model = made("llama", device)
    positions = torch.stack((torch.arange(7), torch.arange(20, 27))).to(device)
    with torch.no_grad():
        before = model(tokens, position_ids=positions).logits
        with patch(model):
            after = model(tokens, position_ids=positions).logits
    torch.testing.assert_close(after, before, rtol=1e-5, atol=2e-6)


def test_angles_that_are_scaled(device: str, tokens: Tensor) -> None:
    scaled = {"rope_type": "yarn", "factor": 4.0, "rope_theta": 10_000.0, "original_max_position_embeddings": 16}
    model = made("qwen2", device, rope_parameters=scaled)
    before = logits(model, tokens)
    with patch(model):
        torch.testing.assert_close(logits(model, tokens), before, rtol=1e-5, atol=2e-6)


def test_a_gate_with_the_error_function_has_its_own_kernel(device: str, tokens: Tensor) -> None:
    model = made("llama", device, hidden_act="gelu")
    before = logits(model, tokens)
    patched = patch(model, kernels=("glu",))
    assert {each.kernel for each in patched.replaced} == {"geglu_erf"}
    torch.testing.assert_close(logits(model, tokens), before, rtol=1e-5, atol=2e-6)


def test_an_activation_that_no_kernel_has_is_left(device: str) -> None:
    patched = patch(made("llama", device, hidden_act="relu"))
    assert {(each.kind, each.reason) for each in patched.left} == {
        ("LlamaMLP", "its activation, ReLU, is neither SiLU nor a GELU")
    }
    assert "left 2 × LlamaMLP: its activation, ReLU, is neither SiLU nor a GELU" in str(patched)


def test_in_half_precision_it_is_as_near_to_float32_as_the_model_was(device: str, tokens: Tensor) -> None:
    truth = logits(made("llama", device), tokens)
    model = made("llama", device).to(torch.float16)
    before = (logits(model, tokens).float() - truth).abs().max().item()
    with patch(model):
        after = (logits(model, tokens).float() - truth).abs().max().item()
    assert after <= 2 * before


def test_a_copy_of_a_patched_model_uses_its_own_weights(device: str, tokens: Tensor) -> None:
    model = made("llama", device)
    patch(model)
    before = logits(model, tokens)
    other = copy.deepcopy(model)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.mul_(1.5)
    assert torch.equal(logits(model, tokens), before)
    assert not torch.allclose(logits(other, tokens), before)


def test_a_weight_that_changes_after_the_patch_counts(device: str, tokens: Tensor) -> None:
    model, same = made("gemma", device), made("gemma", device)
    patch(model)
    logits(model, tokens)
    for each in (model, same):
        each.model.norm.weight.data.add_(0.5)  # of which no version counter hears
    torch.testing.assert_close(logits(model, tokens), logits(same, tokens), rtol=1e-5, atol=2e-6)


def test_hooks_still_run_and_hidden_states_are_still_returned(device: str, tokens: Tensor) -> None:
    model = made("qwen3", device)
    called: list[str] = []
    model.model.norm.register_forward_hook(lambda *_: called.append("norm"))
    with patch(model), torch.no_grad():
        output = model(tokens, output_hidden_states=True)
    assert called == ["norm"]
    assert len(output.hidden_states) == SIZES["num_hidden_layers"] + 1


def test_a_norm_whose_weight_is_wider_than_its_input_gives_the_wider_type(device: str) -> None:
    norm = made("llama", device).model.norm
    x = torch.randn(3, SIZES["hidden_size"], dtype=torch.float16, device=device)
    with torch.no_grad():
        before = norm(x)
        patched = patch(nn.ModuleDict({"norm": norm}))
        after = norm(x)
    assert before.dtype == after.dtype == torch.float32
    assert torch.equal(after, before)
    patched.restore()


def test_a_gradient_that_would_be_lost_is_refused(device: str, tokens: Tensor) -> None:
    model = made("llama", device).half()  # in float32 the library's own attention stays
    patch(model, ("attention",))
    with pytest.raises(NotImplementedError, match="requires grad, and this kernel has no backward"):
        model(tokens)


def test_a_patched_model_can_be_trained(device: str, tokens: Tensor) -> None:
    model = made("llama", device)
    before = _gradients(model, tokens)
    with patch(model):
        after = _gradients(model, tokens)
    for name, gradient in before.items():
        torch.testing.assert_close(after[name], gradient, rtol=2e-3, atol=1e-5 + 2e-3 * float(gradient.abs().max()))


def _gradients(model: nn.Module, tokens: Tensor) -> dict[str, Tensor]:
    model.zero_grad()
    model(tokens).logits.square().mean().backward()
    return {name: weight.grad.clone() for name, weight in model.named_parameters() if weight.grad is not None}


def test_a_second_patch_finds_nothing_to_replace(device: str) -> None:
    model = made("llama", device)
    patch(model)
    with pytest.raises(ValueError, match="LlamaRMSNorm: its forward has been replaced already"):
        patch(model)


def test_what_somebody_else_replaced_since_is_not_thrown_away(device: str) -> None:
    model = made("llama", device)
    patched = patch(model)
    model.model.norm.forward = MethodType(lambda self, x: x, model.model.norm)
    with pytest.raises(RuntimeError, match=r"restore: model.norm: its forward was replaced after the patch"):
        patched.restore()
    model.model.norm.forward = patched._installed[-1][2]
    patched.restore()
    patched.restore()
    assert not any("forward" in vars(module) for module in model.modules())


def test_a_class_that_only_looks_known_is_left(device: str) -> None:
    model = made("llama", device)
    known = type(model.model.norm)

    class LlamaRMSNorm(known):  # type: ignore[misc, valid-type]
        def forward(self, hidden_states: Tensor) -> Tensor:
            return 2 * super().forward(hidden_states)

    model.model.norm.__class__ = LlamaRMSNorm
    (left,) = patch(model).left
    assert (left.path, left.kind) == ("model.norm", "LlamaRMSNorm")
    assert "that is not known" in left.reason


def test_a_known_class_that_computes_something_else_is_left(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As another version of transformers might."""
    model = made("gemma", device)

    def forward(self: Any, x: Tensor) -> Tensor:
        normed: Tensor = self._norm(x.float()) * self.weight.float()  # without the one that is added
        return normed.type_as(x)

    monkeypatch.setattr(type(model.model.norm), "forward", forward)
    patched = patch(model)
    assert {each.reason for each in patched.left} == {
        "it computes something else than the RMSNorm that its class is known for"
    }
    assert {each.kernel for each in patched.replaced} == {"geglu_tanh", "rope_qk"}


def test_a_forward_that_somebody_wrapped_is_left(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = made("llama", device)
    kind = type(model.model.norm)
    own = kind.forward

    @functools.wraps(own)
    def doubled(self: Any, x: Tensor) -> Tensor:
        result: Tensor = 2 * own(self, x)
        return result

    monkeypatch.setattr(kind, "forward", doubled)
    assert {(each.kind, each.reason) for each in patch(model).left} == {
        ("LlamaRMSNorm", "its forward is wrapped in another function")
    }


def test_another_rotation_is_left(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = made("mistral", device)
    module = __import__(type(model).__module__, fromlist=["it"])
    monkeypatch.setattr(module, "rotate_half", lambda x: x.flip(-1))
    patched = patch(model, kernels=("rope", "glu"))
    assert {each.reason for each in patched.left} == {
        "apply_rotary_pos_emb is not the half-split rotation that its class is known for"
    }


def test_weights_that_are_not_there_are_left() -> None:
    with torch.device("meta"):
        model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**SIZES))
    with pytest.raises(ValueError, match="its weight is on the meta device, where nothing can be tried"):
        patch(model, kernels=("rmsnorm",))


def test_a_family_that_is_not_known_is_refused() -> None:
    config = transformers.GPTNeoXConfig(
        vocab_size=61, hidden_size=32, intermediate_size=56, num_hidden_layers=1, num_attention_heads=4
    )
    with pytest.raises(ValueError, match=r"patch: nothing of a GPTNeoXForCausalLM could be replaced .*not known") as no:
        patch(transformers.GPTNeoXForCausalLM(config))
    assert "known are the families Llama, Mistral, Qwen2, Qwen3, Gemma, Gemma2, Gemma3 of transformers" in str(no.value)


@pytest.mark.parametrize(
    ("model", "kernels", "problem"),
    [
        ("model", ("rope",), "patch: model is a str; accepted is a torch.nn.Module"),
        (nn.Linear(2, 2), ("rope", "swiglu"), "patch: kernels has 'swiglu'; accepted are some of"),
        (nn.Linear(2, 2), "rope", "patch: kernels has 'rope'; accepted are some of"),
        (nn.Linear(2, 2), (), r"patch: kernels has \(\); accepted are some of"),
        (nn.Linear(2, 2), ("rope",), "nothing of a Linear could be replaced .it has no part that is known."),
    ],
)
def test_what_cannot_be_patched_is_reported(model: Any, kernels: Any, problem: str) -> None:
    with pytest.raises((TypeError, ValueError), match=problem):
        patch(model, kernels)


def test_a_patch_is_reported_whole(device: str) -> None:
    patched: Patch = patch(made("qwen3", device))
    assert str(patched).splitlines() == [
        "replaced 2 × Qwen3Attention by rope_qk, half-split; the attention itself is left",
        "replaced 9 × Qwen3RMSNorm by rmsnorm, eps 1e-06",
        "replaced 2 × Qwen3MLP by swiglu, no biases",
    ]
