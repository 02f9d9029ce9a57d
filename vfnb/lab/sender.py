"""The one thread of the process that updates live displays, at most four times a second each."""

from __future__ import annotations

import os
import threading
import time
from typing import Protocol

__all__ = ["INTERVAL_S", "SHARE", "Sender", "Ticking", "sender"]

INTERVAL_S = 0.25
"""Least time between two updates of one display."""
SHARE = 0.05
"""At most this part of a core is spent on making one display."""


class Ticking(Protocol):
    """A display that is updated."""

    due: float
    """When to tick next, of `time.monotonic()`."""

    @property
    def ending(self) -> bool:
        """Whether to tick at once."""

    def tick(self) -> bool:
        """Send what is due; on the sender thread. False when there is nothing more to come."""


class Sender:
    """The thread; it ends when there is nothing left to update."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget everything: in a forked child there is no thread."""
        self._ready = threading.Condition()
        self._active: list[Ticking] = []
        self._again: list[Ticking] = []
        self._thread: threading.Thread | None = None

    def add(self, one: Ticking) -> None:
        """Update this one from now on."""
        with self._ready:
            if one in self._active:
                self._again.append(one)  # it may be about to leave
            else:
                self._active.append(one)
            if self._thread is None:
                self._thread = threading.Thread(target=self._main, name="vfnb-display", daemon=True)
                self._thread.start()
            self._ready.notify()

    def wake(self) -> None:
        """Look at what is due now."""
        with self._ready:
            self._ready.notify()

    def _main(self) -> None:
        while True:
            with self._ready:
                if not self._active:
                    self._thread = None
                    return
                if not any(one.ending for one in self._active):
                    self._ready.wait(max(0.0, min(one.due for one in self._active) - time.monotonic()))
                active = list(self._active)
            ended = [one for one in active if not one.tick()]
            with self._ready:
                back = [one for one in self._again if one in ended]
                self._again.clear()
                self._active = [one for one in self._active if one not in ended] + back


sender = Sender()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=sender.reset)
