"""Any Python value as one that JSON and UTF-8 can hold: what hooks leave behind must not cost the rollout."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import BaseModel
from pydantic_core import to_jsonable_python

__all__ = ["decode_json", "encodable", "encode_json", "plain"]

_DEEPEST = 100
_REPR = 2000  # characters


def encode_json(value: Any) -> bytes:
    """Exact JSON, with lone surrogates as escapes and integers of any size; what is no JSON value as its `str`."""
    import msgspec

    try:
        return msgspec.json.encode(value)
    except (UnicodeEncodeError, OverflowError, TypeError):
        return json.dumps(value, separators=(",", ":"), default=str).encode()


def decode_json(raw: bytes) -> Any:
    """The value that `encode_json` wrote.

    Raises:
        ValueError: it is no JSON, or nested too deeply to be read.
    """
    import msgspec

    try:
        try:
            return msgspec.json.decode(raw)
        except msgspec.DecodeError:
            return json.loads(raw)
    except RecursionError as error:
        raise ValueError("it is nested too deeply to be read") from error


def encodable(text: str) -> str:
    r"""Text that UTF-8 can hold: a lone surrogate becomes its escape, as in `\ud83d`."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def plain(value: Any) -> Any:
    """The nearest JSON value.

    Arrays become lists, models and dataclasses objects, bytes text, keys strings. What is none of these, goes
    deeper than 100 levels or contains itself becomes its repr. NaN and infinity stay.
    """
    return _plain(value, ())


def _plain(value: Any, above: tuple[int, ...]) -> Any:
    if value is None or value is True or value is False or type(value) in (int, float):
        return value
    if type(value) is str:
        return encodable(value)
    if len(above) >= _DEEPEST or id(value) in above:
        return _shown(value)
    inside = (*above, id(value))
    if isinstance(value, Mapping):
        return {_key(key): _plain(entry, inside) for key, entry in list(value.items())}
    if isinstance(value, list | tuple | set | frozenset):
        return _each(value, inside)
    if isinstance(value, bytes | bytearray):
        return value.decode("utf-8", "backslashreplace")
    if isinstance(value, BaseModel):
        return _plain(_fields(value), inside)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = dataclasses.fields(value)
        return {field.name: _plain(getattr(value, field.name, None), inside) for field in fields}
    return _other(value, inside)


def _fields(model: BaseModel) -> dict[str, Any]:
    try:
        return model.model_dump(mode="json")
    except Exception:  # a field has no JSON form
        return dict(model)


def _each(values: Iterable[Any], above: tuple[int, ...]) -> list[Any]:
    return [_plain(value, above) for value in list(values)]


def _key(key: Any) -> str:
    return encodable(key if isinstance(key, str) else str(key))


def _other(value: Any, above: tuple[int, ...]) -> Any:
    """Dates, paths, enums and what else pydantic knows; numpy, torch and pandas by their `tolist`."""
    tolist = getattr(value, "tolist", None)
    try:
        if callable(tolist) and not isinstance(value, type):
            return _plain(tolist(), above)
        return _plain(to_jsonable_python(value), above)
    except Exception:
        return _shown(value)


def _shown(value: Any) -> str:
    try:
        text = repr(value)
    except Exception:
        text = f"<{type(value).__name__}>"
    return encodable(text if len(text) <= _REPR else f"{text[:_REPR]}…")
