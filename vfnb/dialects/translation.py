"""One call of a program of one dialect, answered by an upstream of another; see docs/translation.md."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from vfnb.dialects.base import Dialect
from vfnb.dialects.crossing import STATE, Crossing, plain
from vfnb.dialects.faults import RequestError
from vfnb.dialects.pieces import Piece, StreamWriter
from vfnb.dialects.reader import StreamReader
from vfnb.dialects.tooling import Names
from vfnb.types import AssistantMessage, Messages, Response, SamplingConfig, Tool, ToolCall

__all__ = ["Translated", "Translation", "shown"]

_CARRIED = frozenset(SamplingConfig.model_fields) - {"extra_body"} | {
    "tool_choice",
    "parallel_tool_calls",
    "response_format",
}
_QUIET = frozenset(
    {
        "metadata", "user", "store", "service_tier", "prompt_cache_key", "prompt_cache_retention", "include",
        "safety_identifier", "client_metadata", "cache_control", "stream_options", "labels", "thinking",
        "output_config", "reasoning", "n", "candidateCount", "candidate_count",
    }
)  # fmt: skip
"""Settings that say nothing to the model, or are known under a canonical name."""
_STORED = {"cachedContent": "cached content", "cached_content": "cached content", "audio": "spoken answers"}
_EFFORTS = ((1024, "low"), (8192, "medium"))


class Translation:
    """The way there and back of one call.

    Args:
        program: the dialect that the program speaks.
        upstream: the one that the server speaks.
        tools: what the program offers.

    Attributes:
        identity: id of the reply, as the program gets it.
        dropped: what could not be carried; see `docs/translation.md`.
    """

    def __init__(
        self, program: Dialect[Any, Any], upstream: Dialect[Any, Any], tools: Sequence[Tool]
    ) -> None:
        self.program = program
        self.upstream = upstream
        self.identity = program.new_id()
        self.dropped: list[str] = []
        self._names = Names(tools)
        self._ids: dict[int, str] = {}

    def body(
        self,
        messages: Messages,
        asked: Mapping[str, Any],
        overrides: Mapping[str, Any],
        model: str,
        *,
        stream: bool,
    ) -> bytes:
        """The request in the upstream's dialect.

        Args:
            asked: the program's settings under canonical names.
            overrides: the run's, which win.

        Raises:
            RequestError: the program says something that cannot be carried.
        """
        crossing = Crossing(self.upstream, self._names, self.program.name)
        crossed = crossing.messages(messages)
        sampling, lost = self._settings(asked, overrides)
        tools = [f"tool {name}" for name in self._names.left_out]
        self.dropped = [*crossing.dropped, *tools, *lost]
        return self.upstream.request(crossed, self._names.offered, model, sampling, stream=stream)

    def _settings(
        self, asked: Mapping[str, Any], overrides: Mapping[str, Any]
    ) -> tuple[dict[str, Any], list[str]]:
        for name, what in _STORED.items():
            if asked.get(name):
                raise self._refusal(f"{name!r} asks for {what}")
        given = {"reasoning_effort": _effort(asked), **asked, **overrides}
        values = {name: value for name, value in given.items() if name in _CARRIED and value is not None}
        lost = [
            f"setting {name}" for name in asked if name not in _CARRIED and name not in _QUIET and asked[name]
        ]
        for name in ("tool_choice", "reasoning_effort"):
            if not isinstance(values.get(name, ""), str | dict):
                del values[name]
                lost.append(f"setting {name}")
        choice = values.get("tool_choice")
        if isinstance(choice, dict):
            self._choose(values, choice, lost)
        if not self._names.offered:
            values.pop("tool_choice", None)
            values.pop("parallel_tool_calls", None)
        if overrides.get("extra_body"):
            values["extra_body"] = overrides["extra_body"]
        return values, lost

    def _choose(self, values: dict[str, Any], choice: dict[str, Any], lost: list[str]) -> None:
        name = choice.get("name")
        wire = self._names.wire(name) if isinstance(name, str) and choice.keys() == {"name"} else None
        if wire is not None:
            values["tool_choice"] = {"name": wire}
        elif name in self._names.left_out:
            raise self._refusal(f"tool_choice asks for the tool {name!r}")
        else:
            del values["tool_choice"]
            lost.append("setting tool_choice")

    def _refusal(self, what: str) -> RequestError:
        return RequestError(
            f"{what}, which only a provider that speaks {self.program.name} has; this model's server speaks "
            f"{self.upstream.name}.",
            code="unsupported_value",
        )

    def unsent(self, asked: Mapping[str, Any], sent: Mapping[str, Any]) -> list[str]:
        """The settings that the upstream's dialect has no place for."""
        offered = bool(self._names.offered)
        return [
            f"setting {name}"
            for name, value in asked.items()
            if name in _CARRIED and value is not None and name not in sent
            if offered or name not in ("tool_choice", "parallel_tool_calls")
        ]

    # the answer

    def answer(self, response: Response) -> Response:
        """The upstream's answer as the program may have given it; its provider's state stands beside."""
        full = response.message
        message, lost = plain(full)
        message.tool_calls = [self._call(index, call) for index, call in enumerate(message.tool_calls)]
        if lost or _stateful(full):
            kept = full.model_dump()
            message = message.model_copy(update={STATE: {"dialect": self.upstream.name, "message": kept}})
        return response.model_copy(update={"message": message, "id": self.identity})

    def _call(self, index: int, call: ToolCall) -> ToolCall:
        found = self._names.original(call)
        if not found.id:
            found.id = self._ids.setdefault(index, f"call_{self.identity[-24:]}_{index}")
        return found

    def call(self, piece: Piece) -> Piece | None:
        """The start of a call for the program; None if it has to wait for the whole."""
        assert piece.call is not None
        if self._names.is_text(piece.call.name):
            return None
        return piece._replace(call=self._call(piece.number, piece.call))


