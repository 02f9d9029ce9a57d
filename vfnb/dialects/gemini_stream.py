"""Gemini streams, read and written: each event is a reply with the parts that are new."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from vfnb.dialects import gemini_decode, gemini_encode
from vfnb.dialects.gemini_decode import get
from vfnb.dialects.lenient import loads
from vfnb.dialects.pieces import LiveWriter, Piece
from vfnb.dialects.reader import StreamReader
from vfnb.types import AssistantMessage, Response

__all__ = ["GeminiReader", "GeminiWriter", "joined"]


class GeminiReader(StreamReader):
    """Reads `GenerateContentResponse` events. The one with a `finishReason` ends the answer."""

    def __init__(self) -> None:
        super().__init__()
        self._chunks: list[dict[str, Any]] = []
        self._calls = 0

    def take(self, data: bytes) -> bool:
        try:
            chunk = loads(data)
        except ValueError:
            return False
        if not isinstance(chunk, dict):
            return False
        error = chunk.get("error")
        if error:
            self.error = error if isinstance(error, dict) else {"message": str(error)}
            return True
        self._chunks.append(chunk)
        if self.pieces is not None:
            self.pieces += self._told(chunk)
        return self._ends(chunk)

    def _told(self, chunk: dict[str, Any]) -> Iterator[Piece]:
        for part in _parts_of(chunk):
            made, text = get(part, "functionCall"), get(part, "text")
            if isinstance(made, dict):
                (message,) = gemini_decode.content({"role": "model", "parts": [part]})
                assert isinstance(message, AssistantMessage)
                call = message.tool_calls[0]
                yield Piece("call", number=self._calls, call=call.model_copy(update={"arguments": ""}))
                yield Piece("arguments", call.arguments, self._calls)
                self._calls += 1
            elif isinstance(text, str) and text:
                yield Piece("reasoning" if part.get("thought") is True else "text", text)

    def _ends(self, chunk: dict[str, Any]) -> bool:
        first = _first(chunk)
        done = get(first, "finishReason") or get(get(chunk, "promptFeedback"), "blockReason")
        self.complete = (self.complete or bool(done)) and self.error is None
        return self.complete

    def response(self) -> Response:
        if not self._chunks:
            text = "the stream has no readable event" if self.started else "the stream is empty"
            raise ValueError(text)
        return gemini_decode.response(joined(self._chunks))


def joined(chunks: list[Any]) -> dict[str, Any]:
    """The events of a stream as one reply: parts one after the other, of all else the last value."""
    whole: dict[str, Any] = {}
    candidate: dict[str, Any] = {}
    parts: list[Any] = []
    for chunk in chunks:
        if not isinstance(chunk, dict):
            continue
        whole |= chunk
        candidate |= _first(chunk)
        parts += _parts_of(chunk)
    if candidate:
        whole["candidates"] = [candidate | {"content": {"role": "model", "parts": parts}}]
    return whole


def _first(chunk: dict[str, Any]) -> dict[str, Any]:
    candidates = chunk.get("candidates")
    first = candidates[0] if isinstance(candidates, list) and candidates else None
    return first if isinstance(first, dict) else {}


def _parts_of(chunk: dict[str, Any]) -> list[Any]:
    """The parts that an event adds."""
    said = get(_first(chunk).get("content"), "parts")
    return said if isinstance(said, list) else []


class GeminiWriter(LiveWriter):
    """Writes events piece by piece; a call goes out whole, when the answer is."""

    def __init__(self, model: str, identity: str) -> None:
        super().__init__()
        self._model = model
        self._identity = identity

    def open(self) -> bytes:
        return b""

    def piece(self, piece: Piece) -> bytes:
        if piece.kind in ("call", "arguments"):
            return b""
        part: dict[str, Any] = {"text": piece.text}
        return self._event([part | {"thought": True} if piece.kind == "reasoning" else part], None)

    def finish(self, response: Response) -> bytes:
        made = [part for part in gemini_encode.said(response.message) if "functionCall" in part]
        return self._event(made, response)

    def _event(self, parts: list[dict[str, Any]], response: Response | None) -> bytes:
        shown = response or Response(message=AssistantMessage(), id=self._identity)
        return gemini_encode.event(gemini_encode.reply(shown, self._model, parts, last=response is not None))
