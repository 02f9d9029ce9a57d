"""Server-sent events: bytes in, whole events out, whatever the reads cut through.

Format: https://html.spec.whatwg.org/multipage/server-sent-events.html (lines end with LF, CRLF or CR).
"""

from __future__ import annotations

import re

__all__ = ["EventSplitter", "datas", "event_data", "event_name"]

_END = re.compile(rb"\r\n\r\n|\n\n|\r\r|\n\r\n|\r\n\n")
_LINES = re.compile(rb"\r\n|\n|\r")
_FIRST = re.compile(rb"(?:event: [^\n]*\n)?data: ")
_BETWEEN = re.compile(rb"\n\n(?:event: [^\n]*\n)?data: ")


class EventSplitter:
    """Cuts a byte stream into events, each with its blank line; joined they are the stream again."""

    __slots__ = ("_rest",)

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, chunk: bytes) -> list[bytes]:
        """The events that `chunk` completes."""
        data = self._rest + chunk if self._rest else chunk
        if b"\r" not in data:
            parts = data.split(b"\n\n")
            self._rest = parts.pop()
            return [part + b"\n\n" for part in parts]
        events = []
        start = 0
        for match in _END.finditer(data):
            end = match.end()
            if end == len(data) and data.endswith(b"\r"):
                break  # the LF of a CRLF may still come
            events.append(data[start:end])
            start = end
        self._rest = data[start:]
        return events

    def whole(self, chunk: bytes) -> bytes:
        """The same in one piece, for streams whose lines end with LF."""
        data = self._rest + chunk if self._rest else chunk
        end = data.rfind(b"\n\n") + 2
        if end < 2:
            self._rest = data
            return b""
        self._rest = data[end:]
        return data if end == len(data) else data[:end]

    def flush(self) -> bytes:
        """The bytes of the unfinished last event, `b""` if there is none."""
        rest, self._rest = self._rest, b""
        return rest


def event_data(event: bytes) -> bytes:
    """The `data` of one event, its lines joined with LF; `b""` for a comment."""
    at = event.find(b"\n") + 1 if event.startswith(b"event:") else 0
    if event.startswith(b"data: ", at) and event.find(b"\n", at) == len(event) - 2 and b"\r" not in event:
        return event[at + 6 : -2]  # one line, perhaps with a name before it: the usual case
    lines = [line[5:] for line in _LINES.split(event) if line.startswith(b"data:")]
    return b"\n".join(line[1:] if line[:1] == b" " else line for line in lines)


def datas(events: bytes) -> list[bytes]:
    """The `data` of each of some whole events, comments left out."""
    first = _FIRST.match(events)
    if first is not None and events.endswith(b"\n\n"):
        rest = events[first.end() : -2]
        found = _BETWEEN.split(rest) if b"\nevent: " in rest else rest.split(b"\n\ndata: ")
        joined = b"".join(found)
        if b"\n" not in joined and b"\r" not in joined:
            return found  # the usual case: events of one line each, perhaps with a name before it
    return [data for event in EventSplitter().feed(events) if (data := event_data(event))]


def event_name(event: bytes) -> str:
    """The `event` field of one event, `""` if it has none."""
    for line in _LINES.split(event):
        if line.startswith(b"event:"):
            return line[6:].strip().decode("utf-8", "replace")
    return ""
