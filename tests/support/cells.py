"""Running source text the way a notebook does, and as a module file."""

from __future__ import annotations

import importlib.util
import linecache
import sys
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import Any

__all__ = ["module_file", "run_cell"]

_numbers = count(1)
_kernels: dict[int, ModuleType] = {}  # by their namespaces


def run_cell(source: str, namespace: dict[str, Any] | None = None) -> dict[str, Any]:
    """Execute a cell in a notebook's namespace, new or given.

    As under IPython, its source can be found again, and `__main__` is a module without a file.
    """
    if namespace is None:
        kernel = ModuleType("__main__")
        _kernels[id(vars(kernel))] = kernel
    else:
        kernel = _kernels[id(namespace)]
    name = f"<cell-{next(_numbers)}>"
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    before = sys.modules["__main__"]
    sys.modules["__main__"] = kernel
    try:
        exec(compile(source, name, "exec", dont_inherit=True), vars(kernel))
    finally:
        sys.modules["__main__"] = before
    return vars(kernel)


def module_file(source: str, path: Path) -> ModuleType:
    """Write a module and import it from its file."""
    path.write_text(source)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module
