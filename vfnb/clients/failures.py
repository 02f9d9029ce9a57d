"""An upstream's refusal or accident as the error that says what it means."""

from __future__ import annotations

import email.utils
import time
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from vfnb.clients.address import struck
from vfnb.clients.wire import Garbled
from vfnb.clients.wires import BadUrl, NoConnection
from vfnb.dialects import Dialect
from vfnb.errors import (
    ContextLengthError,
    ModelError,
    UpstreamConnection,
    UpstreamCut,
    UpstreamMalformed,
    UpstreamRateLimited,
    UpstreamRejected,
    UpstreamServerError,
    UpstreamTimeout,
)

__all__ = ["from_exception", "from_status", "retry_after"]

_MAX_BODY = 65536


def from_status(
    status: int,
    body: bytes,
    headers: Mapping[str, str],
    dialect: Dialect[Any, Any],
    url: str,
    secrets: Iterable[str] = (),
) -> ModelError:
    """The error of a reply that is not a success. Secrets are struck out of what is kept."""
    body = body[:_MAX_BODY]
    for secret in secrets:
        body = body.replace(secret.encode(), b"***")
    text, code = _words(body)
    text = struck(text, secrets)  # JSON may have escaped them
    where = f"{url} answered {status}: {text}"
    if dialect.recognise_overflow(status, body):
        return ContextLengthError(text, status=status, body=body)
    wait = retry_after(headers)
    if (status == 429 and code != "insufficient_quota") or (status == 503 and wait is not None):
        return UpstreamRateLimited(where, status=status, body=body, retry_after=wait)
    if status in (408, 504):
        return UpstreamTimeout(where, status=status, body=body)
    if status >= 500:
        return UpstreamServerError(where, status=status, body=body)
    return UpstreamRejected(where, status=status, body=body)


def from_exception(error: BaseException, url: str, *, started: bool) -> ModelError:
    """The error of a transport that failed, before or after the first byte of the answer."""
    if isinstance(error, TimeoutError):
        what = "stopped sending" if started else "did not answer in time"
        return UpstreamTimeout(f"{url} {what} ({_reason(error)})")
    if started:
        return UpstreamCut(f"{url} broke off its answer: {_reason(error)}")
    if isinstance(error, BadUrl):
        return UpstreamConnection(f"{url} is not a URL; check base_url")
    if isinstance(error, NoConnection):
        return UpstreamConnection(
            f"no connection to {url}: {_reason(error)}. Is the server running, and is base_url right?"
        )
    if isinstance(error, Garbled):
        return UpstreamMalformed(f"{url} does not speak HTTP: {_reason(error)}")
    return UpstreamConnection(f"the connection to {url} broke before an answer came: {_reason(error)}")


def _reason(error: BaseException) -> str:
    return str(error) or type(error).__name__


def _words(body: bytes) -> tuple[str, str | None]:
    """What the body says, and its error code."""
    try:
        data = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        data = None
    if isinstance(data, dict):
        error = data.get("error", data)
        if isinstance(error, dict):
            text = error.get("message") or error.get("detail") or data.get("message") or data.get("detail")
            code = error.get("code") or error.get("type")
            return str(text or error)[:2000], code if isinstance(code, str) else None
        return str(error)[:2000], None
    text = body.decode("utf-8", "replace").strip()
    return (text[:500] if text else "an empty body"), None


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds to wait, from `retry-after-ms` or `Retry-After` (seconds or an HTTP date)."""
    exact, plain = headers.get("retry-after-ms"), headers.get("retry-after")
    try:
        if exact is not None:
            return max(0.0, float(exact) / 1000)
        if plain is not None:
            return max(0.0, float(plain))
    except ValueError:
        pass
    if plain is None:
        return None
    try:
        return max(0.0, email.utils.parsedate_to_datetime(plain).timestamp() - time.time())
    except ValueError:
        return None
