"""A scripted server that speaks Responses: replies, streams, errors, and replies that can be gone on from."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import Any

from support.upstream import Say, Upstream

__all__ = ["Output", "ResponsesUpstream", "event", "failing", "response", "response_events"]

KINDS = {401: "authentication_error", 429: "rate_limit_error", 500: "server_error", 503: "server_error"}


@dataclass
class Output(Say):
    """One reply of output items; a plain text if there are none."""

    items: list[dict[str, Any]] = field(default_factory=list)
    status_of: str = "completed"
    """The response's own status."""
    reason: str | None = None
    """Why it is incomplete."""
    identity: str = "resp_01"
    asked: dict[str, Any] = field(default_factory=dict)
    """The request's body, which the reply repeats."""
    usage: dict[str, Any] | None = field(
        default_factory=lambda: {
            "input_tokens": 12,
            "input_tokens_details": {"cached_tokens": 5},
            "output_tokens": 3,
            "output_tokens_details": {"reasoning_tokens": 1},
            "total_tokens": 15,
        }
    )


def failing(
    status: int, text: str, code: str | None = None, param: str | None = None, **headers: str
) -> Output:
    """An error of the provider's."""
    error = {
        "message": text,
        "type": KINDS.get(status, "invalid_request_error"),
        "param": param,
        "code": code,
    }
    return Output(status=status, raw=json.dumps({"error": error}).encode(), headers=headers)


def text_item(text: str) -> dict[str, Any]:
    part = {"type": "output_text", "annotations": [], "logprobs": [], "text": text}
    return {"id": "msg_01", "type": "message", "status": "completed", "content": [part], "role": "assistant"}


def response(say: Say, body: dict[str, Any]) -> dict[str, Any]:
    """The `response` that `say` describes, to a request with this body."""
    items = say.items if isinstance(say, Output) else []
    reason = getattr(say, "reason", None)
    return {
        "id": getattr(say, "identity", "resp_01"),
        "object": "response",
        "created_at": 1,
        "status": getattr(say, "status_of", "completed"),
        "background": False,
        "error": None,
        "incomplete_details": {"reason": reason} if reason else None,
        "instructions": body.get("instructions"),
        "max_output_tokens": body.get("max_output_tokens"),
        "max_tool_calls": None,
        "model": body.get("model", ""),
        "output": items or [text_item(say.text or "")],
        "parallel_tool_calls": body.get("parallel_tool_calls", True),
        "previous_response_id": body.get("previous_response_id"),
        "prompt_cache_key": body.get("prompt_cache_key"),
        "reasoning": {"effort": None, "summary": None} | body.get("reasoning", {}),
        "safety_identifier": None,
        "service_tier": "default",
        "store": body.get("store", True),
        "temperature": body.get("temperature", 1.0),
        "text": {"format": {"type": "text"}} | body.get("text", {}),
        "tool_choice": body.get("tool_choice", "auto"),
        "tools": body.get("tools", []),
        "top_logprobs": 0,
        "top_p": 1.0,
        "truncation": "disabled",
        "usage": say.usage,
        "user": None,
        "metadata": body.get("metadata", {}),
    }


def event(kind: str, **keys: Any) -> bytes:
    """One event of a stream, without its number."""
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **keys})}\n\n".encode()


def numbered(events: list[bytes]) -> list[bytes]:
    """Events with their numbers."""
    found = []
    for number, one in enumerate(events):
        head, _, data = one.partition(b"\ndata: ")
        told = json.loads(data) | {"sequence_number": number}
        found.append(head + b"\ndata: " + json.dumps(told).encode() + b"\n\n")
    return found


def response_events(say: Say, body: dict[str, Any]) -> list[bytes]:
    """The event sequence that `say` describes, in pieces of 4 characters."""
    whole = response(say, body)
    begun = whole | {"status": "in_progress", "output": [], "usage": None, "incomplete_details": None}
    events = [event("response.created", response=begun), event("response.in_progress", response=begun)]
    for index, item in enumerate(whole["output"]):
        events += _item(index, item)
    events.append(event(f"response.{whole['status']}", response=whole))
    return numbered(events)


def _item(index: int, item: dict[str, Any]) -> list[bytes]:
    kind, at = item["type"], {"item_id": item.get("id"), "output_index": index}
    empty = {key: [] if key in ("content", "summary") else value for key, value in item.items()}
    if "status" in item:
        empty["status"] = "in_progress"
    inner: list[bytes] = []
    for number, part in enumerate(item.get("summary") or []):
        here = at | {"summary_index": number}
        begun = part | {"text": ""}
        inner.append(event("response.reasoning_summary_part.added", **here, part=begun))
        inner += _cut("response.reasoning_summary_text", part["text"], here)
        inner.append(event("response.reasoning_summary_text.done", **here, text=part["text"]))
        inner.append(event("response.reasoning_summary_part.done", **here, part=part))
    for number, part in enumerate(item.get("content") or []):
        inner += _part(part, at | {"content_index": number})
    for key, name in (("arguments", "function_call_arguments"), ("input", "custom_tool_call_input")):
        if key in item and kind in ("function_call", "custom_tool_call"):
            empty[key] = ""
            inner += _cut(f"response.{name}", item[key], at)
            inner.append(event(f"response.{name}.done", **at, **{key: item[key]}))
    if kind in ("web_search_call", "file_search_call", "code_interpreter_call", "mcp_call"):
        inner += [event(f"response.{kind}.in_progress", **at), event(f"response.{kind}.completed", **at)]
    added = event("response.output_item.added", output_index=index, item=empty)
    return [added, *inner, event("response.output_item.done", output_index=index, item=item)]


def _part(part: dict[str, Any], here: dict[str, Any]) -> list[bytes]:
    kind = part["type"]
    key = "refusal" if kind == "refusal" else "text"
    begun, more = part | {key: ""}, {}
    if kind == "output_text":
        begun, more = begun | {"annotations": []}, {"logprobs": []}
    events = [event("response.content_part.added", **here, part=begun)]
    events += _cut(f"response.{kind}", part[key], here | more)
    for number, one in enumerate(part.get("annotations") or []):
        events.append(
            event("response.output_text.annotation.added", **here, annotation_index=number, annotation=one)
        )
    events.append(event(f"response.{kind}.done", **here, **more, **{key: part[key]}))
    return [*events, event("response.content_part.done", **here, part=part)]


def _cut(name: str, text: str, here: dict[str, Any]) -> list[bytes]:
    return [event(f"{name}.delta", **here, delta=text[at : at + 4]) for at in range(0, len(text), 4)]


class ResponsesUpstream(Upstream):
    """Answers `/v1/responses` from a script; each reply's id is its own, and unknown ids cannot be gone on from."""

    def __init__(self, script: Any = None) -> None:
        super().__init__(script or [Output()])
        self.known: set[str] = set()
        """The ids of the replies so far."""

    def _say(self, body: Any, number: int) -> Say:
        previous = body.get("previous_response_id")
        if previous is not None and previous not in self.known:
            text = f"Previous response with id '{previous}' not found."
            return failing(400, text, "previous_response_not_found", "previous_response_id")
        say = super()._say(body, number)
        found = say if isinstance(say, Output) else Output(**vars(say))
        self.known.add(found.identity)
        return replace(found, asked=body)

    def whole(self, say: Say, model: str) -> dict[str, Any]:
        assert isinstance(say, Output)
        return response(say, say.asked)

    def streamed(self, say: Say, model: str, body: Any) -> list[bytes]:
        return response_events(say, body)
