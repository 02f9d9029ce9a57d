"""Readers of streamed replies: pass bytes on at once, keep the end back, put the answer together."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import msgspec

from vfnb.dialects.sse import EventSplitter, datas, event_data
from vfnb.types import Response

if TYPE_CHECKING:
    from vfnb.dialects.base import Dialect
    from vfnb.dialects.pieces import Piece

__all__ = ["LastEventReader", "StreamReader"]

E = TypeVar("E")

_SAID = re.compile(rb"data: ?[^ \n]")
_MOST = 256 << 10  # bytes that are left unread: reading them takes a few ms
_FEW = 3


class StreamReader(ABC):
    """Reads one stream. Bytes pass through unchanged and in whole events, up to the terminal event.

    The terminal event and what follows are read but stay in `held` until the caller has stored the call.
    """

    urgent: ClassVar[tuple[bytes | re.Pattern[bytes], ...]] = ()
    """What stands in each event that `take` holds back or reports as an error, and in few others. Events before
    such a one are passed on unread, and read together later (`catch_up`). Without any each is read as it comes."""

    def __init__(self) -> None:
        self._events = EventSplitter()
        self._eager = not self.urgent
        self._unread: list[bytes] = []
        self._unread_size = 0
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
        if self._eager or self.pieces is not None or b"\r" in chunk:
            self._eager = True
            return self._look(self._events.feed(chunk))
        events = self._events.whole(chunk)
        if not events:
            return b""
        place = self._place(events)
        if place < 0:
            self._leave(events)
            return events
        start = events.rfind(b"\n\n", 0, place) + 2
        quiet = events[:start] if start > 1 else b""
        if quiet:
            self._leave(quiet)
        return quiet + self._look(EventSplitter().feed(events[len(quiet) :]))

    def _look(self, events: list[bytes]) -> bytes:
        """Read events one by one; return those to pass on."""
        passed: list[bytes] = []
        take = self.take
        for event in events:
            data = event_data(event)
            if data:
                self.started = True
                if take(data):
                    self._holding = self._eager = True
            if self._holding:
                self._hold(event, data)
            else:
                passed.append(event)
        return passed[0] if len(passed) == 1 else b"".join(passed)

    def _place(self, events: bytes) -> int:
        """Where the first urgent thing stands, -1 if there is none."""
        first = -1
        for mark in self.urgent:
            if isinstance(mark, bytes):
                place = events.find(mark)
            else:
                found = mark.search(events)
                place = -1 if found is None else found.start()
            if place >= 0 and (first < 0 or place < first):
                first = place
        return first

    def _leave(self, events: bytes) -> None:
        """Keep some events to be read later."""
        self._unread.append(events)
        self._unread_size += len(events)
        if not self.started and _SAID.search(events) is not None:
            self.started = True
        if self._unread_size > _MOST:
            self.catch_up()

    def catch_up(self) -> None:
        """Read what has been left unread; `take` and `response` do so first where the order counts."""
        if self._unread:
            events = b"".join(self._unread)
            self._unread.clear()
            self._unread_size = 0
            self._take_many([data for data in datas(events) if data])

    def _take_many(self, found: list[bytes]) -> None:
        if len(found) <= _FEW:
            for data in found:
                self.take(data)
        elif not self.take_all(found):  # halves, so that one odd event does not make all of them slow
            half = len(found) // 2
            self._take_many(found[:half])
            self._take_many(found[half:])

    @staticmethod
    def together(decode: Callable[[bytes], list[E]], found: list[bytes]) -> list[E] | None:
        """The events as one JSON list, for `take_all`; None if one of them is not what `decode` reads."""
        try:
            events = decode(b"[" + b",".join(found) + b"]")
        except ValueError:
            return None
        return events if len(events) == len(found) else None  # data with a comma at its top level is two

    def take_all(self, found: list[bytes]) -> bool:
        """Note the data of several events in one go; False, with nothing noted, if one of them is uncommon."""
        for data in found:
            self.take(data)
        return True

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
