"""A stream in pieces that no dialect owns: what a reader of one dialect tells, a writer of another says."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from vfnb.types import AssistantMessage, RefusalContentPart, Response, ToolCall

if TYPE_CHECKING:
    from vfnb.dialects.base import Dialect

__all__ = ["LiveWriter", "Piece", "StreamWriter", "WholeWriter"]

_SIZE = 16


class Piece(NamedTuple):
    """What one event adds to an answer."""

    kind: Literal["text", "reasoning", "refusal", "call", "arguments"]
    """A `call` starts a tool call; its arguments follow as `arguments`."""
    text: str = ""
    number: int = 0
    """Which tool call, from 0 in the order of the answer."""
    call: ToolCall | None = None
    """The call that starts, without its arguments."""


class StreamWriter(ABC):
    """Writes one streamed reply in one dialect."""

    @abstractmethod
    def open(self) -> bytes:
        """What stands before the first piece."""

    @abstractmethod
    def write(self, piece: Piece) -> bytes:
        """The events of one piece."""

    @abstractmethod
    def end(self, response: Response) -> bytes:
        """All of the answer that no piece had, and the end."""


class WholeWriter(StreamWriter):
    """For dialects without a writer of their own: all of it at the end."""

    def __init__(self, dialect: Dialect[Any, Any], model: str, created: int, usage: bool) -> None:
        self._dialect = dialect
        self._model = model
        self._created = created
        self._usage = usage

    def open(self) -> bytes:
        return b""

    def write(self, piece: Piece) -> bytes:
        return b""

    def end(self, response: Response) -> bytes:
        events = self._dialect.frame_stream(response, self._model, self._created, usage=self._usage)
        return b"".join(events)


class LiveWriter(StreamWriter):
    """Writes pieces as they come, and at the end what of the answer has not been written yet.

    A subclass defines `open`, `piece` and `finish`.
    """

    def __init__(self) -> None:
        self._parts: dict[str, list[str]] = {"text": [], "reasoning": [], "refusal": []}
        self._arguments: dict[int, list[str]] = {}

    def write(self, piece: Piece) -> bytes:
        if piece.kind == "call":
            self._arguments[piece.number] = []
        elif piece.kind == "arguments":
            self._arguments.setdefault(piece.number, []).append(piece.text)
        else:
            self._parts[piece.kind].append(piece.text)
        return self.piece(piece)

    def end(self, response: Response) -> bytes:
        rest = [self.write(piece) for piece in self._missing(response.message)]
        return b"".join([*rest, self.finish(response)])

    def _missing(self, message: AssistantMessage) -> Iterator[Piece]:
        yield from self._rest("reasoning", message.reasoning_content or "")
        yield from self._rest("text", message.text)
        parts = message.content if isinstance(message.content, list) else []
        refusals = [part.refusal for part in parts if isinstance(part, RefusalContentPart)]
        yield from self._rest("refusal", "".join(refusals))
        for index, call in enumerate(message.tool_calls):
            if index not in self._arguments:
                yield Piece("call", number=index, call=call.model_copy(update={"arguments": ""}))
            rest = _after("".join(self._arguments.get(index, [])), call.arguments)
            if rest:
                yield Piece("arguments", rest, index)

    def _rest(self, kind: Literal["text", "reasoning", "refusal"], whole: str) -> Iterator[Piece]:
        rest = _after("".join(self._parts[kind]), whole)
        for start in range(0, len(rest), _SIZE):
            yield Piece(kind, rest[start : start + _SIZE])

    @abstractmethod
    def piece(self, piece: Piece) -> bytes:
        """The events of one piece."""

    @abstractmethod
    def finish(self, response: Response) -> bytes:
        """The end, when all of the answer is written."""


def _after(said: str, whole: str) -> str:
    """What is left to say; nothing if something else has been said already."""
    return whole[len(said) :] if whole.startswith(said) else ""
