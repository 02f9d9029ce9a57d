"""What a program declares with a request: what the call is for, which of its agents asks, who started that one."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import msgspec

from vfnb.errors import ConfigError

__all__ = ["Marker", "MarkerReader"]

_KINDS = ("compaction", "subagent", "side_call")
_OWN = {"kind": "x-vfnb-kind", "agent": "x-vfnb-agent", "parent": "x-vfnb-parent"}
_MAX = 256  # characters of a declared name: it is stored with every call

Fields = Mapping[str, msgspec.Raw]
_Reader = Callable[[Mapping[str, str], Fields], str | None]


@dataclass(frozen=True, slots=True)
class Marker:
    """How a program declares, with a request, what the call is for.

    Raises:
        ConfigError: not exactly one of `header` and `field` is given, nothing is declared, or the pattern is wrong.
    """

    header: str = ""
    """Name of a request header in lower case, or"""
    field: str = ""
    """a top-level key of the request body other than its history; the raw JSON text of its value is searched."""
    pattern: str = ""
    """Regular expression searched in the value; empty takes any value."""
    kind: str = ""
    """What a match means: `compaction`, `subagent` or `side_call`."""
    agent: bool = False
    """The match (its first group if it has one) is the id of the agent that calls."""
    parent: bool = False
    """The match is the id of the agent that started this one."""

    def __post_init__(self) -> None:
        if bool(self.header) == bool(self.field):
            raise ConfigError(f"{self}: a marker needs a header or a field, and not both")
        if self.header != self.header.lower():
            raise ConfigError(f"{self}: write the header in lower case, {self.header.lower()!r}")
        if self.kind and self.kind not in _KINDS:
            raise ConfigError(f"{self}: unknown kind {self.kind!r}; use one of {', '.join(_KINDS)}")
        if not (self.kind or self.agent or self.parent):
            raise ConfigError(f"{self}: it declares nothing; set kind, agent or parent")
        try:
            re.compile(self.pattern)
        except re.error as error:
            raise ConfigError(f"{self}: the pattern is no regular expression: {error}") from error


class MarkerReader:
    """Some markers, made ready to be looked for in many requests."""

    __slots__ = ("_rules",)

    def __init__(self, markers: Iterable[Marker] = ()) -> None:
        self._rules = [(_reader(marker), marker) for marker in markers]

    def read(self, headers: Mapping[str, str], fields: Fields) -> dict[str, str]:
        """What a request declares, by `kind`, `agent` and `parent`; `{}` if it says nothing.

        The first marker that matches wins. Any program may send `x-vfnb-kind`, `x-vfnb-agent` and `x-vfnb-parent`,
        which win over its markers.

        Args:
            headers: by name in lower case.
            fields: top-level keys of the body, each with the raw JSON of its value.
        """
        found = {}
        for name, header in _OWN.items():
            if header in headers:
                found[name] = headers[header][:_MAX]
        for look, marker in self._rules:
            match = look(headers, fields)
            if match is None:
                continue
            if marker.kind:
                found.setdefault("kind", marker.kind)
            if match and marker.agent:
                found.setdefault("agent", match[:_MAX])
            if match and marker.parent:
                found.setdefault("parent", match[:_MAX])
        return found


def _reader(marker: Marker) -> _Reader:
    """A function that returns what a marker matched, None if it is not there."""
    header, key = marker.header, marker.field
    search = re.compile(marker.pattern).search if marker.pattern else None

    def in_header(headers: Mapping[str, str], fields: Fields) -> str | None:
        value = headers.get(header)
        return value if value is None or search is None else _found(search(value))

    def in_field(headers: Mapping[str, str], fields: Fields) -> str | None:
        value = fields.get(key)
        if value is None:
            return None
        text = str(memoryview(value), "utf-8", "replace")
        if search is not None:
            return _found(search(text))
        return None if text == "null" else text.strip('"')

    return in_header if header else in_field


def _found(match: re.Match[str] | None) -> str | None:
    if match is None:
        return None
    return (match[1] if match.re.groups else match[0]) or ""
