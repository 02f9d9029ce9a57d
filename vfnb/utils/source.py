"""A digest of what a function or class does, to tell whether old results may be reused.

Taken from the syntax tree without docstrings, so comments, white space and docstrings do not count; default
values, simple closure and global values, models, judges and settings, and helpers of the same file or notebook
do. Code without source (a REPL, a C function) has no digest, and None never equals anything. Not followed:
methods of imported modules, attributes of other objects, names made at run time.
"""

from __future__ import annotations

import ast
import functools
import inspect
import linecache
import re
import textwrap
import threading
from collections.abc import Iterator
from types import CodeType, FunctionType, MethodType
from typing import Any

from vfnb.utils.config import BaseConfig
from vfnb.utils.ids import digest

__all__ = ["code_hash"]

_SIMPLE = (int, float, complex, bool, str, bytes, type(None))
_FRAMEWORK = ("vfnb", "pydantic", "pydantic_core", "typing", "typing_extensions", "abc", "builtins", "enum")


_parsing = threading.Lock()  # CPython 3.11 raises SystemError when two threads make syntax trees at once


class _UnknownSource(Exception):
    """Some part has no source."""


def code_hash(obj: Any, *, owner: type | None = None) -> str | None:
    """32 hex digits for a function, method, partial or class, or None if part of its source is unknown.

    Args:
        obj: what to hash; other callables count by their class and simple attributes.
        owner: the class in which names after `self.` are looked up, for a method given as a plain function.
    """
    if isinstance(obj, MethodType) and owner is None:
        owner = obj.__self__ if isinstance(obj.__self__, type) else type(obj.__self__)
    try:
        return digest(*_Walk().parts(obj, owner))
    except _UnknownSource:
        return None


class _Walk:
    """One walk over an object and what it uses; each function and class is visited once."""

    def __init__(self) -> None:
        self._seen: set[int] = set()
        self._alive: list[Any] = []

    def parts(self, obj: Any, owner: type | None = None) -> Iterator[str]:
        """Strings that together say what the object does."""
        obj = _unwrap(obj)
        if isinstance(obj, functools.partial):
            yield "partial"
            yield from self.parts(obj.func, owner)
            yield from self._values("argument", {**dict(enumerate(obj.args)), **obj.keywords})
        elif isinstance(obj, FunctionType):
            yield from self._function(obj, owner)
        elif isinstance(obj, type):
            yield from self._class(obj)
        elif callable(obj) and not inspect.isbuiltin(obj):
            yield from self._class(type(obj))
            yield from self._values("attribute", getattr(obj, "__dict__", {}))
        else:
            raise _UnknownSource(repr(obj))

    def _once(self, obj: Any) -> bool:
        if id(obj) in self._seen:
            return False
        self._seen.add(id(obj))
        self._alive.append(obj)
        return True

    def _function(self, function: FunctionType, owner: type | None) -> Iterator[str]:
        if not self._once(function):
            yield f"again {function.__name__}"
            return
        yield _syntax(function)
        defaults = dict(enumerate(function.__defaults__ or ())) | (function.__kwdefaults__ or {})
        yield from self._values("default", defaults)
        cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=False)
        for name, cell in cells:
            if name != "__class__":
                yield from self._value(f"closure {name}", _content(cell), function)
        for name in sorted(_names(function.__code__)):
            if name in function.__globals__:
                yield from self._value(f"global {name}", function.__globals__[name], function)
            if owner is not None:
                yield from self._member(owner, name, function)

    def _member(self, owner: type, name: str, user: FunctionType) -> Iterator[str]:
        value = _unwrap(inspect.getattr_static(owner, name, None))
        if isinstance(value, FunctionType) and not _is_framework(value) and value is not user:
            yield f"member {name}"
            yield from self._function(value, owner)
        elif isinstance(value, property) and value.fget is not None and not _is_framework(value.fget):
            yield f"member {name}"
            yield from self._function(_unwrap(value.fget), owner)
        elif value is not None and _is_simple(value):
            yield f"member {name}={_stable(value)}"

    def _class(self, cls: type) -> Iterator[str]:
        if not self._once(cls):
            yield f"again {cls.__name__}"
            return
        yield f"class {cls.__name__}"
        for level in cls.__mro__:
            if _is_framework(level):
                yield f"base {level.__module__}.{level.__qualname__}"
                continue
            for name, value in sorted(vars(level).items()):
                if not (name.startswith("__") and name.endswith("__")) or isinstance(value, FunctionType):
                    yield from self._attribute(name, _unwrap(value), cls)
            yield f"fields {sorted(vars(level).get('__annotations__', {}))}"
            fields = getattr(level, "__pydantic_fields__", {})
            yield from self._values("field", {name: field.default for name, field in fields.items()})

    def _attribute(self, name: str, value: Any, cls: type) -> Iterator[str]:
        if isinstance(value, FunctionType):
            if not _is_framework(value) and value.__code__.co_filename != "<string>":
                yield f"method {name}"
                yield from self._function(value, cls)
        elif isinstance(value, property):
            for part in (value.fget, value.fset):
                if isinstance(part, FunctionType):
                    yield f"property {name}"
                    yield from self._function(part, cls)
        elif isinstance(value, type) and not _is_framework(value):
            yield from self._class(value)
        elif _is_simple(value):
            yield f"{name}={_stable(value)}"

    def _values(self, kind: str, values: dict[Any, Any]) -> Iterator[str]:
        for name, value in sorted(values.items(), key=lambda item: str(item[0])):
            yield from self._value(f"{kind} {name}", value, None)

    def _value(self, label: str, value: Any, user: FunctionType | None) -> Iterator[str]:
        raw, value = value, _unwrap(value)
        if _is_simple(value):
            yield f"{label}={_stable(value)}"
        elif isinstance(value, re.Pattern):
            yield f"{label}={value.pattern!r} {value.flags}"
        elif isinstance(value, FunctionType | type):
            if _is_framework(value) or not (user is None or _near(value, user)):
                yield f"{label}={value.__module__}.{value.__qualname__}"
            else:
                yield label
                yield from self.parts(raw)
        elif isinstance(value, functools.partial):
            yield label
            yield from self.parts(value)
        elif _has_identity(type(value)):
            yield label
            yield from self._class(type(value))
            told = value.identity()
            if _lacks_source(told):
                raise _UnknownSource(label)
            yield _stable(told)
        elif isinstance(value, BaseConfig):
            yield f"{label}: {type(value).__qualname__}"
            yield from self._values(label, dict(value))
        else:
            yield f"{label}: {type(value).__module__}.{type(value).__qualname__}"


