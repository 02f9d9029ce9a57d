"""Errors of Anthropic Messages: bodies, types by status, and the words for a full context."""

from __future__ import annotations

import re

from vfnb.dialects.lenient import dumps
from vfnb.dialects.messages_frame import event

__all__ = ["body", "full", "stream"]

_KINDS = {
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    408: "timeout_error",
    409: "conflict_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}
_OURS = "prompt is too long"
_NEEDED = re.compile(
    r"(?:requested(?: about)?|resulted in|prompt length \(?|prompt contains(?: at least)?|input length \(?|has)\s*"
    r"\(?(\d+)",
    re.IGNORECASE,
)
_ROOM = re.compile(
    r"(?:maximum context length (?:is|of)|max_model_len\D{0,10}|context (?:size|window|length) \(?(?:is|of)?)\s*"
    r"\(?(\d+)",
    re.IGNORECASE,
)


def _error(status: int, message: str, kind: str | None) -> dict[str, str]:
    usual = "api_error" if status >= 500 else "invalid_request_error"
    return {"type": kind or _KINDS.get(status, usual), "message": message}


def body(status: int, message: str, kind: str | None) -> bytes:
    """`{"type": "error", "error": {type, message}}`."""
    return dumps({"type": "error", "error": _error(status, message, kind)})


def stream(status: int, message: str, kind: str | None) -> bytes:
    """The same as an event."""
    return event("error", error=_error(status, message, kind))


def full(message: str) -> str:
    """What the API says of a prompt that is too long, with the numbers of another server's message."""
    if message.startswith(_OURS):
        return message
    room, needed = _ROOM.search(message), _NEEDED.search(message)
    if room is not None and needed is not None and int(needed[1]) > int(room[1]):
        return f"{_OURS}: {needed[1]} tokens > {room[1]} maximum"
    return f"{_OURS}: {message}" if message else f"{_OURS} for this model's context window"