def shown(response: Response) -> Response:
    """An answer without the state of another dialect's provider."""
    message = response.message
    if STATE not in (message.model_extra or {}):
        return response
    data = message.model_copy()
    assert data.__pydantic_extra__ is not None
    data.__pydantic_extra__ = {key: value for key, value in data.__pydantic_extra__.items() if key != STATE}
    return response.model_copy(update={"message": data})


def _stateful(message: AssistantMessage) -> bool:
    """Whether an answer has keys that its own dialect put there."""
    parts = message.content if isinstance(message.content, list) else []
    return bool(message.model_extra or any(one.model_extra for one in [*parts, *message.tool_calls]))


def _effort(asked: Mapping[str, Any]) -> str | None:
    """What a budget of Anthropic's thinking means as an effort."""
    thinking = asked.get("thinking")
    budget = thinking.get("budget_tokens") if isinstance(thinking, dict) else None
    if type(budget) is not int:
        return None
    return next((name for most, name in _EFFORTS if budget <= most), "high")


class Translated(StreamReader):
    """Reads an upstream's stream and passes on the events of the program's dialect, text by text as it comes."""

    def __init__(self, inner: StreamReader, writer: StreamWriter, translation: Translation) -> None:
        super().__init__()
        inner.pieces = []
        self._inner = inner
        self._writer = writer
        self._translation = translation
        self._open = False
        self._calls: set[int] = set()
        """Calls that have begun."""
        self._late: set[int] = set()
        """Calls whose arguments came before their names: they are written when they are whole."""
        self._whole: Response | None = None

    def feed(self, chunk: bytes) -> bytes:
        self._inner.feed(chunk)
        self.started = self._inner.started
        return self._written()

    def _written(self) -> bytes:
        pieces = self._inner.pieces
        if not pieces:
            return b""
        out = [self._writer.write(piece) for piece in map(self._told, pieces) if piece is not None]
        pieces.clear()
        if out and not self._open:
            self._open = True
            out.insert(0, self._writer.open())
        return b"".join(out)

    def _told(self, piece: Piece) -> Piece | None:
        """A piece for the program; None for what says nothing or has to wait."""
        if piece.call is None:
            if piece.kind == "arguments" and piece.number not in self._calls:
                self._late.add(piece.number)
                return None
            return piece if piece.text else None
        told = None if piece.number in self._late else self._translation.call(piece)
        if told is not None:
            self._calls.add(told.number)
        return told

    def close(self) -> None:
        self._inner.close()
        self.started = self._inner.started
        self.complete, self.error = self._inner.complete, self._inner.error
        if not self.complete or self.error is not None:
            return
        try:
            response = self.response()
        except ValueError:
            return  # who asks for the answer is told
        last = self._written()
        start = b"" if self._open else self._writer.open()
        self.held = last + start + self._writer.end(shown(response))

    def take(self, data: bytes) -> bool:
        return self._inner.take(data)

    def overflowed(self, dialect: Dialect[Any, Any]) -> bool:
        return self._inner.overflowed(self._translation.upstream)

    def response(self) -> Response:
        if self._whole is None or not self.complete:
            self._whole = self._translation.answer(self._inner.response())
        return self._whole
