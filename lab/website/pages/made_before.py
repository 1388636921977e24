"""What a call is given that is made of its other inputs once, before the calls: 'folded = fold_norm_weight(...)'.

The function that makes an operator's inputs says so where it returns an expression of others among them.
"""

import ast
import sys
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from functools import partial
from types import FunctionType, ModuleType
from typing import Any

from lab.definition.experiment import Operator
from lab.website.pages.authored import tree_of

ONCE = "  # once, beforehand"
Lines = Mapping[str, tuple[str, ...]]  # by input: what it imports, and at the end the line that makes it


def made_before(operator: Operator, names: Sequence[str]) -> Lines:
    """Of an operator whose inputs have these `names`. Nothing of an input that is made of anything but other inputs."""
    function = operator.inputs
    while isinstance(function, partial):
        function = function.func
    tree = tree_of(function) if isinstance(function, FunctionType) else None
    match tree:
        case ast.FunctionDef(body=[*_, ast.Return(value=ast.Tuple(elts=returned))]) if len(returned) == len(names):
            pairs = list(zip(names, returned, strict=True))
            known = {each.id: name for name, each in pairs if isinstance(each, ast.Name)}
            made = ((name, _lines(name, each, known, function.__globals__)) for name, each in pairs)
            return {name: lines for name, lines in made if lines}
    return {}


def with_made(code: str, wanted: Sequence[str], made: Lines) -> str:
    """The code with the lines that make those of its inputs that are `wanted`, before its last statement."""
    lines = code.splitlines()
    told = [made[name] for name in wanted if name in made and not _is_unread(name, code)]
    last = ast.parse(code).body[-1].lineno - 1
    head = lines[:last]
    for each in dict.fromkeys(each for of_one in told for each in of_one[:-1]):
        head = _with_import(each, head)
    return "\n".join([*head, *(of_one[-1] for of_one in told), *lines[last:]])


def _with_import(line: str, lines: list[str]) -> list[str]:
    """In one line with what is imported from the same module: an answer is read on a phone."""
    module, between, name = line.partition(" import ")
    if line in lines:
        return lines
    if between and any(each.startswith(f"{module} import ") for each in lines):
        return [each.replace(" import ", f" import {name}, ", 1) if each.startswith(f"{module} import ") else each
                for each in lines]  # fmt: skip
    return [line, *lines]


def _lines(name: str, node: ast.expr, known: Mapping[str, str], names: Mapping[str, Any]) -> tuple[str, ...]:
    if isinstance(node, ast.Name):
        return ()
    made = deepcopy(node)
    imports = []
    read = [each for each in ast.walk(made) if isinstance(each, ast.Name)]
    for each in read:
        value = names.get(each.id)
        if each.id in known:
            each.id = known[each.id]
        elif isinstance(value, ModuleType) and each.id == value.__name__:
            imports.append(f"import {each.id}")
        elif isinstance(value, FunctionType):
            imports.append(f"from {value.__module__} import {value.__name__}")
        else:
            return ()
    of_others = any(each.id in known.values() for each in read)
    return (*dict.fromkeys(imports), f"{name} = {ast.unparse(made)}{ONCE}") if of_others else ()


def _is_unread(name: str, code: str) -> bool:
    """Whether a function that the code shows whole, or calls at its end, takes it and makes no use of it."""
    tree = ast.parse(code)
    shown = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.Lambda)]
    takes = [(each, name) for each in shown if name in (argument.arg for argument in each.args.args)]
    takes += _called(name, tree)
    return bool(takes) and not any(each.id == taken for by, taken in takes for each in _names(by))


def _names(node: ast.AST) -> Iterator[ast.Name]:
    return (each for each in ast.walk(node) if isinstance(each, ast.Name))


def _called(name: str, tree: ast.Module) -> Iterator[tuple[ast.FunctionDef | ast.Lambda, str]]:
    """The experiment's own function that the last statement calls with this input, and what it calls it."""
    imports = {
        alias.name: node.module for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    match tree.body[-1]:
        case ast.Assign(value=ast.Call(func=ast.Name(id=called), args=args)) if called in imports:
            function = getattr(sys.modules.get(imports[called] or ""), called, None)
            definition = tree_of(function) if isinstance(function, FunctionType) else None
            if isinstance(definition, ast.FunctionDef | ast.Lambda):
                pairs = zip(args, definition.args.args, strict=False)
                given = (taken.arg for each, taken in pairs if isinstance(each, ast.Name) and each.id == name)
                yield from ((definition, each) for each in given)
