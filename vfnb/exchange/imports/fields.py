"""Values of foreign JSON, with the path of the one that is not what it should be."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, TypeVar

from pydantic import ValidationError

from vfnb.exchange.imports.report import Fault
from vfnb.types import Message, message_adapter

__all__ = ["UNREADABLE", "BadField", "fault", "get", "message", "need", "numbers", "seconds"]

T = TypeVar("T")

_NAMES = {
    str: "a string",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    dict: "an object",
    list: "a list",
}


class BadField(Exception):
    """A field that is missing or wrong; `args` are its path and what is wrong with it."""


UNREADABLE = (BadField, ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""What reading a record of any content may raise."""


def fault(file: str, error: Exception, line: int | None = None, fix: str = "") -> Fault:
    """The report of one of `UNREADABLE`."""
    if isinstance(error, BadField):
        return Fault(file, error.args[1], line, error.args[0], fix)
    return Fault(
        file, f"is not of the form that it should have ({type(error).__name__}: {error})", line, fix=fix
    )


def need(record: dict[str, Any], key: str, kind: type[T], path: str = "") -> T:
    """A field that must be there.

    Raises:
        BadField: it is missing, null or of another kind.
    """
    if record.get(key) is None:
        raise BadField(_join(path, key), f"is missing, expected {_NAMES[kind]}")
    return _checked(record[key], kind, _join(path, key))


def get(record: dict[str, Any], key: str, kind: type[T], default: T, path: str = "") -> T:
    """A field that may be missing or null.

    Raises:
        BadField: it is of another kind.
    """
    value = record.get(key)
    return default if value is None else _checked(value, kind, _join(path, key))


def _checked(value: Any, kind: type[T], path: str) -> T:
    fits = isinstance(value, kind) and not (kind in (int, float) and isinstance(value, bool))
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)  # type: ignore[return-value]
    if not fits:
        raise BadField(path, f"is {_name(value)}, expected {_NAMES[kind]}")
    return value  # type: ignore[no-any-return]


def _name(value: Any) -> str:
    return "null" if value is None else _NAMES.get(type(value), f"a {type(value).__name__}")


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def numbers(record: dict[str, Any], key: str, dtype: str, path: str) -> Any:
    """A list of numbers as an array of `dtype` (numpy's name), empty if missing.

    Raises:
        BadField: an entry is not one of that kind, or does not fit.
    """
    import numpy as np

    values = get(record, key, list, [], path)
    try:
        found = np.array(values)
    except ValueError:
        found = np.array(values, object)
    wanted = {"i": "iu", "b": "b", "f": "fiu"}[np.dtype(dtype).kind]
    if len(values) and (found.ndim != 1 or found.dtype.kind not in wanted):
        place = next((at for at, one in enumerate(values) if not _number(one, dtype)), 0)
        raise BadField(f"{_join(path, key)}[{place}]", f"is {values[place]!r:.40}, expected {dtype}")
    cast = found.astype(dtype)
    if np.dtype(dtype).kind == "i" and not np.array_equal(cast, found):
        raise BadField(_join(path, key), f"has numbers that are no {dtype}")
    return cast


def _number(value: Any, dtype: str) -> bool:
    if dtype == "bool":
        return isinstance(value, bool)
    kinds = (int,) if dtype.startswith("int") else (int, float)
    return isinstance(value, kinds) and not isinstance(value, bool)


def message(value: Any, path: str) -> Message:
    """A message in our own form.

    Raises:
        BadField: it is none.
    """
    try:
        return message_adapter.validate_python(value)
    except ValidationError as error:
        first = error.errors()[0]
        inside = ".".join(str(part) for part in first["loc"] if part not in ("system", "user", "assistant"))
        raise BadField(_join(path, inside) if inside else path, first["msg"]) from error


LATEST = 1e11
"""Unix seconds, in the year 5138."""


def _moment(value: float, path: str) -> float:
    if not -LATEST < value < LATEST:  # NaN is not, either
        raise BadField(path, f"is {value}, which is no time in Unix seconds")
    return value


def seconds(value: Any, path: str) -> float:
    """An ISO 8601 time, or a number of seconds, as Unix seconds; 0.0 if missing.

    Raises:
        BadField: it is no time.
    """
    if value is None:
        return 0.0
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _moment(float(value), path)
    try:
        found = datetime.fromisoformat(value)
    except (TypeError, ValueError):
        raise BadField(path, f"is {value!r:.40}, expected an ISO 8601 time") from None
    return _moment((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp(), path)
