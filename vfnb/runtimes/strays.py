"""Finding and ending what programs left running."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Collection
from pathlib import Path

__all__ = ["end_processes", "find_processes", "signal_group"]

_PROC = Path("/proc")
_POLL_S = 0.02


def signal_group(group: int, number: int) -> bool:
    """Signal a process group (0 only looks); False if nothing is left of it."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def find_processes(marker: str, sessions: Collection[int] = ()) -> list[int]:
    """Processes whose environment has `marker` (`NAME=value`) or whose session is one of `sessions`.

    Only where there is a `/proc` (Linux); elsewhere nothing is found.
    """
    needle = marker.encode()
    names = [entry.name for entry in _PROC.iterdir()] if _PROC.is_dir() else []
    pids = [name for name in names if name.isdigit() and int(name) != os.getpid()]
    return [int(pid) for pid in pids if _matches(pid, needle, sessions)]


def _matches(pid: str, needle: bytes, sessions: Collection[int]) -> bool:
    try:
        # Fields after the name in brackets: state, parent, group, session (proc(5)).
        state, _, _, session = (_PROC / pid / "stat").read_bytes().rpartition(b")")[2].split()[:4]
        if state == b"Z":  # dead already, only its parent has not looked yet
            return False
        return int(session) in sessions or needle in (_PROC / pid / "environ").read_bytes().split(b"\0")
    except (OSError, ValueError):
        return False


def end_processes(marker: str, sessions: Collection[int] = (), *, grace: float) -> int:
    """End all that `find_processes` finds: SIGTERM, up to `grace` seconds, SIGKILL until none is left.

    Blocks; returns how many there were.
    """
    first = found = find_processes(marker, sessions)
    deadline = time.monotonic() + grace
    number = signal.SIGTERM if grace > 0 else signal.SIGKILL
    last = deadline + 2.0  # what is not gone by then hangs inside the kernel
    while found and time.monotonic() < last:
        for pid in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)
        while time.monotonic() < deadline and find_processes(marker, sessions):
            time.sleep(_POLL_S)
        number = signal.SIGKILL
        deadline = time.monotonic() + _POLL_S
        found = find_processes(marker, sessions)
    return len(first)
