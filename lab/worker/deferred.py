"""Detects work that a call puts off until its result is read or released, when no clock runs."""

import weakref
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.overrides import _pop_mode as pop_function_mode
from torch.utils._python_dispatch import _pop_mode as pop_dispatch_mode


def deferred(output: Any) -> str:
    """How a call's result, or a mode that the call left active, could set off work later; empty if it cannot."""
    if modes_active():
        return "left a torch mode active, which could compute a result when it is looked at"
    for item in output if isinstance(output, tuple) else (output,):
        if isinstance(item, Tensor) and type(item) is not Tensor:
            return f"the result is a {type(item).__name__}, not a plain tensor"
    if any(_could_work_when_dropped(item) for item in _contents(output)):
        return "its result carries a weak reference, an attribute or a gradient, which could set off work when dropped"
    return ""


def modes_active() -> int:
    return int(torch._C._len_torch_function_stack() + torch._C._len_torch_dispatch_stack())


def remove_modes() -> str:
    """Remove active torch modes, and say that there were some; empty where there were none."""
    if not modes_active():
        return ""
    while torch._C._len_torch_function_stack():
        pop_function_mode()
    while torch._C._len_torch_dispatch_stack():
        pop_dispatch_mode()
    return "left a torch mode active"


def _contents(output: Any) -> Iterator[Any]:
    """All objects that are released with a result."""
    yield output
    for item in output if isinstance(output, tuple) else (output,):
        yield item
        if type(item) is Tensor and item.layout is torch.strided:
            yield item.untyped_storage()
            yield item._base


def _could_work_when_dropped(thing: Any) -> bool:
    if isinstance(thing, Tensor) and (thing.requires_grad or thing.grad is not None):
        return True
    attributes = getattr(thing, "__dict__", {}).values()
    return (
        weakref.getweakrefcount(thing) > 0
        or hasattr(type(thing), "__del__")
        or not all(_is_plain(attribute) for attribute in attributes)
    )


def _is_plain(attribute: Any) -> bool:
    """Whether nothing happens when it is dropped: torch.compile marks results with sets of numbers, for instance."""
    if type(attribute) in (set, frozenset, tuple, list):
        return all(_is_plain(item) for item in attribute)
    return attribute is None or type(attribute) in (int, float, bool, str)
