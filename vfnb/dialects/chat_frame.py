"""Canonical answers as Chat Completions replies, whole or as an event sequence."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

from vfnb.dialects import chat_encode
from vfnb.dialects.lenient import dumps
from vfnb.dialects.pieces import LiveWriter, Piece
from vfnb.types import Response

__all__ = ["ChatWriter", "frame", "frame_stream"]

_REASONS = {"error": "stop"}


def _shell(response: Response, model: str, created: int, kind: str) -> dict[str, Any]:
    identity = response.id or f"chatcmpl-{uuid4().hex}"
    return {"id": identity, "object": kind, "created": created, "model": model or response.model}


def _finish(response: Response) -> str:
    legacy = any(call.type == "function_call" for call in response.message.tool_calls)
    if legacy and response.finish_reason == "tool_calls":
        return "function_call"
    return _REASONS.get(response.finish_reason, response.finish_reason)


def frame(response: Response, model: str, created: int) -> bytes:
    """A `chat.completion` body."""
    data = _shell(response, model, created, "chat.completion")
    choice = {
        "index": 0,
        "message": chat_encode.message(response.message),
        "finish_reason": _finish(response),
        "logprobs": None,
    }
    data["choices"] = [choice]
    if response.usage is not None:
        data["usage"] = chat_encode.usage(response.usage)
    return dumps(data)


def frame_stream(response: Response, model: str, created: int, *, usage: bool, size: int) -> list[bytes]:
    """The events of a streamed reply; the last is `data: [DONE]`."""
    shell = _shell(response, model, created, "chat.completion.chunk")

    def event(**keys: Any) -> bytes:
        return b"data: " + dumps(shell | keys) + b"\n\n"

    def chunk(delta: dict[str, Any], reason: str | None = None) -> bytes:
        return event(choices=[{"index": 0, "delta": delta, "finish_reason": reason}])

    events = [chunk({"role": "assistant", "content": ""})]
    events += [chunk(delta) for delta in _deltas(chat_encode.message(response.message), size)]
    events.append(chunk({}, _finish(response)))
    if usage and response.usage is not None:
        events.append(event(choices=[], usage=chat_encode.usage(response.usage)))
    events.append(b"data: [DONE]\n\n")
    return events


def _deltas(message: dict[str, Any], size: int) -> Iterator[dict[str, Any]]:
    message.pop("role")
    for key in ("reasoning_content", "content", "refusal"):
        value = message.pop(key, None)
        if isinstance(value, list):
            value = "".join(part["text"] for part in value if part.get("type") == "text")
        for piece in _pieces(value or "", size):
            yield {key: piece}
    calls = message.pop("tool_calls", [])
    legacy = message.pop("function_call", None)
    if message:
        yield message
    for index, call in enumerate(calls):
        kind = call["type"]
        body = call.get(kind)
        field = "input" if kind == "custom" else "arguments"
        if not isinstance(body, dict) or not isinstance(body.get(field), str):
            yield {"tool_calls": [{"index": index, **call}]}
            continue
        yield {"tool_calls": [{"index": index, **call, kind: {**body, field: ""}}]}
        for piece in _pieces(body[field], size):
            yield {"tool_calls": [{"index": index, kind: {field: piece}}]}
    if legacy is not None:
        yield {"function_call": {"name": legacy["name"], "arguments": ""}}
        for piece in _pieces(legacy["arguments"], size):
            yield {"function_call": {"arguments": piece}}


def _pieces(text: str, size: int) -> Iterator[str]:
    for start in range(0, len(text), size):
        yield text[start : start + size]


_KEYS = {"text": "content", "reasoning": "reasoning_content", "refusal": "refusal"}


class ChatWriter(LiveWriter):
    """Writes `chat.completion.chunk` events piece by piece."""

    def __init__(self, model: str, created: int, *, usage: bool, identity: str) -> None:
        super().__init__()
        self._usage = usage
        self._shell = {"id": identity, "object": "chat.completion.chunk", "created": created, "model": model}
        self._kinds: dict[int, str] = {}

    def _event(self, **keys: Any) -> bytes:
        return b"data: " + dumps(self._shell | keys) + b"\n\n"

    def _chunk(self, delta: dict[str, Any], reason: str | None = None) -> bytes:
        return self._event(choices=[{"index": 0, "delta": delta, "finish_reason": reason}])

    def open(self) -> bytes:
        return self._chunk({"role": "assistant", "content": ""})

    def piece(self, piece: Piece) -> bytes:
        if piece.call is not None:
            call = chat_encode.tool_call(piece.call)
            self._kinds[piece.number] = call["type"]
            return self._chunk({"tool_calls": [{"index": piece.number, **call}]})
        if piece.kind == "arguments":
            kind = self._kinds[piece.number]
            field = "input" if kind == "custom" else "arguments"
            return self._chunk({"tool_calls": [{"index": piece.number, kind: {field: piece.text}}]})
        return self._chunk({_KEYS[piece.kind]: piece.text})

    def finish(self, response: Response) -> bytes:
        events = [self._chunk({}, _finish(response))]
        if self._usage and response.usage is not None:
            events.append(self._event(choices=[], usage=chat_encode.usage(response.usage)))
        return b"".join([*events, b"data: [DONE]\n\n"])
