"""Reader of Chat Completions streams, lenient about what servers leave out or repeat."""

from __future__ import annotations

import re
from typing import Any, Literal

import msgspec

from vfnb.dialects import chat_decode
from vfnb.dialects.lenient import loads, mended
from vfnb.dialects.pieces import Piece
from vfnb.dialects.reader import StreamReader
from vfnb.types import Response, ToolCall

__all__ = ["ChatReader"]

_TEXTS: dict[str, Literal["text", "reasoning", "refusal"]] = {
    "content": "text",
    "reasoning_content": "reasoning",
    "reasoning": "reasoning",
    "refusal": "refusal",
}


class _Delta(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """A delta with nothing but text."""

    role: str | None = None
    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None


class _Choice(msgspec.Struct, gc=False):
    index: int | None = None
    delta: _Delta | None = None
    finish_reason: str | None = None


class _Chunk(msgspec.Struct, gc=False):
    """The usual event: one piece of text."""

    choices: list[_Choice]
    id: str | None = None
    model: str | None = None
    usage: None = None
    error: None = None


_MISSES = 8  # a stream of other events is not tried further
_chunk = msgspec.json.Decoder(_Chunk).decode
_chunks = msgspec.json.Decoder(list[_Chunk]).decode


class ChatReader(StreamReader):
    """Reads `chat.completion.chunk` events.

    A stream is complete with `[DONE]`, or without it if a `finish_reason` came. The last usage counts.
    Everything from the `finish_reason` on is held back, as some streams and some programs end there.

    Args:
        usage: whether the program asked for usage; if not, an event with nothing else is not passed on.
    """

    urgent = (b"[DONE]", b'"error"', re.compile(rb'"finish_reason"\s*:\s*[^n\s]'))

    def __init__(self, *, usage: bool = True) -> None:
        super().__init__()
        self._show_usage = usage
        self._id = ""
        self._model = ""
        self._texts: dict[str, list[str]] = {}
        self._calls: list[dict[str, Any]] = []
        self._by_index: dict[int, dict[str, Any]] = {}
        self._legacy: dict[str, Any] = {}
        self._extras: dict[str, Any] = {}
        self._reason: str | None = None
        self._usage: Any = None
        self._misses = 0
        self._answered = False
        """Some choice said something, if only that it ends."""

    def take(self, data: bytes) -> bool:
        self.catch_up()
        if self._misses < _MISSES:
            try:
                if self._take_text(_chunk(data)):
                    return False
            except ValueError:
                self._misses += 1
        return self._take_any(data)

    def take_all(self, found: list[bytes]) -> bool:
        if self._misses >= _MISSES:
            return super().take_all(found)
        chunks = self.together(_chunks, found)
        if chunks is None:
            return False
        for chunk, data in zip(chunks, found, strict=True):
            if not self._take_text(chunk):
                self._take_any(data)
        return True

    def _take_any(self, data: bytes) -> bool:
        if data[:1] != b"{" and data.strip() == b"[DONE]":
            self.complete = self.error is None
            return True
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
        if chunk.get("usage"):
            self._usage = chunk["usage"]
        if not self._id:
            self._id = chunk.get("id") or ""
            self._model = chunk.get("model") or ""
        last = False
        choices = chunk.get("choices")
        if isinstance(choices, list):
            for choice in choices:
                if isinstance(choice, dict) and not choice.get("index"):
                    last = self._choice(choice) or last
        return last

    def _take_text(self, chunk: _Chunk) -> bool:
        """Take an event that is nothing but one piece of text, which most are; False if it is more."""
        if len(chunk.choices) != 1:
            return False
        choice = chunk.choices[0]
        if choice.finish_reason or choice.index or choice.delta is None:
            return False
        if not self._id:
            self._id = chunk.id or ""
            self._model = chunk.model or ""
        delta = choice.delta
        self._answered = True
        if delta.content is not None:
            self._text("content", delta.content)
        if delta.reasoning_content is not None:
            self._text("reasoning_content", delta.reasoning_content)
        if delta.reasoning is not None:
            self._text("reasoning", delta.reasoning)
        return True

    def _text(self, key: str, text: str) -> None:
        if self.pieces is not None and (key != "reasoning" or "reasoning_content" not in self._texts):
            self.pieces.append(Piece(_TEXTS[key], text))
        if key in self._texts:
            self._texts[key].append(text)
        else:
            self._texts[key] = [text]

    def _choice(self, choice: dict[str, Any]) -> bool:
        delta = choice.get("delta")
        reason = choice.get("finish_reason")
        if isinstance(delta, dict):
            self._delta(delta)
        self._answered = self._answered or isinstance(delta, dict) or bool(reason)
        if reason:
            self._reason = reason
        return bool(reason)

    def _hold(self, event: bytes, data: bytes) -> None:
        if self._show_usage or b'"usage"' not in data or not _only_usage(data):
            self.held += event

    def close(self) -> None:
        super().close()
        self.catch_up()
        self.complete = self.error is None and (self.complete or self._reason is not None)

    def _delta(self, delta: dict[str, Any]) -> None:
        for key, value in delta.items():
            if value is None or key == "role":
                continue
            if key in _TEXTS and isinstance(value, str):
                self._text(key, value)
            elif key == "tool_calls" and isinstance(value, list):
                for fragment in value:
                    if isinstance(fragment, dict):
                        self._call(fragment)
            elif key == "function_call":
                _merge(self._legacy, value, fixed={"name"})
            else:
                self._extras[key] = _joined(self._extras.get(key), value)

    def _call(self, fragment: dict[str, Any]) -> None:
        """Join by index; without one, a new id starts a call and anything else continues the last."""
        index, identity = fragment.get("index"), fragment.get("id")
        if isinstance(index, int):
            call = self._by_index.get(index)
        elif self._calls and (not identity or self._calls[-1].get("id") == identity):
            call = self._calls[-1]
        else:
            call = None
        if call is None:
            call = {}
            self._calls.append(call)
            if isinstance(index, int):
                self._by_index[index] = call
        if self.pieces is not None:
            self._tell(fragment, call)
        for key, value in fragment.items():
            if value is None or key == "index":
                continue
            if key in ("function", "custom") and isinstance(value, dict):
                _merge(call.setdefault(key, {}), value, fixed={"name"})
                call.setdefault("type", key)
            elif key in ("id", "type"):
                call[key] = value or call.get(key, "")
            else:
                call[key] = _joined(call.get(key), value)

    def _tell(self, fragment: dict[str, Any], call: dict[str, Any]) -> None:
        """The pieces of a fragment; a call starts when its name is known."""
        assert self.pieces is not None
        kind = "custom" if "custom" in fragment or "custom" in call else "function"
        body = fragment.get(kind)
        body = body if isinstance(body, dict) else {}
        number = next(place for place, known in enumerate(self._calls) if known is call)
        identity, name = fragment.get("id") or call.get("id"), body.get("name")
        if name and not (call.get(kind) or {}).get("name"):
            started = ToolCall(id=str(identity or ""), name=str(name), type=kind)
            self.pieces.append(Piece("call", number=number, call=started))
        said = body.get("input" if kind == "custom" else "arguments")
        if isinstance(said, str) and said:
            self.pieces.append(Piece("arguments", said, number))

    def response(self) -> Response:
        self.catch_up()
        if not self._answered:
            raise ValueError(
                "the stream has no readable event with an answer" if self.started else "the stream is empty"
            )
        message: dict[str, Any] = {key: mended("".join(parts)) for key, parts in self._texts.items()}
        if message.get("content") == "" and (self._calls or self._legacy or "refusal" in message):
            message["content"] = None
        if self._calls:
            message["tool_calls"] = self._calls
        if self._legacy:
            message["function_call"] = self._legacy
        body = {
            "id": self._id,
            "model": self._model,
            "choices": [{"message": message | self._extras, "finish_reason": self._reason}],
            "usage": self._usage,
        }
        return chat_decode.response(body)


def _only_usage(data: bytes) -> bool:
    chunk = loads(data)
    return isinstance(chunk, dict) and not chunk.get("choices") and bool(chunk.get("usage"))


def _merge(target: dict[str, Any], source: Any, *, fixed: set[str]) -> None:
    """Join string fragments; a `fixed` key that is repeated is not joined to itself."""
    if not isinstance(source, dict):
        return
    for key, value in source.items():
        if value is None or (key in fixed and target.get(key) and target[key] == value):
            continue
        if key in fixed:
            target[key] = target.get(key, "") + value
        else:
            target[key] = _joined(target.get(key), value)


_LABELS = frozenset({"id", "type", "format", "role", "index", "signature"})


def _joined(old: Any, new: Any) -> Any:
    """Fragments of an unknown value: strings and lists are joined, objects merged, other values replaced."""
    if isinstance(old, str) and isinstance(new, str):
        return old + new
    if isinstance(old, list) and isinstance(new, list):
        for entry in new:
            _place(old, entry)
        return old
    if isinstance(old, dict) and isinstance(new, dict):
        for key, value in new.items():
            if value is not None:
                old[key] = value if key in _LABELS else _joined(old.get(key), value)
        return old
    if isinstance(new, list):
        return _joined([], new) if new else []
    return new if new is not None else old


def _place(entries: list[Any], entry: Any) -> None:
    """Append an entry, or merge it into the one of its `index` and `type` (as in reasoning details)."""
    if isinstance(entry, dict) and isinstance(entry.get("index"), int):
        for other in entries:
            if isinstance(other, dict) and (other.get("index"), other.get("type")) == (
                entry["index"],
                entry.get("type"),
            ):
                _joined(other, entry)
                return
    entries.append(entry)
