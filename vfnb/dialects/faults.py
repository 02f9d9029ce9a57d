"""Errors on the wire: the one that refuses a request, error bodies, and the phrases of a full context."""

from __future__ import annotations

import re

from vfnb.dialects.lenient import dumps
from vfnb.errors import HarnessError

__all__ = ["RequestError", "json_error", "looks_like_overflow"]


class RequestError(HarnessError):
    """The program's request cannot be served as it is; the program gets `status` and the text.

    Attributes:
        status: HTTP status of the refusal.
        kind: error type of the body, None for the status's own.
        code: error code of the body.
    """

    def __init__(
        self, message: str, *, status: int = 400, kind: str | None = None, code: str | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind
        self.code = code


_KINDS = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
}


def json_error(
    status: int, message: str, kind: str | None = None, code: str | None = None, param: str | None = None
) -> bytes:
    """`{"error": {message, type, param, code}}`, the form of OpenAI-compatible servers."""
    kind = kind or _KINDS.get(status, "api_error")
    error = {"message": message, "type": kind, "param": param, "code": code}
    return dumps({"error": error})


_OVERFLOW = re.compile(
    rb"context_length_exceeded|maximum context length|prompt is too long|max_model_len"
    rb"|prompt length \(?\d+\)? exceeds|exceeds? the (?:model'?s )?(?:maximum )?context"
    rb"|exceeds the available context size|exceed_context_size|exceeds? the context window|input is too long",
    re.IGNORECASE,
)


def looks_like_overflow(status: int, body: bytes) -> bool:
    """Whether a 400 or 413 speaks of a full context, in the words of the known servers."""
    return status in (400, 413, 422) and _OVERFLOW.search(body[:65536]) is not None
