"""Where an upstream is and with which credentials: URLs, keys by variable name, headers."""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from urllib.parse import parse_qsl, quote, quote_plus, urlsplit, urlunsplit

from vfnb.errors import ConfigError

__all__ = [
    "endpoint_url",
    "is_loopback",
    "public_headers",
    "public_url",
    "read_key",
    "resolve_headers",
    "secrets_of",
    "struck",
]

_VERSION = re.compile(r"/v\d+[a-z0-9]*$")
_SECRET_NAME = re.compile(r"auth|key|token|secret|cookie|password|credential", re.IGNORECASE)
_SHORTEST = 6  # characters of a secret that is looked for: a shorter one would strike out words
_SECRET_VALUE = re.compile(r"^(bearer |basic |sk-)|^[A-Za-z0-9_\-+/=.]{32,}$", re.IGNORECASE)


@lru_cache(256)
def endpoint_url(base_url: str, path: str) -> str:
    """The URL of a route such as `/v1/chat/completions`, whether or not `base_url` ends in a version."""
    parts = urlsplit(base_url)
    base = parts.path.rstrip("/")
    versioned = _VERSION.search(base) is not None
    if versioned or "/openai/deployments/" in base:
        path = re.sub(r"^/v\d+[a-z0-9]*(?=/)", "", path)
    path, _, query = path.partition("?")
    query = "&".join(filter(None, (query, parts.query)))
    return urlunsplit((parts.scheme, parts.netloc, base + path, query, ""))


@lru_cache(64)
def is_loopback(base_url: str) -> bool:
    """Whether the URL is on this machine."""
    host = urlsplit(base_url).hostname or ""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@lru_cache(256)
def public_url(base_url: str | None) -> str | None:
    """The URL without user, password and query."""
    if base_url is None:
        return None
    parts = urlsplit(base_url)
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, host, parts.path.rstrip("/"), "", ""))


def read_key(variable: str | None, base_url: str) -> str | None:
    """The key, read now; None if none is needed.

    Raises:
        ConfigError: if the variable is not set and the server is not on this machine.
    """
    if variable is None:
        return None
    key = os.environ.get(variable, "").strip()  # a file's last newline is no part of it
    if key:
        return key
    if is_loopback(base_url):
        return None
    raise ConfigError(
        f"the environment variable {variable} is not set, and {public_url(base_url)} needs a key: set it, "
        "name another variable with api_key_var=, or pass api_key_var=None for a server without keys"
    )


def resolve_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Headers to send; a value `env:NAME` is read from the environment now.

    Raises:
        ConfigError: if the variable is not set.
    """
    found = {}
    for name, value in headers.items():
        if value.startswith("env:"):
            variable = value[4:]
            if variable not in os.environ:
                raise ConfigError(
                    f"headers[{name!r}] needs the environment variable {variable}; it is not set"
                )
            value = os.environ[variable]
        found[name] = value
    return found


def public_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Headers without literal secrets; `env:` names are not secret."""
    return {
        name: value
        if value.startswith("env:") or not (_SECRET_NAME.search(name) or _SECRET_VALUE.search(value))
        else "***"
        for name, value in headers.items()
    }


def secrets_of(base_url: str, key: str | None, headers: Mapping[str, str]) -> tuple[str, ...]:
    """What no message may repeat, as sent and as a URL quotes it: the key, header values, parts of the URL."""
    parts = urlsplit(base_url)
    found = [key, parts.password, *headers.values(), *(value for _, value in parse_qsl(parts.query))]
    plain = {value for value in found if value and len(value) >= _SHORTEST}
    quoted = {form(value) for value in plain for form in (quote, quote_plus, _quote_all)}
    return tuple(sorted(plain | quoted, key=len, reverse=True))


def _quote_all(value: str) -> str:
    return quote(value, safe="")


def struck(text: str, secrets: Iterable[str]) -> str:
    """A text of a server with each secret as `***`: some servers repeat what they were sent."""
    for secret in secrets:
        text = text.replace(secret, "***")
    return text
