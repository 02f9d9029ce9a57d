"""Progress of a running call: one view, updated in place.

In a Jupyter kernel it is one display, updated by its id, with a text and an html twin; in a terminal one
line on stderr; nothing where stderr is no terminal. Updates come from the sender thread, so they go on while the
main thread is busy and never reach another cell.
"""

from __future__ import annotations

import contextvars
import logging
import shutil
import sys
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from vfnb.lab.kernel import publisher
from vfnb.lab.run_twin import run_bundle, run_line
from vfnb.lab.sender import INTERVAL_S, SHARE, sender

__all__ = ["INTERVAL_S", "Progress", "Shown"]

log = logging.getLogger("vfnb.lab")


@dataclass(frozen=True)
class Shown:
    """How snapshots of one kind are shown."""

    bundle: Callable[[Any], dict[str, str]] = run_bundle
    line: Callable[[Any], str] = run_line


class _Sink(Protocol):
    def first(self, view: Any) -> None: ...
    def update(self, view: Any) -> None: ...
    def last(self, view: Any) -> None: ...


class _Cell:
    """One display of the cell that started it, whatever cell runs now."""

    def __init__(self, display: Any, shown: Shown) -> None:
        self._display = display
        self._shown = shown
        self._id = uuid.uuid4().hex
        self._sent: dict[str, str] = {}
        # ipykernel keeps the parent message of the current cell in a context variable.
        self._context = contextvars.copy_context()

    def _publish(self, view: Any, *, update: bool) -> None:
        bundle = self._shown.bundle(view)
        if bundle == self._sent:
            return
        self._sent = bundle
        transient = {"display_id": self._id}
        self._context.run(self._display.publish, data=bundle, transient=transient, update=update)

    def first(self, view: Any) -> None:
        self._publish(view, update=False)

    def update(self, view: Any) -> None:
        self._publish(view, update=True)

    last = update


class _Line:
    """One line of a terminal, rewritten in place."""

    def __init__(self, stream: Any, shown: Shown) -> None:
        self._stream = stream
        self._shown = shown

    def _write(self, view: Any, end: str) -> None:
        width = shutil.get_terminal_size().columns - 1
        line = self._shown.line(view)
        line = line if len(line) <= width else line[: width - 1] + "…"
        self._stream.write(f"\r{line}\x1b[K{end}")
        self._stream.flush()

    def first(self, view: Any) -> None:
        self._write(view, "")

    update = first

    def last(self, view: Any) -> None:
        self._write(view, "\n")


def _sink(shown: Shown) -> _Sink | None:
    display = publisher()
    if display is not None:
        return _Cell(display, shown)
    stream = sys.stderr
    try:
        return _Line(stream, shown) if stream is not None and stream.isatty() else None
    except ValueError:  # a closed stream
        return None


class Progress:
    """The live view of one running call.

    `view` makes a snapshot; it is called on the sender thread and must be safe there.
    `quiet` leaves no output. `shown` draws snapshots; those of runs by default.
    """

    def __init__(self, view: Callable[[], Any], *, quiet: bool = False, shown: Shown | None = None) -> None:
        self._view = view
        self._shown = shown or Shown()
        self._quiet = quiet
        self._sink: _Sink | None = None
        self._done = threading.Event()
        self._warned = False
        self.ending = False
        self.due = 0.0

    def __repr__(self) -> str:
        return f"Progress({'stopped' if self.ending else 'running' if self._sink else 'silent'})"

    def start(self) -> Progress:
        """Show the first state in the current cell or terminal; later states follow by themselves."""
        self._sink = None if self._quiet else _sink(self._shown)
        if self._sink is not None:
            self._send(self._sink.first)
            self.due = time.monotonic() + INTERVAL_S
            sender.add(self)
        return self

    def stop(self, timeout: float = 5.0) -> None:
        """Send the final state and end. Waits at most `timeout` seconds until it is sent; 0 does not wait."""
        if self._sink is None or self.ending:
            return
        self.ending = True
        sender.wake()
        if timeout:
            self._done.wait(timeout)

    def __enter__(self) -> Progress:
        return self.start()

    def __exit__(self, *exc: object) -> None:
        self.stop()

    def tick(self) -> bool:
        """Send what is due; on the sender thread. False when this was the last update."""
        assert self._sink is not None
        if self.ending:
            self._send(self._sink.last)
            self._done.set()
            return False
        if time.monotonic() >= self.due:
            took = self._send(self._sink.update)
            self.due = time.monotonic() + max(INTERVAL_S, took / SHARE)
        return True

    def _send(self, how: Callable[[Any], None]) -> float:
        begin = time.thread_time()
        try:
            how(self._view())
        except Exception:  # a display must never end the run it shows
            if not self._warned:
                self._warned = True
                log.warning("a progress view could not be shown", exc_info=True)
        return time.thread_time() - begin
