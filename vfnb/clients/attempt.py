"""One try of one call: send, wait for the first byte, read."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple

import msgspec

from vfnb.clients import failures
from vfnb.clients.address import struck
from vfnb.clients.base import ModelRequest, Reply
from vfnb.clients.connection import Connection
from vfnb.clients.limits import Permit
from vfnb.clients.outgoing import Outgoing
from vfnb.clients.stream import UpstreamStream
from vfnb.clients.wire import Answer, Lost
from vfnb.errors import ModelError, UpstreamMalformed, UpstreamRejected

__all__ = ["Target", "attempt"]

_TOTAL = re.compile(rb'"total_tokens"\s*:\s*(\d+)')
_KEPT_HEADERS = ("content-type", "x-request-id", "openai-processing-ms")


class Target(NamedTuple):
    """Where a call goes. `shown` is the URL without secrets."""

    url: str
    shown: str
    headers: dict[str, str]
    secrets: Callable[[], tuple[str, ...]]
    """Gives what no message may repeat."""


def attempt(
    request: ModelRequest, call: Outgoing, connection: Connection, permit: Permit, target: Target
) -> Coroutine[Any, Any, Reply]:
    """Make one try. The permit is given back when the answer has been read or has failed.

    Raises (when awaited):
        ModelError: by what went wrong.
    """
    work = _attempt if request.deadline is None else _attempt_in_time
    return work(request, call, connection, permit, target)


async def _attempt_in_time(
    request: ModelRequest, call: Outgoing, connection: Connection, permit: Permit, target: Target
) -> Reply:
    try:
        async with asyncio.timeout_at(request.deadline):
            return await _attempt(request, call, connection, permit, target)
    except TimeoutError as error:
        raise failures.from_exception(error, target.shown, started=False) from error


async def _attempt(
    request: ModelRequest, call: Outgoing, connection: Connection, permit: Permit, target: Target
) -> Reply:
    answer: Answer | None = None
    reply: Reply | None = None
    try:
        answer = await connection.send("POST", target.url, target.headers, call.body)
        reply = await _read(request, call, answer, permit, target)
        return reply
    except (TimeoutError, OSError, ValueError) as error:
        raise failures.from_exception(error, target.shown, started=False) from error
    finally:
        if reply is None or reply.chunks is None:
            if answer is not None:
                answer.release()
            usage = None if reply is None or reply.response is None else reply.response.usage
            permit.release(None if usage is None else usage.total_tokens)


async def _read(
    request: ModelRequest, call: Outgoing, answer: Answer, permit: Permit, target: Target
) -> Reply:
    body = b""
    if request.stream:
        await answer.head()
        whole = answer.status != 200 or _is_json(answer)
    else:
        whole = True
    if whole:
        try:
            body = await answer.read()
        except Lost as error:
            if answer.status == 0:
                raise
            text = f"{target.shown} broke off its answer: {error}"
            raise UpstreamMalformed(text, status=answer.status) from error
    status, headers = answer.status, answer.headers
    if 300 <= status < 400:
        to = struck(headers.get("location", "nowhere"), target.secrets())
        raise UpstreamRejected(
            f"{target.shown} redirects to {to}; put that server into base_url", status=status
        )
    if status >= 300:
        raise failures.from_status(status, body, headers, request.dialect, target.shown, target.secrets())
    reply = Reply(
        status=status,
        headers={name: headers[name] for name in _KEPT_HEADERS if name in headers},
        sampling_sent=call.sampling,
    )
    if not whole:
        first = await answer.readany()
        if not first:
            raise UpstreamMalformed(f"{target.shown} answered with an empty stream", status=status)
        reply.first_byte = time.time()

        def done(last: bytes) -> None:
            found = _TOTAL.findall(last) if permit.counted else None
            permit.release(int(found[-1]) if found else None)

        reply.chunks = UpstreamStream(answer, first, done, request.deadline, target.shown)
        reply.secrets = target.secrets
        return reply
    reply.first_byte = time.time()
    try:
        reply.response = request.dialect.read_response(body)
    except ValueError as error:
        raise _unreadable(error, body, request, answer, target) from error
    reply.body = body
    reply.served_model = reply.response.model or call.model
    return reply


def _is_json(answer: Answer) -> bool:
    kind = answer.headers.get("content-type", "")
    return kind.partition(";")[0].strip().lower() == "application/json"


def _unreadable(
    error: ValueError, body: bytes, request: ModelRequest, answer: Answer, target: Target
) -> ModelError:
    """A status 200 that is no answer: an error object under it, or something broken."""
    try:
        data = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        data = None
    if isinstance(data, dict) and data.get("error"):
        inner = data["error"]
        code = inner.get("code") if isinstance(inner, dict) else None
        status = code if isinstance(code, int) and 400 <= code < 600 else 400 if _full(request, body) else 500
        return failures.from_status(
            status, body, answer.headers, request.dialect, target.shown, target.secrets()
        )
    secrets = target.secrets()
    text = f"{target.shown} sent an answer that cannot be read: {struck(str(error), secrets)}"
    kept = struck(body[:65536].decode("latin-1"), secrets).encode("latin-1")
    return UpstreamMalformed(text, status=answer.status, body=kept)


def _full(request: ModelRequest, body: bytes) -> bool:
    return request.dialect.recognise_overflow(400, body)
