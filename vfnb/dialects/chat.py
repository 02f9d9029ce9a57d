"""Chat Completions, the format of OpenAI and of most other servers.

Format: https://platform.openai.com/docs/api-reference/chat
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import msgspec

from vfnb.dialects import chat_decode, chat_encode, chat_frame, chat_sampling
from vfnb.dialects.base import Changes, Dialect, Raws, load
from vfnb.dialects.chat_stream import ChatReader
from vfnb.dialects.faults import RequestError
from vfnb.dialects.lenient import dumps
from vfnb.dialects.parts import Split
from vfnb.dialects.pieces import StreamWriter
from vfnb.dialects.reader import StreamReader
from vfnb.types import Messages, Response, Tool

__all__ = ["Chat"]


class Chat(Dialect[dict[str, Any], dict[str, Any]]):
    """Chat Completions, both directions, streaming included."""

    name: ClassVar[str] = "chat"
    routes: ClassVar[tuple[str, ...]] = ("/v1/chat/completions",)
    history: ClassVar[str | None] = "messages"
    id_prefix: ClassVar[str] = "chatcmpl-"
    carries: ClassVar[frozenset[str]] = frozenset({"image", "audio", "file", "reasoning"})
    stop_status: ClassVar[int] = 401
    stop_kind: ClassVar[str] = "authentication_error"
    stop_code: ClassVar[str | None] = "invalid_api_key"

    def parse_request(self, body: dict[str, Any]) -> tuple[Messages, list[Tool] | None]:
        messages = [chat_decode.message(item) for item in body.get("messages") or []]
        listed = body.get("tools"), body.get("functions")
        return messages, chat_decode.tools(*listed) if any(value is not None for value in listed) else None

    def parse_response(self, resp: dict[str, Any]) -> Response:
        return chat_decode.response(resp)

    def decode(self, item: msgspec.Raw | bytes) -> Messages:
        return Chat.decoded(self, item, load(item))

    def decoded(self, item: msgspec.Raw | bytes, value: Any) -> Messages:
        return [chat_decode.message(value)]

    def tools(self, fields: Raws) -> list[Tool]:
        return chat_decode.tools(
            *(load(fields[key]) if key in fields else None for key in ("tools", "functions"))
        )

    def check(self, split: Split) -> None:
        count = split.get("n")
        if isinstance(count, int) and count > 1:
            text = f"n={count} is not supported: ask for one choice per request and send it {count} times."
            raise RequestError(text, code="unsupported_value")
        if not split.n_known and not split.items:
            raise RequestError("The request has no messages.", code="missing_required_parameter")

    def sampling(self, fields: Raws) -> dict[str, Any]:
        return chat_sampling.asked(fields)

    def override(self, fields: Raws, sampling: Mapping[str, Any], model: str) -> Changes:
        return super().override(fields, chat_sampling.wire(fields, sampling), model)

    def wants_usage(self, fields: Raws) -> bool:
        options = load(fields["stream_options"]) if "stream_options" in fields else None
        return isinstance(options, dict) and bool(options.get("include_usage"))

    def request(
        self,
        messages: Messages,
        tools: list[Tool],
        model: str,
        sampling: Mapping[str, Any],
        *,
        stream: bool,
    ) -> bytes:
        data: dict[str, Any] = {"model": model, **chat_sampling.body(sampling)}
        if stream:
            data |= {"stream": True, "stream_options": {"include_usage": True}}
        if tools:
            data["tools"] = [chat_encode.tool(tool) for tool in tools]
        data["messages"] = [chat_encode.message(message) for message in messages]
        return dumps(data)

    def encode(self, messages: Messages) -> list[bytes]:
        return [dumps(chat_encode.message(message)) for message in messages]

    def frame(self, response: Response, model: str, created: int = 0) -> bytes:
        return chat_frame.frame(response, model, created)

    def frame_stream(
        self, response: Response, model: str, created: int = 0, *, usage: bool = True, size: int = 16
    ) -> list[bytes]:
        return chat_frame.frame_stream(response, model, created, usage=usage, size=size)

    def writer(self, model: str, created: int, *, usage: bool = True, identity: str = "") -> StreamWriter:
        return chat_frame.ChatWriter(model, created, usage=usage, identity=identity)

    def ask_usage(self, fields: Raws) -> Changes:
        if self.wants_usage(fields) or not self.streams(fields):
            return {}
        options = load(fields["stream_options"]) if "stream_options" in fields else None
        return {
            "stream_options": dumps({**(options if isinstance(options, dict) else {}), "include_usage": True})
        }

    def reader(self, *, usage: bool = True) -> StreamReader:
        return ChatReader(usage=usage)
