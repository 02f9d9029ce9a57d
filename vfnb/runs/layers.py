"""Layers of settings, one over the other, and where each setting came from."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vfnb.errors import ConfigError
from vfnb.runs.layouts import Keys, in_layout, normal

__all__ = ["Layer", "Layers", "flag", "read_layer"]

_KINDS = {"taskset": "id", "harness": "id", "runtime": "type"}


@dataclass(frozen=True, kw_only=True)
class Layer:
    """One source of settings."""

    data: Mapping[str, Any]
    """Nested tables, in any of the layouts."""
    file: str = ""
    """The file it came from."""
    flags: bool = False
    """Whether it came from the command line."""

    @property
    def prefix(self) -> str:
        """What stands before a key of this layer in messages."""
        return f"{self.file}: " if self.file else ""

    def written(self, keys: Sequence[str]) -> str:
        """A key as the user wrote it."""
        return flag(keys) if self.flags else self.prefix + ".".join(keys)


def flag(keys: Sequence[str]) -> str:
    """The command-line flag for a key."""
    return "-n" if tuple(keys) == ("n",) else "--" + ".".join(keys).replace("_", "-")


def read_layer(path: Path) -> Layer:
    """A TOML file as a layer.

    Raises:
        ConfigError: it cannot be read, or is no TOML; the message has the line.
    """
    try:
        return Layer(data=tomllib.loads(path.expanduser().read_text(encoding="utf-8")), file=str(path))
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ConfigError(f"{path}: the config file cannot be read: {reason}") from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: this is not valid TOML: {error}") from error


@dataclass
class Layers:
    """The merged settings. It also spells keys in messages as the user wrote them."""

    values: dict[Keys, Any] = field(default_factory=dict)
    origins: dict[Keys, tuple[Layer, Keys]] = field(default_factory=dict)

    @classmethod
    def of(cls, layers: Sequence[Layer]) -> Layers:
        """Merge, later layers over earlier ones.

        A layer that names another taskset, harness or runtime drops what earlier ones set for theirs.
        """
        merged = cls()
        for layer in layers:
            found = normal(layer.data, layer.prefix)
            for table, kind in _KINDS.items():
                if (table, kind) in found and merged.values.get((table, kind)) not in (
                    None,
                    found[table, kind][1],
                ):
                    merged._drop((table,))
            for keys, (written, value) in found.items():
                merged._set(keys, value, (layer, written))
        return merged

    def _set(self, keys: Keys, value: Any, origin: tuple[Layer, Keys]) -> None:
        if value != {}:  # an empty table adds nothing to one that is there
            self._drop(keys)
        for size in range(1, len(keys)):
            self.values.pop(keys[:size], None)
        self.values[keys] = value
        self.origins[keys] = origin

    def _drop(self, keys: Keys) -> None:
        for known in [known for known in self.values if known[: len(keys)] == keys]:
            del self.values[known]

    def get(self, *keys: str) -> Any:
        """One value, None if there is none."""
        return self.values.get(keys)

    def tree(self) -> dict[str, Any]:
        """Nested tables with the models' keys."""
        tree: dict[str, Any] = {}
        for keys, value in self.values.items():
            table = tree
            for key in keys[:-1]:
                table = table.setdefault(key, {})
            if value != {} or keys[-1] not in table:
                table[keys[-1]] = value
        return tree

    def where(self, keys: Sequence[str]) -> str:
        """A key as the user wrote it, with its file; as the models have it if nobody wrote it."""
        path = tuple(keys)
        for size in range(len(path), 0, -1):
            if path[:size] in self.values:
                layer, written = self.origins[path[:size]]
                rest = path[size:]
                if layer.flags and rest:
                    return f"{flag(written)}: {'.'.join(rest)}"
                return layer.written((*written, *rest))
        for known in self.values:
            if known[: len(path)] == path:
                layer, written = self.origins[known]
                return layer.written(written[: max(1, len(written) - len(known) + len(path))])
        return ".".join(path)

    def place(self, keys: Sequence[str], known: str) -> str:
        """A key of the models in the layout in which the wrong one was written."""
        _, written = self.origins.get(tuple(keys), (None, tuple(keys)))
        return in_layout(known, written)
