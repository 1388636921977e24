"""How to install and call an implementation, taken from the definition that was measured, so that it cannot go stale.

A library is imported by the function that loads its profile, and the call is what that function returns. A kernel of
the lab is a function of `lab.kernels`. What PyTorch or torch.compile runs is a function of an experiment: a short one
is shown whole.
"""

import ast
import builtins
import dis
import inspect
import pickle
import re
import symtable
import sys
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cache, partial
from types import CodeType, FunctionType, MappingProxyType, ModuleType
from typing import Any

from lab.definition.catalogue import sound_experiments
from lab.definition.experiment import Profile
from lab.definition.plan import PlannedCase
from lab.website.data.judged_cache import of_definitions
from lab.website.pages.authored import (
    closed_over,
    given_to_its_maker,
    is_authored,
    is_member,
    source_of,
    tree_of,
)
from lab.website.pages.call_inputs import comment, input_names
from lab.website.pages.made_before import made_before, with_made
from lab.website.pages.written_out import passed_on, written_out

# The name that is imported → what pip installs.
DISTRIBUTIONS = {"liger_kernel": "liger-kernel", "quack": "quack-kernels", "flash_attn": "flash-attn-4"}
TORCH = "pip install torch"
CHECKOUT = "pip install -e ."  # in a checkout of this repository
RESULT = "y"
MOST_LINES = 4  # of a function that is shown whole
READS = ("snippet", "authored", "call_inputs", "made_before", "written_out", "labels")  # what a snippet is made by
NOTHING: Mapping[str, Any] = MappingProxyType({})
OPTIONS = re.compile(r"torch\.compile\([^,()]+((?:, *\w+=[^,()]+)*)\)")


@dataclass(frozen=True, slots=True)
class Snippet:
    """`inputs`: the names that the code uses and does not make; `made`: those of inputs that it makes of the others,
    once, before the calls that were timed."""

    install: str
    code: str
    inputs: tuple[str, ...] = ()
    made: tuple[str, ...] = ()

    @property
    def where(self) -> str:
        return " in a checkout of this repository" if self.install == CHECKOUT else ""


def snippet(experiment: str, profile: str, op: str) -> Snippet | None:
    """Of a profile at an operator, as today's definitions have it; None where they do not say."""
    return _snippets().get((experiment, profile, op))


def snippet_at(experiment: str, profile: str, case: PlannedCase) -> Snippet | None:
    """The same of a case, with the sizes of what is passed as its first line."""
    found = snippet(experiment, profile, case.op)
    sizes = found and comment(experiment, case.name, case.op, "×".join(map(str, case.shape)), found.inputs)
    return replace(found, code=f"{sizes}\n{found.code}") if found and sizes else found


@cache
def _snippets() -> dict[tuple[str, str, str], Snippet]:
    """Kept, because to read the definitions PyTorch is loaded."""
    made: dict[tuple[str, str, str], Snippet] = pickle.loads(
        of_definitions(
            "snippets",
            lambda: pickle.dumps(dict(_made_now())),
            *(f"lab/website/pages/{name}.py" for name in READS),
        )
    )
    return made


def _made_now() -> Iterator[tuple[tuple[str, str, str], Snippet]]:
    for experiment in sound_experiments():
        cases = {case.operator.name: case for case in experiment.cases}
        names = {op: input_names(case) for op, case in cases.items()}
        made = {op: made_before(case.operator, names[op]) for op, case in cases.items()}
        for profile in experiment.profiles:
            for op in profile.implementations:
                given = names.get(op, [])
                if (code := _code(profile, op, given)) and _is_whole(code, given):
                    lines = made.get(op, {})
                    code = with_made(code, _unmade(code, given), lines)
                    once = tuple(name for name in given if name in lines and lines[name][-1] in code)
                    given = [name for name in given if name not in once]
                    yield (
                        (experiment.name, profile.name, op),
                        Snippet(_install(profile, code), code, _unmade(code, given), once),
                    )


