import inspect
from typing import Any

import pytest
import torch


@pytest.fixture
def device() -> str:
    """The GPU, or the CPU under Triton's interpreter."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def _search_for_patches_once() -> None:
    """Save a quarter of the time that Triton's interpreter takes.

    Before each call of a function it searches the language for built-ins to replace, and mostly finds them replaced
    already. They are the same ones every time.
    """
    interpreter = pytest.importorskip("triton.runtime.interpreter")
    language, is_builtin = interpreter.tl, interpreter.tl.core.is_builtin
    packages = (language, language.core, language.math, language.tensor, language.core.tensor_descriptor_base)
    names = {
        package: [name for name, member in inspect.getmembers(package) if is_builtin(member)] for package in packages
    }

    def patch(package: Any, builder: Any, scope: Any) -> None:
        for name in names[package]:
            if is_builtin(member := getattr(package, name)):
                interpreter._patch_attr(package, name, member, builder, scope)

    interpreter._patch_builtin = patch


_search_for_patches_once()
