"""Reader of Anthropic Messages streams."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from vfnb.dialects import messages_decode
from vfnb.dialects.lenient import loads, mended
from vfnb.dialects.pieces import Piece
from vfnb.dialects.reader import StreamReader
from vfnb.types import Response, ToolCall

__all__ = ["MessagesReader"]


class _Delta(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """A piece of a block that is one string."""

    type: str
    text: str | None = None
    thinking: str | None = None
    partial_json: str | None = None
    signature: str | None = None


class _Event(msgspec.Struct, gc=False):
    """The usual event: one piece of one block."""

    type: str
    index: int | None = None
    delta: _Delta | None = None


_MISSES = 16  # a stream of other events is not tried further
_event = msgspec.json.Decoder(_Event).decode
_events = msgspec.json.Decoder(list[_Event]).decode


class _Growing:
    """A block and the pieces of its texts."""

    __slots__ = ("block", "pieces")

    def __init__(self, block: dict[str, Any]) -> None:
        self.block = block
        self.pieces: dict[str, list[str]] = {}

    def add(self, key: str, text: str) -> None:
        if key in self.pieces:
            self.pieces[key].append(text)
        else:
            self.pieces[key] = [text]

    def whole(self) -> tuple[dict[str, Any], str]:
        """The block so far, and the text of its input."""
        block = dict(self.block)
        found = {key: mended("".join(pieces)) for key, pieces in self.pieces.items()}
        text = found.pop("partial_json", "")
        for key, value in found.items():
            first = block.get(key)
            block[key] = first + value if isinstance(first, str) else value
        if text and block.get("type") != "tool_use":  # opaque blocks keep the value
            try:
                block["input"] = loads(text.encode("utf-8", "surrogatepass"))
            except ValueError:
                block["input"] = text
        return block, text


class MessagesReader(StreamReader):
    """Reads `message_start` ... `message_stop`. A stream without the last is cut.

    Everything from the `message_delta` with the stop reason on is held back, as it says that the answer is whole.
    """

    urgent = (b'"message_stop"', b'"error"', re.compile(rb'"stop_reason"\s*:\s*[^n\s]'))

    def __init__(self) -> None:
        super().__init__()
        self._message: dict[str, Any] | None = None
        self._blocks: dict[int, _Growing] = {}
        self._usage: dict[str, Any] = {}
        self._end: dict[str, Any] = {}
        self._misses = 0
        self._calls: dict[int, int] = {}
        """For pieces: which tool call a block is."""

    def take(self, data: bytes) -> bool:
        self.catch_up()
        if self._misses < _MISSES:
            try:
                if self._take_piece(_event(data)):
                    return False
            except ValueError:
                self._misses += 1
        return self._take_any(data)

    def take_all(self, found: list[bytes]) -> bool:
        if self._misses >= _MISSES:
            return super().take_all(found)
        events = self.together(_events, found)
        if events is None:
            return False
        for event, data in zip(events, found, strict=True):
            if not self._take_piece(event):
                self._take_any(data)
        return True

    def _take_any(self, data: bytes) -> bool:
        try:
            event = loads(data)
        except ValueError:
            return False
        if not isinstance(event, dict):
            return False
        kind = event.get("type")
        if kind == "error" or (kind is None and event.get("error")):
            error = event.get("error")
            self.error = error if isinstance(error, dict) else {"message": str(error)}
            return True
        if kind == "message_stop":
            self.complete = self.error is None
            return True
        if kind == "message_start":
            message = event.get("message")
            self._message = message if isinstance(message, dict) else {}
            self._count(self._message.get("usage"))
        elif kind == "message_delta":
            return self._stop(event)
        else:
            self._grow(kind, event)
        return False

    def _take_piece(self, event: _Event) -> bool:
        """Take an event that is one piece of one string, which most are; False if it is something else."""
        index, delta = event.index, event.delta
        if event.type != "content_block_delta" or index is None or delta is None:
            return False
        block = self._block(index)
        if delta.text is not None:
            block.add("text", delta.text)
            self._tell(index, "text", delta.text)
        if delta.partial_json is not None:
            block.add("partial_json", delta.partial_json)
            self._tell(index, "partial_json", delta.partial_json)
        if delta.thinking is not None:
            block.add("thinking", delta.thinking)
            self._tell(index, "thinking", delta.thinking)
        if delta.signature is not None:
            block.add("signature", delta.signature)
        self._misses = 0
        return True

    def _tell(self, index: int, key: str, text: str) -> None:
        if self.pieces is None or not text:
            return
        if key == "text":
            self.pieces.append(Piece("text", text))
        elif key == "thinking":
            self.pieces.append(Piece("reasoning", text))
        elif key == "partial_json" and index in self._calls:
            self.pieces.append(Piece("arguments", text, self._calls[index]))

    def _start(self, index: int, block: dict[str, Any]) -> None:
        """The pieces of a block's start."""
        assert self.pieces is not None
        if block.get("type") == "tool_use":
            number = self._calls[index] = len(self._calls)
            call = ToolCall(id=str(block.get("id") or ""), name=str(block.get("name") or ""))
            self.pieces.append(Piece("call", number=number, call=call))
        elif block.get("type") == "text" and isinstance(block.get("text"), str) and block["text"]:
            self.pieces.append(Piece("text", block["text"]))

    def _block(self, index: int) -> _Growing:
        block = self._blocks.get(index)
        if block is None:
            block = self._blocks[index] = _Growing({})
        return block

    def _grow(self, kind: Any, event: dict[str, Any]) -> None:
        """The start of a block, or a piece of an uncommon one."""
        index = event.get("index")
        if not isinstance(index, int):
            return
        if kind == "content_block_start" and isinstance(event.get("content_block"), dict):
            self._blocks[index] = _Growing(event["content_block"])
            if self.pieces is not None:
                self._start(index, event["content_block"])
        elif kind == "content_block_delta" and isinstance(event.get("delta"), dict):
            self._piece(index, event["delta"])

    def _piece(self, index: int, delta: dict[str, Any]) -> None:
        block = self._block(index)
        for key, value in delta.items():
            if key == "type":
                continue
            if key == "citation":
                block.block = {**block.block, "citations": [*(block.block.get("citations") or []), value]}
            elif isinstance(value, str):
                block.add(key, value)
                self._tell(index, key, value)
            elif value is not None:
                block.block = {**block.block, key: value}

    def _stop(self, event: dict[str, Any]) -> bool:
        self._count(event.get("usage"))
        delta = event.get("delta")
        if isinstance(delta, dict):
            self._end |= delta
        return self._end.get("stop_reason") is not None

    def _count(self, usage: Any) -> None:
        """The counts are those so far; the last ones count, and null is none."""
        if isinstance(usage, dict):
            self._usage |= {key: value for key, value in usage.items() if value is not None}

    def response(self) -> Response:
        self.catch_up()
        if self._message is None and not self._blocks:
            raise ValueError(
                "the stream has no readable event with an answer" if self.started else "the stream is empty"
            )
        wholes = [block.whole() for _, block in sorted(self._blocks.items())]
        body = {
            "id": (self._message or {}).get("id"),
            "model": (self._message or {}).get("model"),
            "content": [_typed(block) for block, _ in wholes],
            "stop_reason": self._end.get("stop_reason"),
            "stop_sequence": self._end.get("stop_sequence"),
            "usage": self._usage or None,
        }
        return messages_decode.response(body, [text for _, text in wholes])


def _typed(block: dict[str, Any]) -> dict[str, Any]:
    """A block whose start did not come is what its pieces say."""
    if "type" in block:
        return block
    return {**block, "type": "thinking" if "thinking" in block else "text", "text": block.get("text", "")}
