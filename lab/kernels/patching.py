"""Puts the lab's kernels into a loaded model of Hugging Face's transformers, and takes them out again.

A module is replaced only if its class is known and a trial shows that it computes the same as the kernel. All others
stay as they are, and the result says why. A model with patched norms, rotation and gated units can be trained; patched
attention, and norms joined to products, have no backward.
"""

import copy
import inspect
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from types import FunctionType, MethodType, TracebackType
from typing import Any

import torch
from torch import Tensor, nn

from lab.kernels.attention import MOST_FEATURES
from lab.kernels.checks import FLOATS
from lab.kernels.hugging_face import (
    ROTATE,
    Forward,
    attention_forward,
    cache_name,
    gated_forward,
    gated_kernel,
    norm_forward,
    turns_half_split,
)
from lab.kernels.hugging_face_attention import NAME, register
from lab.kernels.hugging_face_layer import few_rows_forward, layer_forward
from lab.kernels.rmsnorm import rmsnorm_reference

USUAL = ("rmsnorm", "rope", "glu")  # each replaces modules one by one
KERNELS = (*USUAL, "attention", "rmsnorm_linear")
ATTENTION = "attention"
LAYER_PARTS = {"input_layernorm", "self_attn", "post_attention_layernorm", "mlp"}
HEAD = "lm_head"
# Modules of transformers whose wrappers change no result: one renames arguments, one checkpoints gradients.
WRAPPERS = {"transformers.utils.deprecation", "transformers.modeling_layers"}


@dataclass(frozen=True, slots=True)
class Family:
    """The models of one module of transformers."""

    prefix: str  # of the names of its classes
    eps_name: str = "variance_epsilon"
    offset: float = 0.0  # added to the weight of a norm


FAMILIES = {
    "transformers.models.llama.modeling_llama": Family("Llama"),
    "transformers.models.mistral.modeling_mistral": Family("Mistral"),
    "transformers.models.qwen2.modeling_qwen2": Family("Qwen2"),
    "transformers.models.qwen3.modeling_qwen3": Family("Qwen3"),
    "transformers.models.gemma.modeling_gemma": Family("Gemma", "eps", 1.0),
    "transformers.models.gemma2.modeling_gemma2": Family("Gemma2", "eps", 1.0),
    "transformers.models.gemma3.modeling_gemma3": Family("Gemma3", "eps", 1.0),
}


@dataclass(frozen=True, slots=True)
class Replaced:
    """A module whose forward now calls a kernel."""

    path: str
    kind: str
    kernel: str  # 'rmsnorm', 'swiglu', 'geglu_tanh', 'rope_qk', ...
    about: str  # 'eps 1e-06, weight + 1'


@dataclass(frozen=True, slots=True)
class Left:
    """A module of a kind that has a kernel, which was not replaced."""

    path: str
    kind: str
    reason: str


class _Unfit(Exception):
    """Why a module is not replaced."""


