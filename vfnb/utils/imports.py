"""Objects by name: `pkg.mod:Name`, `pkg.mod.Name` or `path/to/file.py:Name`."""

from __future__ import annotations

import importlib
import importlib.util
import linecache
import sys
import threading
from pathlib import Path
from types import ModuleType
from typing import Any

from vfnb.errors import ConfigError
from vfnb.utils.config import nearest
from vfnb.utils.ids import digest

__all__ = ["import_current", "import_object", "load_file"]


def import_object(name: str) -> Any:
    """The object that a name means.

    Raises:
        ConfigError: no such file, module or attribute; the message has the nearest name.
    """
    where, _, attribute = name.rpartition(":") if ":" in name else name.rpartition(".")
    if not where or not attribute:
        raise ConfigError(f"{name!r} is no import path; write 'package.module:Name' or 'file.py:Name'")
    module = load_file(Path(where)) if where.endswith(".py") else _module(where, name)
    return _attribute(module, attribute, where)


def import_current(name: str) -> Any:
    """The same, but a file is executed again only if its content has changed since the last time.

    Raises:
        ConfigError: also if the module or the file cannot be executed.
    """
    where, _, attribute = name.rpartition(":")
    if name.endswith(".py") or (where.endswith(".py") and not attribute):
        raise ConfigError(f"{name!r} names a file only; write '{name.rstrip(':')}:function'")
    try:
        if not where.endswith(".py"):
            return import_object(name)
        return _attribute(_current(Path(where)), attribute, where)
    except ConfigError:
        raise
    except Exception as error:
        place = f" (line {error.lineno})" if isinstance(error, SyntaxError) else ""
        raise ConfigError(f"{name!r} cannot be loaded: {type(error).__name__}: {error}{place}") from error


_files: dict[Path, tuple[str, ModuleType]] = {}
_files_lock = threading.RLock()


def _current(path: Path) -> ModuleType:
    path = path.expanduser().resolve()
    if not path.is_file():
        raise ConfigError(f"there is no file {path}")
    text = path.read_bytes()
    state = digest(text)
    with _files_lock:
        known = _files.get(path)
        if known is not None and known[0] == state:
            return known[1]
        module = ModuleType(f"vfnb_file_{path.stem}_{digest(str(path), size=4)}")
        module.__file__ = str(path)
        source = importlib.util.decode_source(text)
        # Tracebacks and digests must see what is executed, not what the file may become.
        linecache.cache[str(path)] = (len(source), None, source.splitlines(keepends=True), str(path))
        sys.modules[module.__name__] = module
        exec(compile(source, str(path), "exec", dont_inherit=True), vars(module))
        _files[path] = state, module
        return module


def _attribute(module: ModuleType, attribute: str, where: str) -> Any:
    try:
        return getattr(module, attribute)
    except AttributeError:
        match = nearest(attribute, vars(module))
        hint = f"; did you mean {match!r}?" if match else ""
        raise ConfigError(f"{where} has no {attribute!r}{hint}") from None


def _module(where: str, name: str) -> ModuleType:
    try:
        return importlib.import_module(where)
    except (ModuleNotFoundError, TypeError, ValueError) as error:  # the latter two: no name of a module
        raise ConfigError(f"cannot import {where!r} for {name!r}: {error}") from error


def load_file(path: Path) -> ModuleType:
    """A Python file as a module, executed anew at each call, so that edits are seen.

    Raises:
        ConfigError: there is no such file.
    """
    path = path.expanduser().resolve()
    if not path.is_file():
        raise ConfigError(f"there is no file {path}")
    linecache.checkcache(str(path))  # digests of its functions must see what is executed now
    module_name = f"vfnb_file_{path.stem}_{digest(str(path), size=4)}"
    spec = importlib.util.spec_from_file_location(module_name, path)
    if spec is None or spec.loader is None:
        raise ConfigError(f"{path} cannot be loaded as Python")
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module
    spec.loader.exec_module(module)
    return module
