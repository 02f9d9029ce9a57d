"""Objects by name: `pkg.mod:Name`, `pkg.mod.Name` or `path/to/file.py:Name`."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from vfnb.errors import ConfigError
from vfnb.utils.config import nearest
from vfnb.utils.ids import digest

__all__ = ["import_object", "load_file"]


def import_object(name: str) -> Any:
    """The object that a name means.

    Raises:
        ConfigError: no such file, module or attribute; the message has the nearest name.
    """
    where, _, attribute = name.rpartition(":") if ":" in name else name.rpartition(".")
    if not where or not attribute:
        raise ConfigError(f"{name!r} is no import path; write 'package.module:Name' or 'file.py:Name'")
    module = load_file(Path(where)) if where.endswith(".py") else _module(where, name)
    try:
        return getattr(module, attribute)
    except AttributeError:
        match = nearest(attribute, vars(module))
        hint = f"; did you mean {match!r}?" if match else ""
        raise ConfigError(f"{where} has no {attribute!r}{hint}") from None


def _module(where: str, name: str) -> ModuleType:
    try:
        return importlib.import_module(where)
    except ModuleNotFoundError as error:
        raise ConfigError(f"cannot import {where!r} for {name!r}: {error}") from error


def load_file(path: Path) -> ModuleType:
    """A Python file as a module, executed anew at each call, so that edits are seen.

    Raises:
        ConfigError: there is no such file.
    """
    path = path.expanduser().resolve()
    if not path.is_file():
        raise ConfigError(f"there is no file {path}")
    module_name = f"vfnb_file_{path.stem}_{digest(str(path), size=4)}"
    spec = importlib.util.spec_from_file_location(module_name, path)
    if spec is None or spec.loader is None:
        raise ConfigError(f"{path} cannot be loaded as Python")
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module
    spec.loader.exec_module(module)
    return module