class Patch:
    """The modules that `patch` replaced and left. `restore()`, or the end of a `with` block, undoes the patch."""

    def __init__(
        self, model: Any, forwards: dict[str, Forward], replaced: tuple[Replaced, ...], left: tuple[Left, ...]
    ) -> None:
        self.replaced, self.left = replaced, left
        self._attending = model if any(each.kernel == ATTENTION for each in replaced) else None
        self._attention_before = ""
        if self._attending is not None:
            self._attention_before = self._attending.config._attn_implementation
            self._attending.set_attn_implementation(NAME)
        self._installed: list[tuple[str, nn.Module, MethodType]] = []
        for path, forward in forwards.items():
            module = model.get_submodule(path)
            bound = MethodType(forward, module)  # as a method, so that a copy of the model binds it to its own module
            module.forward = bound
            self._installed.append((path, module, bound))

    def restore(self) -> None:
        """Give every module its own forward back. A second call does nothing. RuntimeError, before anything
        changes, if a forward has been replaced since the patch."""
        strange = [path for path, module, bound in self._installed if vars(module).get("forward") is not bound]
        if strange:
            raise RuntimeError(
                f"restore: {', '.join(strange[:3])}: its forward was replaced after the patch; put that back first"
            )
        if self._attending is not None:
            if (now := self._attending.config._attn_implementation) != NAME:
                raise RuntimeError(
                    f"restore: the model's attention implementation was changed after the patch, to {now!r}; "
                    f"set {NAME!r} again first"
                )
            self._attending.set_attn_implementation(self._attention_before)
            self._attending = None
        for _, module, _ in self._installed:
            del vars(module)["forward"]
        self._installed.clear()

    def __enter__(self) -> "Patch":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.restore()

    def __str__(self) -> str:
        replaced = Counter(f"{each.kind} by {each.kernel}, {each.about}" for each in self.replaced)
        left = Counter(f"{each.kind}: {each.reason}" for each in self.left)
        lines = [f"replaced {count} × {what}" for what, count in replaced.items()]
        return "\n".join([*lines, *(f"left {count} × {what}" for what, count in left.items())])


