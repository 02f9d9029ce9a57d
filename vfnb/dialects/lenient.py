"""JSON with lone surrogates, as programs in JavaScript send when they cut an emoji, and with big integers.

msgspec refuses them; the standard library reads and writes them. It is tried only when msgspec fails.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec

__all__ = ["dumps", "loads", "mended"]

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def loads(raw: msgspec.Raw | bytes) -> Any:
    """A JSON value.

    Raises:
        ValueError: if it is not JSON.
    """
    try:
        return _decode(raw)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    except ValueError as error:
        try:
            return json.loads(bytes(raw), parse_constant=_refuse)
        except (ValueError, RecursionError):
            raise error from None


def dumps(value: Any) -> bytes:
    """JSON of a value."""
    try:
        return _encode(value)
    except (UnicodeEncodeError, OverflowError):
        return json.dumps(value, separators=(",", ":")).encode()


def mended(text: str) -> str:
    """Text with surrogate pairs joined that were split over two fragments."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    return text
