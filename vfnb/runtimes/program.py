"""One child process: started, drained, waited for, ended."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Mapping, Sequence
from pathlib import Path

from vfnb import loops
from vfnb.errors import RuntimeFault
from vfnb.runtimes.base import ProgramResult
from vfnb.runtimes.capture import Capture
from vfnb.runtimes.strays import signal_group

__all__ = ["Program"]

_CHUNK = 65536
_LINGER_S = 0.5  # a child that went to the background may hold the pipes open


class Program:
    """A process in a session of its own; its output is drained all the time. Lives on the engine loop.

    Attributes:
        orphans: whether other processes of its group were there when it ended.
    """

    def __init__(self, process: Process, limit: int, grace: float) -> None:
        self._process = process
        self._grace = grace
        self._out, self._err = Capture(limit), Capture(limit)
        self._start = time.monotonic()
        self._end: float | None = None
        self._timed_out = False
        self.orphans = False
        assert process.stdout is not None and process.stderr is not None
        self._drains = [
            asyncio.create_task(_drain(process.stdout, self._out)),
            asyncio.create_task(_drain(process.stderr, self._err)),
        ]
        self._exit = asyncio.create_task(self._watch())

    async def _watch(self) -> None:
        await self._process.wait()
        self._end = time.monotonic()
        self.orphans = signal_group(self.pid, 0)

    @classmethod
    async def launch(
        cls, argv: Sequence[str], env: Mapping[str, str], cwd: Path, limit: int, grace: float
    ) -> Program:
        """Start it, with nothing on its standard input.

        Raises:
            RuntimeFault: there is no such program or folder, or it may not be run.
        """
        try:
            process = await asyncio.create_subprocess_exec(
                *argv,
                stdin=DEVNULL,
                stdout=PIPE,
                stderr=PIPE,
                cwd=cwd,
                env=dict(env),
                start_new_session=True,
                limit=_CHUNK,
            )
        except OSError as error:
            fault = RuntimeFault(_why(argv[0], cwd, env, error))
            fault.retryable = False  # type: ignore[misc]
            raise fault from error
        return cls(process, limit, grace)

    @property
    def pid(self) -> int:
        """Process id, also of its group and session."""
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether it has not ended yet."""
        return self._process.returncode is None

    def result(self) -> ProgramResult:
        """What is known by now."""
        return ProgramResult(
            returncode=self._process.returncode,
            stdout=self._out.text(),
            stderr=self._err.text(),
            duration_s=(self._end or time.monotonic()) - self._start,
            timed_out=self._timed_out,
            pid=self.pid,
            stdout_dropped=self._out.dropped,
            stderr_dropped=self._err.dropped,
        )

    async def wait(self, timeout: float | None = None) -> ProgramResult:
        """Wait for its end and the rest of its output. Raises TimeoutError if it still runs then."""
        return await loops.engine().do(self._wait(timeout))

    async def _wait(self, timeout: float | None) -> ProgramResult:
        ended, _ = await asyncio.wait([self._exit], timeout=timeout)
        if not ended:
            raise TimeoutError(f"the program (pid {self.pid}) still runs after {timeout} s")
        await asyncio.wait(self._drains, timeout=_LINGER_S)
        return self.result()

    async def finish(self, timeout: float | None) -> ProgramResult:
        """Wait at most `timeout` seconds, then end it. A cancelled wait ends it too."""
        try:
            return await self._wait(timeout)
        except TimeoutError:
            self._timed_out = True
            return await self._stop()
        except asyncio.CancelledError:
            await asyncio.shield(self._stop())
            raise

    async def stop(self) -> ProgramResult:
        """End it and its group: SIGTERM, the grace, SIGKILL."""
        return await loops.engine().do(self._stop())

    async def _stop(self) -> ProgramResult:
        if self.running and signal_group(self.pid, signal.SIGTERM):
            await asyncio.wait([self._exit], timeout=self._grace)
        # The rest of the group may ignore the polite signal. As long as the leader or a member is there, the
        # number cannot belong to anyone else.
        if self.running or self.orphans:
            signal_group(self.pid, signal.SIGKILL)
        return await self._wait(None)

    async def close(self) -> None:
        """Let go of the pipes; for after everything that could hold them has been ended."""
        await asyncio.wait(self._drains, timeout=_LINGER_S)
        for drain in self._drains:
            drain.cancel()
        transport = getattr(self._process, "_transport", None)  # asyncio has no public way to close the pipes
        if transport is not None:
            transport.close()

    def __repr__(self) -> str:
        return f"<Program pid={self.pid} {'running' if self.running else self._process.returncode}>"


async def _drain(stream: asyncio.StreamReader, into: Capture) -> None:
    while data := await stream.read(_CHUNK):
        into.feed(data)


def _why(program: str, cwd: Path, env: Mapping[str, str], error: OSError) -> str:
    if not cwd.is_dir():
        return f"cannot run {program!r}: its working folder {cwd} does not exist; write a file into it first"
    if isinstance(error, FileNotFoundError):
        path = env.get("PATH", os.defpath)
        return f"program {program!r} not found; install it or give its full path (searched PATH={path})"
    if isinstance(error, PermissionError):
        return f"program {program!r} may not be run; make it executable (chmod +x) or name its interpreter"
    return f"cannot run {program!r}: {error.strerror or error}"
