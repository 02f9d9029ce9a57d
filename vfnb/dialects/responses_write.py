"""Writer of Responses streams, piece by piece."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

from vfnb.dialects.pieces import LiveWriter, Piece
from vfnb.dialects.responses_encode import usage
from vfnb.dialects.responses_frame import PREFIXES, REASONS, Events, shell
from vfnb.types import Response, ToolCall

__all__ = ["ResponsesWriter"]


class ResponsesWriter(LiveWriter):
    """Writes the events of one response. Items follow one another; calls stay open: their pieces may be mixed."""

    def __init__(self, model: str, created: int, identity: str) -> None:
        super().__init__()
        self._event = Events()
        self._shell = shell(identity, model, created, "in_progress", {})
        self._items: list[dict[str, Any]] = []
        """All items, in their order; those that are open still grow."""
        self._item: dict[str, Any] | None = None
        """The open item of text or reasoning, always the last one."""
        self._part = ""
        """Kind of its open part."""
        self._texts: list[str] = []
        self._calls: dict[int, tuple[int, list[str]]] = {}
        """Open calls by their number: place of the item, pieces of its arguments."""

    def open(self) -> bytes:
        start = self._event("response.created", response=self._shell)
        return start + self._event("response.in_progress", response=self._shell)

    def piece(self, piece: Piece) -> bytes:
        if piece.call is not None:
            closed = self._close()
            self._calls[piece.number] = len(self._items), []
            return closed + self._start(_call_item(piece.call))
        if piece.kind == "arguments":
            return self._argue(piece)
        kind = "reasoning" if piece.kind == "reasoning" else "message"
        begun = b""
        if self._item is None or self._item["type"] != kind:
            inner = {"summary": []} if kind == "reasoning" else {"role": "assistant", "content": []}
            begun = self._close() + self._start({"type": kind, **inner})
            self._item = self._items[-1]
        part = "output_text" if piece.kind == "text" else piece.kind
        if self._part != part:
            begun += self._close_part() + self._start_part(part)
        self._texts.append(piece.text)
        name = "reasoning_summary_text" if part == "reasoning" else part
        return begun + self._event(f"response.{name}.delta", **self._at(), delta=piece.text, **_beside(part))

    def _argue(self, piece: Piece) -> bytes:
        index, texts = self._calls[piece.number]
        texts.append(piece.text)
        name = _argument_events(self._items[index])
        return self._event(f"response.{name}.delta", **self._place(index), delta=piece.text)

    # items

    def _place(self, index: int) -> dict[str, Any]:
        return {"item_id": self._items[index]["id"], "output_index": index}

    def _start(self, item: dict[str, Any]) -> bytes:
        kind = item["type"]
        begun: dict[str, Any] = {"id": f"{PREFIXES[kind]}{uuid4().hex}", "type": kind}
        if kind != "reasoning":
            begun["status"] = "in_progress"
        self._items.append(begun | item)
        return self._event(
            "response.output_item.added", output_index=len(self._items) - 1, item=self._items[-1]
        )

    def _close(self) -> bytes:
        """End the open item of text or reasoning."""
        if self._item is None:
            return b""
        last = self._close_part()
        self._item = None
        return last + self._finished(len(self._items) - 1)

    def _close_calls(self) -> bytes:
        last = b""
        for index, texts in self._calls.values():
            item = self._items[index]
            key = "input" if item["type"] == "custom_tool_call" else "arguments"
            item[key] = "".join(texts)
            name = _argument_events(item)
            last += self._event(f"response.{name}.done", **self._place(index), **{key: item[key]})
            last += self._finished(index)
        return last

    def _finished(self, index: int) -> bytes:
        item = self._items[index]
        if "status" in item:
            item["status"] = "completed"
        return self._event("response.output_item.done", output_index=index, item=item)

    # parts

    def _at(self) -> dict[str, Any]:
        """Where the open part is, the last of its item."""
        assert self._item is not None
        if self._part == "reasoning":
            return self._place(len(self._items) - 1) | {"summary_index": len(self._item["summary"])}
        return self._place(len(self._items) - 1) | {"content_index": len(self._item["content"])}

    def _start_part(self, kind: str) -> bytes:
        self._part, self._texts = kind, []
        name = "reasoning_summary_part" if kind == "reasoning" else "content_part"
        return self._event(f"response.{name}.added", **self._at(), part=_part(kind, ""))

    def _close_part(self) -> bytes:
        kind, item = self._part, self._item
        if not kind:
            return b""
        assert item is not None
        text, at = "".join(self._texts), self._at()
        part = _part(kind, text)
        name = "reasoning_summary_text" if kind == "reasoning" else kind
        key = "refusal" if kind == "refusal" else "text"
        last = self._event(f"response.{name}.done", **at, **{key: text}, **_beside(kind))
        name = "reasoning_summary_part" if kind == "reasoning" else "content_part"
        last += self._event(f"response.{name}.done", **at, part=part)
        item["summary" if kind == "reasoning" else "content"].append(part)
        self._part, self._texts = "", []
        return last

    def finish(self, response: Response) -> bytes:
        last = self._close() + self._close_calls()
        reason = REASONS.get(response.finish_reason)
        whole = self._shell | {
            "status": "completed" if reason is None else "incomplete",
            "output": self._items,
        }
        if reason is not None:
            whole["incomplete_details"] = {"reason": reason}
        if response.usage is not None:
            whole["usage"] = usage(response.usage)
        return last + self._event(f"response.{whole['status']}", response=whole)


def _call_item(call: ToolCall) -> dict[str, Any]:
    custom = call.type == "custom"
    item: dict[str, Any] = {"type": "custom_tool_call" if custom else "function_call"}
    item |= {"call_id": call.id, "name": call.name, ("input" if custom else "arguments"): ""}
    return item if call.namespace is None else item | {"namespace": call.namespace}


def _argument_events(item: dict[str, Any]) -> str:
    return "custom_tool_call_input" if item["type"] == "custom_tool_call" else "function_call_arguments"


def _part(kind: str, text: str) -> dict[str, Any]:
    if kind == "output_text":
        return {"type": kind, "text": text, "annotations": [], "logprobs": []}
    return (
        {"type": "refusal", "refusal": text} if kind == "refusal" else {"type": "summary_text", "text": text}
    )


def _beside(kind: str) -> dict[str, Any]:
    return {"logprobs": []} if kind == "output_text" else {}