def patch(model: nn.Module, kernels: Collection[str] = USUAL) -> Patch:
    """Put kernels into `model`, in place, and say what was replaced and what was left, and why.

        with patch(model) as patched, torch.no_grad():
            print(patched)
            model(tokens)

    model: of the Llama, Mistral, Qwen2, Qwen3, Gemma, Gemma 2 or Gemma 3 family of transformers from 5.10.1 on,
    with its weights loaded. kernels: of "rmsnorm" (norms, also of queries and keys), "rope" (the rotation of both),
    "glu" (the gated unit of an MLP), "attention" (as an implementation of its own in transformers) and "rmsnorm_linear"
    (norms joined with the products and residual sums beside them, for float16 and bfloat16); by default the first
    three. With the last two, one new token with a static cache takes seven launches a layer. Weights, names and state
    dict stay as they are. Hooks still run, except those of modules inside a layer that "rmsnorm_linear" joined.
    TypeError if `model` is not a module, ValueError for an unknown kernel and for a model in which nothing could be
    replaced.
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"patch: model is a {type(model).__name__}; accepted is a torch.nn.Module")
    if isinstance(kernels, str) or not kernels or (unknown := [name for name in kernels if name not in KERNELS]):
        named = repr(kernels) if isinstance(kernels, str) or not kernels else repr(unknown[0])
        raise ValueError(f"patch: kernels has {named}; accepted are some of {list(KERNELS)}")
    forwards: dict[str, Forward] = {}
    replaced: list[Replaced] = []
    left: list[Left] = []
    for path, module in model.named_modules():
        kind = type(module).__name__
        if "rmsnorm_linear" in kernels and path == HEAD and type(module) is nn.Linear and "forward" not in vars(module):
            forwards[path] = few_rows_forward(nn.Linear.forward)
            replaced.append(Replaced(path, kind, "joined_linear", "for few rows"))
        for kernel in (name for name in KERNELS if name in kernels and _might_have(name, kind)):
            try:
                forwards[path], name, about = _fitted(kernel, model, module)
                replaced.append(Replaced(path, kind, name, about))
            except _Unfit as unfit:
                left.append(Left(path, kind, str(unfit)))
        if "attention" in kernels and kind.endswith("Attention"):
            try:
                replaced.append(Replaced(path, kind, ATTENTION, _attending(model, module)))
            except _Unfit as unfit:
                left.append(Left(path, kind, str(unfit)))
    if not replaced:
        reasons = "; ".join(sorted({f"{each.kind}: {each.reason}" for each in left})[:5])
        known = ", ".join(family.prefix for family in FAMILIES.values())
        raise ValueError(
            f"patch: nothing of a {type(model).__name__} could be replaced "
            f"({reasons or 'it has no part that is known'}); known are the families {known} of transformers"
        )
    return Patch(model, forwards, tuple(replaced), tuple(left))


def _might_have(kernel: str, kind: str) -> bool:
    """Whether a class of this name should be listed if it is not replaced."""
    endings = {
        "rmsnorm": ("Norm",), "rope": ("Attention",), "glu": ("MLP", "Experts"), "attention": (),
        "rmsnorm_linear": ("DecoderLayer",),
    }  # fmt: skip
    return kind.endswith(endings[kernel])


def _fitted(kernel: str, model: nn.Module, module: nn.Module) -> tuple[Forward, str, str]:
    """(forward with the kernel, name of the kernel, its settings in words). Raises _Unfit if it cannot be replaced."""
    family = FAMILIES.get(type(module).__module__)
    expected = {"rmsnorm": "RMSNorm", "rope": "Attention", "glu": "MLP", "rmsnorm_linear": "DecoderLayer"}[kernel]
    if family is None or type(module).__qualname__ != family.prefix + expected:
        raise _Unfit(f"a class of {type(module).__module__} that is not known")
    if "forward" in vars(module):
        raise _Unfit("its forward has been replaced already")
    own = _unwrapped(type(module).forward)
    if not isinstance(own, FunctionType) or hasattr(own, "__wrapped__"):
        raise _Unfit("its forward is wrapped in another function")
    if kernel == "rmsnorm":
        return _norm(module, own, family)
    if kernel == "rmsnorm_linear":
        return _joined(module, own, family)
    return _gated(module, own) if kernel == "glu" else _rotating(model, own, family)


def _check_cache(own: FunctionType) -> None:
    try:
        cache_name(own)
    except ValueError as unknown:
        raise _Unfit("its forward takes a cache by no name that is known") from unknown


def _unwrapped(forward: Any) -> Any:
    while hasattr(forward, "__wrapped__") and getattr(forward, "__globals__", {}).get("__name__") in WRAPPERS:
        forward = forward.__wrapped__
    return forward


def _norm(module: Any, own: FunctionType, family: Family) -> tuple[Forward, str, str]:
    weight: Tensor = module.weight
    if weight.is_meta:
        raise _Unfit("its weight is on the meta device, where nothing can be tried")
    if weight.dtype not in FLOATS:
        raise _Unfit(f"its weight is of {weight.dtype}, which the kernel does not take")
    eps = getattr(module, family.eps_name)
    generator = torch.Generator(weight.device).manual_seed(1)
    with torch.no_grad():
        tried = torch.randn(4, weight.shape[0], dtype=weight.dtype, device=weight.device, generator=generator)
        tried[2:] *= eps**0.5  # so small that epsilon counts
        truth = rmsnorm_reference(tried, weight.double() + family.offset, eps)
        error = (own(module, tried).double() - truth).abs()
        allowed = 4 * torch.finfo(weight.dtype).eps * truth.abs() + 1e-6
        if not bool((error <= allowed).all()):
            raise _Unfit("it computes something else than the RMSNorm that its class is known for")
    about = f"eps {eps:g}" + (f", weight + {family.offset:g}" if family.offset else "")
    return norm_forward(own, family.eps_name, family.offset), "rmsnorm", about


def _gated(module: Any, own: FunctionType) -> tuple[Forward, str, str]:
    if set(own.__code__.co_names) != {"gate_proj", "up_proj", "down_proj", "act_fn"}:
        raise _Unfit("its forward is not the gated unit that its class is known for")
    with torch.no_grad():
        kernel = gated_kernel(module.act_fn)
    if kernel is None:
        raise _Unfit(f"its activation, {type(module.act_fn).__name__}, is neither SiLU nor a GELU")
    biases = [name for name in ("gate_proj", "up_proj", "down_proj") if getattr(module, name).bias is not None]
    return gated_forward(kernel), kernel.__name__, f"biases in {', '.join(biases)}" if biases else "no biases"


def _joined(module: Any, own: FunctionType, family: Family) -> tuple[Forward, str, str]:
    names = set(own.__code__.co_names)
    if names != LAYER_PARTS or family.offset:
        raise _Unfit("it is not a layer of two plain norms, an attention and a gated unit")
    _check_cache(own)
    norms = (module.input_layernorm, module.post_attention_layernorm)
    known = ((norms[0], "RMSNorm"), (norms[1], "RMSNorm"), (module.self_attn, "Attention"), (module.mlp, "MLP"))
    if any(type(part).__qualname__ != family.prefix + ending for part, ending in known):
        raise _Unfit("one of its parts is of a class that is not known")
    for norm in norms:
        _norm(norm, type(norm).forward, family)
    _, kernel, about = _gated(module.mlp, type(module.mlp).forward)
    if kernel != "swiglu" or about != "no biases":
        raise _Unfit(f"its gated unit is {kernel} with {about}; the kernel is for SiLU without biases")
    with torch.no_grad():
        if not turns_half_split(_unwrapped(type(module.self_attn).forward).__globals__[ROTATE]):
            raise _Unfit(f"{ROTATE} is not the half-split rotation that its class is known for")
    forward = layer_forward(type(module).forward, family.eps_name)
    return forward, "rmsnorm_linear", "norms joined with products and residual sums"


def _attending(model: Any, module: Any) -> str:
    """What is replaced, in words. Raises _Unfit if the attention of `module` cannot be the lab's."""
    own = inspect.unwrap(type(module).forward)
    family = FAMILIES.get(type(module).__module__)
    masks = own.__globals__.get("create_causal_mask")
    if family is None or type(module).__qualname__ != f"{family.prefix}Attention" or masks is None:
        raise _Unfit(f"a class of {type(module).__module__} that is not known")
    if not hasattr(model, "set_attn_implementation"):
        raise _Unfit("it is not in a model of transformers, which chooses the implementation")
    if model.config._attn_implementation == NAME:
        raise _Unfit("its attention has been replaced already")
    if getattr(module, "attn_logit_softcapping", None) is not None:
        raise _Unfit("its scores have a soft cap")
    if module.head_dim > MOST_FEATURES:
        raise _Unfit(f"its heads have {module.head_dim} features; the kernel takes {MOST_FEATURES}")
    register(own, inspect.unwrap(masks))
    return f"heads of {module.head_dim}, for float16 and bfloat16 without padding"


