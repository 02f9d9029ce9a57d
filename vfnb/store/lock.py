"""One process writes a run: a lock file that names its owner.

The file holds pid, start time, host and a heartbeat (its modification time). An advisory `flock` on it makes
the kernel release the lock when the owner dies; the text covers what `flock` cannot see: other hosts, forked
children that keep the descriptor of a dead parent, file systems without `flock`.
"""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from vfnb.errors import StoreError, StoreLocked

__all__ = ["HEARTBEAT_S", "STALE_S", "Owner", "RunLock", "is_held", "read_owner"]

HEARTBEAT_S = 10.0
"""Seconds between two heartbeats of a living owner."""
STALE_S = 60.0
"""A heartbeat older than this, in seconds, belongs to a dead owner, where it cannot be looked up."""

_NO_FLOCK = {errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS, errno.EINVAL}


class Owner(msgspec.Struct, frozen=True, kw_only=True):
    """Who holds a lock. `born` is the kernel's start tick of the process (a reused pid has another one);
    `space` its pid namespace; `since` unix seconds."""

    pid: int
    host: str
    since: float
    born: str = ""
    space: str = ""
    token: str = ""

    def __str__(self) -> str:
        since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(self.since))
        return f"process {self.pid} on {self.host} since {since}"


def _born(pid: int) -> str | None:
    """The start tick of a process, `""` where it cannot be known, None if there is no such process."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        if Path("/proc/self/stat").exists():
            return None
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return None
        except PermissionError:
            pass
        return ""
    fields = stat[stat.rindex(")") + 2 :].split()
    return None if fields[0] in "ZX" else fields[19]  # state, and field 22 of proc(5)


def _space() -> str:
    try:
        return os.readlink("/proc/self/ns/pid")  # noqa: PTH115 (not a file path)
    except OSError:
        return ""


def _me() -> Owner:
    pid = os.getpid()
    return Owner(
        pid=pid,
        host=socket.gethostname(),
        since=time.time(),
        born=_born(pid) or "",
        space=_space(),
        token=os.urandom(8).hex(),
    )


def _gone(owner: Owner) -> bool:
    """Whether the owner was a process of this machine that no longer exists (its pid may be another's)."""
    if owner.host != socket.gethostname() or owner.space != _space():
        return False
    return _born(owner.pid) != owner.born


def _parse(text: bytes) -> Owner | None:
    try:
        return msgspec.json.decode(text, type=Owner)
    except msgspec.DecodeError:
        return None  # empty or torn: its writer died while taking it


def read_owner(path: Path) -> Owner | None:
    """The owner that a lock file names, None if there is no file or nothing legible in it."""
    try:
        return _parse(path.read_bytes())
    except FileNotFoundError:
        return None


def is_held(path: Path) -> bool:
    """Whether a living owner holds the lock at `path`, as far as can be told without taking it."""
    owner = read_owner(path)
    if owner is None or _gone(owner):
        return False
    if owner.host == socket.gethostname() and owner.space == _space():
        return True
    try:
        return time.time() - path.stat().st_mtime <= STALE_S
    except OSError:  # released meanwhile
        return False


def _flock(fd: int, flags: int) -> bool | None:
    """True if locked, False if another descriptor has it, None if this file system cannot lock."""
    try:
        fcntl.flock(fd, flags)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno in _NO_FLOCK:
            return None
        raise
    return True


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Serialises taking and releasing between processes: `flock` on the folder for a moment."""
    fd = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        _flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


class RunLock:
    """The write lock of one run folder. `take` it, `beat` now and then, `release` it at the end."""

    def __init__(self, path: Path, fd: int, owner: Owner) -> None:
        self.path = path
        self.owner = owner
        self._fd: int | None = fd

    @classmethod
    def take(cls, path: Path) -> RunLock:
        """Take the lock at `path`, from a dead owner too.

        Raises:
            StoreLocked: if a living owner has it; the message names it and what to do.
            StoreError: if the file cannot be written.
        """
        try:
            with _alone(path.parent):
                return cls._take(path)
        except OSError as error:
            raise StoreError(f"cannot write the lock {path}: {error}; is the folder writable?") from error

    @classmethod
    def _take(cls, path: Path) -> RunLock:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            free = _flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            owner = _parse(os.pread(fd, 4096, 0))
            if not cls._may_take(free, owner, os.fstat(fd).st_mtime):
                raise StoreLocked(cls._refusal(path, owner))
            if free is False:
                # A forked child keeps the dead owner's descriptor: leave it that file, lock a new one.
                os.close(fd)
                path.unlink()
                fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
                _flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            me = _me()
            os.ftruncate(fd, 0)
            os.pwrite(fd, msgspec.json.encode(me), 0)
        except BaseException:
            with suppress(OSError):
                os.close(fd)
            raise
        return cls(path, fd, me)

    @staticmethod
    def _may_take(free: bool | None, owner: Owner | None, beat: float) -> bool:
        if owner is None:
            return free is not False
        if _gone(owner):
            return True
        stale = time.time() - beat > STALE_S
        if owner.host == socket.gethostname() and owner.space == _space():
            # Alive here. Without its flock it is a store that was dropped without `release`.
            return free is True
        return stale

    @staticmethod
    def _refusal(path: Path, owner: Owner | None) -> str:
        who = "another process" if owner is None else str(owner)
        if owner is not None and owner.pid == os.getpid() and owner.host == socket.gethostname():
            who += " (this very process)"
        return (
            f"the run {path.parent} is being written by {who}. Read it with vfnb.load({str(path.parent)!r}), "
            "wait for it, stop that process, or give this run another dir="
        )

    def beat(self) -> None:
        """Tell others that the owner lives.

        Raises:
            StoreError: if another process has taken the lock over (this one was suspended for too long).
        """
        if self._fd is None:
            return
        os.utime(self._fd)
        owner = read_owner(self.path)
        if owner is None or owner.token != self.owner.token:
            who = "removed" if owner is None else f"taken over by {owner}"
            raise StoreError(
                f"the lock {self.path} of this process was {who}; its writes stop here, and what was written to a "
                "deleted folder is lost"
            )

    def release(self) -> None:
        """Give the lock back and remove its file. Harmless when repeated."""
        fd, self._fd = self._fd, None
        if fd is None:
            return
        try:
            with _alone(self.path.parent):
                owner = read_owner(self.path)
                if owner is not None and owner.token == self.owner.token:
                    self.path.unlink()
        except OSError:
            pass  # the folder is gone or read-only: closing the descriptor frees the lock
        finally:
            os.close(fd)
