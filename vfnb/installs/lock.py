"""One builder per entry of the cache, across threads and processes."""

from __future__ import annotations

import asyncio
import fcntl
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

__all__ = ["locked"]

POLL_S = 0.2


@asynccontextmanager
async def locked(folder: Path, waiting: Callable[[], object]) -> AsyncIterator[None]:
    """Hold the lock of a folder; the kernel lets go of it when its process dies, however it dies.

    Where the file system cannot lock, nobody waits: builders do not get in each other's way, only the work is
    done twice.

    Args:
        waiting: called once if somebody else has it.
    """
    fd = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        told = False
        while not _take(fd):
            if not told:
                told = True
                waiting()
            await asyncio.sleep(POLL_S)
        yield
    finally:
        os.close(fd)


def _take(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # no locks on this file system
        return True
    return True
