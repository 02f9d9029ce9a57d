"""What a class put into the brackets of a generic base: `class T(Task[Data, State]): ...`."""

from __future__ import annotations

import sys
from typing import Any, ForwardRef, TypeVar, get_args, get_origin

from typing_extensions import NoDefault

__all__ = ["type_argument", "type_arguments"]


def type_argument(cls: type, base: type, index: int, *, default: Any = None) -> Any:
    """The class at position `index` of `base[...]` as `cls` inherits it; `default` if it is open."""
    arguments = type_arguments(cls, base)
    if index >= len(arguments) or isinstance(arguments[index], TypeVar):
        return default
    return arguments[index]


def type_arguments(cls: type, base: type) -> tuple[Any, ...]:
    """All arguments of `base[...]`, found through subclasses and intermediate generics.

    The nearest class that names `base` itself wins. Open parameters become their defaults.
    """
    found = _search(cls, base)
    if found is None:
        found = getattr(base, "__parameters__", ())
    return tuple(_closed(argument, cls) for argument in found)


def _search(cls: type, base: type) -> tuple[Any, ...] | None:
    bases: tuple[Any, ...] = cls.__dict__.get("__orig_bases__", cls.__bases__)
    for item in bases:
        if get_origin(item) is base:
            return get_args(item)
    for item in bases:
        origin = get_origin(item) or item
        if isinstance(origin, type) and issubclass(origin, base) and origin is not base:
            found = _search(origin, base)
            if found is not None:
                given = dict(zip(getattr(origin, "__parameters__", ()), get_args(item), strict=False))
                return tuple(given.get(argument, argument) for argument in found)
    return None


def _closed(argument: Any, cls: type) -> Any:
    if isinstance(argument, TypeVar):
        default = getattr(argument, "__default__", NoDefault)
        return argument if default is NoDefault or default is None else default
    if isinstance(argument, str):
        argument = ForwardRef(argument)
    if isinstance(argument, ForwardRef):
        namespace = vars(sys.modules[cls.__module__]) if cls.__module__ in sys.modules else {}
        return namespace.get(argument.__forward_arg__, argument)
    return argument