def _is_whole(code: str, names: Sequence[str] = ()) -> bool:
    """Whether all that it names is imported, made or built in, but for the inputs: those of these `names`, and what the
    call at its end is given in order."""
    calls = [node for node in ast.walk(ast.parse(code).body[-1]) if isinstance(node, ast.Call)]
    given = {each.id for call in calls for each in call.args if isinstance(each, ast.Name)}
    return set(_unmade(code)) <= {*names, *given}


def _unmade(code: str, names: Sequence[str] = ()) -> tuple[str, ...]:
    """The names that it uses and does not make, in their order. The result may have the name of an input, and one of
    these `names` of inputs may be made again."""
    top = symtable.symtable(code, "snippet", "exec")
    made = {each.get_name() for each in top.get_symbols() if each.is_assigned() or each.is_imported()}
    made -= {RESULT, *names}
    used = {each.get_name() for each in top.get_symbols() if each.is_referenced()} | set(_used_within(top))
    unmade = used - made - set(dir(builtins))
    nodes = (node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Name))
    found = dict.fromkeys(node.id for node in nodes if node.id in unmade and isinstance(node.ctx, ast.Load))
    return (*(name for name in names if name in found), *(name for name in found if name not in names))


def _used_within(table: symtable.SymbolTable) -> Iterator[str]:
    """The names that functions use and do not make."""
    for each in table.get_children():
        yield from (symbol.get_name() for symbol in each.get_symbols() if symbol.is_global())
        yield from _used_within(each)


def _install(profile: Profile, code: str) -> str:
    if profile.package:
        return f"pip install {DISTRIBUTIONS.get(profile.package, profile.package)}"
    imported = [line.split()[1].partition(".")[0] for line in code.splitlines() if re.match("(from|import) ", line)]
    return TORCH if set(imported) - sys.stdlib_module_names == {"torch"} else CHECKOUT


def _code(profile: Profile, op: str, names: Sequence[str]) -> str:
    """`names`: what the operator calls its inputs."""
    loader = profile.implementations[op]
    reached = list(_reached(loader))
    if profile.package:
        return next(filter(None, (_loaded(each, loader) for each in reached)), "")
    called = [each for each in reached[1:] if not _helper(each)]
    if not called:
        return _built_in(loader, names)
    kernels = [each for each in called if each.__module__.startswith("lab.kernels.")]
    if profile.kernels and len(kernels) == 1:
        call = next(filter(None, (_call_in(each, kernels[0], loader, names) for each in reached)), _call(kernels[0]))
        return "\n".join([*_shown(kernels[0]), call])
    function = called[0]
    if len(kernels) > 1 and (together := _together(reached, kernels)):
        return together
    if not profile.recompiles:
        chosen = _chosen(function, loader)
        if lines := _written_out(function, {name: _expression(value) for name, value in chosen.items()}):
            return "\n".join(lines)
        kinds = dict.fromkeys(type(each) for each in chosen.values() if is_member(each))
        imports = [f"from {kind.__module__} import {kind.__name__}" for kind in kinds]
        return "\n".join([*imports, *_shown(function), _call(function, chosen=chosen)])
    options = next((match[1] for each in reached if (match := OPTIONS.search(source_of(each)))), "")
    shown = list(_shown(function))
    head = [] if "import torch" in shown else ["import torch"]
    compiled = f"fast = torch.compile({function.__name__}{options})"
    return "\n".join([*head, *shown, compiled, _call(function, "fast")])


def _written_out(function: FunctionType, chosen: Mapping[str, ast.expr]) -> list[str]:
    """The lines of a function of an experiment that needs nothing but PyTorch, with what was chosen in place of its
    parameters; none of one that is short enough to be shown whole, or too long."""
    tree, names = tree_of(function), function.__globals__
    if passed := passed_on(tree, chosen):
        called, arguments = names.get(passed[0]), [_short(each, names) for each in passed[1]]
        if isinstance(called, FunctionType) and is_authored(called):
            bound = zip(inspect.signature(called).parameters, arguments, strict=False)
            return _written_out(called, dict(bound))
    if not isinstance(tree, ast.FunctionDef) or _shown(function) != [_from(function)]:
        return []
    lines = written_out(tree, {**_defaults(function), **chosen}, RESULT)
    needed = _unmade("\n".join(lines)) if lines else ()
    imports = _imports_of_torch({name: names[name] for name in needed if name in names})
    return [*imports, *lines] if lines and imports else []


