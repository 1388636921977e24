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
    interpreter.TritonSemantic.binary_op_type_checking_impl = _of_one_dtype(interpreter.TritonSemantic)
    interpreter.tl.block_type.with_element_ty = _remembered_blocks(interpreter.tl)


def _patch_known_builtins(interpreter: ModuleType) -> Any:
    """It searches the language for built-ins to replace, which are the same ones every time and mostly replaced."""
    language, is_builtin = interpreter.tl, interpreter.tl.core.is_builtin
    packages = (language, language.core, language.math, language.tensor, language.core.tensor_descriptor_base)
    wrapper = language.core.builtin(len).__code__
    names = {
        package: [name for name, member in inspect.getmembers(package) if is_builtin(member)] for package in packages
    }

    def patch(package: Any, builder: Any, scope: Any) -> None:
        for name in names[package]:
            if is_builtin(member := getattr(package, name)):
                scope.set_attr(package, name, _with_semantic(member, interpreter.interpreter_semantic, wrapper))

    return patch


def _with_semantic(member: Any, semantic: Any, wrapper: Any) -> Any:
    """It makes the named arguments of each call anew, without the one that it then adds, and looks for that one."""
    if getattr(member, "__code__", None) is wrapper:
        member = member.__wrapped__

    def call(*args: Any, **kwargs: Any) -> Any:
        kwargs["_semantic"] = semantic
        return member(*args, **kwargs)

    return call


def _patch_once_a_launch(interpreter: ModuleType) -> None:
    """It patches the language for a launch, and again whenever a function is called in it."""
    patch_language = interpreter._patch_lang
    languages = frozenset(map(id, (interpreter.tl, interpreter.tl.core)))
    patched: set[int] = set()
    seen: set[int] = set()  # modules whose functions were called in this launch

    def languages_of(fn: Any) -> frozenset[int]:
        return languages.intersection(map(id, fn.__globals__.values()))

    def for_launch(fn: Any) -> Any:
        patched.clear()
        seen.clear()
        patched.update(languages_of(fn))
        return patch_language(fn)

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if id(self.fn.__globals__) not in seen:
            seen.add(id(self.fn.__globals__))
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

    def init(self: Any, handle: Any, type: Any) -> None:
        try:
            self.shape, self.numel = type.of_tensors
        except AttributeError:
            first(self, handle, type)
            type.of_tensors = self.shape, self.numel
            return
        self.handle, self.type, self.dtype = handle, type, type.scalar

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


def _of_one_dtype(semantic: Any) -> Any:
    """It finds out what two tensors of one dtype become, and casts both to it, which they are."""
    check = semantic.binary_op_type_checking_impl

    def checked(
        self: Any, lhs: Any, rhs: Any, left_pointer: bool = False, right_pointer: bool = False,
        arithmetic: bool = True, divides: bool = False,
    ) -> Any:  # fmt: skip
        if isinstance(lhs, self.tensor) and isinstance(rhs, self.tensor):
            dtype, other = lhs.type.scalar, rhs.type.scalar
            if dtype.name == other.name and not dtype.is_ptr():
                found = self.computation_type_impl(dtype, False, other, False, divides) if arithmetic else dtype
                if found.name == dtype.name:
                    return self.broadcast_impl_value(lhs, rhs)
        return check(self, lhs, rhs, left_pointer, right_pointer, arithmetic, divides)

    return checked


def _remembered_blocks(language: ModuleType) -> Any:
    """It makes the type of a block of other elements anew."""
    make = language.block_type.with_element_ty
    known: dict[tuple[Any, ...], Any] = {}

    def with_element_ty(self: Any, scalar: Any) -> Any:
        if type(scalar) is not language.dtype:  # a pointer's name does not say all of it
            return make(self, scalar)
        key = scalar.name, *self.shape.values
        if key not in known:
            known[key] = make(self, scalar)
        return known[key]

    return with_element_ty
