"""Gemini `generateContent`, the format of Google's models.

Format: https://ai.google.dev/api/generate-content. The path names the model and says whether the answer
streams; both are folded into the body as `model` and `stream` while it is here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, ClassVar
from urllib.parse import quote, unquote

import msgspec

from vfnb.dialects import gemini_decode, gemini_encode, gemini_sampling
from vfnb.dialects.base import Changes, Dialect, Raws, load
from vfnb.dialects.faults import RequestError
from vfnb.dialects.gemini_stream import GeminiReader, GeminiWriter, joined
from vfnb.dialects.lenient import dumps, loads
from vfnb.dialects.parts import Split
from vfnb.dialects.pieces import StreamWriter
from vfnb.dialects.reader import StreamReader
from vfnb.types import AssistantMessage, Messages, Response, TextContentPart, Tool

__all__ = ["Gemini", "GeminiList"]

_PATH = re.compile(r"/models/([^/?]+?):(\w+)(?:\?|$)")
_FOLDED = re.compile(rb'\s*\{\s*"model":\s*"(?:[^"\\]|\\.)*",\s*"stream":\s*(?:true|false)(?:,|(?=\s*\}))')
_STATUS = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    405: "UNIMPLEMENTED",
    409: "ABORTED",
    413: "INVALID_ARGUMENT",
    429: "RESOURCE_EXHAUSTED",
    499: "CANCELLED",
    500: "INTERNAL",
    501: "UNIMPLEMENTED",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}


class Gemini(Dialect[dict[str, Any], dict[str, Any]]):
    """Gemini `generateContent`, both directions, and `streamGenerateContent` as an event stream."""

    name: ClassVar[str] = "gemini"
    routes: ClassVar[tuple[str, ...]] = (
        "/v1beta/models/{model}:generateContent",
        "/v1beta/models/{model}:streamGenerateContent?alt=sse",
        "/v1alpha/models/{model}:generateContent",
        "/v1alpha/models/{model}:streamGenerateContent?alt=sse",
        "/v1/models/{model}:generateContent",
        "/v1/models/{model}:streamGenerateContent?alt=sse",
    )
    history: ClassVar[str | None] = "contents"
    head_keys: ClassVar[tuple[str, ...]] = ("systemInstruction", "system_instruction")
    carries: ClassVar[frozenset[str]] = frozenset({"image", "audio", "file", "file_url", "result_media"})
    stop_status: ClassVar[int] = 400
    stop_kind: ClassVar[str] = "FAILED_PRECONDITION"
    base_url_var: ClassVar[str] = "GOOGLE_GEMINI_BASE_URL"
    api_key_var: ClassVar[str] = "GEMINI_API_KEY"
    models_path: ClassVar[str] = "/v1beta/models"
    client_header: ClassVar[str] = "x-goog-api-key"
    streamed: ClassVar[bool] = True
    """Whether `streamGenerateContent` is answered with events."""

    # requests

    def receive(self, body: bytes, path: str) -> bytes:
        named, start = _PATH.search(path), body.find(b"{")
        if named is None or start < 0 or body[:start].strip():
            return body
        stream = named[2] == "streamGenerateContent" and self.streamed
        rest = body[start + 1 :]
        comma = b"" if rest.lstrip()[:1] == b"}" else b","
        return b'{"model":%b,"stream":%b%b%b' % (
            dumps(unquote(named[1])),
            b"true" if stream else b"false",
            comma,
            rest,
        )

    def send(self, body: bytes) -> bytes:
        folded = _FOLDED.match(body)
        return body if folded is None else b"{" + body[folded.end() :]

    def parse_request(self, body: dict[str, Any]) -> tuple[Messages, list[Tool] | None]:
        messages = gemini_decode.system(gemini_decode.get(body, "systemInstruction"))
        for item in body.get("contents") or []:
            messages += gemini_decode.content(item)
        return self.join(messages), gemini_decode.tools(body["tools"]) if "tools" in body else None

    def decode(self, item: msgspec.Raw | bytes) -> Messages:
        return Gemini.decoded(self, item, load(item))

    def decoded(self, item: msgspec.Raw | bytes, value: Any) -> Messages:
        return gemini_decode.content(value)

    def head(self, fields: Raws) -> Messages:
        for key in self.head_keys:
            if key in fields:
                return gemini_decode.system(load(fields[key]))
        return []

    def join(self, messages: Messages) -> Messages:
        """Programs that stream put every event of an answer into a turn of its own."""
        found: Messages = []
        for message in messages:
            last = found[-1] if found else None
            if isinstance(message, AssistantMessage) and isinstance(last, AssistantMessage):
                said = [*_parts(last), *_parts(message)]
                calls = [*last.tool_calls, *message.tool_calls]
                found[-1] = AssistantMessage(content=gemini_decode.merged(said), tool_calls=calls)
            else:
                found.append(message)
        return found

    def closes(self, item: msgspec.Raw) -> bool:
        return Gemini.closed(self, item, load(item))

    def closed(self, item: msgspec.Raw, value: Any) -> bool:
        return not (isinstance(value, dict) and value.get("role") == "model")

    def tools(self, fields: Raws) -> list[Tool]:
        return gemini_decode.tools(load(fields["tools"])) if "tools" in fields else []

    def check(self, split: Split) -> None:
        config = gemini_decode.get(
            {key: split.get(key) for key in ("generationConfig", "generation_config")}, "generationConfig"
        )
        count = gemini_decode.get(config, "candidateCount")
        if isinstance(count, int) and count > 1:
            raise RequestError(
                f"candidateCount={count} is not supported: ask {count} times for one candidate."
            )
        if not split.n_known and not split.items:
            raise RequestError("The request has no contents.")

    def model(self, fields: Raws) -> str:
        return super().model(fields).removeprefix("models/")

    def sampling(self, fields: Raws) -> dict[str, Any]:
        return gemini_sampling.asked(fields)

    def override(self, fields: Raws, sampling: Mapping[str, Any], model: str) -> Changes:
        more = dict(sampling)
        changes = {key: dumps(value) for key, value in (more.pop("extra_body", None) or {}).items()}
        if any(value is not None for value in more.values()):
            snake = "generation_config" in fields
            changes["generation_config" if snake else "generationConfig"] = dumps(
                gemini_sampling.config(fields, more)
            )
        return dict(changes)

    # requests, written anew

    def request(
        self,
        messages: Messages,
        tools: list[Tool],
        model: str,
        sampling: Mapping[str, Any],
        *,
        stream: bool,
    ) -> bytes:
        told, turns = gemini_encode.contents(messages)
        data = gemini_sampling.body(sampling)
        if tools:
            data["tools"] = gemini_encode.tools(tools)
        if told is not None:
            data["systemInstruction"] = told
        return dumps(data | {"contents": turns})

    def encode(self, messages: Messages) -> list[bytes]:
        return [dumps(gemini_encode.message(message)) for message in messages]

    def rewrite(self, item: msgspec.Raw | bytes, messages: Messages) -> bytes:
        turn: dict[str, Any] = load(item)
        parts = [part for message in messages for part in gemini_encode.message(message)["parts"]]
        return dumps(turn | {"parts": parts})

    # replies

    def parse_response(self, resp: dict[str, Any]) -> Response:
        return gemini_decode.response(resp)

    def frame(self, response: Response, model: str, created: int = 0) -> bytes:
        return dumps(gemini_encode.reply(response, model, None))

    def frame_stream(
        self, response: Response, model: str, created: int = 0, *, usage: bool = True, size: int = 16
    ) -> list[bytes]:
        said = gemini_encode.said(response.message)
        events = [
            gemini_encode.event(gemini_encode.reply(response, model, [piece], last=False))
            for part in said
            for piece in gemini_encode.pieces(part, size)
        ]
        return [*events, gemini_encode.event(gemini_encode.reply(response, model, []))]

    def reader(self, *, usage: bool = True) -> StreamReader:
        return GeminiReader()

    def writer(self, model: str, created: int, *, usage: bool = True, identity: str = "") -> StreamWriter:
        return GeminiWriter(model, identity)

    def keepalive(self) -> bytes:
        return b"\r\n\r\n"  # Google's own client takes a comment for the start of an error

    # errors, upkeep

    def error_body(
        self, status: int, message: str, kind: str | None = None, code: str | None = None
    ) -> bytes:
        named = kind if kind is not None and kind.isupper() else _STATUS.get(status)
        named = named or ("INTERNAL" if status >= 500 else "INVALID_ARGUMENT")
        return dumps({"error": {"code": status, "message": message, "status": named}})

    def overflow_error(self, message: str = "") -> tuple[int, bytes]:
        text = "The input token count exceeds the maximum number of tokens allowed"
        return 400, self.error_body(400, f"{text}. {message}" if message else f"{text}.")

    def recognise_overflow(self, status: int, body: bytes) -> bool:
        return (status == 400 and _OVERFLOW.search(body) is not None) or super().recognise_overflow(
            status, body
        )

    def models_body(self, models: list[str], one: bool = False) -> bytes:
        methods = ["generateContent"]
        entries = [
            {"name": f"models/{name}", "displayName": name, "supportedGenerationMethods": methods}
            for name in models
        ]
        return dumps(entries[0] if one else {"models": entries})

    def path(self, model: str, stream: bool) -> str:
        what = "streamGenerateContent?alt=sse" if stream else "generateContent"
        return f"/v1beta/models/{quote(model.removeprefix('models/'), safe='')}:{what}"

    def auth(self, key: str) -> dict[str, str]:
        return {"x-goog-api-key": key}


_OVERFLOW = re.compile(rb"input token count|token count .{0,40}exceeds", re.IGNORECASE)


class GeminiList(Gemini):
    """`streamGenerateContent` without `alt=sse`: the same events as one JSON list, which is sent whole."""

    name: ClassVar[str] = "gemini_list"
    routes: ClassVar[tuple[str, ...]] = (
        "/v1beta/models/{model}:streamGenerateContent",
        "/v1alpha/models/{model}:streamGenerateContent",
        "/v1/models/{model}:streamGenerateContent",
    )
    streamed: ClassVar[bool] = False

    def read_response(self, body: bytes) -> Response:
        try:
            chunks = loads(body)
        except ValueError as error:
            raise ValueError(f"the reply is not JSON: {error}") from error
        if not isinstance(chunks, list):
            raise ValueError(f"the reply is a JSON {type(chunks).__name__}, not a list")
        return self.parse_response(joined(chunks))

    def frame(self, response: Response, model: str, created: int = 0) -> bytes:
        return b"[" + super().frame(response, model, created) + b"]"

    def path(self, model: str, stream: bool) -> str:
        return super().path(model, True).removesuffix("?alt=sse")


def _parts(message: AssistantMessage) -> list[Any]:
    content = message.content
    if isinstance(content, str):
        return [TextContentPart(text=content)]
    return list(content or [])
