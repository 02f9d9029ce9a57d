"""Reader of Responses streams."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from vfnb.dialects import responses_decode
from vfnb.dialects.lenient import loads, mended
from vfnb.dialects.pieces import Piece
from vfnb.dialects.reader import StreamReader
from vfnb.types import Response

__all__ = ["ResponsesReader"]


class _Event(msgspec.Struct, gc=False):
    """The usual event: one piece of an item."""

    type: str
    delta: str | None = None
    output_index: int | None = None
    content_index: int | None = None
    summary_index: int | None = None


_event = msgspec.json.Decoder(_Event).decode
_events = msgspec.json.Decoder(list[_Event]).decode
_CALLS = ("function_call", "custom_tool_call")
_ENDS = ("response.completed", "response.incomplete")
_NAMES = {"id", "model"}
_PIECES = {
    "response.output_text.delta": "output_text",
    "response.refusal.delta": "refusal",
    "response.reasoning_text.delta": "reasoning_text",
    "response.reasoning_summary_text.delta": "summary_text",
    "response.function_call_arguments.delta": "arguments",
    "response.custom_tool_call_input.delta": "input",
}


class _Item:
    """One output item while it comes."""

    __slots__ = ("done", "head", "texts")

    def __init__(self) -> None:
        self.head: dict[str, Any] = {}
        """As it was announced."""
        self.done: dict[str, Any] | None = None
        self.texts: dict[tuple[str, int], list[str]] = {}
        """Pieces by kind and by number of the part."""

    def item(self) -> dict[str, Any]:
        """The item so far."""
        if self.done is not None:
            return self.done
        item = dict(self.head)
        parts: list[dict[str, Any]] = []
        summary: list[dict[str, Any]] = []
        for (kind, _), pieces in sorted(self.texts.items(), key=lambda entry: entry[0][1]):
            text = mended("".join(pieces))
            if kind in ("arguments", "input"):
                item[kind] = text
            elif kind == "summary_text":
                summary.append({"type": kind, "text": text})
            else:
                parts.append({"type": kind, ("refusal" if kind == "refusal" else "text"): text})
        if summary:
            item["summary"] = summary
        if parts:
            item["content"] = parts
        if "type" not in item:  # never announced
            kinds = {kind for kind, _ in self.texts}
            if "arguments" in kinds or "input" in kinds:
                item["type"] = "function_call" if "arguments" in kinds else "custom_tool_call"
            else:
                item["type"] = "reasoning" if kinds & {"summary_text", "reasoning_text"} else "message"
        return item


class ResponsesReader(StreamReader):
    """Reads the events of one response.

    Complete items and the last event count more than joined pieces, which are not even read if it says all.
    The stream is complete with `response.completed` or `response.incomplete`; these, `response.failed` and `error`
    are held back.
    """

    urgent = (
        *(f'"{kind}"'.encode() for kind in (*_ENDS, "response.failed")),
        re.compile(rb'"error"(?!\s*:\s*null)'),
    )

    def __init__(self) -> None:
        super().__init__()
        self._items: dict[int, _Item] = {}
        self._head: dict[str, Any] = {}
        self._whole: dict[str, Any] | None = None
        self._last: _Item | None = None
        self._calls: dict[int, int] = {}
        """For pieces: which tool call an item is."""
        self._summed = False

    def take(self, data: bytes) -> bool:
        try:
            event = _event(data)
        except ValueError:
            self.catch_up()
            return self._odd(data)
        if event.type not in _ENDS:
            self.catch_up()
        return self._take(event, data)

    def take_all(self, found: list[bytes]) -> bool:
        events = self.together(_events, found)
        if events is None:
            return False
        for event, data in zip(events, found, strict=True):
            self._take(event, data)
        return True

    def _take(self, event: _Event, data: bytes) -> bool:
        kind = event.type
        if event.delta is not None:
            piece = _PIECES.get(kind)
            if piece is not None:
                index = event.content_index if event.summary_index is None else event.summary_index
                texts = self._item(event.output_index).texts
                texts.setdefault((piece, index or 0), []).append(event.delta)
                if self.pieces is not None:
                    self._tell(piece, event.delta)
            return False
        if kind == "response.output_item.done" or kind == "response.output_item.added":
            item = _object(loads(data).get("item"))
            if item:
                self._note(event.output_index, item, done=kind.endswith("done"))
            return False
        if kind in _ENDS or kind == "response.failed":
            return self._end(kind, _object(loads(data).get("response")))
        if kind == "error":
            return self._error(loads(data))
        if kind == "response.created":
            head = _object(loads(data).get("response"))
            self._head = {key: head.get(key) for key in ("id", "model")}
        return False

    def _odd(self, data: bytes) -> bool:
        """Lone surrogates, an event without a type such as an error object, the end mark of other protocols."""
        if data.strip() == b"[DONE]":
            return self._whole is not None
        try:
            value = loads(data)
        except ValueError:
            return False
        if not isinstance(value, dict):
            return False
        if not isinstance(value.get("type"), str):
            return bool(value.get("error")) and self._error(value)
        known = {key: value[key] for key in _Event.__struct_fields__ if key in value}
        return self._take(_Event(**_of_types(known)), data)

    def _error(self, value: dict[str, Any]) -> bool:
        inner = value.get("error")
        self.error = inner if isinstance(inner, dict) else value if not inner else {"message": str(inner)}
        self.complete = False
        return True

    def _item(self, index: int | None) -> _Item:
        if index is None:
            if self._last is None:
                index = len(self._items)
            else:
                return self._last
        item = self._items.get(index)
        if item is None:
            item = self._items[index] = _Item()
        self._last = item
        return item

    def _note(self, index: int | None, item: dict[str, Any], *, done: bool) -> None:
        if index is None and not done:
            index = len(self._items)
        found = self._item(index)
        if done:
            found.done = item
        else:
            found.head = item
            if self.pieces is not None:
                self._start(found, item)

    def _start(self, found: _Item, item: dict[str, Any]) -> None:
        """The piece of a call that starts."""
        assert self.pieces is not None
        made = responses_decode.assistant(item).tool_calls if item.get("type") in _CALLS else []
        for call in made:
            self._calls[id(found)] = len(self._calls)
            started = call.model_copy(update={"arguments": ""})
            self.pieces.append(Piece("call", number=self._calls[id(found)], call=started))

    def _tell(self, kind: str, text: str) -> None:
        """A piece of the item that is being written."""
        assert self.pieces is not None
        number = self._calls.get(id(self._last))
        if kind in ("arguments", "input"):
            if number is not None:
                self.pieces.append(Piece("arguments", text, number))
        elif kind == "summary_text" or (kind == "reasoning_text" and not self._summed):
            self._summed = self._summed or kind == "summary_text"
            self.pieces.append(Piece("reasoning", text))
        elif kind != "reasoning_text":
            self.pieces.append(Piece("refusal" if kind == "refusal" else "text", text))

    def _end(self, kind: str, whole: dict[str, Any]) -> bool:
        if kind == "response.failed":
            error = whole.get("error")
            return self._error({"error": error if isinstance(error, dict) else {"message": "it failed"}})
        self._whole = whole | {"status": kind.rpartition(".")[2]}
        self.complete = self.error is None
        return True

    def response(self) -> Response:
        if self._whole is None or not self._whole.get("output") or not self._whole.keys() >= _NAMES:
            self.catch_up()
        if self._whole is None and not self._items:
            raise ValueError(
                "the stream has no readable event with an answer" if self.started else "the stream is empty"
            )
        body = self._head | (self._whole or {})
        if not body.get("output"):
            body["output"] = [self._items[index].item() for index in sorted(self._items)]
        return responses_decode.response(body)


def _of_types(values: dict[str, Any]) -> dict[str, Any]:
    """The values that an event may have."""
    kinds = {"type": str, "delta": str}
    return {key: value for key, value in values.items() if isinstance(value, kinds.get(key, int))}


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
