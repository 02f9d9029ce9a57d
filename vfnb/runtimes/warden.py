"""What is left of this process's boxes if it is killed: a small process beside it that then clears up.

The warden holds the read end of a pipe. It learns the boxes' folders through it and wakes when the process is gone:
then it ends every program that carries the owner's mark and removes the folders. Nothing of this asks the owner to
live, so it works after SIGKILL.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import secrets
import signal
import subprocess
import sys
import threading
from pathlib import Path

__all__ = ["FOLDER", "OWNER", "Warden", "current"]

OWNER = "VFNB_OWNER"
"""Variable by which every program of this process is found."""
FOLDER = "vfnb-box-"
"""How the names of box folders begin; the warden removes no others."""
_BOXES = 20  # bits of a tag that tell the boxes of one owner apart
_PROGRAM = Path(__file__).with_name("warden_program.py")


class Warden:
    """The owner's side. Starts the process with the first folder; safe to call from any thread."""

    def __init__(self) -> None:
        self.number = secrets.randbits(38)
        self._boxes = itertools.count()
        self._lock = threading.Lock()
        self._folders: set[str] = set()
        self._pipe: int | None = None
        self.pid: int | None = None
        """The warden's process id, None before it is needed or where it cannot be started."""

    def guard(self) -> dict[str, str]:
        """Environment for a program that shall not outlive this process; from now on it will not."""
        with self._lock:
            if self._pipe is None:
                self._start()
        return {OWNER: f"{self.number:x}"}

    def tag(self) -> int:
        """A number for the programs of one more box."""
        return self.number << _BOXES | next(self._boxes) % (1 << _BOXES)

    def watch(self, folder: Path) -> None:
        """Remove this folder if this process does not come to it. Call it before the folder is made."""
        with self._lock:
            self._folders.add(str(folder))
            if self._pipe is None or not self._tell(f"+{folder}"):
                self._start()

    def forget(self, folder: Path) -> None:
        """The folder is gone."""
        with self._lock:
            self._folders.discard(str(folder))
            if self._pipe is not None:
                self._tell(f"-{folder}")

    def _tell(self, line: str) -> bool:
        assert self._pipe is not None
        try:
            os.write(self._pipe, line.encode("utf-8", "surrogateescape") + b"\0")
        except OSError:  # it was killed, or takes nothing
            return False
        return True

    def _start(self) -> None:
        """Start the process, or a new one in place of one that is gone.

        It has no marks itself: if we run inside a box, it must live on when that is cleared.
        """
        if (
            self.pid is not None
        ):  # it is gone, or so far behind that its pipe is full: it must not take us for dead
            with contextlib.suppress(OSError):
                os.kill(self.pid, signal.SIGKILL)
        self.close()
        read, write = os.pipe()
        tags = self.number << _BOXES, (self.number + 1) << _BOXES
        try:
            process = subprocess.Popen(
                [
                    sys.executable,
                    "-I",
                    "-S",
                    str(_PROGRAM),
                    f"{OWNER}={self.number:x}",
                    *map(str, tags),
                    FOLDER,
                ],
                stdin=read,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                env={name: value for name, value in os.environ.items() if not name.startswith("VFNB_")},
                start_new_session=True,
            )
        except (OSError, ValueError):  # no interpreter of its own: tidy all the same, but not after a kill
            os.close(write)
            return
        finally:
            os.close(read)
        process.returncode = 0  # it outlives us: nobody waits for it
        self.pid = process.pid
        os.set_blocking(write, False)
        self._pipe = write
        for folder in self._folders:
            self._tell(f"+{folder}")

    def close(self) -> None:
        """Let go of the pipe."""
        if self._pipe is not None:
            with contextlib.suppress(OSError):
                os.close(self._pipe)
        self._pipe = self.pid = None


_current = Warden()


def current() -> Warden:
    """The warden of this process; a forked child has one of its own."""
    return _current


def _forked() -> None:
    """A child must not hold its parent's pipe open, and has no boxes yet."""
    global _current
    _current.close()
    _current = Warden()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
