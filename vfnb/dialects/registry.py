"""Which dialect a path belongs to. Dialects register themselves; the newest claim to a route wins."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from vfnb.errors import ConfigError

if TYPE_CHECKING:
    from vfnb.dialects.base import Dialect

__all__ = ["counter", "dialects", "get", "match", "normalise", "register"]

_classes: dict[str, type[Dialect[Any, Any]]] = {}
_instances: dict[str, Dialect[Any, Any]] = {}
_exact: dict[str, str] = {}
_patterns: list[tuple[re.Pattern[str], frozenset[str], str]] = []  # path, what the query must have, name

_PREFIX = re.compile(r"^(?:/openai)?(?:/deployments/[^/]+)?(?:/v1(?=/))*")


@lru_cache(256)
def normalise(path: str) -> str:
    """A path without query, trailing slash, `/v1` prefixes and Azure's deployment prefix."""
    path = path.partition("?")[0].rstrip("/")
    return _PREFIX.sub("", path, count=1)


def register(cls: type[Dialect[Any, Any]]) -> None:
    """Add a dialect class, replacing one of the same name.

    Raises:
        ConfigError: if `routes` is not a tuple of paths, or a parse method is missing.
    """
    routes = cls.routes
    if isinstance(routes, str) or not all(isinstance(route, str) and route[:1] == "/" for route in routes):
        raise ConfigError(
            f"{cls.__name__}.routes must be a tuple of paths like ('/v1/complete',), not {routes!r}"
        )
    if not routes:
        return
    missing = [name for name in ("parse_request", "parse_response") if _abstract(cls, name)]
    if missing:
        raise ConfigError(
            f"{cls.__name__} has routes but no {' and no '.join(missing)}; define it in the class"
        )
    name = cls.name
    for route in [route for route, owner in _exact.items() if owner == name]:
        del _exact[route]
    _patterns[:] = [entry for entry in _patterns if entry[2] != name]
    _classes[name] = cls
    _instances.pop(name, None)
    for route in routes:
        plain, query = normalise(route), _query(route)
        if "{" in plain or query:
            pattern = "".join(
                "[^/]+?" if part[:1] == "{" else re.escape(part) for part in re.split(r"(\{[^}]*\})", plain)
            )
            _patterns.insert(0, (re.compile(pattern), query, name))
        else:
            _exact[plain] = name
    _patterns.sort(key=lambda entry: not entry[1])  # a route with a query comes before one without


def _query(path: str) -> frozenset[str]:
    return frozenset(filter(None, path.partition("?")[2].split("&")))


def _abstract(cls: type, name: str) -> bool:
    return bool(getattr(getattr(cls, name), "__isabstractmethod__", False))


def get(name: str) -> Dialect[Any, Any]:
    """The dialect of this name.

    Raises:
        ConfigError: if there is none, with the names that there are.
    """
    if name not in _classes:
        raise ConfigError(f"no dialect {name!r}; known are {', '.join(sorted(_classes))}")
    if name not in _instances:
        _instances[name] = _classes[name]()
    return _instances[name]


def match(path: str) -> Dialect[Any, Any] | None:
    """The dialect that serves a POST to `path`, None if no dialect does."""
    plain = normalise(path)
    name = _exact.get(plain)
    if name is None and _patterns:
        query = _query(path)
        fits = (owner for pattern, asked, owner in _patterns if asked <= query and pattern.fullmatch(plain))
        name = next(fits, None)
    return None if name is None else get(name)


def counter(path: str) -> Dialect[Any, Any] | None:
    """The dialect whose `count_path` this is."""
    plain = normalise(path)
    for dialect in dialects():
        if dialect.count_path and normalise(dialect.count_path) == plain:
            return dialect
    return None


def dialects() -> list[Dialect[Any, Any]]:
    """All registered dialects."""
    return [get(name) for name in _classes]
