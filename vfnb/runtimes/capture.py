"""Bounded capture of a program's output: the start and the end are kept, the middle is counted."""

from __future__ import annotations

__all__ = ["Capture"]


class Capture:
    """Keeps at most `limit` bytes; memory stays below three times that whatever comes."""

    def __init__(self, limit: int) -> None:
        self._half = limit // 2
        self._head = bytearray()
        self._tail = bytearray()
        self._cut = 0

    def feed(self, data: bytes) -> None:
        """Take the next bytes."""
        room = self._half - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        self._tail += data
        if len(self._tail) > 2 * self._half:
            self._trim()

    def _trim(self) -> None:
        excess = len(self._tail) - self._half
        if excess > 0:
            del self._tail[:excess]
            self._cut += excess

    @property
    def dropped(self) -> int:
        """Bytes that are not in `text`."""
        return self._cut + max(0, len(self._tail) - self._half)

    def text(self) -> str:
        """The output as UTF-8 (bad bytes replaced), with a line in place of what was left out."""
        self._trim()
        if not self._cut:
            return (self._head + self._tail).decode("utf-8", "replace")
        head, tail = (part.decode("utf-8", "replace") for part in (self._head, self._tail))
        return f"{head}\n[... {self._cut} bytes left out ...]\n{tail}"
