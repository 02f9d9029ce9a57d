"""Reader of Gemini streams: each event is a reply with the parts that are new."""

from __future__ import annotations

from typing import Any

from vfnb.dialects import gemini_decode
from vfnb.dialects.gemini_decode import get
from vfnb.dialects.lenient import loads
from vfnb.dialects.reader import StreamReader
from vfnb.types import Response

__all__ = ["GeminiReader", "joined"]


class GeminiReader(StreamReader):
    """Reads `GenerateContentResponse` events. The one with a `finishReason` ends the answer."""

    def __init__(self) -> None:
        super().__init__()
        self._chunks: list[dict[str, Any]] = []

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
        return self._ends(chunk)

    def _ends(self, chunk: dict[str, Any]) -> bool:
        candidates = chunk.get("candidates")
        first = candidates[0] if isinstance(candidates, list) and candidates else None
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
        candidates = chunk.get("candidates")
        first = candidates[0] if isinstance(candidates, list) and candidates else None
        if isinstance(first, dict):
            candidate |= first
            said = get(first.get("content"), "parts")
            parts += said if isinstance(said, list) else []
    if candidate:
        whole["candidates"] = [candidate | {"content": {"role": "model", "parts": parts}}]
    return whole
