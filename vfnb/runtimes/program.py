"""One child process: started, drained, waited for, ended."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from vfnb import loops
from vfnb.errors import RuntimeFault
from vfnb.runtimes.base import ProgramResult
from vfnb.runtimes.capture import Capture
from vfnb.runtimes.strays import signal_group

__all__ = ["Program"]

_LINGER_S = 0.5  # a child that went to the background may hold the pipes open


class Program:
    """A process in a session of its own; its output is drained all the time. Lives on the engine loop.

    asyncio's own subprocess is not used: its `wait` hangs while a background child holds the pipes open.

    Attributes:
        orphans: whether other processes of its group were there when it ended.
    """

    def __init__(self, process: subprocess.Popen[bytes], limit: int, grace: float) -> None:
        self._process = process
        self._grace = grace
        self._out, self._err = _Drain(limit), _Drain(limit)
        self._start = time.monotonic()
        self._end: float | None = None
        self._timed_out = False
        self._exit = asyncio.get_running_loop().create_future()
        self.orphans = False

    @classmethod
    async def launch(
        cls, argv: Sequence[str], env: Mapping[str, str], cwd: Path, limit: int, grace: float
    ) -> Program:
        """Start it, with nothing on its standard input.

        Raises:
            RuntimeFault: there is no such program or folder, or it may not be run.
        """
        process = _spawn(argv, env, cwd)
        program = cls(process, limit, grace)
        _on_exit(process, program._ended)
        try:
            loop = asyncio.get_running_loop()
            await loop.connect_read_pipe(lambda: program._out, process.stdout)
            await loop.connect_read_pipe(lambda: program._err, process.stderr)
        except BaseException:  # cancelled meanwhile: nobody will ever hold this program
            program.kill()
            for drain, pipe in ((program._out, process.stdout), (program._err, process.stderr)):
                drain.close()
                if pipe is not None:
                    pipe.close()
            raise
        return program

    def _ended(self) -> None:
        self._end = time.monotonic()
        self.orphans = signal_group(self.pid, 0)
        self._exit.set_result(None)

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
            stdout=self._out.capture.text(),
            stderr=self._err.capture.text(),
            duration_s=(self._end or time.monotonic()) - self._start,
            timed_out=self._timed_out,
            pid=self.pid,
            stdout_dropped=self._out.capture.dropped,
            stderr_dropped=self._err.capture.dropped,
        )

    async def wait(self, timeout: float | None = None) -> ProgramResult:
        """Wait for its end and the rest of its output. Raises TimeoutError if it still runs then."""
        return await loops.engine().do(self._wait(timeout))

    async def _wait(self, timeout: float | None) -> ProgramResult:
        ended, _ = await asyncio.wait([self._exit], timeout=timeout)
        if not ended:
            raise TimeoutError(f"the program (pid {self.pid}) still runs after {timeout} s")
        await asyncio.wait([self._out.closed, self._err.closed], timeout=_LINGER_S)
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
        self.kill()
        return await self._wait(None)

    def kill(self) -> None:
        """SIGKILL to it and its group, if anything is left of them."""
        # As long as the leader is not reaped or a member lives, the number cannot belong to anyone else.
        if self.running or self.orphans:
            signal_group(self.pid, signal.SIGKILL)

    async def close(self) -> None:
        """Let go of the pipes; for after everything that could hold them has been ended."""
        drains = (self._out, self._err)
        await asyncio.wait([drain.closed for drain in drains], timeout=_LINGER_S)
        for drain in drains:
            drain.close()

    def __repr__(self) -> str:
        return f"<Program pid={self.pid} {'running' if self.running else self._process.returncode}>"


class _Drain(asyncio.Protocol):
    """Takes one stream; `closed` is done when nobody can write to it any more."""

    def __init__(self, limit: int) -> None:
        self.capture = Capture(limit)
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._transport: asyncio.BaseTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self.capture.feed(data)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.closed.done():
            self.closed.set_result(None)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()


def _spawn(argv: Sequence[str], env: Mapping[str, str], cwd: Path) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            list(argv),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=cwd,
            env=dict(env),
            start_new_session=True,
            bufsize=0,
        )
    except (OSError, ValueError) as error:
        fault = RuntimeFault(_why(argv[0], cwd, env, error))
        fault.retryable = False  # type: ignore[misc]
        raise fault from error


def _on_exit(process: subprocess.Popen[bytes], then: Callable[[], None]) -> None:
    """Reap the process when it ends and call back on the running loop."""
    loop = asyncio.get_running_loop()
    try:
        watch = os.pidfd_open(process.pid)
    except (AttributeError, OSError):  # not Linux, or too old a kernel

        def wait() -> None:
            process.wait()
            loop.call_soon_threadsafe(then)

        threading.Thread(target=wait, name="vfnb-program", daemon=True).start()
        return

    def reap() -> None:
        loop.remove_reader(watch)
        os.close(watch)
        process.wait()
        then()

    loop.add_reader(watch, reap)


def _why(program: str, cwd: Path, env: Mapping[str, str], error: Exception) -> str:
    if not cwd.is_dir():
        return f"cannot run {program!r}: its working folder {cwd} does not exist; write a file into it first"
    if isinstance(error, FileNotFoundError):
        path = env.get("PATH", os.defpath)
        return f"program {program!r} not found; install it or give its full path (searched PATH={path})"
    if isinstance(error, PermissionError):
        return f"program {program!r} may not be run; make it executable (chmod +x) or name its interpreter"
    return f"cannot run {program!r}: {error}"
