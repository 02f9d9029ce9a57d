"""Anthropic Messages, both directions, streaming included.

Format: https://docs.anthropic.com/en/api/messages
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import msgspec

from vfnb.dialects import (
    messages_decode,
    messages_encode,
    messages_errors,
    messages_frame,
    messages_hosted,
    messages_sampling,
)
from vfnb.dialects.base import Changes, Dialect, Raws, load
from vfnb.dialects.faults import RequestError
from vfnb.dialects.lenient import dumps
from vfnb.dialects.messages_stream import MessagesReader
from vfnb.dialects.parts import Split
from vfnb.dialects.pieces import StreamWriter
from vfnb.dialects.reader import StreamReader
from vfnb.types import HostedResult, Messages, Response, SystemMessage, Tool

__all__ = ["AnthropicMessages"]

_PING = b'event: ping\ndata: {"type": "ping"}\n\n'


class AnthropicMessages(Dialect[dict[str, Any], dict[str, Any]]):
    """Anthropic Messages."""

    name: ClassVar[str] = "messages"
    routes: ClassVar[tuple[str, ...]] = ("/v1/messages",)
    history: ClassVar[str | None] = "messages"
    head_keys: ClassVar[tuple[str, ...]] = ("system",)
    carries: ClassVar[frozenset[str]] = frozenset({"image", "file", "file_url", "result_media"})
    id_prefix: ClassVar[str] = "msg_"
    count_path: ClassVar[str] = "/v1/messages/count_tokens"
    headers: ClassVar[Mapping[str, str]] = {"anthropic-version": "2023-06-01"}
    stop_status: ClassVar[int] = 403
    stop_kind: ClassVar[str] = "permission_error"
    base_url_var: ClassVar[str] = "ANTHROPIC_BASE_URL"
    api_key_var: ClassVar[str] = "ANTHROPIC_API_KEY"
    client_header: ClassVar[str] = "anthropic-version"

    # wire -> canonical

    def parse_request(self, body: dict[str, Any]) -> tuple[Messages, list[Tool] | None]:
        messages = messages_decode.system(body.get("system"))
        for item in body.get("messages") or []:
            messages += messages_decode.messages(item)
        listed = body.get("tools")
        return messages, None if listed is None else messages_decode.tools(listed)

    def parse_response(self, resp: dict[str, Any]) -> Response:
        return messages_decode.response(resp)

    def read_response(self, body: bytes) -> Response:
        return messages_decode.reply(body)

    def decode(self, item: msgspec.Raw | bytes) -> Messages:
        return AnthropicMessages.decoded(self, item, load(item))

    def decoded(self, item: msgspec.Raw | bytes, value: Any) -> Messages:
        return messages_decode.messages(value, messages_decode.inputs(item, value))

    def head(self, fields: Raws) -> Messages:
        return messages_decode.system(load(fields["system"])) if "system" in fields else []

    def tools(self, fields: Raws) -> list[Tool]:
        return messages_decode.tools(load(fields["tools"]) if "tools" in fields else None)

    def check(self, split: Split) -> None:
        if not split.n_known and not split.items:
            raise RequestError("messages: at least one message is required")

    def sampling(self, fields: Raws) -> dict[str, Any]:
        return messages_sampling.asked(fields)

    # canonical -> wire

    def override(self, fields: Raws, sampling: Mapping[str, Any], model: str) -> Changes:
        values = messages_sampling.changes(fields, sampling)
        more = sampling.get("extra_body") or {}
        return super().override(fields, values | {"extra_body": more}, model)

    def request(
        self,
        messages: Messages,
        tools: list[Tool],
        model: str,
        sampling: Mapping[str, Any],
        *,
        stream: bool,
    ) -> bytes:
        """A whole request body. The first system messages are `system`, later ones stay where they are.

        Thinking without a signature is left out: the API refuses it.
        """
        first = next(
            (place for place, message in enumerate(messages) if not isinstance(message, SystemMessage)),
            len(messages),
        )
        offered = [entry for tool in tools if (entry := messages_encode.tool(tool)) is not None]
        data: dict[str, Any] = {"model": model, **messages_sampling.body(sampling, tools=bool(offered))}
        if stream:
            data["stream"] = True
        if first:
            data["system"] = messages_encode.system(messages[:first])
        if offered:
            data["tools"] = offered
        data["messages"] = [
            messages_encode.sendable(item) for item in messages_encode.items(messages[first:])
        ]
        return dumps(data)

    def encode(self, messages: Messages) -> list[bytes]:
        return [dumps(item) for item in messages_encode.items(messages)]

    def rewrite(self, item: msgspec.Raw | bytes, messages: Messages) -> bytes:
        return dumps(messages_encode.rewritten(load(item), messages))

    def hosted_results(self, response: Response) -> list[HostedResult]:
        return messages_hosted.results(response)

    def replace_hosted(self, response: Response, results: list[HostedResult]) -> Response:
        return messages_hosted.replaced(response, results)

    def frame(self, response: Response, model: str, created: int = 0) -> bytes:
        return messages_frame.frame(response, model)

    def frame_stream(
        self, response: Response, model: str, created: int = 0, *, usage: bool = True, size: int = 16
    ) -> list[bytes]:
        return messages_frame.frame_stream(response, model, size=size)

    # streams, errors, upkeep

    def reader(self, *, usage: bool = True) -> StreamReader:
        return MessagesReader()

    def writer(self, model: str, created: int, *, usage: bool = True, identity: str = "") -> StreamWriter:
        return messages_frame.MessagesWriter(model, identity)

    def error_body(
        self, status: int, message: str, kind: str | None = None, code: str | None = None
    ) -> bytes:
        text = messages_errors.full(message) if code == "context_length_exceeded" else message
        return messages_errors.body(status, text, kind)

    def stream_error(
        self, status: int, message: str, kind: str | None = None, code: str | None = None
    ) -> bytes:
        text = messages_errors.full(message) if code == "context_length_exceeded" else message
        return messages_errors.stream(status, text, kind)

    def keepalive(self) -> bytes:
        return _PING

    def models_body(self, models: list[str], one: bool = False) -> bytes:
        entries = [
            {
                "type": "model",
                "id": name,
                "display_name": name,
                "created_at": "1970-01-01T00:00:00Z",
                "lifecycle": "active",
            }
            for name in models
        ]
        if one:
            return dumps(entries[0])
        listed = {"data": entries, "has_more": False, "first_id": models[0], "last_id": models[-1]}
        return dumps(listed)

    def auth(self, key: str) -> dict[str, str]:
        return {"x-api-key": key}
