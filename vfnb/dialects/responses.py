"""Responses, OpenAI's format for agents: typed items in and out.

Format: https://platform.openai.com/docs/api-reference/responses
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import msgspec

from vfnb.dialects import (
    responses_decode,
    responses_encode,
    responses_frame,
    responses_hosted,
    responses_sampling,
    responses_tools,
)
from vfnb.dialects.base import Changes, Dialect, Raws, load
from vfnb.dialects.faults import RequestError, json_error
from vfnb.dialects.lenient import dumps
from vfnb.dialects.parts import Split
from vfnb.dialects.pieces import StreamWriter
from vfnb.dialects.reader import StreamReader
from vfnb.dialects.registry import normalise
from vfnb.dialects.responses_stream import ResponsesReader
from vfnb.dialects.responses_write import ResponsesWriter
from vfnb.types import HostedResult, Messages, Response, SystemMessage, Tool

__all__ = ["Responses"]


class Responses(Dialect[dict[str, Any], dict[str, Any]]):
    """Responses, both directions, streaming included."""

    name: ClassVar[str] = "responses"
    routes: ClassVar[tuple[str, ...]] = ("/v1/responses",)
    history: ClassVar[str | None] = "input"
    carries: ClassVar[frozenset[str]] = frozenset({"image", "audio", "file", "file_url", "result_media"})
    id_prefix: ClassVar[str] = "resp_"
    head_keys: ClassVar[tuple[str, ...]] = ("instructions", "previous_response_id")
    stop_code: ClassVar[str | None] = "invalid_prompt"
    """Codex gives up at once for it, inside a stream too."""

    # wire -> canonical

    def parse_request(self, body: dict[str, Any]) -> tuple[Messages, list[Tool] | None]:
        history = body.get("input")
        items = history if isinstance(history, list) else [] if history is None else [history]
        messages = [*_instructions(body.get("instructions")), *map(responses_decode.message, items)]
        listed = body.get("tools")
        return responses_decode.join(messages), None if listed is None else responses_tools.tools(listed)

    def parse_response(self, resp: dict[str, Any]) -> Response:
        return responses_decode.response(resp)

    def decode(self, item: msgspec.Raw | bytes) -> Messages:
        return Responses.decoded(self, item, load(item))

    def decoded(self, item: msgspec.Raw | bytes, value: Any) -> Messages:
        return [responses_decode.message(value)]

    def head(self, fields: Raws) -> Messages:
        return _instructions(load(fields["instructions"])) if "instructions" in fields else []

    def continues(self, fields: Raws) -> str:
        value = load(fields["previous_response_id"]) if "previous_response_id" in fields else None
        return value if isinstance(value, str) else ""

    def join(self, messages: Messages) -> Messages:
        return responses_decode.join(messages)

    def closes(self, item: msgspec.Raw) -> bool:
        return responses_decode.ends_turn(item)

    def closed(self, item: msgspec.Raw, value: Any) -> bool:
        return responses_decode.ended_turn(value)

    def tools(self, fields: Raws) -> list[Tool]:
        return responses_tools.tools(load(fields["tools"])) if "tools" in fields else []

    def check(self, split: Split) -> None:
        for key, why in _REFUSED.items():
            if split.get(key):
                raise RequestError(f"{key!r} is not supported: {why}.", code="unsupported_parameter")
        if not split.n_known and not split.items and not self.continues(split.fields):
            raise RequestError("The request has no input.", code="missing_required_parameter")

    def sampling(self, fields: Raws) -> dict[str, Any]:
        return responses_sampling.asked(fields)

    # canonical -> wire

    def override(self, fields: Raws, sampling: Mapping[str, Any], model: str) -> Changes:
        return super().override(fields, responses_sampling.wire(fields, sampling), model)

    def request(
        self,
        messages: Messages,
        tools: list[Tool],
        model: str,
        sampling: Mapping[str, Any],
        *,
        stream: bool,
    ) -> bytes:
        data: dict[str, Any] = {"model": model, **responses_sampling.body(sampling), "store": False}
        if stream:
            data["stream"] = True
        if tools:
            data["tools"] = responses_tools.encode(tools)
        rest = messages
        if messages and isinstance(messages[0], SystemMessage) and isinstance(messages[0].content, str):
            data["instructions"], rest = messages[0].content, messages[1:]
        data["input"] = [item for message in rest for item in responses_encode.items(message)]
        return dumps(data)

    def encode(self, messages: Messages) -> list[bytes]:
        return [dumps(item) for message in messages for item in responses_encode.items(message)]

    def hosted_results(self, response: Response) -> list[HostedResult]:
        return responses_hosted.results(response.message)

    def replace_hosted(self, response: Response, results: list[HostedResult]) -> Response:
        return response.model_copy(update={"message": responses_hosted.replaced(response.message, results)})

    def frame(self, response: Response, model: str, created: int = 0) -> bytes:
        return responses_frame.frame(response, model, created, {})

    def frame_stream(
        self, response: Response, model: str, created: int = 0, *, usage: bool = True, size: int = 16
    ) -> list[bytes]:
        return responses_frame.frame_stream(response, model, created, {}, size)

    def answer(self, response: Response, fields: Raws, created: int = 0) -> bytes:
        return responses_frame.frame(response, self.model(fields), created, _asked(fields))

    def answer_stream(
        self, response: Response, fields: Raws, created: int = 0, *, size: int = 16
    ) -> list[bytes]:
        return responses_frame.frame_stream(response, self.model(fields), created, _asked(fields), size)

    # streams, errors, upkeep

    def reader(self, *, usage: bool = True) -> StreamReader:
        return ResponsesReader()

    def writer(self, model: str, created: int, *, usage: bool = True, identity: str = "") -> StreamWriter:
        return ResponsesWriter(model, created, identity)

    def missing(self, path: str) -> str:
        name = normalise(path).removeprefix("/responses/").partition("/")[0]
        if name == "compact":
            return "this server does not compact; ask the model for a summary"
        if normalise(path).startswith("/responses/"):
            return f"{name!r} is not kept to be fetched; go on from it with previous_response_id"
        return ""

    def error_body(
        self, status: int, message: str, kind: str | None = None, code: str | None = None
    ) -> bytes:
        return json_error(status, message, kind, code, param=_PARAMS.get(code or ""))

    def stream_error(
        self, status: int, message: str, kind: str | None = None, code: str | None = None
    ) -> bytes:
        """A refusal fails the response; what may pass is an `error` event, after which clients ask again."""
        event = responses_frame.Events()
        if status < 500 and status != 429:
            error = {"code": code or "invalid_prompt", "message": message}
            failed = responses_frame.shell("", "", 0, "failed", {}) | {"error": error}
            return event("response.failed", response=failed)
        return event("error", code=code or "server_error", message=message, param=None)


_PARAMS = {"previous_response_not_found": "previous_response_id", "missing_required_parameter": "input"}
_REFUSED = {
    "background": "a call whose answer is fetched later cannot be recorded as one; send it without background",
    "conversation": "the history would be kept by the provider and not be seen here; send it as input, or use "
    "previous_response_id",
    "prompt": "the template would be kept by the provider and not be seen here; send its text as instructions "
    "or input",
}


def _asked(fields: Raws) -> dict[str, Any]:
    """What a reply repeats of its request."""
    return {name: load(fields[name]) for name in responses_frame.ECHOED if name in fields}


def _instructions(value: Any) -> Messages:
    if isinstance(value, list):
        return [responses_decode.message(item) for item in value]
    return [SystemMessage(content=value)] if isinstance(value, str) and value else []
