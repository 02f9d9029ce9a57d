"""Readers of streamed replies: pass bytes on at once, keep the end back, put the answer together."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import msgspec

from vfnb.dialects.sse import EventSplitter, event_data
from vfnb.types import Response

if TYPE_CHECKING:
    from vfnb.dialects.base import Dialect
    from vfnb.dialects.pieces import Piece

__all__ = ["LastEventReader", "StreamReader"]


class StreamReader(ABC):
    """Reads one stream. Bytes pass through unchanged and in whole events, up to the terminal event.

    The terminal event and what follows are read but stay in `held` until the caller has stored the call.
    """

    def __init__(self) -> None:
        self._events = EventSplitter()
        self._holding = False
        self.held = b""
        """Bytes kept back: from the first event that says the end, or an unfinished one after `close`."""
        self.complete = False
        """Whether the stream said that it is at its end."""
        self.started = False
        """Whether an event with data has come."""
        self.error: dict[str, Any] | None = None
        """An error that the upstream sent inside the stream."""
        self.pieces: list[Piece] | None = None
        """Set to a list by who translates the stream: `take` adds what each event says. None: nobody asks."""

    def feed(self, chunk: bytes) -> bytes:
        """Take what came; return the bytes to pass on now."""
        passed: list[bytes] = []
        take = self.take
        for event in self._events.feed(chunk):
            data = event_data(event)
            if data:
                self.started = True
                if take(data):
                    self._holding = True
            if self._holding:
                self._hold(event, data)
            else:
                passed.append(event)
        return passed[0] if len(passed) == 1 else b"".join(passed)

    def _hold(self, event: bytes, data: bytes) -> None:
        """Keep an event back; a subclass may drop what the program did not ask for."""
        self.held += event

    def close(self) -> None:
        """The upstream closed: an event without its blank line still counts."""
        rest = self._events.flush()
        if rest:
            data = event_data(rest)
            if data:
                self.started = True
                self.take(data)
            self._hold(rest, data)

    @abstractmethod
    def take(self, data: bytes) -> bool:
        """Note the data of one event; True holds it and all that follows back."""

    @abstractmethod
    def response(self) -> Response:
        """The answer so far: whole if `complete`, else the part that came.

        Raises:
            ValueError: if nothing that came can be read.
        """

    def overflowed(self, dialect: Dialect[Any, Any]) -> bool:
        """Whether `error` says that the prompt is too long, in a stream of this dialect."""
        return dialect.recognise_overflow(400, str(self.error).encode())

    @property
    def partial_text(self) -> str:
        """The text so far."""
        try:
            return self.response().text
        except ValueError:
            return ""


class LastEventReader(StreamReader):
    """For dialects without a reader of their own: the last event must be a whole reply."""

    def __init__(self, dialect: Dialect[Any, Any]) -> None:
        super().__init__()
        self._dialect = dialect
        self._last = b""

    def take(self, data: bytes) -> bool:
        if data == b"[DONE]":
            self.complete = True
            return True
        if b'"error"' in data[:64]:
            try:
                body = msgspec.json.decode(data)
            except msgspec.DecodeError:
                body = None
            if isinstance(body, dict) and isinstance(body.get("error"), dict):
                self.error = body["error"]
        self._last = data
        return False

    def close(self) -> None:
        super().close()
        self.complete = self.complete or (self.started and self.error is None)

    def response(self) -> Response:
        try:
            return self._dialect.read_response(self._last)
        except (ValueError, msgspec.DecodeError) as error:
            raise ValueError(
                f"dialect {self._dialect.name!r} cannot put a streamed reply together; define reader() "
                f"(its last event is not a whole reply: {error})"
            ) from error