def _unwrap(obj: Any) -> Any:
    """The plain function under a method, a static or class method and decorators that keep `__wrapped__`."""
    while True:
        if isinstance(obj, MethodType | staticmethod | classmethod):
            obj = obj.__func__
        elif isinstance(obj, FunctionType) and hasattr(obj, "__wrapped__"):
            obj = obj.__wrapped__
        else:
            return obj


def _near(value: Any, user: FunctionType) -> bool:
    """Whether a helper belongs to the same file, module or notebook as its user."""
    code = getattr(value, "__code__", None)
    same_file = code is not None and code.co_filename == user.__code__.co_filename
    return same_file or value.__module__ in ("__main__", user.__module__)


def _has_identity(kind: type) -> bool:
    """Whether it is a model or a judge, which say themselves what they are."""
    return any(level.__module__.startswith("vfnb.") and "identity" in vars(level) for level in kind.__mro__)


def _lacks_source(told: dict[str, Any]) -> bool:
    """Whether some code in an identity has no digest."""
    return any(
        _lacks_source(value) if isinstance(value, dict) else name == "code" and value is None
        for name, value in told.items()
    )


def _is_framework(value: Any) -> bool:
    module = getattr(value, "__module__", None) or ""
    return module.partition(".")[0] in _FRAMEWORK


def _names(code: CodeType) -> set[str]:
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            names |= _names(constant)
    return names


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not assigned yet
        return None


def _is_simple(value: Any, depth: int = 0) -> bool:
    if isinstance(value, _SIMPLE):
        return True
    if depth > 4:
        return False
    if isinstance(value, tuple | list | set | frozenset):
        return len(value) <= 1000 and all(_is_simple(item, depth + 1) for item in value)
    if isinstance(value, dict):
        items = [part for item in value.items() for part in item]
        return len(items) <= 2000 and all(_is_simple(item, depth + 1) for item in items)
    return False


def _stable(value: Any) -> str:
    """A repr that does not depend on the order of sets."""
    if isinstance(value, set | frozenset):
        return f"{{{', '.join(sorted(map(_stable, value)))}}}"
    if isinstance(value, tuple | list):
        return f"{type(value).__name__}({', '.join(map(_stable, value))})"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_stable(key)}: {_stable(item)}' for key, item in value.items())}}}"
    return repr(value)


def _syntax(function: FunctionType) -> str:
    """The function's syntax tree as text, without docstrings."""
    code = function.__code__
    lines = linecache.getlines(code.co_filename, function.__globals__)
    if not lines or code.co_firstlineno > len(lines):
        raise _UnknownSource(function.__qualname__)
    node = _find(lines, code)
    for part in ast.walk(node):
        if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and ast.get_docstring(
            part
        ):
            part.body = part.body[1:]
    return ast.dump(node, annotate_fields=False)


def _find(lines: list[str], code: CodeType) -> ast.AST:
    """The syntax of a code object: from its own block, or from the whole file if that cannot stand alone."""
    first = code.co_firstlineno
    if code.co_name != "<lambda>":
        block = textwrap.dedent("".join(inspect.getblock(lines[first - 1 :])))
        if found := _candidates(block, code, 1):
            return found[0]
    found = _candidates("".join(lines), code, first)
    if len(found) > 1:  # several lambdas in one line: told apart by the column of their body
        columns = {column for _, _, column, _ in code.co_positions() if column is not None}
        found = [node for node in found if isinstance(node, ast.Lambda) and node.body.col_offset in columns]
    if len(found) != 1:
        raise _UnknownSource(code.co_qualname)
    return found[0]


def _candidates(text: str, code: CodeType, line: int) -> list[ast.AST]:
    try:
        with _parsing:
            tree = ast.parse(text)
        return [node for node in ast.walk(tree) if _is_at(node, line, code.co_name)]
    except SyntaxError:
        return []


def _is_at(node: ast.AST, line: int, name: str) -> bool:
    if isinstance(node, ast.Lambda):
        return name == "<lambda>" and node.lineno == line
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return False
    return node.name == name and min(item.lineno for item in [node, *node.decorator_list]) == line
