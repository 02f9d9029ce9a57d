"""`print` inside user code goes to the rollout's log instead of whatever cell happens to be active."""

from __future__ import annotations

import contextvars
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO

__all__ = ["printing_to"]

_sink: contextvars.ContextVar[Callable[[str], object] | None] = contextvars.ContextVar(
    "vfnb_print", default=None
)
_lock = threading.Lock()
_users = 0


class _Lines:
    """Puts the pieces that `print` writes together again, line by line."""

    def __init__(self, sink: Callable[[str], object]) -> None:
        self._sink = sink
        self._rest = ""

    def write(self, text: str) -> None:
        *lines, self._rest = (self._rest + text).split("\n")
        for line in lines:
            self._sink(line + "\n")

    def end(self) -> None:
        rest, self._rest = self._rest, ""
        if rest:
            self._sink(rest)


class _Proxy:
    """Stands in for `sys.stdout`; text of a captured context goes to its sink, all else passes through."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        sink = _sink.get()
        if sink is None:
            return self.stream.write(text)
        sink(text)
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


@contextmanager
def printing_to(sink: Callable[[str], object] | None) -> Iterator[None]:
    """While inside, what this context (task, and threads started with its copy) prints goes to `sink`, a line
    at a time.

    `sys.stdout` is a pass-through proxy as long as anyone is inside; other threads and tasks see no
    difference. None changes nothing.
    """
    if sink is None:
        yield
        return
    lines = _Lines(sink)
    token = _sink.set(lines.write)
    _install()
    try:
        yield
    finally:
        _remove()
        _sink.reset(token)
        lines.end()


def _install() -> None:
    global _users
    with _lock:
        _users += 1
        if not isinstance(sys.stdout, _Proxy):
            sys.stdout = _Proxy(sys.stdout)


def _remove() -> None:
    global _users
    with _lock:
        _users -= 1
        # If someone has put another stream in place meanwhile, the proxy inside it just passes through.
        if _users == 0 and isinstance(sys.stdout, _Proxy):
            sys.stdout = sys.stdout.stream
