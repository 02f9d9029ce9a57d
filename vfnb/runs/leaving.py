"""What still runs when the interpreter leaves is cancelled and stored."""

from __future__ import annotations

import concurrent.futures
import weakref

from vfnb import loops
from vfnb.runs.live import Live

__all__ = ["EXIT_S", "watch"]

EXIT_S = 10.0
"""Longest wait for running rollouts."""

_live: weakref.WeakSet[Live] = weakref.WeakSet()


def watch(live: Live) -> None:
    """Cancel this run at the end of the process, if it still goes on then."""
    _live.add(live)


def _leave() -> None:
    running = [live for live in list(_live) if not live.done.done()]
    for live in running:
        live.cancel("the interpreter left")
    concurrent.futures.wait([live.done for live in running], timeout=EXIT_S)


loops.at_exit(_leave)
