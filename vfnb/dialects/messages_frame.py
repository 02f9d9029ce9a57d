"""Canonical answers as Anthropic Messages replies, whole or as an event sequence."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import msgspec

from vfnb.dialects import messages_encode
from vfnb.dialects.lenient import dumps
from vfnb.dialects.messages_usage import stop_reason, wire_usage
from vfnb.dialects.pieces import LiveWriter, Piece
from vfnb.types import Response, ToolCall

__all__ = ["MessagesWriter", "event", "frame", "frame_stream"]


def _shell(response: Response, model: str) -> dict[str, Any]:
    return {
        "id": response.id or f"msg_{uuid4().hex[:24]}",
        "type": "message",
        "role": "assistant",
        "model": model or response.model,
    }


def event(kind: str, **keys: Any) -> bytes:
    """One event; its name stands before its data and in it."""
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), dumps({"type": kind, **keys}))


def frame(response: Response, model: str) -> bytes:
    """A `message` body. Arguments stay as they were sampled, if they are a JSON object."""
    data = _shell(response, model)
    reason, sequence = stop_reason(response)
    end = {"stop_reason": reason, "stop_sequence": sequence, "usage": wire_usage(response.usage)}
    try:
        return msgspec.json.encode(
            data | {"content": messages_encode.blocks(response.message, raw=True)} | end
        )
    except (UnicodeEncodeError, OverflowError):
        return dumps(data | {"content": messages_encode.blocks(response.message)} | end)


def frame_stream(response: Response, model: str, *, size: int) -> list[bytes]:
    """The events of a streamed reply; the last is `message_stop`."""
    counts = wire_usage(response.usage)
    start = _shell(response, model) | {"content": [], "stop_reason": None, "stop_sequence": None}
    events = [event("message_start", message=start | {"usage": counts | {"output_tokens": 1}})]
    for index, block in enumerate(messages_encode.said(response.message)):
        opening, deltas = _opened(block, size)
        events.append(event("content_block_start", index=index, content_block=opening))
        events += [event("content_block_delta", index=index, delta=delta) for delta in deltas]
        events.append(event("content_block_stop", index=index))
    reason, sequence = stop_reason(response)
    delta = {"stop_reason": reason, "stop_sequence": sequence}
    events.append(event("message_delta", delta=delta, usage=counts))
    events.append(event("message_stop"))
    return events


def _opened(block: Any, size: int) -> tuple[Any, list[dict[str, Any]]]:
    """A block as it starts, and the deltas that fill it."""
    if isinstance(block, ToolCall):
        text = messages_encode.arguments(block)
        return messages_encode.tool_use(block) | {"input": {}}, _json(text, size)
    kind = block.get("type") if isinstance(block, dict) else None
    if kind == "text" and isinstance(block.get("text"), str):
        citations = block.get("citations")
        cited = citations if isinstance(citations, list) else []
        deltas = [{"type": "citations_delta", "citation": one} for one in cited]
        opening = block | {"text": ""} | ({"citations": []} if cited else {})
        return opening, deltas + _pieces("text", block["text"], size)
    if kind == "thinking" and isinstance(block.get("thinking"), str):
        deltas = _pieces("thinking", block["thinking"], size)
        deltas.append({"type": "signature_delta", "signature": block.get("signature") or ""})
        return block | {"thinking": "", "signature": ""}, deltas
    if kind == "server_tool_use" and isinstance(block.get("input"), dict):
        return block | {"input": {}}, _json(dumps(block["input"]).decode(), size)
    return block, []


def _pieces(kind: str, text: str, size: int) -> list[dict[str, Any]]:
    return [{"type": f"{kind}_delta", kind: piece} for piece in _cut(text, size)]


def _json(text: str, size: int) -> list[dict[str, Any]]:
    return [{"type": "input_json_delta", "partial_json": piece} for piece in ["", *_cut(text, size)]]


def _cut(text: str, size: int) -> Iterator[str]:
    for start in range(0, len(text), size):
        yield text[start : start + size]


class MessagesWriter(LiveWriter):
    """Writes events piece by piece; blocks follow one another as the kinds of pieces change."""

    def __init__(self, model: str, identity: str) -> None:
        super().__init__()
        self._model = model
        self._identity = identity
        self._blocks = 0
        self._kind = ""
        self._calls: dict[int, int] = {}

    def open(self) -> bytes:
        message: dict[str, Any] = {
            "id": self._identity,
            "type": "message",
            "role": "assistant",
            "model": self._model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": wire_usage(None),
        }
        return event("message_start", message=message)

    def piece(self, piece: Piece) -> bytes:
        if piece.call is not None:
            closed = self._close()
            self._calls[piece.number] = self._blocks
            return closed + self._start("tool_use", messages_encode.tool_use(piece.call) | {"input": {}})
        if piece.kind == "arguments":
            delta = {"type": "input_json_delta", "partial_json": piece.text}
            return event("content_block_delta", index=self._calls[piece.number], delta=delta)
        kind = "thinking" if piece.kind == "reasoning" else "text"
        start = b""
        if self._kind != kind:
            empty = {"thinking": "", "signature": ""} if kind == "thinking" else {"text": ""}
            start = self._close() + self._start(kind, {"type": kind, **empty})
        delta = {"type": f"{kind}_delta", kind: piece.text}
        return start + event("content_block_delta", index=self._blocks - 1, delta=delta)

    def _start(self, kind: str, block: dict[str, Any]) -> bytes:
        self._kind = kind
        self._blocks += 1
        return event("content_block_start", index=self._blocks - 1, content_block=block)

    def _close(self) -> bytes:
        if not self._kind:
            return b""
        index, signed = self._blocks - 1, b""
        if self._kind == "thinking":
            delta = {"type": "signature_delta", "signature": ""}
            signed = event("content_block_delta", index=index, delta=delta)
        self._kind = ""
        return signed + event("content_block_stop", index=index)

    def finish(self, response: Response) -> bytes:
        reason, sequence = stop_reason(response)
        delta = {"stop_reason": reason, "stop_sequence": sequence}
        end = event("message_delta", delta=delta, usage=wire_usage(response.usage))
        return self._close() + end + event("message_stop")
