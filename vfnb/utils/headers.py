"""HTTP headers as parsers give them."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["named"]

_MOST = 512
_names: dict[bytes, str] = {}


def named(raw: Mapping[bytes, bytes]) -> dict[str, str]:
    """Headers by name in lower case; of a repeated one the first counts."""
    headers: dict[str, str] = {}
    for name, value in raw.items():
        known = _names.get(name)
        if known is None:
            known = name.decode("latin-1").lower()
            if len(_names) < _MOST:
                _names[name] = known
        if known not in headers:
            headers[known] = value.decode("latin-1")
    return headers
