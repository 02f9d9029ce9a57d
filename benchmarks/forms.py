"""The wire formats in which the server is measured: requests, replies and streams of one made-up conversation.

Messages are given as Chat has them. A new format is a `Form` in `FORMS`.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from typing import Any, ClassVar

__all__ = ["FORMS", "Form"]

Message = dict[str, Any]
USAGE = (64, 32)


class Form(ABC):
    """One wire format."""

    path: str
    """Where its requests go."""
    history: str
    """Key of the list of messages."""
    more: ClassVar[Message] = {}
    """Further keys that a request needs."""

    def front(self, *, stream: bool = False) -> str:
        """A request up to its first message; `]}` ends it."""
        return json.dumps({"model": "mock", "stream": stream, **self.more, self.history: []})[:-2]

    def request(self, messages: list[Message], *, indent: int | None = None) -> bytes:
        """A request as a program sends it."""
        items = [item for message in messages for item in self.items(message)]
        return json.dumps({"model": "mock", **self.more, self.history: items}, indent=indent).encode()

    @abstractmethod
    def items(self, message: Message) -> list[Message]:
        """The entries of the history that say this message."""

    @abstractmethod
    def reply(self, message: Message, usage: tuple[int, int] = USAGE) -> bytes:
        """A whole reply; `usage` has prompt and completion tokens."""

    @abstractmethod
    def events(self, text: str, chunks: int) -> list[bytes]:
        """A streamed reply of about so many pieces; the last element is the terminal event."""


def pieces(text: str, chunks: int) -> list[str]:
    step = max(1, -(-len(text) // chunks))
    return [text[at : at + step] for at in range(0, len(text), step)]


class Chat(Form):
    path = "/v1/chat/completions"
    history = "messages"

    def items(self, message: Message) -> list[Message]:
        return [message]

    def _usage(self, usage: tuple[int, int]) -> Message:
        prompt, completion = usage
        return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}

    def reply(self, message: Message, usage: tuple[int, int] = USAGE) -> bytes:
        reason = "tool_calls" if message.get("tool_calls") else "stop"
        choice = {"index": 0, "message": message, "finish_reason": reason}
        head = {"id": "cmpl-1", "object": "chat.completion", "created": 1700000000, "model": "mock"}
        return json.dumps(head | {"choices": [choice], "usage": self._usage(usage)}).encode()

    def events(self, text: str, chunks: int) -> list[bytes]:
        base = {"id": "cmpl-1", "object": "chat.completion.chunk", "created": 1700000000, "model": "mock"}
        deltas: list[dict[str, str]] = [{"content": piece} for piece in pieces(text, chunks)]
        deltas[0]["role"] = "assistant"
        result = [{"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
        result.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
        lines = [
            json.dumps(base | event) for event in (*result, {"choices": [], "usage": self._usage(USAGE)})
        ]
        return [f"data: {line}\n\n".encode() for line in (*lines, "[DONE]")]


class Responses(Form):
    path = "/v1/responses"
    history = "input"

    def items(self, message: Message) -> list[Message]:
        role = message["role"]
        if role == "tool":
            call = message["tool_call_id"]
            return [{"type": "function_call_output", "call_id": call, "output": message["content"]}]
        if role != "assistant":
            content = [{"type": "input_text", "text": message["content"]}]
            return [{"type": "message", "role": role, "content": content}]
        return self.output(message)

    def output(self, message: Message) -> list[Message]:
        """The items of a reply."""
        text = {"type": "output_text", "text": message["content"], "annotations": []}
        said = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed"}
        calls = [
            {"type": "function_call", "id": f"fc_{call['id']}", "call_id": call["id"], **call["function"]}
            for call in message.get("tool_calls", [])
        ]
        return [said | {"content": [text]}, *calls]

    def _whole(self, message: Message, usage: tuple[int, int]) -> Message:
        prompt, completion = usage
        counts = {
            "input_tokens": prompt,
            "output_tokens": completion,
            "total_tokens": prompt + completion,
        }
        head = {"id": "resp_1", "object": "response", "created_at": 1700000000, "status": "completed"}
        return head | {"model": "mock", "output": self.output(message), "usage": counts}

    def reply(self, message: Message, usage: tuple[int, int] = USAGE) -> bytes:
        return json.dumps(self._whole(message, usage)).encode()

    def events(self, text: str, chunks: int) -> list[bytes]:
        whole = self._whole({"content": text}, USAGE)
        begun = whole | {"status": "in_progress", "output": [], "usage": None}
        (item,) = whole["output"]
        (part,) = item["content"]
        at = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
        events: list[Message] = [
            {"type": "response.created", "response": begun},
            {"type": "response.in_progress", "response": begun},
            {"type": "response.output_item.added", "output_index": 0, "item": item | {"content": []}},
            {"type": "response.content_part.added", **at, "part": part | {"text": ""}},
            *({"type": "response.output_text.delta", **at, "delta": piece} for piece in pieces(text, chunks)),
            {"type": "response.output_text.done", **at, "text": text},
            {"type": "response.content_part.done", **at, "part": part},
            {"type": "response.output_item.done", "output_index": 0, "item": item},
            {"type": "response.completed", "response": whole},
        ]
        return [
            f"event: {event['type']}\ndata: {json.dumps(event | {'sequence_number': number})}\n\n".encode()
            for number, event in enumerate(events)
        ]


class Messages(Form):
    """Anthropic Messages, as programs write it: the mark at the end of the cached prefix moves with every call."""

    path = "/v1/messages"
    history = "messages"
    more: ClassVar[Message] = {"max_tokens": 4096}

    def request(self, messages: list[Message], *, indent: int | None = None) -> bytes:
        system = [{"type": "text", "text": one["content"]} for one in messages if one["role"] == "system"]
        items = [item for one in messages if one["role"] != "system" for item in self.items(one)]
        items[-1]["content"][-1]["cache_control"] = {"type": "ephemeral"}
        head = {"model": "mock", **self.more, "system": system}
        return json.dumps(head | {self.history: items}, indent=indent).encode()

    def items(self, message: Message) -> list[Message]:
        role = message["role"]
        if role == "tool":
            said = {
                "type": "tool_result",
                "tool_use_id": message["tool_call_id"],
                "content": message["content"],
            }
            return [{"role": "user", "content": [said]}]
        return [{"role": role, "content": self.blocks(message)}]

    def blocks(self, message: Message) -> list[Message]:
        """The content of a message."""
        calls = [
            {
                "type": "tool_use",
                "id": call["id"],
                "name": call["function"]["name"],
                "input": json.loads(call["function"]["arguments"]),
            }
            for call in message.get("tool_calls", [])
        ]
        return [{"type": "text", "text": message["content"]}, *calls]

    def _whole(self, message: Message, usage: tuple[int, int]) -> Message:
        prompt, completion = usage
        reason = "tool_use" if message.get("tool_calls") else "end_turn"
        head = {"id": "msg_1", "type": "message", "role": "assistant", "model": "mock"}
        counts = {"input_tokens": prompt, "output_tokens": completion}
        return head | {
            "content": self.blocks(message),
            "stop_reason": reason,
            "stop_sequence": None,
            "usage": counts,
        }

    def reply(self, message: Message, usage: tuple[int, int] = USAGE) -> bytes:
        return json.dumps(self._whole(message, usage)).encode()

    def events(self, text: str, chunks: int) -> list[bytes]:
        begun = self._whole({"content": text}, USAGE) | {"content": [], "stop_reason": None}
        delta = {"stop_reason": "end_turn", "stop_sequence": None}
        events: list[Message] = [
            {"type": "message_start", "message": begun},
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
            *(
                {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": piece}}
                for piece in pieces(text, chunks)
            ),
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": delta, "usage": {"output_tokens": USAGE[1]}},
            {"type": "message_stop"},
        ]
        return [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in events]


FORMS: dict[str, Form] = {"chat": Chat(), "responses": Responses(), "messages": Messages()}
"""By the dialect's name."""
