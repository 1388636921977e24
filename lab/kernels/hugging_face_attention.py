"""The lab's attention as an attention implementation of Hugging Face's transformers, called `NAME` there.

A prompt goes through `flash_attention`, one new token a sequence through `decode_attention`. For a static cache, whose
unused places must not be seen, the mask is a tensor of lengths, (B,), int32, made once a step on the GPU: nothing is
read by the host, so that a CUDA graph can hold a step. What the kernels do not compute (masks of other forms, padding,
windows, dropout, soft caps, float32) goes to the implementation `sdpa` of transformers.
"""

from collections.abc import Callable
from types import FunctionType
from typing import Any

import torch
from torch import Tensor, nn

from lab.kernels.attention import HALVES, MOST_FEATURES
from lab.kernels.checks import runs_here
from lab.kernels.decode_attention import decode_attention
from lab.kernels.flash_attention import flash_attention

NAME = "kernel_evidence_lab"
FALLBACK = "sdpa"
UNKNOWN = ("position_bias", "softcap", "s_aux", "head_mask")  # arguments of other attentions

Function = Callable[..., Any]


def register(own: FunctionType, masks: FunctionType) -> None:
    """Add the implementation `NAME` to transformers; again, if it is there already.

    own: the forward of an attention, masks: the function by which its model makes masks. Both know the tables of
    implementations, so that transformers need not be imported here.
    """
    attentions, mask_globals = own.__globals__["ALL_ATTENTION_FUNCTIONS"], masks.__globals__
    mask_makers = mask_globals["ALL_MASK_ATTENTION_FUNCTIONS"]
    attentions.register(NAME, _attention(attentions[FALLBACK]))
    mask_makers.register(NAME, _mask(mask_makers[FALLBACK], mask_globals["causal_mask_function"]))


def is_lengths(mask: Any) -> bool:
    """Whether a mask is the tensor of lengths that stands for the mask of a static cache."""
    return isinstance(mask, Tensor) and mask.dim() == 1 and mask.dtype == torch.int32


def _mask(fallback: Function, causal: Function) -> Function:
    def mask(
        batch_size: int, q_length: int, kv_length: int, q_offset: Any = 0, kv_offset: int = 0,
        mask_function: Function = causal, attention_mask: Tensor | None = None, **more: Any,
    ) -> Tensor | None:  # fmt: skip
        if is_lengths(attention_mask):  # made by `generate` for this step, before it calls the model
            return attention_mask
        plain = mask_function is causal and attention_mask is None and more.get("dtype") in HALVES
        if plain and q_length == 1 and isinstance(q_offset, Tensor) and kv_offset == 0 and runs_here(q_offset):
            return (q_offset + 1).to(torch.int32).reshape(-1).expand(batch_size).contiguous()
        made: Tensor | None = fallback(
            batch_size=batch_size, q_length=q_length, kv_length=kv_length, q_offset=q_offset, kv_offset=kv_offset,
            mask_function=mask_function, attention_mask=attention_mask, **more,
        )  # fmt: skip
        return made

    return mask


def _attention(fallback: Function) -> Function:
    def attention(
        module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None,
        dropout: float = 0.0, scaling: float | None = None, is_causal: bool | None = None, **more: Any,
    ) -> tuple[Tensor, Tensor | None]:  # fmt: skip
        queries = query.shape[2]
        if is_lengths(attention_mask):
            return decode_attention(query[:, :, 0], key, value, attention_mask, scale=scaling)[:, None], None
        causal = is_causal if is_causal is not None else getattr(module, "is_causal", True)
        if attention_mask is None and causal and not dropout and _takes(query, key, more):
            if queries == 1:
                return decode_attention(query[:, :, 0], key, value, scale=scaling)[:, None], None
            # A static cache is longer than its first prompt.
            seen = [each[:, :, :queries] for each in (key, value)]
            return flash_attention(query, *seen, causal=True, scale=scaling).transpose(1, 2).contiguous(), None
        result: tuple[Tensor, None] = fallback(
            module, query, key, value, attention_mask, dropout=dropout, scaling=scaling, is_causal=is_causal, **more
        )
        return result

    return attention


def _takes(query: Tensor, key: Tensor, more: dict[str, Any]) -> bool:
    window = more.get("sliding_window")
    return (
        query.dtype in HALVES
        and query.dtype == key.dtype
        and query.shape[-1] <= MOST_FEATURES
        and runs_here(query)
        and (window is None or key.shape[2] <= window)
        and all(more.get(name) is None for name in UNKNOWN)
    )
