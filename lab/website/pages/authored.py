"""Functions of an experiment, read and not run: loaders of the cheating kernels do more than to load."""

import ast
import inspect
import textwrap
from collections.abc import Mapping
from functools import cache, partial
from pathlib import Path
from types import FunctionType
from typing import Any

from lab.project import project


@cache
def source_of(function: FunctionType) -> str:
    """Of a function that an experiment defines; nothing of any other."""
    return textwrap.dedent(inspect.getsource(function)) if is_authored(function) else ""


def is_authored(function: FunctionType) -> bool:
    """Whether the project's experiments define it."""
    return Path(function.__code__.co_filename).is_relative_to(project().experiments)


def tree_of(function: FunctionType) -> ast.AST | None:
    """The definition of a function of an experiment, also where it is a lambda; None of any other."""
    if not is_authored(function):
        return None
    code = function.__code__
    return _definitions(inspect.getfile(function)).get((code.co_firstlineno, code.co_varnames[: code.co_argcount]))


@cache
def _definitions(path: str) -> Mapping[tuple[int, tuple[str, ...]], ast.FunctionDef | ast.Lambda]:
    """By their line and parameters; of those that share these, the outermost."""
    found: dict[tuple[int, tuple[str, ...]], ast.FunctionDef | ast.Lambda] = {}
    for node in ast.walk(ast.parse(Path(path).read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.Lambda):
            found.setdefault((node.lineno, tuple(each.arg for each in node.args.args)), node)
    return found


def returned(function: FunctionType) -> ast.expr | None:
    """What a function of an experiment returns, where it does nothing else."""
    tree = tree_of(function)
    if isinstance(tree, ast.Lambda):
        return tree.body
    match tree:
        case ast.FunctionDef(body=[ast.Return(value=value)]):
            return value
    return None


def given_to_its_maker(loader: Any) -> dict[str, Any]:
    """The constants and members of enumerations that the maker of a call was called with, by parameter."""
    maker: Any = None
    named: dict[str, Any] = {}
    if isinstance(loader, partial):
        maker, values = loader.func, list(loader.args)
    elif isinstance(loader, FunctionType) and isinstance(call := returned(loader), ast.Call):
        maker = loader.__globals__.get(ast.unparse(call.func))
        values = [_constant(each, loader.__globals__) for each in call.args]
        named = {each.arg: _constant(each.value, loader.__globals__) for each in call.keywords if each.arg}
    if not isinstance(maker, FunctionType):
        return {}
    bound = dict(zip(inspect.signature(maker).parameters, values, strict=False)) | named
    return {name: value for name, value in bound.items() if is_member(value) or isinstance(value, bool | int | str)}


def _constant(node: ast.expr, names: Mapping[str, Any]) -> Any:
    """What a constant stands for, or `Enumeration.member`; None of anything else."""
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        members = getattr(names.get(node.value.id), "__members__", {})
        return members.get(node.attr)
    return node.value if isinstance(node, ast.Constant) else None


def is_member(value: Any) -> bool:
    """Whether it is one of an enumeration, Python's own or PyTorch's."""
    return hasattr(type(value), "__members__")


def closed_over(function: FunctionType, loader: Any) -> dict[str, Any]:
    """What the names that a function closes over, or that its maker was called with, stand for."""
    bound = dict(zip(function.__code__.co_freevars, (c.cell_contents for c in function.__closure__ or ()), strict=True))
    if isinstance(loader, partial):
        bound |= inspect.signature(loader.func).bind_partial(*loader.args, **loader.keywords).arguments
    return {
        name: value for name, value in bound.items() if value is None or isinstance(value, bool | int | float | str)
    }
