"""Packages whose public names load on first use, so that importing one light module stays cheap."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from types import ModuleType
from typing import Any

__all__ = ["call_room", "lazy"]


def lazy(package: str, modules: Mapping[str, str]) -> Callable[[str], Any]:
    """The `__getattr__` of a package.

    Args:
        package: the package's name; what was found is kept there.
        modules: for each module, relative to the package, the names that it gives, parted by spaces.
    """
    where = {name: f"{package}.{module}" for module, names in modules.items() for name in names.split()}

    def get(name: str) -> Any:
        if name not in where:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(where[name]), name)
        setattr(import_module(package), name, value)
        return value

    return get


def call_room(package: str, module: str, name: str) -> None:
    """Make a package callable: calling it calls a function of one of its modules, loaded then."""

    class Room(ModuleType):
        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            return getattr(import_module(f"{package}.{module}"), name)(*args, **kwargs)

    sys.modules[package].__class__ = Room
