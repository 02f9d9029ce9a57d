"""Models that are being loaded in this process: what displays say while a run waits for them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

__all__ = ["Loading", "loading", "under_way"]

Progress = Callable[[str], None]
_now: list[Loading] = []


@dataclass(eq=False)
class Loading:
    """One model on its way."""

    label: str
    progress: Progress | None = None
    state: str = "starting"
    since: float = field(default_factory=time.monotonic)

    def __call__(self, state: str) -> None:
        """Say how far it is. From any thread."""
        self.state = state[:120]
        if self.progress is not None:
            self.progress(f"{self.label}: {self.state}")


@contextmanager
def loading(label: str, progress: Progress | None = None) -> Iterator[Loading]:
    """Show a model among those that are being loaded."""
    entry = Loading(label, progress)
    _now.append(entry)
    try:
        yield entry
    finally:
        _now.remove(entry)


def under_way() -> list[str]:
    """What is being loaded in this process, a line each. From any thread."""
    return [f"{one.label}: {one.state} ({time.monotonic() - one.since:.0f} s)" for one in list(_now)]
