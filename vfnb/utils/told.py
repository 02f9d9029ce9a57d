"""Mistakes in words: what user code raised, with the usual cause, and the right name for a misspelt argument."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar, cast

from vfnb.errors import ConfigError
from vfnb.utils.config import nearest

__all__ = ["place_of", "raised", "spelled"]

F = TypeVar("F", bound=Callable[..., Any])

_HINTS = {
    "'coroutine' object": "an `await` is missing",
    r"'\w*Message' object (is not subscriptable|has no attribute 'get')": (
        "a message is an object: message.role, message.text, message.tool_calls"
    ),
}


def raised(error: BaseException) -> str:
    """An exception of user code as `TypeError: its message`, with what is probably behind it."""
    text = f"{type(error).__name__}: {error}"
    known = isinstance(error, AttributeError | TypeError)
    return "; ".join([text, *(hint for sign, hint in _HINTS.items() if known and re.search(sign, text))])


def place_of(name: str, tables: Mapping[str, Iterable[str]]) -> str:
    """The table that has a field of this name, `""` if none or several have."""
    found = [table for table, fields in tables.items() if name in fields]
    return found[0] if len(found) == 1 else ""


def spelled(**tables: Any) -> Callable[[F], F]:
    """Refuse an argument that a function does not have with the name that was meant, where Python only says no.

    Args:
        tables: config classes by the name of the argument that takes their fields as a dict.
    """

    def wrap(function: F) -> F:
        parameters = inspect.signature(function).parameters
        names = [name for name in parameters if name != "self"]
        places = [one for one in parameters.values() if one.kind is one.POSITIONAL_OR_KEYWORD]

        @functools.wraps(function)
        def call(*args: Any, **given: Any) -> Any:
            for name in given:
                if name not in names:
                    raise ConfigError(
                        f"{function.__name__}() takes no {name!r}; {_meant(name, names, tables)}"
                    )
            if len(args) > len(places):
                others = ", ".join(f"{name}=..." for name in names[len(places) :][:2])
                raise ConfigError(
                    f"{function.__name__}() got {len(args)} arguments without a name, takes {len(places)}; write "
                    f"{others}"
                )
            return function(*args, **given)

        return cast(F, call)

    return wrap


def _meant(name: str, names: list[str], tables: Mapping[str, Any]) -> str:
    fields = {table: list(config.model_fields) for table, config in tables.items()}
    if place := place_of(name, fields):
        return f"write {place}={{{name!r}: ...}}"
    match = nearest(name, names)
    return f"did you mean {match!r}?" if match else f"it takes {', '.join(names)}"