def _defaults(function: FunctionType) -> dict[str, ast.expr]:
    defaults = {each.name: each.default for each in inspect.signature(function).parameters.values()}
    return {name: _expression(value) for name, value in defaults.items() if isinstance(value, bool | int | float | str)}


def _short(node: ast.expr, names: Mapping[str, Any]) -> ast.expr:
    """'SDPBackend.MATH' of a member of an enumeration that is named by its module too; anything else as it is."""
    first, *rest = ast.unparse(node).split(".")
    value = names.get(first)
    for each in rest:
        value = getattr(value, each, None)
    return _expression(value) if rest and is_member(value) else node


def _expression(value: Any) -> ast.expr:
    return ast.parse(_value(value), mode="eval").body


def _imports_of_torch(names: Mapping[str, Any]) -> list[str]:
    """What imports these names, where all of them are PyTorch's; else nothing."""
    modules = {name: each for name, each in names.items() if isinstance(each, ModuleType)}
    others: dict[str, list[str]] = {}
    for name in sorted(names.keys() - modules.keys()):
        others.setdefault(str(getattr(names[name], "__module__", "")), []).append(name)
    if any(each.partition(".")[0] != "torch" for each in (*others, *(module.__name__ for module in modules.values()))):
        return []
    froms = (f"from {module} import {', '.join(alike)}" for module, alike in others.items())
    return [*(_import(name, each) for name, each in modules.items()), *froms]


def _together(reached: Sequence[FunctionType], kernels: Sequence[FunctionType]) -> str:
    """The call of several kernels of the lab in one expression, as the experiment makes it; nothing of any other."""
    for function in reached:
        tree = tree_of(function)
        while isinstance(tree, ast.Lambda) and isinstance(tree.body, ast.Lambda):
            tree = tree.body
        if isinstance(tree, ast.Lambda) and {*_globals(function.__code__)} == {each.__name__ for each in kernels}:
            return "\n".join([*(line for each in kernels for line in _shown(each)), f"y = {ast.unparse(tree.body)}"])
    return ""


def _reached(function: Any, before: frozenset[FunctionType] = frozenset()) -> Iterator[FunctionType]:
    """A function and those that it speaks of, in their order, as far as experiments define them.

    `before` are those that led to it: one that calls itself is told once.
    """
    if isinstance(function, partial):
        for each in (function.func, *function.args):
            yield from _reached(each, before)
    elif isinstance(function, FunctionType) and function not in before:
        yield function
        if is_authored(function):
            before |= {function}
            for cell in function.__closure__ or ():
                yield from _reached(cell.cell_contents, before)
            for name in _globals(function.__code__):
                yield from _reached(function.__globals__.get(name), before)


@cache
def _globals(code: CodeType) -> tuple[str, ...]:
    """The global names that code reads; an attribute of the same name is none."""
    own = dict.fromkeys(each.argval for each in dis.get_instructions(code) if each.opname == "LOAD_GLOBAL")
    within = (_globals(constant) for constant in code.co_consts if isinstance(constant, CodeType))
    return (*own, *(name for names in within for name in names))


def _helper(function: FunctionType) -> bool:
    """Whether it makes an implementation and is none itself."""
    loads = inspect.signature(function).return_annotation
    return function.__name__ == "<lambda>" or "torch.compile" in source_of(function) or "Callable" in str(loads)


def _loaded(function: FunctionType, loader: Any) -> str:
    """Of a function that imports a library and returns the call: the imports, and the call."""
    tree = tree_of(function)
    body = tree.body if isinstance(tree, ast.FunctionDef) else []
    imports = [node for node in body if isinstance(node, ast.Import | ast.ImportFrom)]
    if not imports or not isinstance(body[-1], ast.Return) or body[-1].value is None:
        return ""
    returned = body[-1].value
    rest = [node for node in body if isinstance(node, ast.FunctionDef)]
    arguments = ", ".join(each.arg for node in rest for each in node.args.args)
    call = ast.unparse(returned.body if isinstance(returned, ast.Lambda) else returned)
    call = f"{call}({arguments})" if isinstance(returned, ast.Name) else call
    used = {node.id for part in (*rest, returned) for node in ast.walk(part) if isinstance(node, ast.Name)}
    types = ["from torch import Tensor"] if "Tensor" in used else []
    told = closed_over(function, loader) | given_to_its_maker(loader)
    made = [f"{name} = {value!r}" for name, value in told.items() if name in used]
    return "\n".join([*map(ast.unparse, imports), *types, *made, *map(ast.unparse, rest), f"y = {call}"])


