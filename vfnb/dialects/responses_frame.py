"""Canonical answers as Responses replies, whole or as an event sequence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from uuid import uuid4

from vfnb.dialects.lenient import dumps
from vfnb.dialects.responses_encode import outputs, usage
from vfnb.types import Response

__all__ = ["ECHOED", "PREFIXES", "REASONS", "Events", "frame", "frame_stream", "shell"]

PREFIXES = {
    "message": "msg_",
    "reasoning": "rs_",
    "function_call": "fc_",
    "custom_tool_call": "ctc_",
}
_HOSTED = (
    "web_search_call",
    "file_search_call",
    "code_interpreter_call",
    "image_generation_call",
    "mcp_call",
    "mcp_list_tools",
)
REASONS = {"length": "max_output_tokens", "content_filter": "content_filter"}
_DEFAULTS: dict[str, Any] = {
    "background": False,
    "error": None,
    "incomplete_details": None,
    "instructions": None,
    "max_output_tokens": None,
    "max_tool_calls": None,
    "model": "",
    "output": [],
    "parallel_tool_calls": True,
    "previous_response_id": None,
    "prompt_cache_key": None,
    "reasoning": {"effort": None, "summary": None},
    "safety_identifier": None,
    "service_tier": "default",
    "store": True,
    "temperature": 1.0,
    "text": {"format": {"type": "text"}},
    "tool_choice": "auto",
    "tools": [],
    "top_logprobs": 0,
    "top_p": 1.0,
    "truncation": "disabled",
    "usage": None,
    "user": None,
    "metadata": {},
}
_OWN = ("background", "error", "incomplete_details", "model", "output", "usage")
ECHOED = tuple(name for name in _DEFAULTS if name not in _OWN)
"""What a reply repeats of its request."""


def shell(identity: str, model: str, created: int, status: str, asked: Mapping[str, Any]) -> dict[str, Any]:
    """A response object without an answer; `asked` are the keys of the request that it repeats."""
    head = {"id": identity or f"resp_{uuid4().hex}", "object": "response", "created_at": created}
    said = {key: value for key, value in asked.items() if value is not None}
    for key in ("reasoning", "text"):
        if isinstance(said.get(key), dict):
            said[key] = _DEFAULTS[key] | said[key]
    return head | {"status": status} | _DEFAULTS | said | {"model": model}


def frame(response: Response, model: str, created: int, asked: Mapping[str, Any]) -> bytes:
    """A `response` body."""
    return dumps(_whole(response, model, created, asked))


def _whole(response: Response, model: str, created: int, asked: Mapping[str, Any]) -> dict[str, Any]:
    reason = REASONS.get(response.finish_reason)
    status = "completed" if reason is None else "incomplete"
    data = shell(response.id, model or response.model, created, status, asked)
    data["output"] = [_complete(entry) for entry in outputs(response.message)]
    if reason is not None:
        data["incomplete_details"] = {"reason": reason}
        if data["output"] and "status" in data["output"][-1]:
            data["output"][-1]["status"] = "incomplete"
    if response.usage is not None:
        data["usage"] = usage(response.usage)
    return data


def _complete(entry: dict[str, Any]) -> dict[str, Any]:
    """An output item with an id and a status."""
    kind = entry["type"] if isinstance(entry.get("type"), str) else ""
    prefix = PREFIXES.get(kind)
    if prefix is None:
        return dict(entry)
    start: dict[str, Any] = {"id": f"{prefix}{uuid4().hex}", "type": kind}
    if kind != "reasoning":
        start["status"] = "completed"
    data = start | entry
    if kind == "message":
        content = [
            {"annotations": [], "logprobs": []} | part if part.get("type") == "output_text" else part
            for part in data["content"]
        ]
        data["content"] = content
    return data


class Events:
    """Writes events with running numbers."""

    def __init__(self) -> None:
        self._number = 0

    def __call__(self, kind: str, **keys: Any) -> bytes:
        data = dumps({"type": kind, "sequence_number": self._number, **keys})
        self._number += 1
        return b"event: " + kind.encode() + b"\ndata: " + data + b"\n\n"


def frame_stream(
    response: Response, model: str, created: int, asked: Mapping[str, Any], size: int
) -> list[bytes]:
    """The events of a streamed reply; the last has the whole response."""
    event = Events()
    whole = _whole(response, model, created, asked)
    open_ = whole | {"status": "in_progress", "output": [], "usage": None, "incomplete_details": None}
    events = [event("response.created", response=open_), event("response.in_progress", response=open_)]
    for index, item in enumerate(whole["output"]):
        events += _item(event, index, item, size)
    events.append(event(f"response.{whole['status']}", response=whole))
    return events


def _item(event: Events, index: int, item: dict[str, Any], size: int) -> Iterator[bytes]:
    kind = item.get("type")
    empty = dict(item)
    for key in ("content", "summary"):
        if isinstance(item.get(key), list):
            empty[key] = []
    typed = {"function_call": "arguments", "custom_tool_call": "input"}.get(kind or "")
    if typed is not None:
        empty[typed] = ""
    if "status" in item:
        empty["status"] = "in_progress"
    place: dict[str, Any] = {"item_id": item.get("id"), "output_index": index}
    yield event("response.output_item.added", output_index=index, item=empty)
    if kind == "reasoning":
        yield from _summary(event, place, item["summary"], size)
    if kind in ("reasoning", "message"):
        for position, part in enumerate(item.get("content") or []):
            yield from _part(event, place | {"content_index": position}, part, size)
    elif typed is not None:
        name = "function_call_arguments" if kind == "function_call" else "custom_tool_call_input"
        for piece in _pieces(item[typed], size):
            yield event(f"response.{name}.delta", **place, delta=piece)
        yield event(f"response.{name}.done", **place, **{typed: item[typed]})
    elif kind in _HOSTED:
        yield event(f"response.{kind}.in_progress", **place)
        yield event(f"response.{kind}.completed", **place)
    yield event("response.output_item.done", output_index=index, item=item)


def _summary(event: Events, place: dict[str, Any], summary: Any, size: int) -> Iterator[bytes]:
    for position, part in enumerate(summary if isinstance(summary, list) else []):
        at = place | {"summary_index": position}
        text = part.get("text", "")
        yield event("response.reasoning_summary_part.added", **at, part=part | {"text": ""})
        for piece in _pieces(text, size):
            yield event("response.reasoning_summary_text.delta", **at, delta=piece)
        yield event("response.reasoning_summary_text.done", **at, text=text)
        yield event("response.reasoning_summary_part.done", **at, part=part)


_PART_EVENTS = {
    "output_text": ("output_text", "text"),
    "reasoning_text": ("reasoning_text", "text"),
    "refusal": ("refusal", "refusal"),
}


def _part(event: Events, at: dict[str, Any], part: Any, size: int) -> Iterator[bytes]:
    name, key = _PART_EVENTS.get(part.get("type", ""), ("", ""))
    if not name:
        yield event("response.content_part.added", **at, part=part)
        yield event("response.content_part.done", **at, part=part)
        return
    text = part.get(key) or ""
    beside: dict[str, Any] = {"logprobs": []} if name == "output_text" else {}
    begun = part | {key: ""} | ({"annotations": []} | beside if beside else {})
    yield event("response.content_part.added", **at, part=begun)
    for piece in _pieces(text, size):
        yield event(f"response.{name}.delta", **at, delta=piece, **beside)
    for number, annotation in enumerate(part.get("annotations") or []):
        yield event(
            "response.output_text.annotation.added", **at, annotation_index=number, annotation=annotation
        )
    yield event(f"response.{name}.done", **at, **{key: text}, **beside)
    yield event("response.content_part.done", **at, part=part)


def _pieces(text: str, size: int) -> Iterator[str]:
    for start in range(0, len(text), size):
        yield text[start : start + size]
