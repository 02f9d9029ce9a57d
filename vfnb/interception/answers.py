"""What a program is told when its call does not get an answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vfnb.dialects.faults import RequestError
from vfnb.errors import (
    ContextLengthError,
    ModelError,
    UpstreamConnection,
    UpstreamRateLimited,
    UpstreamRejected,
    UpstreamServerError,
    UpstreamStalled,
    UpstreamTimeout,
)
from vfnb.interception.exchange import Whole

if TYPE_CHECKING:
    from vfnb.dialects import Dialect

__all__ = ["JSON", "failure", "stopped", "stream_failure"]

JSON = {"Content-Type": "application/json"}


def stopped(dialect: Dialect[Any, Any], reason: str) -> Whole:
    """The reply that makes clients of this dialect give up at once."""
    return Whole(dialect.stop_status, JSON, dialect.stop_body(reason))


def failure(dialect: Dialect[Any, Any], error: BaseException) -> Whole:
    """The reply to a call that failed: what the upstream said if it said something, else our own words.

    Failures that could pass get a status that clients retry; all others one that they do not.
    """
    if isinstance(error, ContextLengthError):
        status, body = dialect.overflow_error(str(error))
        return Whole(status, JSON, body)
    if isinstance(error, UpstreamRateLimited):
        headers = JSON if error.retry_after is None else {**JSON, "Retry-After": f"{error.retry_after:g}"}
        return Whole(429, headers, _body(dialect, 429, error))
    if isinstance(error, RequestError):
        body = dialect.error_body(error.status, str(error), error.kind, error.code)
        return Whole(error.status, JSON, body)
    if isinstance(error, ModelError):
        status = _status(error)
        return Whole(status, JSON, _body(dialect, status, error))
    text = f"{type(error).__name__}: {error}"
    body = dialect.error_body(dialect.stop_status, text, dialect.stop_kind, dialect.stop_code)
    return Whole(dialect.stop_status, JSON, body)


def stream_failure(dialect: Dialect[Any, Any], error: BaseException) -> bytes:
    """The same as the last event of a stream whose status 200 is out."""
    if isinstance(error, ContextLengthError):
        return dialect.stream_error(400, str(error), "invalid_request_error", "context_length_exceeded")
    if isinstance(error, ModelError):
        return dialect.stream_error(_status(error), str(error))
    if isinstance(error, RequestError):
        return dialect.stream_error(error.status, str(error), error.kind, error.code)
    text = f"{type(error).__name__}: {error}"
    return dialect.stream_error(dialect.stop_status, text, dialect.stop_kind, dialect.stop_code)


def _status(error: ModelError) -> int:
    said = error.status or 0
    if isinstance(error, UpstreamRejected | UpstreamServerError) and said >= 300:
        return said
    if isinstance(error, UpstreamRateLimited):
        return 429
    if isinstance(error, UpstreamTimeout | UpstreamStalled):
        return 504
    if isinstance(error, UpstreamConnection):
        return 502
    return 502 if error.retryable else 400


def _body(dialect: Dialect[Any, Any], status: int, error: ModelError) -> bytes:
    """The upstream's own body if it is JSON, so that the program sees its provider's words."""
    return error.body if error.body[:1] == b"{" else dialect.error_body(status, str(error))
