"""The contract of a box in which programs run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, ClassVar, Literal, Protocol, overload

from vfnb.runtimes.archive import Archive, pack_with_tar, unpack_with_tar

__all__ = ["BackgroundProgram", "PathLike", "ProgramResult", "Runtime"]

PathLike = str | PurePath


@dataclass(frozen=True)
class ProgramResult:
    """What a program did.

    Attributes:
        returncode: exit status, negative for the signal that ended it; None while it still runs.
        stdout, stderr: output as UTF-8 text. Beyond the runtime's limit the middle is left out and marked.
        duration_s: wall time in seconds.
        timed_out: whether it was ended because its time was over.
        pid: its process id inside the runtime.
        stdout_dropped, stderr_dropped: number of bytes left out, 0 if the output is whole.
    """

    returncode: int | None
    stdout: str
    stderr: str
    duration_s: float
    timed_out: bool = False
    pid: int | None = None
    stdout_dropped: int = 0
    stderr_dropped: int = 0

    @property
    def ok(self) -> bool:
        """Ended by itself with status 0."""
        return self.returncode == 0 and not self.timed_out


class BackgroundProgram(Protocol):
    """A program started with `background=True`. The runtime's `stop()` ends it at the latest."""

    @property
    def pid(self) -> int:
        """Process id inside the runtime."""

    @property
    def running(self) -> bool:
        """Whether it has not ended yet."""

    def result(self) -> ProgramResult:
        """What it printed so far, and its status if it has ended."""

    async def wait(self, timeout: float | None = None) -> ProgramResult:
        """Wait for its end, at most `timeout` seconds; the program goes on if that is too short.

        Raises:
            TimeoutError: it still runs after `timeout`.
        """

    async def stop(self) -> ProgramResult:
        """End it and what it started: SIGTERM, a grace, SIGKILL."""


class Runtime(ABC):
    """A box with files and programs. One per rollout; nothing of it is left after `stop()`.

    Every method may be awaited from any loop: the engine's, the user's, a notebook cell's.
    """

    type: ClassVar[str] = ""
    """Name in configs, as in `runtime="subprocess"`."""
    RUNS_PROGRAMS: ClassVar[bool] = True
    """Whether `run` works at all."""
    IS_CONTAINER: ClassVar[bool] = False
    """Whether a task with `NEEDS_CONTAINER` may use it: own root file system, absolute paths are its own."""

    @abstractmethod
    async def start(self) -> None:
        """Provision the box.

        Raises:
            RuntimeFault: it cannot be had.
        """

    @abstractmethod
    async def stop(self) -> None:
        """End every program and free everything. Safe to call twice, and without `start`."""

    @abstractmethod
    def cleanup(self) -> None:
        """The same at once, without waiting politely: for interpreter exit. Sync and idempotent."""

    async def settle(self) -> None:  # noqa: B027 - nothing to wait for is an answer
        """Wait, a few seconds at most, for the end of programs whose `run` was cancelled."""

    @overload
    async def run(
        self,
        argv: Sequence[str],
        env: Mapping[str, str] | None = None,
        *,
        cwd: PathLike | None = None,
        timeout: float | None = None,
        background: Literal[False] = False,
    ) -> ProgramResult: ...

    @overload
    async def run(
        self,
        argv: Sequence[str],
        env: Mapping[str, str] | None = None,
        *,
        cwd: PathLike | None = None,
        timeout: float | None = None,
        background: Literal[True],
    ) -> BackgroundProgram: ...

    @abstractmethod
    async def run(
        self,
        argv: Sequence[str],
        env: Mapping[str, str] | None = None,
        *,
        cwd: PathLike | None = None,
        timeout: float | None = None,
        background: bool = False,
    ) -> Any:
        """Run a program and wait for its end, or start it with `background=True` and get a handle.

        Args:
            argv: program and arguments; no shell reads them.
            env: variables added to the box's environment.
            cwd: working folder, relative to the box's own.
            timeout: seconds; after that the program and what it started are ended and the result says so.

        Raises:
            RuntimeFault: the program cannot be started.
        """

    @abstractmethod
    async def read(self, path: PathLike) -> bytes:
        """A file's content; relative paths are inside the working folder.

        Raises:
            MissingFile: there is no such file (also a `FileNotFoundError`).
            RuntimeFault: it cannot be read.
        """

    @abstractmethod
    async def write(self, path: PathLike, data: bytes) -> None:
        """Write a file and make its folders; relative paths are inside the working folder.

        Raises:
            RuntimeFault: it cannot be written.
        """

    async def pack(self, paths: Sequence[str], *, base: str = ".", limit: int) -> Archive:
        """Files and folders with all that is in them, to carry them to another box.

        Symbolic links stay links; sockets, pipes and devices are left out. Needs `sh` and `tar` in the box.

        Args:
            paths: relative to `base`.
            base: `.`, the working folder, or `/`.
            limit: bytes of all files together.

        Raises:
            TooLarge: there is more than that.
            RuntimeFault: they cannot be read.
        """
        return await pack_with_tar(self, paths, base, limit)

    async def unpack(self, archive: Archive, *, base: str = ".") -> None:
        """Put files of another box where they were, over what is there.

        Raises:
            RuntimeFault: they cannot be written.
        """
        await unpack_with_tar(self, archive, base)
