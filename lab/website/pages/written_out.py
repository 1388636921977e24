"""A function of an experiment that only chooses what PyTorch does, written out for what was chosen.

    def sdpa(q, k, v, causal, backend):                 with sdpa_kernel([SDPBackend.CUDNN_ATTENTION]):
        with sdpa_kernel([backend]):            →           y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            return F.scaled_dot_product_attention(q, k, v, is_causal=causal)

Nobody has to install an experiment to call that. Branches for a CPU, and for what was not chosen, are left out.
"""

import ast
from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any

MOST_LINES = 4
Names = Mapping[str, ast.expr]  # what stands for a name


def written_out(tree: ast.FunctionDef, chosen: Names, result: str) -> list[str]:
    """The lines that make `result` as the function returns it; none where it does not return at its end alone."""
    body = _without_docstring([deepcopy(each) for each in tree.body])
    lines = _lines(_chosen_only(body, chosen), result)
    return lines if lines and len(lines) <= MOST_LINES else []


def passed_on(tree: ast.AST | None, chosen: Names) -> tuple[str, list[ast.expr]] | None:
    """The function that one only calls, and the arguments; None where it does anything else."""
    value = tree.body if isinstance(tree, ast.Lambda) else None
    match tree:
        case ast.FunctionDef(body=[ast.Return(value=ast.expr() as returned)]):
            value = returned
    match value:
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]):
            return name, [_Chosen(chosen).visit(deepcopy(each)) for each in arguments]
    return None


def _without_docstring(body: list[ast.stmt]) -> list[ast.stmt]:
    match body:
        case [ast.Expr(value=ast.Constant(value=str())), *rest]:
            return rest
    return body


def _chosen_only(body: Sequence[ast.stmt], chosen: Names) -> list[ast.stmt]:
    """Without branches that are not taken; a name that stands for a list of constants is replaced by it."""
    known, kept = dict(chosen), list[ast.stmt]()
    for each in body:
        made: Any = _Chosen(known).visit(each)
        match made:
            case ast.If(test=ast.Constant(value=taken)):
                kept += _chosen_only(made.body if taken else made.orelse, known)
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.List() as value):
                known[name] = value
            case _:
                kept.append(made)
    return kept


def _lines(body: Sequence[ast.stmt], result: str) -> list[str]:
    *before, last = body
    if any(isinstance(node, ast.Return) for each in before for node in ast.walk(each)):
        return []
    match last:
        case ast.Return(value=ast.expr() as value):
            made: list[ast.stmt] = [ast.Assign([ast.Name(result, ast.Store())], value)]
        case ast.With(items=items, body=[ast.Return(value=ast.expr() as value)]):
            made = [ast.With(items, [ast.Assign([ast.Name(result, ast.Store())], value)])]
        case _:
            return []
    return "\n".join(ast.unparse(ast.fix_missing_locations(each)) for each in (*before, *made)).splitlines()


class _Chosen(ast.NodeTransformer):
    """Puts in what was chosen, and settles what is known then."""

    def __init__(self, known: Names) -> None:
        self._known = known

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return deepcopy(self._known[node.id]) if isinstance(node.ctx, ast.Load) and node.id in self._known else node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        return ast.Constant(True) if node.attr == "is_cuda" else self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        made: Any = self.generic_visit(node)
        match made:
            case ast.UnaryOp(op=ast.Not(), operand=ast.Constant(value=taken)):
                return ast.Constant(not taken)
        return made  # type: ignore[no-any-return]

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        made: Any = self.generic_visit(node)
        match made.test:
            case ast.Constant(value=taken):
                return made.body if taken else made.orelse  # type: ignore[no-any-return]
        return made  # type: ignore[no-any-return]

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        """Of two members of an enumeration."""
        made: Any = self.generic_visit(node)
        match made:
            case ast.Compare(
                left=ast.Attribute(value=ast.Name(id=kind), attr=one), ops=[ast.Eq()],
                comparators=[ast.Attribute(value=ast.Name(id=same), attr=other)],
            ) if kind == same and kind[:1].isupper():  # fmt: skip
                return ast.Constant(one == other)
        return made  # type: ignore[no-any-return]
