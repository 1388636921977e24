"""torch.compile of Qwen2.5-7B layer by layer, as PyTorch recommends where layers repeat: all share one compilation.

The number of a layer, by which it finds its part of a cache, is a constant to the compiler, which would so compile each
layer anew, and give up after eight. So each gets a cache of its own, of one layer, in the same memory.
"""

from typing import Any

from torch import Tensor, nn

from lab.kernels.hugging_face import cache_name


def compile_layers(model: Any, **how: Any) -> None:
    """torch.compile of each layer, in place. All layers have the code of the first, so that it compiles once."""
    for layer in model.model.layers:
        layer.compile(dynamic=False, **how)


def compile_layers_with_cache(model: Any, cache: Any, **how: Any) -> None:
    """The same of a model that is then called with this static cache, and with no other."""
    compile_layers(model, **how)
    layers = zip(model.model.layers, cache.layers, strict=True)
    model.model.layers = nn.ModuleList(_WithOwnCache(layer, kept) for layer, kept in layers)


class _WithOwnCache(nn.Module):
    def __init__(self, layer: Any, kept: Any) -> None:
        from transformers.cache_utils import Cache

        super().__init__()
        layer.self_attn.layer_idx = 0
        self.layer = layer
        self.cache_name = cache_name(layer.forward)
        self.cache = Cache(layers=[_in_same_memory(kept)])

    def forward(self, hidden: Tensor, **more: Any) -> Any:
        return self.layer(hidden, **{**more, self.cache_name: self.cache})


def _in_same_memory(kept: Any) -> Any:
    """A layer of a static cache once more. Its tensors lack the mark that would have the compiler ask for their
    addresses, and so compile each layer anew."""
    other = type(kept)(kept.max_cache_len)
    for name, value in vars(kept).items():
        setattr(other, name, value.detach() if isinstance(value, Tensor) else value)
    return other
