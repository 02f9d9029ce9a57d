"""From method and path to a session; the same for a socket and for the in-process transport."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from vfnb.dialects import Dialect, counter, dialects, get, match
from vfnb.interception.answers import JSON
from vfnb.interception.counting import count

if TYPE_CHECKING:
    from vfnb.interception.session import Session
    from vfnb.interception.sink import Sink

__all__ = ["BodyError", "refuse", "route"]

_MODELS = re.compile(r"(?:/v1\w*)*/models(?:/(.+?))?/?$")


class BodyError(Exception):
    """A request body that cannot be read; `status` is the HTTP status that says so."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


async def route(
    session: Session | None,
    method: str,
    path: str,
    headers: Mapping[str, str],
    read: Callable[[], bytes],
    sink: Sink,
    *,
    transport: str = "http",
) -> None:
    """Answer one request on `sink`.

    Args:
        session: the owner of the request's key; None if there is none.
        headers: found by names in lower case.
        read: gives the decompressed body; used only for a call that is accepted.
    """
    dialect = match(path)
    counts = None if dialect is not None or method != "POST" else counter(path)
    if counts is not None:
        dialect = counts
    if dialect is None:
        await _elsewhere(session, method, path, headers, sink)
    elif headers.get("upgrade", "").lower() == "websocket":
        await refuse(sink, dialect, 426, "WebSocket is not supported here; send a POST")
    elif method != "POST":
        await refuse(sink, dialect, 405, f"{method} {_bare(path)}: only POST is answered")
    elif session is None:
        await refuse(sink, dialect, 401, _UNKNOWN)
    else:
        try:
            body = dialect.receive(read(), path)
        except BodyError as error:
            await refuse(sink, dialect, error.status, str(error))
            return
        if counts is not None:
            await count(session, dialect, body, headers, sink)
        else:
            await session.handle(dialect, body, headers, sink, transport=transport)


_UNKNOWN = "unknown API key: its rollout is over, or never was"


async def _elsewhere(
    session: Session | None, method: str, path: str, headers: Mapping[str, str], sink: Sink
) -> None:
    path = _bare(path)
    dialect = _speaker(path, headers)
    models = _MODELS.match(path) if method == "GET" else None
    if models is None:
        why = next((f": {text}" for known in dialects() if (text := known.missing(path))), "")
        await refuse(sink, dialect, 404, f"unknown route: {method} {path}{why}")
    elif session is None:
        await refuse(sink, dialect, 401, _UNKNOWN)
    else:
        await sink.reply(200, JSON, dialect.models_body([models[1] or session.model], one=bool(models[1])))


def _bare(path: str) -> str:
    """A path without its query, which may have a key in it."""
    return path.partition("?")[0]


def _speaker(path: str, headers: Mapping[str, str]) -> Dialect[Any, Any]:
    """The dialect of somebody who asks for something else than an answer of the model."""
    for dialect in dialects():
        if dialect.client_header in headers:
            return dialect
    for dialect in dialects():
        if dialect.models_path != Dialect.models_path and path.startswith(dialect.models_path):
            return dialect
    return get("chat")


async def refuse(sink: Sink, dialect: Dialect[Any, Any], status: int, message: str) -> None:
    """A deterministic refusal in the dialect's error form."""
    await sink.reply(status, JSON, dialect.error_body(status, message))
