"""A calm garbage collector while many calls pass through: its pauses are what slow calls wait for."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["calm"]

_THRESHOLD = 10_000
_lock = threading.Lock()
_users = 0
_before = (0, 0, 0)


@contextmanager
def calm() -> Iterator[None]:
    """Leave what exists now out of collections, and collect less often; the last one out restores all.

    Traces grow by objects that live, so Python's default looks at all of them again and again and finds
    nothing. Cycles are still collected, those that exist already before and afterwards.
    """
    global _users, _before
    with _lock:
        _users += 1
        if _users == 1:
            _before = gc.get_threshold()
            gc.collect()
            gc.freeze()
            gc.set_threshold(max(_THRESHOLD, _before[0]) if _before[0] else 0, *_before[1:])
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if _users == 0:
                gc.set_threshold(*_before)
                gc.unfreeze()