def _built_in(loader: Any, inputs: Sequence[str]) -> str:
    """Of a loader that is no more than the name of a function of PyTorch."""
    names = loader.__code__.co_names if isinstance(loader, FunctionType) else ()
    if names[:1] == ("torch",) and len(names) == 2 and not loader.__code__.co_consts[1:]:
        return f"import torch\ny = torch.{names[1]}({', '.join(inputs) or '*inputs'})"
    return ""


def _shown(function: FunctionType) -> list[str]:
    """What makes a function known: its import, or, of a short one that needs nothing but PyTorch, all of it."""
    needed = {name: function.__globals__.get(name) for name in _globals(function.__code__)}
    source = source_of(function).rstrip().splitlines()
    modules = [each for each in needed.values() if isinstance(each, ModuleType)]
    whole = len(modules) == sum(name not in dir(__builtins__) for name in needed) and 0 < len(source) <= MOST_LINES
    if not whole:
        return [_from(function)]
    imports = [_import(name, each) for name, each in needed.items() if isinstance(each, ModuleType)]
    types = ["from torch import Tensor"] if any("Tensor" in line for line in source) else []
    return [*imports, *types, *source]


def _from(function: FunctionType) -> str:
    return f"from {function.__module__} import {function.__name__}"


def _import(name: str, module: ModuleType) -> str:
    return f"import {name}" if name == module.__name__ else f"import {module.__name__} as {name}"


def _call(function: FunctionType, name: str = "", chosen: Mapping[str, Any] = NOTHING) -> str:
    """With the arguments that have no default; those that were `chosen` by name, at the end."""
    inputs = [each for each in _needed(function) if each not in chosen]
    given = [f"{each}={_value(value)}" for each, value in chosen.items()]
    return f"y = {name or function.__name__}({', '.join([*inputs, *given])})"


def _needed(function: FunctionType) -> list[str]:
    """The parameters that have no default."""
    return [
        each.name for each in inspect.signature(function).parameters.values()
        if each.default is each.empty and each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)
    ]  # fmt: skip


def _chosen(function: FunctionType, loader: Any) -> dict[str, Any]:
    """The parameters of a function that its maker was given: a backend, say, or whether a mask is causal."""
    given = given_to_its_maker(loader)
    return {name: given[name] for name in _needed(function) if name in given}


def _value(value: Any) -> str:
    return f"{type(value).__name__}.{value.name}" if is_member(value) else repr(value)


def _call_in(function: FunctionType, kernel: FunctionType, loader: Any, names: Sequence[str]) -> str:
    """The call of a kernel as a function of an experiment makes it, with the constants that it closes over. A partial
    one is given all inputs, whose `names` are those of the kernel's own parameters."""
    tree, made = tree_of(function), closed_over(function, loader)
    for node in ast.walk(tree) if tree else ():
        if not isinstance(node, ast.Call) or kernel.__name__ not in map(ast.unparse, (node.func, *node.args[:1])):
            continue
        call = deepcopy(node)
        whole = ast.unparse(call.func) == kernel.__name__
        if not whole and ast.unparse(call.func) != "partial":
            continue
        for each in call.keywords:
            if (name := ast.unparse(each.value)) in made:
                each.value = ast.Constant(made[name])
        call.keywords = [each for each in call.keywords if ast.unparse(each.value) != "None"]
        given = ", ".join(ast.unparse(each) for each in call.keywords)
        inputs = ", ".join(each for each in inspect.signature(kernel).parameters if each in names)
        return f"y = {ast.unparse(call)}" if whole else f"y = {kernel.__name__}({inputs}, {given})"
    return ""