def _rotating(model: nn.Module, own: FunctionType, family: Family) -> tuple[Forward, str, str]:
    if ROTATE not in own.__code__.co_names or ROTATE not in own.__globals__:
        raise _Unfit(f"its forward does not call {ROTATE}")
    _check_cache(own)
    with torch.no_grad():
        if not turns_half_split(own.__globals__[ROTATE]):
            raise _Unfit(f"{ROTATE} is not the half-split rotation that its class is known for")
    tables = [each for each in model.modules() if type(each).__name__ == f"{family.prefix}RotaryEmbedding"]
    if not tables or not all(_holds_each_angle_twice(each) for each in tables):
        raise _Unfit("its tables of angles are not those that its class is known for")
    return attention_forward(own), "rope_qk", "half-split; the attention itself is left"


def _holds_each_angle_twice(table: nn.Module) -> bool:
    trial = copy.deepcopy(table).cpu()  # a copy, because the trial may change its buffers
    for more in _further_arguments(trial):
        for angles in trial(torch.zeros(1, 1), torch.arange(5)[None], *more):
            first, second = angles.chunk(2, -1)
            if angles.dim() != 3 or not torch.equal(first, second):
                return False
    return True


def _further_arguments(table: Any) -> Iterator[tuple[str, ...]]:
    """The arguments of its forward after x and positions: in some families the type of a layer."""
    if "layer_type" not in inspect.signature(type(table).forward).parameters:
        yield ()
        return
    yield from ((layer_type,) for layer_type in sorted(set(table.config.layer_types)))
