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


def run_cell(source: str, namespace: dict[str, Any] | None = None) -> dict[str, Any]:
    """Execute a cell in a notebook's namespace; its source can be found again, as IPython arranges it."""
    namespace = {"__name__": "__main__"} if namespace is None else namespace
    name = f"<cell-{next(_numbers)}>"
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    exec(compile(source, name, "exec", dont_inherit=True), namespace)
    return namespace


def module_file(source: str, path: Path) -> ModuleType:
    """Write a module and import it from its file."""
    path.write_text(source)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module
