"""Triton's interpreter without what it does again and again: it takes half the time and computes the same.

Each function here stands for one of the interpreter's own, and remembers what that one has found out.
"""

import inspect
from types import ModuleType
from typing import Any


def make_quick(interpreter: ModuleType) -> None:
    """For the rest of this process."""
    interpreter._patch_builtin = _patch_known_builtins(interpreter)
    _patch_once_a_launch(interpreter)
    interpreter._get_np_dtype = _remembered_dtypes(interpreter)
    interpreter.tl.block_type.__init__ = _remembered_shapes(interpreter.tl)
    interpreter.tl.tensor.__init__ = _of_its_types_shape(interpreter.tl)
    interpreter.tl.dtype.__eq__ = _equal_to_itself(interpreter.tl)
    interpreter.TritonSemantic.binary_op_sanitize_overflow_impl = _look_for_overflow
    interpreter.TritonSemantic.broadcast_impl_value = _broadcast_what_differs(interpreter.TritonSemantic)
    interpreter.TritonSemantic.computation_type_impl = _remembered_promotions(interpreter.TritonSemantic)


def _patch_known_builtins(interpreter: ModuleType) -> Any:
    """It searches the language for built-ins to replace, which are the same ones every time and mostly replaced."""
    language, is_builtin = interpreter.tl, interpreter.tl.core.is_builtin
    packages = (language, language.core, language.math, language.tensor, language.core.tensor_descriptor_base)
    names = {
        package: [name for name, member in inspect.getmembers(package) if is_builtin(member)] for package in packages
    }

    def patch(package: Any, builder: Any, scope: Any) -> None:
        for name in names[package]:
            if is_builtin(member := getattr(package, name)):
                scope.set_attr(package, name, _with_semantic(member, interpreter.interpreter_semantic))

    return patch


def _with_semantic(member: Any, semantic: Any) -> Any:
    """It makes the named arguments of each call anew, without the one that it then adds."""

    def call(*args: Any, **kwargs: Any) -> Any:
        kwargs["_semantic"] = semantic
        return member(*args, **kwargs)

    return call


def _patch_once_a_launch(interpreter: ModuleType) -> None:
    """It patches the language for a launch, and again whenever a function is called in it."""
    patch_language = interpreter._patch_lang
    languages = frozenset(map(id, (interpreter.tl, interpreter.tl.core)))
    patched: set[int] = set()

    def languages_of(fn: Any) -> frozenset[int]:
        return languages.intersection(map(id, fn.__globals__.values()))

    def for_launch(fn: Any) -> Any:
        patched.clear()
        patched.update(languages_of(fn))
        return patch_language(fn)

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not languages_of(self.fn) <= patched:
            patch_language(self.fn)
            patched.update(languages_of(self.fn))
        try:
            return self.rewrite()(*args, **kwargs)
        except Exception as problem:
            raise interpreter.InterpreterError(repr(problem)) from problem

    interpreter._patch_lang = for_launch
    interpreter.InterpretedFunction.__call__ = call


def _remembered_dtypes(interpreter: ModuleType) -> Any:
    """It makes a table of all dtypes whenever it looks one up."""
    language, find = interpreter.tl, interpreter._get_np_dtype
    known: dict[str, Any] = {}

    def np_dtype(dtype: Any) -> Any:
        scalar = dtype.element_ty if isinstance(dtype, language.block_type) else dtype
        if scalar.name not in known:
            known[scalar.name] = find(scalar)
        return known[scalar.name]

    return np_dtype


def _remembered_shapes(language: ModuleType) -> Any:
    """It looks whether a block's sides are powers of two, and spells them, whenever it makes the type of a block."""
    first = language.block_type.__init__
    known: dict[tuple[Any, ...], tuple[Any, int]] = {}
    names: dict[tuple[Any, str], str] = {}

    def init(self: Any, element_ty: Any, shape: Any) -> None:
        sides = tuple(getattr(side, "value", side) for side in shape)
        key = (*sides, *map(type, sides))  # 16.0, which is refused, equals 16
        if key not in known:
            first(self, element_ty, shape)
            known[key] = self.shape, self.numel
            return
        self.element_ty = element_ty
        self.shape, self.numel = known[key]
        named = sides, element_ty.name
        if named not in names:
            names[named] = f"<{self.shape}, {element_ty}>"
        self.name = names[named]

    return init


def _of_its_types_shape(language: ModuleType) -> Any:
    """It makes the shape of a tensor anew, number by number, from that of its type."""
    first = language.tensor.__init__
    known: dict[tuple[int, ...], tuple[Any, Any]] = {}

    def init(self: Any, handle: Any, type: Any) -> None:
        sides = tuple(type.shape.values) if type.is_block() else ()
        if sides not in known:
            first(self, handle, type)
            known[sides] = self.shape, self.numel
            return
        self.handle, self.type, self.dtype = handle, type, type.scalar
        self.shape, self.numel = known[sides]

    return init


def _look_for_overflow(semantic: Any, left: Any, right: Any, operation: Any) -> None:
    """It computes each sum of integers a second time, and tells nobody unless it is debugged."""
    assert not semantic.builder.options.debug


def _equal_to_itself(language: ModuleType) -> Any:
    """It looks for constants inside of a dtype that is compared with itself."""
    equal = language.dtype.__eq__
    return lambda self, other: other is self or equal(self, other)


def _broadcast_what_differs(semantic: Any) -> Any:
    """It goes through the sides of two blocks of one shape, and leaves them as they are, as it does two scalars."""
    broadcast = semantic.broadcast_impl_value

    def broadcast_value(self: Any, left: Any, right: Any) -> Any:
        ours, theirs = left.type, right.type
        if ours.is_block() and theirs.is_block():
            alike = ours.shape.values == theirs.shape.values
        else:
            alike = not ours.is_block() and not theirs.is_block()
        return (left, right) if alike else broadcast(self, left, right)

    return broadcast_value


def _remembered_promotions(semantic: Any) -> Any:
    """It finds out anew for each operation which dtype two others become."""
    find = semantic.computation_type_impl
    known: dict[tuple[Any, ...], Any] = {}

    def computation_type(self: Any, left: Any, left_is_scalar: bool, right: Any, *others: bool) -> Any:
        key = left.name, left_is_scalar, right.name, *others
        if key not in known:
            known[key] = find(self, left, left_is_scalar, right, *others)
        return known[key]

    return computation_type
