"""Finding and ending what programs left running, and removing their folders.

Plain standard library without imports of ours: the warden runs this file in a bare interpreter.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import time
from collections.abc import Collection, Iterable
from pathlib import Path

__all__ = [
    "NO_TAGS",
    "TAG_LIMIT",
    "delete_folder",
    "end_processes",
    "find_processes",
    "free_memory",
    "now",
    "put_tag",
    "shared_memory",
    "signal_group",
]

TAG_LIMIT = 10
"""RLIMIT_LOCKS of Linux: without effect since 2.4.24, but inherited by all that a process starts, whatever
becomes of its environment, session and parent (getrlimit(2))."""
NO_TAGS = range(0)
_PROC = Path("/proc")
_SHM = Path("/dev/shm")
_POLL_S = 0.02
_MARGIN = 5  # clock ticks, for rounding


def signal_group(group: int, number: int) -> bool:
    """Signal a process group (0 only looks); False if nothing is left of it."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def put_tag(pid: int, tag: int) -> bool:
    """Write a number on a process and on all that it will start; False where that cannot be done."""
    try:
        import resource

        _, hard = resource.prlimit(pid, TAG_LIMIT)
        resource.prlimit(pid, TAG_LIMIT, (tag, hard))
    except (ImportError, AttributeError, OSError, ValueError):
        return False
    return True


def now() -> int:
    """The present, in clock ticks since the machine's start as `find_processes` takes it; 0 if not known."""
    try:
        return int(time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK"))
    except (AttributeError, OSError, ValueError):
        return 0


def find_processes(
    marker: str, sessions: Collection[int] = (), tags: range = NO_TAGS, since: int = 0
) -> list[int]:
    """Processes whose environment has `marker` (`NAME=value`), whose session is one of `sessions` or is led by one
    of those, or whose tag is one of `tags`; of those that began after `since`.

    Only where there is a `/proc` (Linux); elsewhere nothing is found.
    """
    needle = marker.encode()
    names = [entry.name for entry in _PROC.iterdir()] if _PROC.is_dir() else []
    living = {
        int(name): _session(name, since) for name in names if name.isdigit() and int(name) != os.getpid()
    }
    found = {
        pid
        for pid, session in living.items()
        if session is not None and (session in sessions or _marked(str(pid), needle, tags))
    }
    return sorted(found | {pid for pid, session in living.items() if session in found})


def _session(pid: str, since: int) -> int | None:
    """The session of a process; None if it is older, or dead already and only its parent has not looked yet."""
    try:
        # Fields after the name in brackets: state, parent, group, session, ...; the 20th is its start (proc(5)).
        fields = (_PROC / pid / "stat").read_bytes().rpartition(b")")[2].split(None, 20)
        state, session, start = fields[0], int(fields[3]), int(fields[19])
    except (OSError, ValueError, IndexError):
        return None
    return None if state == b"Z" or 0 < start < since - _MARGIN else session


def _marked(pid: str, needle: bytes, tags: range) -> bool:
    try:
        if needle in (_PROC / pid / "environ").read_bytes().split(b"\0"):
            return True
        if not tags:
            return False
        limits = (_PROC / pid / "limits").read_bytes()
    except OSError:
        return False
    tag = limits.partition(b"Max file locks")[2].split(None, 1)[:1]
    return bool(tag) and tag[0].isdigit() and int(tag[0]) in tags


def end_processes(
    marker: str, sessions: Collection[int] = (), tags: range = NO_TAGS, since: int = 0, *, grace: float
) -> int:
    """End all that `find_processes` finds: SIGTERM, up to `grace` seconds, SIGKILL until none is left.

    Shared memory that only they had is freed. Blocks; returns how many there were.
    """
    first = found = find_processes(marker, sessions, tags, since)
    memory = shared_memory(first)
    deadline = time.monotonic() + grace
    number = signal.SIGTERM if grace > 0 else signal.SIGKILL
    last = deadline + 2.0  # what is not gone by then hangs inside the kernel
    while found and time.monotonic() < last:
        for pid in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)
        while time.monotonic() < deadline and find_processes(marker, sessions, tags, since):
            time.sleep(_POLL_S)
        number = signal.SIGKILL
        deadline = time.monotonic() + _POLL_S
        found = find_processes(marker, sessions, tags, since)
    free_memory(memory)
    return len(first)


def shared_memory(pids: Iterable[int]) -> dict[int, Path]:
    """Files of shared memory that these processes have mapped, by inode: whoever is killed leaves them behind."""
    mapped = _mapped(map(str, pids))
    found: dict[int, Path] = {}
    if mapped:
        for entry in _SHM.iterdir():
            with contextlib.suppress(OSError):
                if (inode := entry.stat().st_ino) in mapped:
                    found[inode] = entry
    return found


def free_memory(files: dict[int, Path]) -> None:
    """Remove those of the files that no process maps any more."""
    if not files:
        return
    held = _mapped(entry.name for entry in _PROC.iterdir() if entry.name.isdigit())
    for inode, path in files.items():
        with contextlib.suppress(OSError):
            if inode not in held and path.stat().st_ino == inode:
                path.unlink()


def _mapped(pids: Iterable[str]) -> set[int]:
    """Inodes below /dev/shm that processes have mapped; semaphores lose their name there, and keep the inode."""
    found = set()
    for pid in pids:
        with contextlib.suppress(OSError):
            for line in (_PROC / pid / "maps").read_bytes().splitlines():
                if b" /dev/shm/" in line:  # address, rights, offset, device, inode, path (proc(5))
                    found.add(int(line.split(None, 5)[4]))
    return found


def delete_folder(root: Path) -> None:
    """Remove a folder with all that is in it, as far as this user may."""
    shutil.rmtree(root, ignore_errors=True)
    if root.exists():  # programs may have made folders unwritable
        for folder, _, _ in os.walk(root):
            with contextlib.suppress(OSError):
                Path(folder).chmod(0o700)
        shutil.rmtree(root, ignore_errors=True)
